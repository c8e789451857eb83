//! What is to be measured.

use std::fmt;
use std::time::Duration;

use topology::{CpuId, CpuSet, NodeId, Topology};

/// How long and with how much memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Of one run; each figure is the best of [`Self::runs`].
    pub length: Duration,
    /// Runs for each figure.
    pub runs: u32,
    /// Most memory that is used of a node.
    pub bytes_max: u64,
}

impl Default for Effort {
    fn default() -> Self {
        Self {
            length: Duration::from_millis(60),
            runs: 3,
            bytes_max: 3 << 30,
        }
    }
}

/// Least memory: less lies within the caches of common processors, and would be no measurement.
const BYTES_MIN: u64 = 96 << 20;
/// Arrays are this many times as large as all last-level caches of a node together.
const CACHES: u64 = 4;
/// Share of a node's free memory that may be used.
const FREE_SHARE: u64 = 4;

/// Processors and memories, in the order in which they are measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub(crate) effort: Effort,
    /// Nodes with processors that we may use: one of each core first.
    pub(crate) askers: Vec<(NodeId, Vec<CpuId>)>,
    /// Nodes with memory.
    pub(crate) memories: Vec<NodeId>,
    pub(crate) bytes: u64,
}

/// Why a machine cannot be measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// There is no processor that we may use.
    NoProcessor,
    /// A node has too little free memory.
    TooLittleMemory {
        /// Which.
        node: NodeId,
        /// What it has.
        free_bytes: u64,
        /// What is needed to be free.
        needed_bytes: u64,
    },
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProcessor => f.write_str("no processor of this machine may be used"),
            Self::TooLittleMemory {
                node,
                free_bytes,
                needed_bytes,
            } => write!(
                f,
                "node `{node}` has {} MiB free and {} MiB are needed",
                free_bytes >> 20,
                needed_bytes >> 20
            ),
        }
    }
}

impl std::error::Error for PlanError {}

impl Plan {
    /// Everything there is to measure with the processors of `allowed`. `free` says how much memory a
    /// node has free.
    ///
    /// # Errors
    /// When there is no processor, or a node whose memory is all but full.
    pub fn new(
        topology: &Topology,
        allowed: &CpuSet,
        free: impl Fn(NodeId) -> u64,
        effort: Effort,
    ) -> Result<Self, PlanError> {
        let usable = topology.usable().intersection(allowed);
        let askers: Vec<(NodeId, Vec<CpuId>)> = topology
            .nodes()
            .iter()
            .map(|node| {
                (
                    node.id,
                    one_of_each_core(topology, &node.cpus.intersection(&usable)),
                )
            })
            .filter(|(_, cpus)| !cpus.is_empty())
            .collect();
        if askers.is_empty() {
            return Err(PlanError::NoProcessor);
        }
        let memories: Vec<NodeId> = topology.nodes_with_memory().iter().collect();
        let wanted = CACHES.saturating_mul(largest_caches(topology));
        let mut bytes = wanted.clamp(BYTES_MIN, effort.bytes_max.max(BYTES_MIN));
        for &node in &memories {
            let free_bytes = free(node);
            bytes = bytes.min(free_bytes / FREE_SHARE);
            if bytes < BYTES_MIN {
                return Err(PlanError::TooLittleMemory {
                    node,
                    free_bytes,
                    needed_bytes: FREE_SHARE * BYTES_MIN,
                });
            }
        }
        Ok(Self {
            effort,
            askers,
            memories,
            bytes,
        })
    }

    /// Bytes that are used of each node in turn.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many pairs of nodes are measured.
    #[must_use]
    pub fn pairs(&self) -> usize {
        self.askers.len() * self.memories.len()
    }
}

/// One processor of each core: further threads of a core share what it can keep in flight.
fn one_of_each_core(topology: &Topology, cpus: &CpuSet) -> Vec<CpuId> {
    let mut seen = Vec::new();
    let mut firsts = Vec::new();
    for cpu in cpus.iter() {
        let core = topology.cpu(cpu).map(|cpu| cpu.core);
        if !seen.contains(&core) {
            seen.push(core);
            firsts.push(cpu);
        }
    }
    firsts
}

/// Bytes of all last-level caches that processors of one node reach, of the node with most.
fn largest_caches(topology: &Topology) -> u64 {
    let last = topology.caches().iter().map(|cache| cache.level).max();
    let of = |node: &topology::Node| -> u64 {
        let caches = topology.caches().iter();
        let inside =
            caches.filter(|cache| Some(cache.level) == last && cache.cpus.intersects(&node.cpus));
        inside
            .map(|cache| cache.size_bytes)
            .fold(0, u64::saturating_add)
    };
    topology.nodes().iter().map(of).max().unwrap_or(0)
}

/// Numbers of threads that are tried: every one up to four, then half as many more each time.
pub(crate) fn thread_counts(cores: usize) -> Vec<usize> {
    let mut counts = Vec::new();
    let mut next = 1;
    while next < cores {
        counts.push(next);
        next = if next < 4 { next + 1 } else { next + next / 2 };
    }
    counts.push(cores);
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_grow_to_the_number_of_cores() {
        assert_eq!(thread_counts(1), [1]);
        assert_eq!(thread_counts(2), [1, 2]);
        assert_eq!(thread_counts(8), [1, 2, 3, 4, 6, 8]);
        assert_eq!(thread_counts(20), [1, 2, 3, 4, 6, 9, 13, 19, 20]);
    }

    #[test]
    fn a_plan_has_one_processor_of_each_core_and_every_memory() {
        let topology = topology::synthetic::parse("2x2x2+1").unwrap();
        let allowed: CpuSet = [0, 1, 2, 4, 6, 7].map(CpuId).into_iter().collect();
        let plan = Plan::new(&topology, &allowed, |_| 64 << 30, Effort::default()).unwrap();
        let cpus: Vec<Vec<u32>> = plan
            .askers
            .iter()
            .map(|(_, cpus)| cpus.iter().map(|cpu| cpu.0).collect())
            .collect();
        assert_eq!(cpus, [[0, 2], [4, 6]]);
        assert_eq!((plan.pairs(), plan.bytes()), (6, BYTES_MIN));
        let none = Plan::new(&topology, &CpuSet::new(), |_| 0, Effort::default());
        assert_eq!(none, Err(PlanError::NoProcessor));
        let full = |node| {
            if node == NodeId(2) {
                100 << 20
            } else {
                1 << 40
            }
        };
        let error = Plan::new(&topology, &allowed, full, Effort::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "node `2` has 100 MiB free and 384 MiB are needed"
        );
    }
}
