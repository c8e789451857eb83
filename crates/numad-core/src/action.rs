//! What the engine orders, and what came of it.

use std::fmt;

use topology::{CpuSet, NodeId, Pid, TaskKey};

use crate::evidence::Evidence;
use crate::observation::ObjectId;
use crate::policy::{Reason, SpaceId};

/// An attached program, numbered by the engine; never used again while the daemon runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttachmentId(pub u32);

impl fmt::Display for AttachmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A change to the machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Let a task run on these processors and no others.
    Bind {
        /// For which program.
        attachment: AttachmentId,
        /// Which task.
        task: TaskKey,
        /// The node they belong to.
        node: NodeId,
        /// The processors; never empty.
        cpus: CpuSet,
        /// Why.
        reason: Reason,
        /// How sure it is that what it says gets nearer; none where it stays or nothing speaks.
        evidence: Option<Evidence>,
    },
    /// Move pages of one address space to a node.
    MovePages {
        /// For which program.
        attachment: AttachmentId,
        /// Whose address space.
        pid: Pid,
        /// The same, as the engine numbers it.
        space: SpaceId,
        /// First addresses of the pages, ascending, at most `MOVE_BATCH_MAX`.
        pages: Vec<u64>,
        /// Where to.
        node: NodeId,
        /// Why the first of them; they share one kind of reason.
        reason: Reason,
        /// How sure it is that their uses get nearer, all of them together.
        evidence: Option<Evidence>,
        /// Which of them may be taken.
        reach: Reach,
        /// What they are part of where that is memory that can be shared: another process may have them when this
        /// one has ended.
        object: Option<ObjectId>,
    },
}

/// Which pages a move may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// Those that no other process maps.
    #[default]
    Alone,
    /// Those too that several processes map: all of them belong to the program.
    Program,
}

/// Most pages in one [`Action::MovePages`]; the host splits it further by measured time.
pub const MOVE_BATCH_MAX: usize = 2048;

/// What came of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The task is bound.
    Bound,
    /// Each page's fate, in the order of the action's pages, with the time it took.
    Moved {
        /// One for each page that was tried; shorter than the action if the host gave up.
        pages: Vec<PageOutcome>,
        /// Processor time in system calls, in nanoseconds: what it costs the machine.
        spent_ns: u64,
        /// Its part of the time that passed, in nanoseconds: more where calls waited, less where
        /// calls of other actions went on beside its own.
        took_ns: u64,
    },
    /// Nothing was changed.
    Refused(Refusal),
}

/// What came of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageOutcome {
    /// It was moved, and is on this node now.
    On(NodeId),
    /// It was on this node already, and nothing was done.
    Stood(NodeId),
    /// It stayed where it was not wanted.
    Refused(Refusal),
}

/// Why the kernel, or our own care, refused a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// The task, process or page is not there any more. Routine.
    Gone,
    /// We lack the right to do it.
    NotPermitted,
    /// The target's cpuset or memory policy does not allow that place.
    NotAllowed,
    /// That node has no memory, or is offline.
    NoSuchNode,
    /// The node has no free memory.
    NoMemory,
    /// The page is pinned, locked, or being moved.
    Busy,
    /// The page is mapped by several processes.
    Shared,
    /// Someone else changed it since we looked.
    ChangedByOther,
    /// The journal could not be written, so nothing was changed.
    Journal,
    /// The journal has no room to say where these pages were: they were too scattered.
    JournalFull,
    /// This kernel lacks the call or the feature.
    Unsupported,
    /// It cannot be looked at, by error number; nothing was changed.
    Hidden(i32),
    /// The kernel does not get to the process's memory: its program keeps the memory map locked.
    Unanswered,
    /// Anything else, by error number.
    Other(i32),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("gone"),
            Self::NotPermitted => f.write_str("not permitted"),
            Self::NotAllowed => f.write_str("not allowed by the target's cpuset or memory policy"),
            Self::NoSuchNode => f.write_str("the node has no memory or is offline"),
            Self::NoMemory => f.write_str("the node has no free memory"),
            Self::Busy => f.write_str("the page is busy or pinned"),
            Self::Shared => f.write_str("the page is mapped by several processes"),
            Self::ChangedByOther => f.write_str("changed by someone else"),
            Self::Journal => f.write_str("the journal could not be written"),
            Self::JournalFull => f.write_str("no room in the journal for pages so scattered"),
            Self::Unsupported => f.write_str("not supported by this kernel"),
            Self::Hidden(errno) => write!(f, "cannot be looked at (error {errno})"),
            Self::Unanswered => f.write_str("the program keeps its memory map locked"),
            Self::Other(errno) => write!(f, "error {errno}"),
        }
    }
}

/// Carries out actions: the live machine, a recorder that only notes them, or a simulated world.
pub trait Host {
    /// Carries out one action, or says why not.
    fn perform(&mut self, action: &Action) -> Outcome;

    /// Carries out actions that do not wait for each other, as many side by side as the host sees fit. Gives what came
    /// of each, in their order.
    fn perform_all(&mut self, actions: &[Action]) -> Vec<Outcome> {
        let each = actions.iter().map(|action| self.perform(action));
        each.collect()
    }
}
