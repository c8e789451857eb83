//! Machines from a short text: `NODESxCORES[@LOCAL,REMOTE]`, as in `4x16@10,21`.

use crate::ids::{CoreId, CpuId, NodeId, PackageId};
use crate::machine::{Contradiction, Cpu, Node, Parts, Topology};
use crate::set::CpuSet;

/// Memory of each made-up node.
const NODE_BYTES: u64 = 16 << 30;

/// Reads the short form.
///
/// # Errors
/// Says which part of the text is wrong.
pub fn parse(text: &str) -> Result<Topology, Contradiction> {
    let (shape, distances) = text.split_once('@').unwrap_or((text, "10,20"));
    let bad =
        |what: &str| Contradiction(format!("{what} in `{text}`: expected as in `4x16@10,21`"));
    let number = |text: &str| {
        text.parse::<u32>()
            .ok()
            .filter(|&number| (1..=4096).contains(&number))
    };
    let (nodes, cores) = shape.split_once('x').ok_or_else(|| bad("no `x`"))?;
    let nodes = number(nodes).ok_or_else(|| bad("bad number of nodes"))?;
    let cores = number(cores).ok_or_else(|| bad("bad number of cores"))?;
    let (local, remote) = distances
        .split_once(',')
        .ok_or_else(|| bad("no remote distance"))?;
    let local = number(local).ok_or_else(|| bad("bad local distance"))?;
    let remote = number(remote).ok_or_else(|| bad("bad remote distance"))?;
    let mut parts = Parts::default();
    for node in 0..nodes {
        let cpus: CpuSet = (node * cores..(node + 1) * cores).map(CpuId).collect();
        parts.cpus.extend(cpus.iter().map(|id| Cpu {
            id,
            online: true,
            isolated: false,
            core: CoreId(id.0),
            package: PackageId(node),
            node: Some(NodeId(node)),
        }));
        parts.nodes.push(Node {
            id: NodeId(node),
            cpus,
            memory_bytes: NODE_BYTES,
        });
        let row = (0..nodes)
            .map(|to| if to == node { local } else { remote })
            .collect();
        parts.distance_rows.push(row);
    }
    Topology::new(parts)
}
