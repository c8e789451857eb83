//! What must be known of processes, asked when it is needed.

use std::fmt;

use numad_core::SharedRange;
use topology::{CpuSet, Pid, StartTicks, TaskKey, Tid};

/// Looks at processes; the daemon answers from `procfs`.
///
/// A thing that is gone is none or an empty list. So is a thing that cannot be read: what cannot be
/// looked at is not touched.
pub trait Census: fmt::Debug {
    /// When a process began. A process lives while one of its threads does.
    fn process(&self, pid: Pid) -> Option<StartTicks>;

    /// When a thread of a process began.
    fn thread(&self, pid: Pid, tid: Tid) -> Option<StartTicks>;

    /// All threads of a process.
    fn threads(&self, pid: Pid) -> Vec<TaskKey>;

    /// Processors online that the thread's cpuset allows; all online where it has none.
    fn allowed(&self, pid: Pid, tid: Tid) -> Option<CpuSet>;

    /// The process that made this one or took it over.
    fn parent(&self, pid: Pid) -> Option<Pid>;

    /// Every process of the machine with its parent.
    fn processes(&self) -> Vec<(Pid, Pid)>;

    /// What a process maps of memory that can be shared.
    fn shared(&self, pid: Pid) -> Vec<SharedRange>;

    /// Now, asked in this order: the clock of starts, then the newest number.
    fn now(&self) -> Moment;
}

/// A moment, to tell threads that were there from those made later.
///
/// Starts are told in steps of 10 ms, in which a program makes hundreds of threads; within one step
/// the kernel's numbers, which ascend, tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// On the clock of starts.
    pub ticks: StartTicks,
    /// The number that was given to a thread last (the last field of `/proc/loadavg`).
    pub newest: Tid,
}

impl Moment {
    /// Whether a thread was made later.
    #[must_use]
    pub fn is_before(self, key: TaskKey) -> bool {
        self < Self {
            ticks: key.start,
            newest: key.tid,
        }
    }
}
