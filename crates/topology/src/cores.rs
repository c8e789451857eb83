//! Cores as hwloc numbers them, which is how tools such as mpirun name them.

use std::collections::BTreeMap;

use crate::ids::{CoreId, CpuId};
use crate::machine::Topology;
use crate::set::CpuSet;

impl Topology {
    /// The processors of each core that is online; the position is hwloc's logical number.
    ///
    /// hwloc numbers cores as a walk through its tree meets them: at each level, siblings stand by
    /// their lowest processor. So package, node and caches decide before the core's own processors.
    /// Cores without an online processor have no number. hwloc also leaves out what the cgroup of the
    /// asking process forbids, which a description of a machine cannot know.
    #[must_use]
    pub fn logical_cores(&self) -> Vec<CpuSet> {
        let mut packages: BTreeMap<u32, CpuSet> = BTreeMap::new();
        let mut cores: BTreeMap<CoreId, CpuSet> = BTreeMap::new();
        for cpu in self.cpus() {
            let package = packages.entry(cpu.package.into()).or_default();
            package.insert(cpu.id);
            cores.entry(cpu.core).or_default().insert(cpu.id);
        }
        let nodes = self.nodes().iter().map(|node| &node.cpus);
        let caches = self.caches().iter().map(|cache| &cache.cpus);
        let mut sets: Vec<&CpuSet> = packages.values().chain(nodes).chain(caches).collect();
        sets.sort_by_key(|set| std::cmp::Reverse(set.len()));
        let online = self.online();
        let mut order: Vec<(Vec<Option<CpuId>>, CpuSet)> = cores
            .into_values()
            .filter(|core| core.intersects(&online))
            .map(|core| {
                let around = sets.iter().filter(|set| core.is_subset(set));
                let path = around.map(|set| set.first()).chain([core.first()]);
                (path.collect(), core.intersection(&online))
            })
            .collect();
        order.sort_by(|one, other| one.0.cmp(&other.0));
        order.into_iter().map(|(_, core)| core).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// hwloc's own files list cores in its order.
    #[test]
    fn the_order_is_that_of_hwloc() {
        let folder = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/fixtures/topology/xml"
        );
        let mut files = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let text = text.lines().filter(|line| !line.contains("<!DOCTYPE"));
            let text = text.collect::<Vec<_>>().join("\n");
            let document = roxmltree::Document::parse(&text).unwrap();
            let machine = crate::load(path.to_str().unwrap()).unwrap();
            let mut listed = Vec::new();
            for object in document.descendants() {
                if object.attribute("type") == Some("Core") {
                    let told = object.attribute("cpuset").unwrap().replace("0x", "");
                    let groups = told.split(',').map(|group| format!("0{group}"));
                    let groups: Vec<String> = groups
                        .map(|it| it[it.len().saturating_sub(8)..].to_owned())
                        .collect();
                    let mask = CpuSet::parse_mask(&groups.join(",")).unwrap();
                    let online = mask.intersection(&machine.online());
                    if !online.is_empty() {
                        listed.push(online);
                    }
                }
            }
            // hwloc leaves out cores that would be the same as their only processor, when told to.
            if listed.is_empty() {
                continue;
            }
            assert_eq!(machine.logical_cores(), listed, "{}", path.display());
            files += 1;
        }
        assert!(files > 3, "{files}");
    }

    #[test]
    fn packages_stand_by_their_lowest_processor() {
        let machine = crate::synthetic::parse("2x4x2@10,21").unwrap();
        let cores = machine.logical_cores();
        assert_eq!(cores.len(), 8);
        let nodes = cores
            .iter()
            .map(|core| machine.node_of(core.first().unwrap()));
        let nodes: Vec<u32> = nodes.map(|node| node.unwrap().into()).collect();
        assert_eq!(nodes, [0, 0, 0, 0, 1, 1, 1, 1]);
    }
}
