//! What a source of samples delivers.

use topology::{CpuId, Pid, Tid};

use crate::time::Time;

/// One access to memory that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When.
    pub time: Time,
    /// By which process.
    pub pid: Pid,
    /// By which thread.
    pub tid: Tid,
    /// Where in the process's address space.
    pub address: u64,
    /// Where in the machine's memory, or 0 where the source does not tell.
    pub physical: u64,
    /// On which processor.
    pub cpu: CpuId,
    /// Load or store, where the source tells.
    pub kind: AccessKind,
    /// What answered, where the source tells.
    pub served: ServedBy,
    /// Latency in cycles, or 0 where the source does not tell.
    pub weight: u32,
    /// How many accesses this one stands for; at least 1.
    pub period: u64,
}

/// What kind of access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessKind {
    /// The source does not tell.
    #[default]
    Unknown,
    /// A read.
    Load,
    /// A write.
    Store,
}

/// What answered an access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServedBy {
    /// The source does not tell.
    #[default]
    Unknown,
    /// The core's first cache or its fill buffer.
    L1,
    /// The core's second cache.
    L2,
    /// The last cache of the own package.
    L3,
    /// Another core's cache.
    OtherCache,
    /// Memory of the own node.
    LocalMemory,
    /// Memory of another node.
    RemoteMemory,
}

/// Threads coming and going, in the same stream as samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lifecycle {
    /// A thread or process was made.
    Fork {
        /// When.
        time: Time,
        /// The process of the new thread; new itself if a process was made.
        pid: Pid,
        /// The new thread.
        tid: Tid,
        /// The process that made it.
        parent: Pid,
    },
    /// A thread ended.
    Exit {
        /// When.
        time: Time,
        /// Its process.
        pid: Pid,
        /// The thread.
        tid: Tid,
    },
    /// A thread took a name, as it does when it starts another program.
    Renamed {
        /// When.
        time: Time,
        /// Its process.
        pid: Pid,
        /// The thread.
        tid: Tid,
        /// The new name, lossily decoded.
        name: String,
        /// Whether another program was started (`exec`), so that all addresses are void.
        exec: bool,
    },
}

/// One thing in a source's stream, in the order it happened on its processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// An access.
    Sample(Sample),
    /// A thread came, went or changed.
    Lifecycle(Lifecycle),
    /// The source lost this many samples here.
    Lost(u64),
    /// Processes sent each other messages.
    Sent(Sent),
}

/// What one process has sent to another by explicit messages since the last time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Who sent.
    pub from: Pid,
    /// To whom.
    pub to: Pid,
    /// How much, in bytes.
    pub bytes: u64,
    /// In how many messages.
    pub messages: u64,
}
