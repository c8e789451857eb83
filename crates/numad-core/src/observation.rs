//! What is true at the end of an interval, as looked up in the system. Values only.

use std::time::Duration;

use topology::{CpuId, CpuSet, NodeId, NodeSet, Pid, TaskKey};

use crate::action::AttachmentId;
use crate::policy::PageKey;

/// The whole machine, as far as attached programs are concerned.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// Every attached program; one that is missing here was not looked at and is left alone.
    pub programs: Vec<ObservedProgram>,
    /// Free memory of each node that could be read.
    pub free_bytes: Vec<(NodeId, u64)>,
    /// Processors online now. Empty means: as in the topology.
    pub online: CpuSet,
    /// Samples lost or throttled since the last observation that belong to no program.
    pub lost: u64,
}

/// One attached program.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedProgram {
    /// Which.
    pub attachment: AttachmentId,
    /// Its threads that are alive. None left: the program has ended.
    pub tasks: Vec<ObservedTask>,
    /// Where pages are that the engine asked about with `Engine::wanted_pages`.
    pub homes: Vec<(PageKey, Option<NodeId>)>,
    /// Nodes its cgroup and memory policy allow. Empty means: all.
    pub nodes_allowed: NodeSet,
}

/// One thread.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedTask {
    /// Who.
    pub key: TaskKey,
    /// Its name, lossily decoded.
    pub name: String,
    /// The processor it ran on last.
    pub cpu: CpuId,
    /// Processor time it has used since it began; with the time it waited for a processor, where
    /// that is known, or no thread of a crowded machine would be seen to be busy.
    pub cpu_time: Duration,
    /// Its affinity mask now.
    pub affinity: CpuSet,
    /// Processors its cgroup lets it run on. Empty means: not known, all.
    pub cgroup_cpus: CpuSet,
}

/// A program to put under a policy.
#[derive(Debug)]
pub struct AttachSpec {
    /// Processes that make it up; threads are found by observation.
    pub pids: Vec<Pid>,
    /// The policy that decides.
    pub policy: Box<dyn crate::Policy>,
    /// What the engine does around it.
    pub options: crate::engine::AttachOptions,
}

/// A thread and where it runs, for those who show it.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskState {
    /// Who.
    pub key: TaskKey,
    /// Its name.
    pub name: String,
    /// The processor it ran on last.
    pub cpu: CpuId,
    /// Node it is placed on by us, if it is.
    pub placed: Option<NodeId>,
    /// Whether it takes part in mapping.
    pub takes_part: bool,
    /// Share of one processor in the last window.
    pub busy: f64,
    /// Samples in the last window.
    pub samples: u64,
}
