//! Names of things the kernel numbers. They never travel as integers.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The number, for indexing and for system calls.
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl From<u32> for $name {
            fn from(number: u32) -> Self {
                Self(number)
            }
        }

        impl From<$name> for u32 {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// A logical processor, as numbered by the kernel. Numbers may have gaps.
    CpuId
}
id! {
    /// A memory domain, as numbered by the kernel. Numbers may have gaps, and there may be no node 0.
    NodeId
}
id! {
    /// A physical core: the processors that share one set of execution units.
    /// Numbered by us, densely, in the order of the lowest processor of each.
    CoreId
}
id! {
    /// A processor package (socket), numbered by us, densely, in the order of its lowest processor.
    PackageId
}
id! {
    /// A process (thread group).
    Pid
}
id! {
    /// A thread.
    Tid
}

/// When a thread or process began, in clock ticks since boot (field 22 of its `stat` file).
///
/// A number is used again after its owner is gone; number and start together are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StartTicks(pub u64);

/// One thread for as long as the machine runs, whatever becomes of its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskKey {
    /// The process it belongs to.
    pub pid: Pid,
    /// The thread itself; equal to `pid` for the first thread.
    pub tid: Tid,
    /// When the thread began.
    pub start: StartTicks,
}

impl fmt::Display for TaskKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.pid, self.tid)
    }
}
