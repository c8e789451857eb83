//! A machine as hwloc tells it, on its way to a [`Topology`]: from its XML or from its library.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::bandwidth::{BandwidthGraph, Figure, Link};
use crate::distance::{LOCAL, Origin};
use crate::ids::{CpuId, NodeId};
use crate::machine::{Cache, Contradiction, Node, Note, Parts, Topology};
use crate::number::{NODES_MAX, NamedCpu, number};
use crate::set::{CpuSet, NodeSet};
use crate::synthetic::NODE_BYTES;

/// Six attributes between all pairs of 64 nodes are fewer; a file can hold ten times as many.
const FIGURES_MAX: usize = 1 << 15;

/// What hwloc told, in its own terms.
#[derive(Debug, Default)]
pub struct Draft {
    /// In hwloc's logical order.
    pub nodes: Vec<DraftNode>,
    /// Every processor that there is an object for, in any order.
    pub cpus: Vec<CpuId>,
    /// Those of them that are said to be offline.
    pub offline: CpuSet,
    /// Those of them that are said to be isolated; only our own files say so.
    pub isolated: CpuSet,
    /// The processors of each core.
    pub cores: Vec<CpuSet>,
    /// The processors of each package.
    pub packages: Vec<CpuSet>,
    /// The caches.
    pub caches: Vec<Cache>,
    /// All memory, for a machine that names no node.
    pub memory_bytes: u64,
    /// What it tells of distances.
    pub distances: Option<DraftDistances>,
    /// What it tells of bandwidth and latency.
    pub figures: Vec<DraftFigure>,
    /// What was odd.
    pub notes: Vec<Note>,
}

/// A memory node.
#[derive(Clone, Debug)]
pub struct DraftNode {
    /// Its number.
    pub id: NodeId,
    /// The processors it is near to. hwloc 2 says so of memory-only nodes as well, for which these
    /// are not their processors.
    pub near: CpuSet,
    /// Its size.
    pub memory_bytes: u64,
    /// Whether it is said to be another kind of memory than main memory (HBM, NVM, a GPU's).
    pub special: bool,
}

/// A matrix of distances, row by row.
#[derive(Clone, Debug)]
pub struct DraftDistances {
    /// The nodes, in the order of rows and columns.
    pub order: Vec<NodeId>,
    /// The distances.
    pub values: Vec<u32>,
}

/// What a memory attribute says.
#[derive(Clone, Debug)]
pub struct DraftFigure {
    /// Which attribute.
    pub kind: FigureKind,
    /// The memory.
    pub target: NodeId,
    /// The processors that access it.
    pub initiators: Rc<CpuSet>,
    /// In MB/s or nanoseconds.
    pub value: u64,
}

/// The memory attributes that are understood, general ones before those that refine them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FigureKind {
    /// Bytes read and written.
    Bandwidth,
    /// Time of an access.
    Latency,
    /// Time of a write.
    WriteLatency,
    /// Time of a read.
    ReadLatency,
    /// Bytes read.
    ReadBandwidth,
    /// Bytes written.
    WriteBandwidth,
}

impl FigureKind {
    /// The kind of hwloc's attribute of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "Bandwidth" => Self::Bandwidth,
            "ReadBandwidth" => Self::ReadBandwidth,
            "WriteBandwidth" => Self::WriteBandwidth,
            "Latency" => Self::Latency,
            "ReadLatency" => Self::ReadLatency,
            "WriteLatency" => Self::WriteLatency,
            _ => return None,
        })
    }
}

impl DraftNode {
    /// Whether hwloc's subtype of a node names another kind of memory than main memory.
    #[must_use]
    pub fn is_special(subtype: &str) -> bool {
        ["HBM", "MCDRAM", "NVM", "SPM", "GPUMemory", "CXL"]
            .iter()
            .any(|kind| subtype.starts_with(kind))
    }
}

impl Draft {
    /// Makes the machine.
    ///
    /// # Errors
    /// Names what cannot all be true.
    pub fn finish(mut self) -> Result<Topology, Contradiction> {
        self.add_memory_if_untold();
        self.add_node_if_none();
        let owners = self.owners()?;
        let named = self.named(&owners)?;
        let mut notes = std::mem::take(&mut self.notes);
        let mut members: BTreeMap<NodeId, CpuSet> = BTreeMap::new();
        for (&cpu, &owner) in &owners {
            members.entry(owner).or_default().insert(cpu);
        }
        let nodes: Vec<Node> = self
            .nodes
            .iter()
            .map(|node| Node {
                id: node.id,
                cpus: members.get(&node.id).cloned().unwrap_or_default(),
                memory_bytes: node.memory_bytes,
            })
            .collect();
        let distance_rows = self.distance_rows()?;
        let known: CpuSet = named.iter().map(|cpu| cpu.id).collect();
        let mut caches = self.caches;
        for cache in &mut caches {
            cache.cpus = cache.cpus.intersection(&known);
        }
        caches.retain(|cache| !cache.cpus.is_empty());
        let bandwidth = bandwidth(self.figures, &nodes, &owners, &mut notes);
        Topology::new(Parts {
            cpus: number(&named, &mut notes),
            nodes,
            caches,
            distance_rows,
            bandwidth,
            notes,
        })
    }

    /// hwloc writes no size that it does not know; a file made from a description may know none.
    fn add_memory_if_untold(&mut self) {
        if self.nodes.is_empty() || self.nodes.iter().any(|node| node.memory_bytes > 0) {
            return;
        }
        for node in &mut self.nodes {
            node.memory_bytes = NODE_BYTES;
        }
        self.notes.push(Note {
            subject: "memory".into(),
            text: format!(
                "no node tells of its size; {} GiB are counted for each",
                NODE_BYTES >> 30
            ),
        });
    }

    /// Version 1 names no node on a machine without NUMA.
    fn add_node_if_none(&mut self) {
        if !self.nodes.is_empty() {
            return;
        }
        let id = NodeId(0);
        self.nodes.push(DraftNode {
            id,
            near: self.cpus.iter().copied().collect(),
            memory_bytes: self.memory_bytes,
            special: false,
        });
        self.notes.push(Note {
            subject: "nodes".into(),
            text: format!("none is named; all cpus and all memory count as node {id}"),
        });
    }

    /// Whose each processor is: that of the node which is nearest, that is, near to the fewest. Main
    /// memory goes before other kinds, low numbers before high ones.
    fn owners(&mut self) -> Result<BTreeMap<CpuId, NodeId>, Contradiction> {
        if self.nodes.len() > NODES_MAX {
            return Err(Contradiction(format!(
                "{} nodes are more than the {NODES_MAX} that Linux knows",
                self.nodes.len()
            )));
        }
        let known: CpuSet = self.cpus.iter().copied().collect();
        let mut ranked: Vec<&DraftNode> = self.nodes.iter().collect();
        ranked.sort_by_key(|node| (node.special, node.near.len(), node.id));
        let mut owners = BTreeMap::new();
        let mut shared = NodeSet::new();
        for (rank, node) in ranked.iter().enumerate() {
            if let Some(cpu) = node.near.difference(&known).first() {
                return Err(Contradiction(format!(
                    "node {} names cpu {cpu}, which does not exist",
                    node.id
                )));
            }
            for nearer in &ranked[..rank] {
                check_nested(nearer, node)?;
                if nearer.near == node.near && !node.near.is_empty() {
                    shared.insert(node.id);
                }
            }
            for cpu in node.near.iter() {
                owners.entry(cpu).or_insert(node.id);
            }
        }
        if !shared.is_empty() {
            self.notes.push(Note {
                subject: format!("nodes {shared}"),
                text: "near the same processors as another node; taken as memory without \
                       processors"
                    .into(),
            });
        }
        Ok(owners)
    }

    fn named(&mut self, owners: &BTreeMap<CpuId, NodeId>) -> Result<Vec<NamedCpu>, Contradiction> {
        let cores = group_of(&self.cores, "cores")?;
        let packages = group_of(&self.packages, "packages")?;
        self.cpus.sort_unstable();
        let mut untold = CpuSet::new();
        let mut named = Vec::with_capacity(self.cpus.len());
        for &id in &self.cpus {
            let package = packages.get(&id).copied();
            if package.is_none() {
                untold.insert(id);
            }
            named.push(NamedCpu {
                id,
                online: !self.offline.contains(id),
                isolated: self.isolated.contains(id),
                node: owners.get(&id).copied(),
                core: cores.get(&id).and_then(|&index| self.cores[index].first()),
                package: package.and_then(|index| u64::try_from(index).ok()),
            });
        }
        if !untold.is_empty() {
            self.notes.push(Note {
                subject: format!("cpus {untold}"),
                text: "no package is told; they count as one package".into(),
            });
        }
        Ok(named)
    }

    /// Rows by ascending node, or none where the matrix does not cover every node.
    ///
    /// hwloc leaves out the matrix of one node, which the kernel tells; the machine is the same.
    fn distance_rows(&self) -> Result<Vec<Vec<u32>>, Contradiction> {
        let Some(DraftDistances { order, values }) = &self.distances else {
            return Ok(match self.nodes.len() {
                1 => vec![vec![LOCAL]],
                _ => Vec::new(),
            });
        };
        if order.len().checked_mul(order.len()) != Some(values.len()) {
            return Err(Contradiction(format!(
                "{} distances are told between {} nodes",
                values.len(),
                order.len()
            )));
        }
        let mut places = BTreeMap::new();
        for (place, id) in order.iter().enumerate() {
            if !self.nodes.iter().any(|node| node.id == *id) {
                return Err(Contradiction(format!(
                    "distances are told of node {id}, which does not exist"
                )));
            }
            if places.insert(*id, place).is_some() {
                return Err(Contradiction(format!(
                    "distances of node {id} are told twice"
                )));
            }
        }
        let row = |from: usize| {
            places
                .values()
                .map(|to| values[from * order.len() + to])
                .collect()
        };
        Ok(places.values().map(|&from| row(from)).collect())
    }
}

fn check_nested(nearer: &DraftNode, node: &DraftNode) -> Result<(), Contradiction> {
    let common = nearer.near.intersection(&node.near);
    let nested = common.is_empty() || common == nearer.near || common == node.near;
    if nested {
        return Ok(());
    }
    Err(Contradiction(format!(
        "cpus {common} belong to node {} and to node {}, whose other cpus differ",
        nearer.id, node.id
    )))
}

/// The index of the set that each processor is in.
fn group_of(sets: &[CpuSet], what: &str) -> Result<BTreeMap<CpuId, usize>, Contradiction> {
    let mut groups = BTreeMap::new();
    for (index, set) in sets.iter().enumerate() {
        for cpu in set.iter() {
            if groups.insert(cpu, index).is_some() {
                return Err(Contradiction(format!("cpu {cpu} belongs to two {what}")));
            }
        }
    }
    Ok(groups)
}

/// Links from each node whose processors are all among the initiators. What is told of fewer
/// initiators goes before what is told of more, a refined kind before a general one.
fn bandwidth(
    mut figures: Vec<DraftFigure>,
    nodes: &[Node],
    owners: &BTreeMap<CpuId, NodeId>,
    notes: &mut Vec<Note>,
) -> BandwidthGraph {
    if figures.len() > FIGURES_MAX {
        figures.truncate(FIGURES_MAX);
        notes.push(Note {
            subject: "bandwidth".into(),
            text: format!("more than {FIGURES_MAX} figures are told; the rest is left out"),
        });
    }
    figures.sort_by_cached_key(|figure| (figure.kind, usize::MAX - figure.initiators.len()));
    let mut asking: BTreeMap<*const CpuSet, Vec<NodeId>> = BTreeMap::new();
    let mut graph = BandwidthGraph::default();
    for told in figures.iter().filter(|told| told.value > 0) {
        let from = asking
            .entry(Rc::as_ptr(&told.initiators))
            .or_insert_with(|| inside(&told.initiators, nodes, owners));
        for &from in from.iter() {
            set(graph.link_mut(from, told.target), told);
        }
    }
    graph
}

/// The nodes all of whose processors, of which there are some, are in a set.
fn inside(set: &CpuSet, nodes: &[Node], owners: &BTreeMap<CpuId, NodeId>) -> Vec<NodeId> {
    let mut found: BTreeMap<NodeId, usize> = BTreeMap::new();
    for owner in set.iter().filter_map(|cpu| owners.get(&cpu)) {
        *found.entry(*owner).or_default() += 1;
    }
    let whole = |node: &&Node| found.get(&node.id) == Some(&node.cpus.len());
    nodes.iter().filter(whole).map(|node| node.id).collect()
}

fn set(link: &mut Link, told: &DraftFigure) {
    let figure = Some(Figure {
        value: told.value,
        origin: Origin::Firmware,
    });
    match told.kind {
        FigureKind::Bandwidth => {
            link.read_mbps = figure;
            link.write_mbps = figure;
        }
        FigureKind::ReadBandwidth => link.read_mbps = figure,
        FigureKind::WriteBandwidth => link.write_mbps = figure,
        FigureKind::Latency | FigureKind::ReadLatency | FigureKind::WriteLatency => {
            link.latency_ns = figure;
        }
    }
}
