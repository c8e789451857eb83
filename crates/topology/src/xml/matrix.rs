//! Distances and memory attributes.

use std::rc::Rc;
use std::str::FromStr;

use roxmltree::Node as Element;

use crate::distance::{LOCAL, UNREACHABLE};
use crate::draft::{DraftDistances, DraftFigure, FigureKind};
use crate::ids::NodeId;
use crate::load::Reason;
use crate::machine::{Contradiction, Note};
use crate::set::CpuSet;

use super::element::{bad, foreign, number, required, set};
use super::objects::{Index, around};

/// `distances` on the object that holds all nodes: floats relative to the least, which is local on
/// any sane machine, and the figure that 1.0 stands for.
pub(super) fn version_one(
    root: Element<'_, '_>,
    index: &Index,
    notes: &mut Vec<Note>,
) -> Result<Option<DraftDistances>, Reason> {
    let count = index.nodes.len();
    for element in root.descendants().filter(|e| e.has_tag_name("distances")) {
        let objects: usize = required(element, "nbobjs")?;
        let below: usize = required(element, "relative_depth")?;
        let base: f64 = number(element, "latency_base")?.unwrap_or(f64::from(LOCAL));
        let around = around(element)?;
        let of_nodes = |(_, depth): &&(NodeId, usize)| *depth == around + below - 1;
        // Nodes without processors hang higher than their level is; one that fits is enough.
        let fits = below > 0 && objects == count && index.nodes.iter().any(|node| of_nodes(&node));
        if !fits {
            // One note stands for all, should there be many.
            notes.retain(|note| note.subject != "distances");
            notes.push(Note {
                subject: "distances".into(),
                text: format!(
                    "those between {objects} objects are not between all nodes; left out"
                ),
            });
            continue;
        }
        let mut relative = Vec::new();
        for latency in element.children().filter(|e| e.has_tag_name("latency")) {
            relative.push(required::<f64>(latency, "value")?);
        }
        return Ok(Some(DraftDistances {
            order: index.nodes.iter().map(|(id, _)| *id).collect(),
            values: absolute(&relative, base, count),
        }));
    }
    Ok(None)
}

/// In ACPI's scale where local is 1.0 everywhere, else in the scale of the base.
fn absolute(relative: &[f64], base: f64, count: usize) -> Vec<u32> {
    let diagonal = || relative.iter().step_by(count + 1);
    let normal = diagonal().all(|value| (value - 1.0).abs() < 1e-3);
    let base = if normal { f64::from(LOCAL) } else { base };
    relative.iter().map(|value| whole(value * base)).collect()
}

/// Rounded. What is no distance (not a number, negative, huge) becomes one that is refused later.
fn whole(value: f64) -> u32 {
    let rounded = value.round();
    if rounded >= 0.0 && rounded < f64::from(UNREACHABLE) * f64::from(LOCAL) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked above to be whole, not negative and small"
        )]
        let whole = rounded as u32;
        whole
    } else {
        UNREACHABLE
    }
}

/// `distances2` of type NUMANode that mean latency; the one of the operating system goes first.
pub(super) fn version_two(
    root: Element<'_, '_>,
    index: &Index,
) -> Result<Option<DraftDistances>, Reason> {
    /// hwloc's HWLOC_DISTANCES_KIND_MEANS_LATENCY.
    const MEANS_LATENCY: u64 = 1 << 2;
    let mut best: Option<Element<'_, '_>> = None;
    for element in root.children().filter(|e| e.has_tag_name("distances2")) {
        if element.attribute("type") != Some("NUMANode") {
            continue;
        }
        let from_system = element.attribute("name") == Some("NUMALatency");
        let latency = required::<u64>(element, "kind")? & MEANS_LATENCY != 0;
        if from_system || (latency && best.is_none()) {
            best = Some(element);
        }
    }
    best.map(|element| matrix(element, index)).transpose()
}

fn matrix(element: Element<'_, '_>, index: &Index) -> Result<DraftDistances, Reason> {
    let count: usize = required(element, "nbobjs")?;
    let indexes: Vec<u64> = numbers(element, "indexes")?;
    let values: Vec<u64> = numbers(element, "u64values")?;
    if indexes.len() != count || count.checked_mul(count) != Some(values.len()) {
        return Err(Reason::Contradiction(Contradiction(format!(
            "a matrix of {count} nodes has {} indexes and {} values",
            indexes.len(),
            values.len()
        ))));
    }
    let by_gp = match element.attribute("indexing") {
        Some("gp") => true,
        Some("os") => false,
        _ => return Err(bad(element, "indexing")),
    };
    let node = |&number: &u64| {
        let id = if by_gp {
            index.nodes_by_gp.get(&number).copied()
        } else {
            u32::try_from(number).ok().map(NodeId)
        };
        id.ok_or_else(|| {
            Reason::Contradiction(Contradiction(format!(
                "distances are told of object {number}, which is no node"
            )))
        })
    };
    Ok(DraftDistances {
        order: indexes.iter().map(node).collect::<Result<_, _>>()?,
        values: values
            .into_iter()
            .map(|value| u32::try_from(value).unwrap_or(u32::MAX))
            .collect(),
    })
}

/// The numbers in all children of a name; long lists are cut into several.
fn numbers<T: FromStr>(element: Element<'_, '_>, name: &str) -> Result<Vec<T>, Reason> {
    let mut numbers = Vec::new();
    for child in element.children().filter(|e| e.has_tag_name(name)) {
        for word in child.text().unwrap_or_default().split_whitespace() {
            numbers.push(word.parse().map_err(|_not_a_number| {
                let shown: String = word.chars().take(40).collect();
                foreign(&format!("`{shown}` in `{name}` is no number"))
            })?);
        }
    }
    Ok(numbers)
}

/// Bandwidth and latency in `memattr`. hwloc passes on the kernel's MB/s and nanoseconds.
pub(super) fn figures(root: Element<'_, '_>, index: &Index) -> Result<Vec<DraftFigure>, Reason> {
    let mut figures = Vec::new();
    for attribute in root.children().filter(|e| e.has_tag_name("memattr")) {
        let kind = attribute.attribute("name").and_then(FigureKind::from_name);
        let Some(kind) = kind else { continue };
        for told in attribute
            .children()
            .filter(|e| e.has_tag_name("memattr_value"))
        {
            let gp: u64 = required(told, "target_obj_gp_index")?;
            let Some(&target) = index.nodes_by_gp.get(&gp) else {
                continue;
            };
            let Some(initiators) = initiators(told, index)? else {
                continue;
            };
            figures.push(DraftFigure {
                kind,
                target,
                initiators,
                value: required(told, "value")?,
            });
        }
    }
    Ok(figures)
}

fn initiators(told: Element<'_, '_>, index: &Index) -> Result<Option<Rc<CpuSet>>, Reason> {
    if told.has_attribute("initiator_cpuset") {
        return Ok(Some(Rc::new(set(told, "initiator_cpuset")?)));
    }
    let gp: Option<u64> = number(told, "initiator_obj_gp_index")?;
    Ok(gp.and_then(|gp| index.cpus_by_gp.get(&gp).map(Rc::clone)))
}
