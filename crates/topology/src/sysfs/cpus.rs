//! Processors, cores, packages and caches.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{CpuId, NodeId};
use crate::load::LoadError;
use crate::machine::{Cache, CacheKind, Note};
use crate::number::NamedCpu;
use crate::set::{CpuSet, ID_MAX};

use super::CPU_DIR;
use super::nodes::Found;
use super::tree::Tree;

/// The processors that have a directory: those present, online or not.
pub(super) fn present(tree: &Tree<'_>) -> Result<CpuSet, LoadError> {
    let expected = "root of a machine";
    let Some(numbers) = tree.numbered(CPU_DIR, "cpu")? else {
        let text = format!("`{CPU_DIR}` is not in it");
        return Err(tree.foreign("", expected, text));
    };
    if let Some(number) = numbers.last().filter(|&&number| number > ID_MAX) {
        let text = format!("cpu {number} is beyond the largest number");
        return Err(tree.foreign(CPU_DIR, "directory of processors", text));
    }
    if numbers.is_empty() {
        let text = format!("`{CPU_DIR}` names no cpu");
        return Err(tree.foreign("", expected, text));
    }
    Ok(numbers.into_iter().map(CpuId).collect())
}

/// All processors with the names of what they belong to, ascending.
pub(super) fn read(
    tree: &Tree<'_>,
    present: &CpuSet,
    nodes: &Found,
    notes: &mut Vec<Note>,
) -> Result<Vec<NamedCpu>, LoadError> {
    let online = online(tree, present, notes)?;
    let isolated = tree
        .list(&format!("{CPU_DIR}/isolated"))?
        .unwrap_or_default();
    let no_ticks = tree
        .list(&format!("{CPU_DIR}/nohz_full"))?
        .unwrap_or_default();
    let isolated = isolated.union(&no_ticks);
    let mut siblings = Siblings::default();
    let mut named = Vec::with_capacity(present.len());
    for id in present.iter() {
        let told = siblings.of(tree, id, online.contains(id))?;
        named.push(NamedCpu {
            id,
            online: online.contains(id),
            isolated: isolated.contains(id),
            node: nodes.owner(id),
            core: told.core,
            package: told.package,
        });
    }
    place_untold(&mut named, &nodes.links, notes);
    Ok(named)
}

/// `cpu/online`; on kernels before it, the file `online` of each processor.
fn online(tree: &Tree<'_>, present: &CpuSet, notes: &mut Vec<Note>) -> Result<CpuSet, LoadError> {
    if let Some(online) = tree.list::<CpuId>(&format!("{CPU_DIR}/online"))? {
        let absent = online.difference(present);
        if !absent.is_empty() {
            notes.push(Note {
                subject: format!("cpus {absent}"),
                text: "said to be online, but not described; left out".into(),
            });
        }
        return Ok(online.intersection(present));
    }
    let mut online = CpuSet::new();
    for id in present.iter() {
        // The first processor of many machines cannot go offline and has no such file.
        if tree.text(&format!("{CPU_DIR}/cpu{id}/online"))?.as_deref() != Some("0") {
            online.insert(id);
        }
    }
    Ok(online)
}

#[derive(Clone, Copy, Debug, Default)]
struct Told {
    core: Option<CpuId>,
    package: Option<u64>,
}

/// Lists of siblings already read: one per core is enough.
#[derive(Debug, Default)]
struct Siblings {
    lowest: BTreeMap<CpuId, CpuId>,
}

impl Siblings {
    fn of(&mut self, tree: &Tree<'_>, id: CpuId, online: bool) -> Result<Told, LoadError> {
        let dir = format!("{CPU_DIR}/cpu{id}/topology");
        if !online && !tree.path(&dir).is_dir() {
            return Ok(Told::default());
        }
        // -1 stands for "not told" on Power and some virtual machines; it is no u64.
        let package = tree.number(&format!("{dir}/physical_package_id"))?;
        if let Some(&core) = self.lowest.get(&id) {
            return Ok(Told {
                core: Some(core),
                package,
            });
        }
        let list = format!("{dir}/thread_siblings_list");
        let mask = format!("{dir}/thread_siblings");
        let siblings: CpuSet = tree.set(&list, &mask)?.unwrap_or_default();
        let core = siblings.first().map(|first| first.min(id));
        for sibling in siblings.iter() {
            self.lowest.insert(sibling, core.unwrap_or(id));
        }
        Ok(Told { core, package })
    }
}

/// Gives a package to the processors that tell none while others do.
///
/// That is what an offline processor of a recent kernel looks like. It belongs to the package of the
/// processors of its node where those agree, else to the lowest package.
fn place_untold(named: &mut [NamedCpu], links: &BTreeMap<CpuId, NodeId>, notes: &mut Vec<Note>) {
    let node_of = |cpu: &NamedCpu| cpu.node.or_else(|| links.get(&cpu.id).copied());
    let mut of_node: BTreeMap<NodeId, BTreeSet<u64>> = BTreeMap::new();
    for cpu in named.iter() {
        if let (Some(node), Some(package)) = (node_of(cpu), cpu.package) {
            of_node.entry(node).or_default().insert(package);
        }
    }
    let lowest = named.iter().filter_map(|cpu| cpu.package).min();
    let mut untold = CpuSet::new();
    for cpu in named.iter_mut().filter(|cpu| cpu.package.is_none()) {
        untold.insert(cpu.id);
        let packages = node_of(cpu).and_then(|node| of_node.get(&node));
        let only = packages
            .filter(|packages| packages.len() == 1)
            .and_then(BTreeSet::first);
        cpu.package = only.copied().or(lowest);
    }
    if untold.is_empty() {
        return;
    }
    let text = if lowest.is_none() {
        "no package is told; all cpus count as one package"
    } else {
        "no package is told (usual while offline); counted to the package of their node"
    };
    notes.push(Note {
        subject: format!("cpus {untold}"),
        text: text.into(),
    });
}

/// The caches of the processors online.
pub(super) fn caches(
    tree: &Tree<'_>,
    named: &[NamedCpu],
    notes: &mut Vec<Note>,
) -> Result<Vec<Cache>, LoadError> {
    let known: CpuSet = named.iter().map(|cpu| cpu.id).collect();
    // By the number of the `index` directory: a processor that shares an earlier one's cache of that
    // number has nothing new to tell there.
    let mut seen: BTreeMap<u32, CpuSet> = BTreeMap::new();
    let mut found = BTreeMap::new();
    let mut garbled = CpuSet::new();
    for cpu in named.iter().filter(|cpu| cpu.online) {
        let dir = format!("{CPU_DIR}/cpu{}/cache", cpu.id);
        for index in tree.numbered(&dir, "index")?.unwrap_or_default() {
            let covered = seen.entry(index).or_default();
            if covered.contains(cpu.id) {
                continue;
            }
            match cache(tree, &format!("{dir}/index{index}"), cpu.id, &known) {
                Some(cache) => {
                    *covered = covered.union(&cache.cpus);
                    let key = (cache.level, cache.kind, cache.cpus.words().to_vec());
                    found.entry(key).or_insert(cache);
                }
                None => {
                    garbled.insert(cpu.id);
                }
            }
        }
    }
    if !garbled.is_empty() {
        notes.push(Note {
            subject: format!("cpus {garbled}"),
            text: "a cache is described in a way that cannot be understood; left out".into(),
        });
    }
    Ok(found.into_values().collect())
}

/// One cache; none where its level, kind or processors are not told. No decision rests on a cache
/// alone, so damage here is no reason to refuse the machine.
fn cache(tree: &Tree<'_>, dir: &str, cpu: CpuId, known: &CpuSet) -> Option<Cache> {
    let text = |name: &str| tree.text(&format!("{dir}/{name}")).ok().flatten();
    let level = text("level")?.parse().ok()?;
    let kind = match text("type")?.as_str() {
        "Data" => CacheKind::Data,
        "Instruction" => CacheKind::Instruction,
        "Unified" => CacheKind::Unified,
        _ => return None,
    };
    let list = format!("{dir}/shared_cpu_list");
    let mask = format!("{dir}/shared_cpu_map");
    let mut cpus: CpuSet = tree.set(&list, &mask).ok()??;
    cpus.insert(cpu);
    Some(Cache {
        level,
        kind,
        size_bytes: text("size").and_then(|size| bytes(&size)).unwrap_or(0),
        cpus: cpus.intersection(known),
    })
}

/// Reads `32K`, `8M` or a plain number of bytes.
fn bytes(text: &str) -> Option<u64> {
    let (digits, unit) = match text.strip_suffix('K') {
        Some(digits) => (digits, 1 << 10),
        None => match text.strip_suffix('M') {
            Some(digits) => (digits, 1 << 20),
            None => (text, 1),
        },
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}
