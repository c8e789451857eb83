//! What must be known of processes, asked when it is needed.

use std::fmt;

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

    /// Now: a thread made after this call has at least this start.
    fn now(&self) -> StartTicks;
}
