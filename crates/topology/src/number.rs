//! Dense numbers for groups that sources name in their own ways.

use std::collections::BTreeMap;

use crate::ids::{CoreId, CpuId, NodeId, PackageId};
use crate::machine::{Cpu, Note};
use crate::set::CpuSet;

/// The most nodes Linux can be built for (NODES_SHIFT 10). More are taken for damage.
pub(crate) const NODES_MAX: usize = 1024;

/// A processor with the names its source gives to what it belongs to.
#[derive(Clone, Debug)]
pub(crate) struct NamedCpu {
    pub(crate) id: CpuId,
    pub(crate) online: bool,
    pub(crate) isolated: bool,
    pub(crate) node: Option<NodeId>,
    /// The lowest processor of its core, where told.
    pub(crate) core: Option<CpuId>,
    /// The source's own number of the package, where told.
    pub(crate) package: Option<u64>,
}

/// Numbers cores and packages densely, each in the order of its lowest processor. `named` must be
/// in ascending order.
///
/// A processor without a core is a core of its own. Those without a package make one together. A
/// core is never across nodes: virtual machines tell such things, and the kernel ignores them too.
pub(crate) fn number(named: &[NamedCpu], notes: &mut Vec<Note>) -> Vec<Cpu> {
    let mut cores = BTreeMap::new();
    let mut packages = BTreeMap::new();
    let mut node_of_core = BTreeMap::new();
    let mut split = CpuSet::new();
    let mut cpus = Vec::with_capacity(named.len());
    for cpu in named {
        let core_name = cpu.core.unwrap_or(cpu.id);
        let first_node = *node_of_core.entry(core_name).or_insert(cpu.node);
        if first_node != cpu.node {
            split.insert(cpu.id);
        }
        cpus.push(Cpu {
            id: cpu.id,
            online: cpu.online,
            isolated: cpu.isolated,
            core: CoreId(dense(&mut cores, (core_name, cpu.node))),
            package: PackageId(dense(&mut packages, cpu.package)),
            node: cpu.node,
        });
    }
    if !split.is_empty() {
        notes.push(Note {
            subject: format!("cpus {split}"),
            text: "their cores are said to span nodes; counted as cores of their own".into(),
        });
    }
    cpus
}

fn dense<K: Ord>(seen: &mut BTreeMap<K, u32>, name: K) -> u32 {
    let next = u32::try_from(seen.len()).unwrap_or(u32::MAX);
    *seen.entry(name).or_insert(next)
}
