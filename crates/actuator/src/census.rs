//! What must be known of processes, asked when it is needed.

use std::fmt;
use std::ops::Range;

use numad_core::{Refusal, SharedRange};
use topology::{CpuSet, Pid, StartTicks, Tid};

/// An answer about something that may have ended, and that we may be unable to look at.
///
/// The three are never taken for each other: what is gone needs no undo, and what cannot be looked at
/// keeps its rows in the journal until it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen<T> {
    /// It is there.
    Here(T),
    /// It has ended, or never was.
    Gone,
    /// It cannot be looked at, by error number: too many open files, no permission.
    Hidden(i32),
}

impl<T> Seen<T> {
    /// The value, or why there is none.
    ///
    /// # Errors
    /// [`Refusal::Gone`] or [`Refusal::Hidden`].
    pub fn known(self) -> Result<T, Refusal> {
        match self {
            Self::Here(value) => Ok(value),
            Self::Gone => Err(Refusal::Gone),
            Self::Hidden(errno) => Err(Refusal::Hidden(errno)),
        }
    }
}

/// Looks at processes; the daemon answers from `procfs`.
pub trait Census: fmt::Debug {
    /// When a process began. A process lives while one of its threads does.
    fn process(&self, pid: Pid) -> Seen<StartTicks>;

    /// When a thread of a process began.
    fn thread(&self, pid: Pid, tid: Tid) -> Seen<StartTicks>;

    /// The threads of a process, ascending; some may have ended.
    fn threads(&self, pid: Pid) -> Seen<Vec<Tid>>;

    /// Processors online that the thread's cpuset allows; all online where it has none.
    fn allowed(&self, pid: Pid, tid: Tid) -> Seen<CpuSet>;

    /// The affinity of a thread, with processors that are offline, which
    /// [`crate::Kernel::affinity`] leaves out.
    fn whole_affinity(&self, pid: Pid, tid: Tid) -> Seen<CpuSet>;

    /// The process that made this one or took it over.
    fn parent(&self, pid: Pid) -> Seen<Pid>;

    /// Every process of the machine with its parent. Hidden when one of them is.
    fn processes(&self) -> Seen<Vec<(Pid, Pid)>>;

    /// What a process maps of memory that can be shared.
    fn shared(&self, pid: Pid) -> Seen<Vec<SharedRange>>;

    /// Addresses of a process's memory, ascending, of which someone said where it is to be:
    /// `mbind`, `set_mempolicy`, `numactl`. It is not moved.
    fn chosen(&self, pid: Pid) -> Seen<Vec<Range<u64>>>;

    /// Now, on the clock of starts.
    fn now(&self) -> Seen<StartTicks>;
}
