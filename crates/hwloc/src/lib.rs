//! The machine through libhwloc: a second reader that the pure ones are checked against.
//!
//! Only `numadctl` depends on this crate. The daemon links no C library (docs/decisions/0002).
//! It reads and never binds: on an imported machine hwloc answers success and does nothing.

#![forbid(unsafe_code)]

use std::fmt;
use std::path::Path;
use std::rc::Rc;

use hwlocality::Topology as Hwloc;
use hwlocality::cpu::cpuset::CpuSet as HwlocSet;
use hwlocality::memory::attribute::Initiator;
use hwlocality::object::TopologyObject;
use hwlocality::object::attributes::ObjectAttributes;
use hwlocality::object::distance::{Distances, DistancesKind};
use hwlocality::object::types::{CacheType, ObjectType};
use hwlocality::topology::builder::{BuildFlags, TopologyBuilder, TypeFilter};

use topology::draft::{Draft, DraftDistances, DraftFigure, DraftNode, FigureKind};
use topology::set::ID_MAX;
use topology::{Cache, CacheKind, CpuId, CpuSet, LoadError, NodeId, Reason, Topology, xml};

/// This machine as hwloc sees it, processors that are not allowed to us included.
///
/// hwloc takes the directory named by the environment variable `HWLOC_FSROOT` for the root. It tells
/// of no processor that is offline, and of none that is isolated.
///
/// # Errors
/// Says what hwloc refused, or what it told that cannot be true.
pub fn this_machine() -> Result<Topology, LoadError> {
    build(Path::new("/"), TopologyBuilder::new())
}

/// A machine from an hwloc XML file, as hwloc reads it.
///
/// The pure reader goes first and refuses what is damaged: on XML that does not parse, the binding
/// panics when errno is left over from something else.
///
/// # Errors
/// Names the file, and says what is wrong with it or what hwloc refused.
pub fn from_xml(path: &Path) -> Result<Topology, LoadError> {
    let text = xml::text(path)?;
    xml::parse(&text).map_err(|reason| LoadError {
        file: path.into(),
        reason,
    })?;
    let builder = TopologyBuilder::new().from_xml(&text);
    build(path, builder.map_err(|error| refused(path, &error))?)
}

fn build(file: &Path, builder: TopologyBuilder) -> Result<Topology, LoadError> {
    let filtered = builder
        .with_cpu_icache_type_filter(TypeFilter::KeepAll)
        .map_err(|error| refused(file, &error))?;
    let flagged = filtered
        .with_flags(BuildFlags::INCLUDE_DISALLOWED)
        .map_err(|error| refused(file, &error))?;
    let hwloc = flagged.build().map_err(|error| refused(file, &error))?;
    draft(&hwloc)
        .and_then(|draft| draft.finish().map_err(Reason::Contradiction))
        .map_err(|reason| LoadError {
            file: file.into(),
            reason,
        })
}

fn refused(file: &Path, error: &dyn fmt::Display) -> LoadError {
    LoadError {
        file: file.into(),
        reason: foreign(&format!("hwloc says: {error}")),
    }
}

fn foreign(text: &str) -> Reason {
    Reason::Foreign {
        expected: "machine that hwloc can read",
        text: text.to_owned(),
    }
}

fn draft(hwloc: &Hwloc) -> Result<Draft, Reason> {
    let mut draft = Draft::default();
    for object in hwloc.objects() {
        let cpus = cpus_of(object)?;
        match object.object_type() {
            ObjectType::PU => draft.cpus.push(CpuId(os_index(object)?)),
            ObjectType::Core => draft.cores.push(cpus),
            ObjectType::Package => draft.packages.push(cpus),
            ObjectType::NUMANode => draft.nodes.push(node(object, cpus)?),
            kind if kind.is_cpu_cache() => draft.caches.extend(cache(object, cpus)),
            _ => {}
        }
    }
    draft.distances = distances(hwloc)?;
    for name in FIGURES {
        figures(hwloc, name, &mut draft.figures)?;
    }
    Ok(draft)
}

/// The memory attributes that are asked for.
const FIGURES: [&str; 6] = [
    "Bandwidth",
    "ReadBandwidth",
    "WriteBandwidth",
    "Latency",
    "ReadLatency",
    "WriteLatency",
];

fn os_index(object: &TopologyObject) -> Result<u32, Reason> {
    object
        .os_index()
        .and_then(|index| u32::try_from(index).ok())
        .filter(|&index| index <= ID_MAX)
        .ok_or_else(|| {
            foreign(&format!(
                "{} has no number in the kernel",
                object.object_type()
            ))
        })
}

fn cpus_of(object: &TopologyObject) -> Result<CpuSet, Reason> {
    object
        .cpuset()
        .map_or_else(|| Ok(CpuSet::new()), |cpus| set(&cpus))
}

fn set(cpus: &HwlocSet) -> Result<CpuSet, Reason> {
    let mut set = CpuSet::new();
    for index in cpus.iter_set() {
        let id = u32::try_from(usize::from(index)).ok();
        // An infinite set ends here too.
        let id = id
            .filter(|&id| id <= ID_MAX)
            .ok_or_else(|| foreign("a set of processors has no end"))?;
        set.insert(CpuId(id));
    }
    Ok(set)
}

fn node(object: &TopologyObject, near: CpuSet) -> Result<DraftNode, Reason> {
    let memory = match object.attributes() {
        Some(ObjectAttributes::NUMANode(numa)) => numa.local_memory(),
        _ => None,
    };
    let subtype = object.subtype().map(|name| name.to_string_lossy());
    Ok(DraftNode {
        id: NodeId(os_index(object)?),
        near,
        memory_bytes: memory.map_or(0, u64::from),
        special: subtype.is_some_and(|name| DraftNode::is_special(&name)),
    })
}

fn cache(object: &TopologyObject, cpus: CpuSet) -> Option<Cache> {
    let Some(ObjectAttributes::Cache(cache)) = object.attributes() else {
        return None;
    };
    let kind = match cache.cache_type() {
        CacheType::Unified => CacheKind::Unified,
        CacheType::Data => CacheKind::Data,
        CacheType::Instruction => CacheKind::Instruction,
        CacheType::Unknown(_) => return None,
    };
    Some(Cache {
        level: u8::try_from(cache.depth()).ok()?,
        kind,
        size_bytes: cache.size().map_or(0, u64::from),
        cpus,
    })
}

/// The matrix of the operating system; files of version 1 have one without a name.
fn distances(hwloc: &Hwloc) -> Result<Option<DraftDistances>, Reason> {
    let told = hwloc.distances_with_type(None, ObjectType::NUMANode);
    let told = told.map_err(|error| foreign(&error.to_string()))?;
    let named = |matrix: &&Distances<'_>| {
        let name = matrix.name();
        name.is_some_and(|name| name.to_bytes() == b"NUMALatency")
    };
    let latency = |matrix: &&Distances<'_>| matrix.kind().contains(DistancesKind::MEANS_LATENCY);
    let Some(matrix) = told
        .iter()
        .find(named)
        .or_else(|| told.iter().find(latency))
    else {
        return Ok(None);
    };
    let mut order = Vec::new();
    for object in matrix.objects() {
        let object = object.ok_or_else(|| foreign("a distance is of no node"))?;
        order.push(NodeId(os_index(object)?));
    }
    let values = matrix.distances().iter();
    Ok(Some(DraftDistances {
        order,
        values: values
            .map(|&value| u32::try_from(value).unwrap_or(u32::MAX))
            .collect(),
    }))
}

/// Adds what one memory attribute says of every node.
fn figures(hwloc: &Hwloc, name: &str, out: &mut Vec<DraftFigure>) -> Result<(), Reason> {
    let attribute = hwloc.memory_attribute_named(name);
    let attribute = attribute.map_err(|error| foreign(&error.to_string()))?;
    let (Some(attribute), Some(kind)) = (attribute, FigureKind::from_name(name)) else {
        return Ok(());
    };
    for target in hwloc.objects_with_type(ObjectType::NUMANode) {
        let told = attribute.initiators(target);
        let (initiators, values) = told.map_err(|error| foreign(&error.to_string()))?;
        for (initiator, value) in initiators.iter().zip(values) {
            let initiators = match initiator {
                Initiator::CpuSet(cpus) => set(cpus)?,
                Initiator::Object(object) => cpus_of(object)?,
            };
            out.push(DraftFigure {
                kind,
                target: NodeId(os_index(target)?),
                initiators: Rc::new(initiators),
                value,
            });
        }
    }
    Ok(())
}
