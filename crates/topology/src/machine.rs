//! The machine as one immutable value. Every source ends here, and [`Topology::new`] is the only door:
//! what it returns needs no second check.

use std::fmt;

use crate::bandwidth::BandwidthGraph;
use crate::distance::Distances;
use crate::ids::{CoreId, CpuId, NodeId, PackageId};
use crate::set::{CpuSet, NodeSet};

/// A memory domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its number in the kernel.
    pub id: NodeId,
    /// Its processors, online or not. Empty for a memory-only node.
    pub cpus: CpuSet,
    /// How much memory it has. 0 for a node of processors alone.
    pub memory_bytes: u64,
}

/// A logical processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Its number in the kernel.
    pub id: CpuId,
    /// Whether it runs threads now.
    pub online: bool,
    /// Whether it was taken from the scheduler at boot (`isolcpus`, `nohz_full`).
    pub isolated: bool,
    /// The core it belongs to.
    pub core: CoreId,
    /// The package it belongs to.
    pub package: PackageId,
    /// The memory node it belongs to; none where the source does not tell.
    pub node: Option<NodeId>,
}

/// What a cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CacheKind {
    /// Data alone.
    Data,
    /// Instructions alone.
    Instruction,
    /// Both.
    Unified,
}

/// One cache and the processors that share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// 1 is nearest the core.
    pub level: u8,
    /// What it holds.
    pub kind: CacheKind,
    /// Its size; 0 where the source does not tell.
    pub size_bytes: u64,
    /// The processors that share it.
    pub cpus: CpuSet,
}

/// Something the source said that was not taken at its word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// What it is about, as in `distance of node 3`.
    pub subject: String,
    /// What was wrong with it and what stands in its place.
    pub text: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.text)
    }
}

/// Everything a source knows, before it is checked.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// In any order.
    pub nodes: Vec<Node>,
    /// In any order.
    pub cpus: Vec<Cpu>,
    /// In any order.
    pub caches: Vec<Cache>,
    /// One row per node in ascending order of node ids, as the firmware gave them; empty when it
    /// gave none.
    pub distance_rows: Vec<Vec<u32>>,
    /// Figures the firmware gave for pairs of nodes.
    pub bandwidth: BandwidthGraph,
    /// What was noticed on the way.
    pub notes: Vec<Note>,
}

/// Why parts do not make a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction(pub String);

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Contradiction {}

/// A machine with at least one processor online and at least one node, free of contradictions.
///
/// Nodes and processors are sorted by number. Algorithms that want dense numbers use the
/// *position* of a node in [`Topology::nodes`].
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    nodes: Vec<Node>,
    cpus: Vec<Cpu>,
    caches: Vec<Cache>,
    distances: Distances,
    bandwidth: BandwidthGraph,
    notes: Vec<Note>,
}

impl Topology {
    /// Checks parts and makes a machine of them.
    ///
    /// # Errors
    /// Says what is missing or said twice in two ways.
    pub fn new(parts: Parts) -> Result<Self, Contradiction> {
        Self::with_shared_places(parts, &[])
    }

    /// As [`Self::new`]. The nodes of each set of `together` claim the same processors, so it makes
    /// sense that they are no further from each other than from themselves.
    pub(crate) fn with_shared_places(
        parts: Parts,
        together: &[NodeSet],
    ) -> Result<Self, Contradiction> {
        let Parts {
            mut nodes,
            mut cpus,
            mut caches,
            distance_rows,
            bandwidth,
            mut notes,
        } = parts;
        nodes.sort_by_key(|node| node.id);
        cpus.sort_by_key(|cpu| cpu.id);
        caches.sort_by(|a, b| {
            (a.level, a.kind, a.cpus.first()).cmp(&(b.level, b.kind, b.cpus.first()))
        });
        check_nodes(&nodes, &cpus)?;
        check_cpus(&cpus, &nodes)?;
        let ids: Vec<NodeId> = nodes.iter().map(|node| node.id).collect();
        let distances = Distances::from_firmware(&ids, &distance_rows, together, &mut notes);
        Ok(Self {
            nodes,
            cpus,
            caches,
            distances,
            bandwidth,
            notes,
        })
    }

    /// The nodes, by ascending number.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The processors, by ascending number, those offline included.
    #[must_use]
    pub fn cpus(&self) -> &[Cpu] {
        &self.cpus
    }

    /// The caches, by level, nearest first.
    #[must_use]
    pub fn caches(&self) -> &[Cache] {
        &self.caches
    }

    /// Where the cores of a node meet below it: the processors of each of its last-level caches, where it has several
    /// that are shared by cores. Else empty.
    #[must_use]
    pub fn caches_within(&self, node: &Node) -> Vec<&CpuSet> {
        let last = self.caches.iter().map(|cache| cache.level).max();
        let within = self.caches.iter().filter(|cache| {
            // A cache of one core is its own, and not where cores meet.
            Some(cache.level) == last
                && cache.cpus.is_subset(&node.cpus)
                && cache.cpus != node.cpus
                && self.cores_in(&cache.cpus) > 1
        });
        within.map(|cache| &cache.cpus).collect()
    }

    /// How far nodes are from each other.
    #[must_use]
    pub const fn distances(&self) -> &Distances {
        &self.distances
    }

    /// What is known of bandwidth and latency between nodes.
    #[must_use]
    pub const fn bandwidth(&self) -> &BandwidthGraph {
        &self.bandwidth
    }

    /// The same machine with other figures for bandwidth and latency.
    #[must_use]
    pub fn with_bandwidth(self, bandwidth: BandwidthGraph) -> Self {
        Self { bandwidth, ..self }
    }

    /// What the source said that was not taken at its word.
    #[must_use]
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// The node of this number.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.position(id).map(|position| &self.nodes[position])
    }

    /// Where the node of this number stands in [`Self::nodes`].
    #[must_use]
    pub fn position(&self, id: NodeId) -> Option<usize> {
        self.nodes.binary_search_by_key(&id, |node| node.id).ok()
    }

    /// The processor of this number.
    #[must_use]
    pub fn cpu(&self, id: CpuId) -> Option<&Cpu> {
        self.cpus
            .binary_search_by_key(&id, |cpu| cpu.id)
            .ok()
            .map(|index| &self.cpus[index])
    }

    /// The node that a processor belongs to.
    #[must_use]
    pub fn node_of(&self, cpu: CpuId) -> Option<NodeId> {
        self.cpu(cpu)?.node
    }

    /// Processors that run threads now.
    #[must_use]
    pub fn online(&self) -> CpuSet {
        self.cpus
            .iter()
            .filter(|cpu| cpu.online)
            .map(|cpu| cpu.id)
            .collect()
    }

    /// Processors that may be given to threads: online and not isolated.
    #[must_use]
    pub fn usable(&self) -> CpuSet {
        self.cpus
            .iter()
            .filter(|cpu| cpu.online && !cpu.isolated)
            .map(|cpu| cpu.id)
            .collect()
    }

    /// Processors that were taken from the scheduler at boot.
    #[must_use]
    pub fn isolated(&self) -> CpuSet {
        self.cpus
            .iter()
            .filter(|cpu| cpu.isolated)
            .map(|cpu| cpu.id)
            .collect()
    }

    /// How many packages there are.
    #[must_use]
    pub fn package_count(&self) -> usize {
        let mut packages: Vec<PackageId> = self.cpus.iter().map(|cpu| cpu.package).collect();
        packages.sort_unstable();
        packages.dedup();
        packages.len()
    }

    /// How much memory all nodes have together.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let sizes = self.nodes.iter().map(|node| node.memory_bytes);
        sizes.fold(0, u64::saturating_add)
    }

    /// Nodes that have memory.
    #[must_use]
    pub fn nodes_with_memory(&self) -> NodeSet {
        self.nodes
            .iter()
            .filter(|node| node.memory_bytes > 0)
            .map(|node| node.id)
            .collect()
    }

    /// Nodes that have processors.
    #[must_use]
    pub fn nodes_with_cpus(&self) -> NodeSet {
        self.nodes
            .iter()
            .filter(|node| !node.cpus.is_empty())
            .map(|node| node.id)
            .collect()
    }

    /// How many physical cores there are among the processors of `set`.
    #[must_use]
    pub fn cores_in(&self, set: &CpuSet) -> usize {
        let mut cores: Vec<CoreId> = self
            .cpus
            .iter()
            .filter(|cpu| set.contains(cpu.id))
            .map(|cpu| cpu.core)
            .collect();
        cores.sort_unstable();
        cores.dedup();
        cores.len()
    }
}

fn check_nodes(nodes: &[Node], cpus: &[Cpu]) -> Result<(), Contradiction> {
    if nodes.is_empty() {
        return Err(Contradiction("there is no memory node".into()));
    }
    if let Some(pair) = nodes.windows(2).find(|pair| pair[0].id == pair[1].id) {
        return Err(Contradiction(format!("node {} is there twice", pair[0].id)));
    }
    if nodes.iter().all(|node| node.memory_bytes == 0) {
        return Err(Contradiction("no node has memory".into()));
    }
    let mut seen = CpuSet::new();
    for node in nodes {
        if let Some(cpu) = node.cpus.intersection(&seen).first() {
            return Err(Contradiction(format!("cpu {cpu} belongs to two nodes")));
        }
        seen = seen.union(&node.cpus);
    }
    let known: CpuSet = cpus.iter().map(|cpu| cpu.id).collect();
    match seen.difference(&known).first() {
        Some(cpu) => Err(Contradiction(format!(
            "a node names cpu {cpu}, which does not exist"
        ))),
        None => Ok(()),
    }
}

fn check_cpus(cpus: &[Cpu], nodes: &[Node]) -> Result<(), Contradiction> {
    if let Some(pair) = cpus.windows(2).find(|pair| pair[0].id == pair[1].id) {
        return Err(Contradiction(format!("cpu {} is there twice", pair[0].id)));
    }
    if !cpus.iter().any(|cpu| cpu.online) {
        return Err(Contradiction("no cpu is online".into()));
    }
    let disagree =
        |cpu: CpuId| Contradiction(format!("cpu {cpu} and the nodes disagree about its node"));
    for node in nodes {
        for id in node.cpus.iter() {
            let agrees = cpus
                .binary_search_by_key(&id, |cpu| cpu.id)
                .is_ok_and(|index| cpus[index].node == Some(node.id));
            if !agrees {
                return Err(disagree(id));
            }
        }
    }
    for cpu in cpus {
        let Some(id) = cpu.node else { continue };
        let named = nodes
            .binary_search_by_key(&id, |node| node.id)
            .is_ok_and(|index| nodes[index].cpus.contains(cpu.id));
        if !named {
            return Err(disagree(cpu.id));
        }
    }
    Ok(())
}
