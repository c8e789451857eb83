//! Memory nodes, distances, and what HMAT tells of bandwidth and latency.

use std::collections::BTreeMap;

use crate::bandwidth::{BandwidthGraph, Figure};
use crate::distance::Origin;
use crate::ids::{CpuId, NodeId};
use crate::load::LoadError;
use crate::machine::{Contradiction, Node, Note};
use crate::number::NODES_MAX;
use crate::set::{CpuSet, ID_MAX, NodeSet};

use super::tree::Tree;
use super::{CPU_DIR, NODE_DIR, contradiction};

/// What the node directories tell.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Ascending; `cpus` are those that the node claims.
    nodes: Vec<Node>,
    /// The node of each processor.
    owners: BTreeMap<CpuId, NodeId>,
    /// The node that a processor's own directory names, for processors that no node claims. The node
    /// itself may be offline.
    pub(super) links: BTreeMap<CpuId, NodeId>,
    /// Nodes that claim the same processors.
    pub(super) together: Vec<NodeSet>,
    pub(super) distance_rows: Vec<Vec<u32>>,
    pub(super) bandwidth: BandwidthGraph,
}

impl Found {
    /// The node that a processor belongs to.
    pub(super) fn owner(&self, cpu: CpuId) -> Option<NodeId> {
        self.owners.get(&cpu).copied()
    }
}

/// The nodes with the processors that belong to them.
pub(super) fn with_cpus(found: &Found) -> Vec<Node> {
    let mut members: BTreeMap<NodeId, CpuSet> = BTreeMap::new();
    for (&cpu, &owner) in &found.owners {
        members.entry(owner).or_default().insert(cpu);
    }
    let nodes = found.nodes.iter().map(|node| Node {
        id: node.id,
        cpus: members.get(&node.id).cloned().unwrap_or_default(),
        memory_bytes: node.memory_bytes,
    });
    nodes.collect()
}

/// Reads the node directories; a kernel without them has one node.
pub(super) fn read(
    tree: &Tree<'_>,
    present: &CpuSet,
    notes: &mut Vec<Note>,
) -> Result<Found, LoadError> {
    let numbers = tree.numbered(NODE_DIR, "node")?.unwrap_or_default();
    let ids: Vec<NodeId> = numbers.into_iter().map(NodeId).collect();
    let foreign = |text| Err(tree.foreign(NODE_DIR, "directory of nodes", text));
    if ids.len() > NODES_MAX {
        return foreign(format!("more nodes than the {NODES_MAX} that Linux knows"));
    }
    if let Some(id) = ids.last().filter(|id| id.0 > ID_MAX) {
        return foreign(format!("node {id} is beyond the largest number"));
    }
    if ids.is_empty() {
        return single(tree, present, notes);
    }
    let mut found = Found::default();
    let memory = memory(tree, &ids, notes)?;
    for (&id, memory_bytes) in ids.iter().zip(memory) {
        found.nodes.push(Node {
            id,
            cpus: claimed(tree, id, present, notes)?,
            memory_bytes,
        });
    }
    settle_claims(tree, &mut found, notes)?;
    follow_links(tree, present, &mut found, notes)?;
    found.distance_rows = distances(tree, &ids, notes)?;
    found.bandwidth = bandwidth(tree, &ids)?;
    Ok(found)
}

/// The one node of a kernel built without NUMA.
fn single(tree: &Tree<'_>, present: &CpuSet, notes: &mut Vec<Note>) -> Result<Found, LoadError> {
    let id = NodeId(0);
    notes.push(Note {
        subject: "nodes".into(),
        text: format!(
            "`{NODE_DIR}` names none (a kernel without NUMA); all cpus and all memory count as \
             node {id}"
        ),
    });
    let text = tree.text("proc/meminfo")?.unwrap_or_default();
    let Some(memory_bytes) = total_bytes(&text) else {
        let text = format!("neither `{NODE_DIR}` nor `proc/meminfo` tells of memory");
        return Err(tree.foreign("", "root of a machine", text));
    };
    Ok(Found {
        nodes: vec![Node {
            id,
            cpus: present.clone(),
            memory_bytes,
        }],
        owners: present.iter().map(|cpu| (cpu, id)).collect(),
        ..Found::default()
    })
}

/// The processors that a node claims, as far as they are described.
fn claimed(
    tree: &Tree<'_>,
    id: NodeId,
    present: &CpuSet,
    notes: &mut Vec<Note>,
) -> Result<CpuSet, LoadError> {
    let dir = format!("{NODE_DIR}/node{id}");
    let set = tree.set(&format!("{dir}/cpulist"), &format!("{dir}/cpumap"))?;
    let Some(cpus) = set else {
        notes.push(Note {
            subject: format!("node {id}"),
            text: "tells of no processors; taken as memory without processors".into(),
        });
        return Ok(CpuSet::new());
    };
    let absent = cpus.difference(present);
    if !absent.is_empty() {
        // Containers see the nodes of the host, but only their own processors.
        notes.push(Note {
            subject: format!("node {id}"),
            text: format!("claims cpus {absent}, which are not described; left out"),
        });
    }
    Ok(cpus.intersection(present))
}

/// What a node counts as having when nothing tells of any memory at all.
const NODE_BYTES_UNTOLD: u64 = 1 << 30;

/// The memory of each node. A dump may lack what tells of it: where no node tells, all count as having
/// their part of the whole; where some tell, the others have none.
fn memory(tree: &Tree<'_>, ids: &[NodeId], notes: &mut Vec<Note>) -> Result<Vec<u64>, LoadError> {
    let mut told = Vec::with_capacity(ids.len());
    for id in ids {
        let text = tree.text(&format!("{NODE_DIR}/node{id}/meminfo"))?;
        told.push(total_bytes(&text.unwrap_or_default()));
    }
    if told.iter().all(Option::is_none) {
        let whole = tree.text("proc/meminfo")?.unwrap_or_default();
        let count = u64::try_from(ids.len()).unwrap_or(u64::MAX);
        let part = total_bytes(&whole).map(|whole| whole / count);
        let part = part.filter(|&part| part > 0).unwrap_or(NODE_BYTES_UNTOLD);
        let mebibytes = part >> 20;
        notes.push(Note {
            subject: "memory of nodes".into(),
            text: format!("not told of any node; each counts as having {mebibytes} MiB"),
        });
        return Ok(vec![part; ids.len()]);
    }
    for (id, _) in ids.iter().zip(&told).filter(|(_, told)| told.is_none()) {
        notes.push(Note {
            subject: format!("memory of node {id}"),
            text: "not told; counted as none".into(),
        });
    }
    Ok(told.into_iter().map(Option::unwrap_or_default).collect())
}

/// The line `MemTotal`, which in a node's file begins with the node: `Node 3 MemTotal: 32768 kB`.
fn total_bytes(meminfo: &str) -> Option<u64> {
    let mut lines = meminfo.lines();
    let (_, rest) = lines.find_map(|line| line.split_once("MemTotal:"))?;
    let mut words = rest.split_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    (words.next() == Some("kB")).then(|| number.checked_mul(1 << 10))?
}

/// Decides whose a processor is that several nodes claim.
///
/// `numa=fake` and one broken firmware cut the memory of one place into nodes that all claim its
/// processors. The lowest node keeps them, so that a mask of that node is as wide as the place;
/// the others are memory, equally near. Claims that overlap in part cannot be true.
fn settle_claims(
    tree: &Tree<'_>,
    found: &mut Found,
    notes: &mut Vec<Note>,
) -> Result<(), LoadError> {
    let mut places: Vec<(CpuSet, NodeSet)> = Vec::new();
    for node in found.nodes.iter().filter(|node| !node.cpus.is_empty()) {
        if let Some((_, members)) = places.iter_mut().find(|(cpus, _)| *cpus == node.cpus) {
            members.insert(node.id);
            continue;
        }
        let clash = places.iter().find(|(cpus, _)| cpus.intersects(&node.cpus));
        if let Some((cpus, members)) = clash {
            let cpu = cpus.intersection(&node.cpus);
            let first = members.first().unwrap_or(node.id);
            let text = format!(
                "cpus {cpu} belong to node {first} and to node {}, whose other cpus differ",
                node.id
            );
            return Err(contradiction(&tree.path(NODE_DIR), Contradiction(text)));
        }
        places.push((node.cpus.clone(), NodeSet::from_iter([node.id])));
    }
    for (cpus, members) in places {
        let Some(keeper) = members.first() else {
            continue;
        };
        found.owners.extend(cpus.iter().map(|cpu| (cpu, keeper)));
        if members.len() > 1 {
            notes.push(Note {
                subject: format!("nodes {members}"),
                text: format!(
                    "all claim cpus {cpus} (as with numa=fake); these count to node {keeper}, the \
                     others as memory without processors"
                ),
            });
            found.together.push(members);
        }
    }
    Ok(())
}

/// Processors that no node claims may name their node themselves: those offline do.
fn follow_links(
    tree: &Tree<'_>,
    present: &CpuSet,
    found: &mut Found,
    notes: &mut Vec<Note>,
) -> Result<(), LoadError> {
    let mut homeless = CpuSet::new();
    for cpu in present
        .iter()
        .filter(|cpu| found.owner(*cpu).is_none())
        .collect::<Vec<_>>()
    {
        let links = tree.numbered(&format!("{CPU_DIR}/cpu{cpu}"), "node")?;
        let Some(&node) = links.as_deref().and_then(<[u32]>::first) else {
            homeless.insert(cpu);
            continue;
        };
        let node = NodeId(node);
        found.links.insert(cpu, node);
        if found.nodes.iter().any(|known| known.id == node) {
            found.owners.insert(cpu, node);
        } else {
            homeless.insert(cpu);
        }
    }
    if !homeless.is_empty() {
        notes.push(Note {
            subject: format!("cpus {homeless}"),
            text: "belong to no node that is online".into(),
        });
    }
    Ok(())
}

/// One row per node, as long as there are nodes where the files allow it.
fn distances(
    tree: &Tree<'_>,
    ids: &[NodeId],
    notes: &mut Vec<Note>,
) -> Result<Vec<Vec<u32>>, LoadError> {
    let columns = columns(tree, ids)?;
    let mut rows = Vec::with_capacity(ids.len());
    for id in ids {
        let Some(text) = tree.text(&format!("{NODE_DIR}/node{id}/distance"))? else {
            continue;
        };
        let values: Option<Vec<u32>> = text
            .split_whitespace()
            .map(|value| value.parse().ok())
            .collect();
        let Some(values) = values else {
            notes.push(Note {
                subject: format!("distances of node {id}"),
                text: "not numbers".into(),
            });
            continue;
        };
        rows.push(pick(values, &columns));
    }
    Ok(rows)
}

/// For each other set of nodes that a row may cover, where our nodes stand in it. A row of a machine
/// with a node offline may have a column for that node too.
fn columns(tree: &Tree<'_>, ids: &[NodeId]) -> Result<Vec<(usize, Vec<usize>)>, LoadError> {
    let mut columns = Vec::new();
    for name in ["online", "possible"] {
        let covered = tree.list(&format!("{NODE_DIR}/{name}"))?;
        let covered: Vec<NodeId> = covered.unwrap_or_default().iter().collect();
        let places: Option<Vec<usize>> = ids
            .iter()
            .map(|id| covered.binary_search(id).ok())
            .collect();
        columns.extend(places.map(|places| (covered.len(), places)));
    }
    Ok(columns)
}

fn pick(values: Vec<u32>, columns: &[(usize, Vec<usize>)]) -> Vec<u32> {
    let fitting = columns.iter().find(|(length, _)| *length == values.len());
    match fitting {
        Some((_, places)) => places.iter().map(|&place| values[place]).collect(),
        None => values,
    }
}

/// What HMAT tells: for each memory the nodes whose processors reach it best, and how fast.
fn bandwidth(tree: &Tree<'_>, ids: &[NodeId]) -> Result<BandwidthGraph, LoadError> {
    let mut graph = BandwidthGraph::default();
    for &target in ids {
        // Class 1 is about processors, class 0 (and all there was before Linux 5.10) about whatever
        // can ask, network cards included.
        for class in ["access1", "access0"] {
            let dir = format!("{NODE_DIR}/node{target}/{class}/initiators");
            let Some(initiators) = tree.numbered(&dir, "node")? else {
                continue;
            };
            let figure = |name: &str| -> Result<Option<Figure>, LoadError> {
                let value = tree.number(&format!("{dir}/{name}"))?;
                // The kernel prints 0 for what HMAT leaves out.
                Ok(value.filter(|&value| value > 0).map(|value| Figure {
                    value,
                    origin: Origin::Firmware,
                }))
            };
            let read_mbps = figure("read_bandwidth")?;
            let write_mbps = figure("write_bandwidth")?;
            let latency_ns = match figure("read_latency")? {
                Some(latency) => Some(latency),
                None => figure("write_latency")?,
            };
            let told = [read_mbps, write_mbps, latency_ns];
            let from = initiators.into_iter().map(NodeId);
            for from in from.filter(|from| ids.contains(from) && told.iter().any(Option::is_some)) {
                let link = graph.link_mut(from, target);
                link.read_mbps = link.read_mbps.or(read_mbps);
                link.write_mbps = link.write_mbps.or(write_mbps);
                link.latency_ns = link.latency_ns.or(latency_ns);
            }
        }
    }
    Ok(graph)
}
