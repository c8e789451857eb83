//! Machines of any shape: nodes without processors, nodes without memory, gaps in the numbers.

use topology::{CoreId, Cpu, CpuId, CpuSet, Node, NodeId, PackageId, Parts, Topology};

/// One node of a made-up machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Its number in the kernel.
    pub id: u32,
    /// How many cores it has, one processor each; 0 for a node of memory alone.
    pub cores: u32,
    /// How much memory it has; 0 for a node of processors alone.
    pub memory_bytes: u64,
}

/// The machine of these nodes, all of them equally far from each other.
///
/// # Panics
/// When the nodes make no machine: the test that asked for them is wrong.
#[must_use]
pub fn machine(shapes: &[Shape]) -> Topology {
    let mut parts = Parts::default();
    let mut next = 0;
    for shape in shapes {
        let cpus: CpuSet = (next..next + shape.cores).map(CpuId).collect();
        next += shape.cores;
        parts.cpus.extend(cpus.iter().map(|id| Cpu {
            id,
            online: true,
            isolated: false,
            core: CoreId(id.0),
            package: PackageId(shape.id),
            node: Some(NodeId(shape.id)),
        }));
        parts.nodes.push(Node {
            id: NodeId(shape.id),
            cpus,
            memory_bytes: shape.memory_bytes,
        });
    }
    Topology::new(parts).expect("the nodes of a test make a machine")
}
