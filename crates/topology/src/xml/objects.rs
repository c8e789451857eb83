//! The tree of objects: processors, cores, packages, caches, memory nodes.

use std::collections::BTreeMap;
use std::rc::Rc;

use roxmltree::Node as Element;

use crate::draft::{Draft, DraftNode};
use crate::ids::{CpuId, NodeId};
use crate::load::Reason;
use crate::machine::{Cache, CacheKind, Contradiction};
use crate::number::NODES_MAX;
use crate::set::{CpuSet, ID_MAX};

use super::Version;
use super::element::{bad, foreign, number, required, set};

/// Where later parts of the file find objects again.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Memory nodes in logical order, with how many objects are around each.
    pub(super) nodes: Vec<(NodeId, usize)>,
    /// Memory nodes by hwloc's own number of the object.
    pub(super) nodes_by_gp: BTreeMap<u64, NodeId>,
    /// The processors of every object by that number.
    pub(super) cpus_by_gp: BTreeMap<u64, Rc<CpuSet>>,
}

pub(super) fn read(root: Element<'_, '_>, version: Version) -> Result<(Draft, Index), Reason> {
    let mut draft = Draft::default();
    let mut index = Index::default();
    for element in root.descendants().filter(is_object) {
        let kind = element
            .attribute("type")
            .ok_or_else(|| bad(element, "type"))?;
        let cpus = set(element, "cpuset")?;
        match kind {
            "Machine" => machine(element, &cpus, version, &mut draft)?,
            "PU" => draft.cpus.push(CpuId(os_index(element)?)),
            "NUMANode" => node(element, &cpus, &mut draft, &mut index)?,
            "Core" => draft.cores.push(cpus.clone()),
            // Versions before 1.11 say Socket.
            "Package" | "Socket" => draft.packages.push(cpus.clone()),
            other => draft.caches.extend(cache(element, other, &cpus)?),
        }
        if let Some(gp) = number::<u64>(element, "gp_index")? {
            index.cpus_by_gp.insert(gp, Rc::new(cpus));
        }
    }
    if draft.cpus.is_empty() {
        return Err(foreign("it names no processor (`PU`)"));
    }
    Ok((draft, index))
}

/// How many objects are around an element.
pub(super) fn around(element: Element<'_, '_>) -> Result<usize, Reason> {
    /// hwloc's deepest trees have some 20 levels. Without a limit, many elements at the bottom of a
    /// deep file are climbed from for minutes.
    const DEPTH_MAX: usize = 256;
    let mut around = 0;
    for (depth, parent) in element.ancestors().skip(1).enumerate() {
        if depth > DEPTH_MAX {
            return Err(foreign(&format!(
                "it is more than {DEPTH_MAX} elements deep"
            )));
        }
        around += usize::from(is_object(&parent));
    }
    Ok(around)
}

fn is_object(element: &Element<'_, '_>) -> bool {
    element.has_tag_name("object")
}

fn os_index(element: Element<'_, '_>) -> Result<u32, Reason> {
    let number = required::<u32>(element, "os_index")?;
    if number > ID_MAX {
        return Err(bad(element, "os_index"));
    }
    Ok(number)
}

fn machine(
    element: Element<'_, '_>,
    cpus: &CpuSet,
    version: Version,
    draft: &mut Draft,
) -> Result<(), Reason> {
    draft.memory_bytes = number(element, "local_memory")?.unwrap_or(0);
    draft.offline = told(element, INFO_OFFLINE)?;
    draft.isolated = told(element, INFO_ISOLATED)?;
    // Later versions write no object for a processor that is offline.
    if version == Version::One && element.has_attribute("online_cpuset") {
        draft.offline = cpus.difference(&set(element, "online_cpuset")?);
    }
    Ok(())
}

/// Names of what our own files tell of processors and hwloc's cannot; see `render::xml`.
pub(crate) const INFO_OFFLINE: &str = "NumadOffline";
/// See [`INFO_OFFLINE`].
pub(crate) const INFO_ISOLATED: &str = "NumadIsolated";

/// The processors in an `info` of this name; none if there is no such.
fn told(element: Element<'_, '_>, name: &str) -> Result<CpuSet, Reason> {
    let is_meant =
        |info: &Element<'_, '_>| info.has_tag_name("info") && info.attribute("name") == Some(name);
    let Some(info) = element.children().find(is_meant) else {
        return Ok(CpuSet::new());
    };
    let list = info.attribute("value").unwrap_or_default();
    CpuSet::parse_list(list).map_err(|_no_list| bad(info, "value"))
}

fn node(
    element: Element<'_, '_>,
    cpus: &CpuSet,
    draft: &mut Draft,
    index: &mut Index,
) -> Result<(), Reason> {
    let id = NodeId(os_index(element)?);
    if draft.nodes.len() == NODES_MAX {
        let text = format!("more than the {NODES_MAX} nodes that Linux knows");
        return Err(foreign(&text));
    }
    let around = around(element)?;
    index.nodes.push((id, around));
    if let Some(gp) = number(element, "gp_index")? {
        index.nodes_by_gp.insert(gp, id);
    }
    draft.nodes.push(DraftNode {
        id,
        near: cpus.clone(),
        memory_bytes: number(element, "local_memory")?.unwrap_or(0),
        special: element
            .attribute("subtype")
            .is_some_and(DraftNode::is_special),
    });
    Ok(())
}

/// A cache: `Cache` with a depth in version 1, `L2Cache` or `L1iCache` later. Others are none.
fn cache(element: Element<'_, '_>, kind: &str, cpus: &CpuSet) -> Result<Option<Cache>, Reason> {
    let by_name = kind.starts_with('L') && kind.ends_with("Cache");
    if kind != "Cache" && !by_name {
        return Ok(None);
    }
    let level: u8 = required(element, "depth")?;
    let kind = match required::<u32>(element, "cache_type")? {
        0 => CacheKind::Unified,
        1 => CacheKind::Data,
        2 => CacheKind::Instruction,
        _ => return Err(bad(element, "cache_type")),
    };
    if cpus.is_empty() {
        return Err(Reason::Contradiction(Contradiction(format!(
            "a cache of level {level} has no processors"
        ))));
    }
    Ok(Some(Cache {
        level,
        kind,
        size_bytes: number(element, "cache_size")?.unwrap_or(0),
        cpus: cpus.clone(),
    }))
}
