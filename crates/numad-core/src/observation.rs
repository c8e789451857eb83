//! What is true at the end of an interval, as looked up in the system. Values only.

use std::ops::Range;
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
    /// What the memory of nodes carries for everyone, as measured; a node that is missing is not
    /// measured.
    pub traffic: Vec<NodeTraffic>,
    /// How far programs got since the observation before; one that is missing is not counted.
    pub progress: Vec<(AttachmentId, Progress)>,
    /// Whether the kernel moves pages between nodes by itself now.
    pub kernel_balances: bool,
}

/// What a node's memory carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeTraffic {
    /// The node.
    pub node: NodeId,
    /// Bytes read per second; all bytes where controllers do not tell reads from writes.
    pub read_bytes_per_s: u64,
    /// Bytes written per second.
    pub written_bytes_per_s: u64,
}

/// How far a program got in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Instructions that its threads finished.
    pub instructions: u64,
    /// Cycles that they took.
    pub cycles: u64,
}

impl Progress {
    /// Adds what came after.
    pub(crate) const fn add(&mut self, later: Self) {
        self.instructions = self.instructions.saturating_add(later.instructions);
        self.cycles = self.cycles.saturating_add(later.cycles);
    }

    /// Instructions per cycle; none below [`CYCLES_MIN`].
    #[must_use]
    pub fn ipc(&self) -> Option<f64> {
        (self.cycles >= CYCLES_MIN).then(|| self.instructions as f64 / self.cycles as f64)
    }
}

/// Half a millisecond of one core: less says more of what happened to run than of where it ran.
pub const CYCLES_MIN: u64 = 1_000_000;

/// One attached program.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedProgram {
    /// Which.
    pub attachment: AttachmentId,
    /// Its threads that are alive. None left: the program has ended.
    pub tasks: Vec<ObservedTask>,
    /// Where pages are that the engine asked about with `Engine::wanted_places`.
    pub homes: Vec<(PageKey, Option<NodeId>)>,
    /// Those of them, in the same order, that the kernel maps as part of a larger page, as far as it
    /// tells.
    pub large: Vec<PageKey>,
    /// Nodes that its cgroup allows. Empty means: all.
    pub nodes_allowed: NodeSet,
    /// What was learned of memory that its processes may share.
    pub sharing: ObservedSharing,
    /// Its memory; 0 while unknown.
    pub resident_bytes: u64,
}

/// Memory that processes may share, as far as it was looked at this time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedSharing {
    /// Shared mappings of the processes whose mappings were read now; the others keep what they had.
    pub maps: Vec<ObservedMaps>,
    /// Every object that the program may write and no process outside of it maps. Of those that are
    /// not here it is not known, or somebody does.
    pub own: Vec<ObjectId>,
    /// Objects through which an MPI library passes messages, and which are for nothing else. Where
    /// messages are counted it is known what is said through them.
    pub carriers: Vec<ObjectId>,
}

/// The shared mappings of one process: all of them, so that others are gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedMaps {
    /// The process.
    pub pid: Pid,
    /// Its ranges.
    pub ranges: Vec<SharedRange>,
    /// Addresses where no page is the process's alone: these ranges, other shared memory, files
    /// that are only read, and holes. Nothing is inferred of pages there that nobody has seen.
    pub foreign: Vec<Range<u64>>,
}

/// A range of addresses that is part of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedRange {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// The object.
    pub object: ObjectId,
    /// Where in the object the first address is, in bytes.
    pub offset: u64,
}

impl SharedRange {
    /// Where in the object an address of the range is.
    #[must_use]
    pub fn offset_of(&self, address: u64) -> Option<u64> {
        let inside = (self.start..self.end).contains(&address);
        inside.then(|| self.offset.checked_add(address - self.start))?
    }

    /// The address of a place in the object, if the range has it.
    #[must_use]
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        let address = self.start.checked_add(offset.checked_sub(self.offset)?)?;
        (address < self.end).then_some(address)
    }
}

/// Memory that several processes can map: a file, or something like one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// What it is. Part of the name: System V segments are numbered by themselves.
    pub kind: ObjectKind,
    /// Its device, major and minor; of a System V segment the namespace that numbers it, and 0.
    pub device: (u32, u32),
    /// Its inode on the device.
    pub inode: u64,
}

/// What a shared object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// Memory and nothing else, without a name or with one in `/dev/shm`; inherited, or passed on.
    Memory,
    /// A segment of System V shared memory.
    SystemV,
    /// A file: it is seen who shares it, but its pages belong to the file and are not moved.
    File,
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
