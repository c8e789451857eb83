//! What the engine did and did not do, as typed events. Logs, `status`, `explain` and test
//! snapshots are renderings of these.

use topology::{NodeId, TaskKey};

use crate::action::{Action, AttachmentId, Outcome};
use crate::evidence::Evidence;
use crate::policy::{PageKey, Reason, Veto};
use crate::time::Time;

/// Something that happened in the engine.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When.
    pub time: Time,
    /// For which program.
    pub attachment: AttachmentId,
    /// What.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum EventKind {
    /// A window was judged.
    Window(WindowSummary),
    /// A thread proposal was dropped. At most 64 are told for one reason in one window, and none for
    /// a thread that is where it was wanted, or left to the kernel there; `Totals::vetoes` counts them all.
    TaskDropped {
        /// Which task.
        task: TaskKey,
        /// Where it was to go.
        node: NodeId,
        /// Why the policy wanted it.
        reason: Reason,
        /// Why it was dropped.
        veto: Veto,
    },
    /// Page proposals were dropped; counted, with one of them as an example.
    PagesDropped {
        /// How many.
        count: u64,
        /// One of them.
        example: PageKey,
        /// Why they were dropped.
        veto: Veto,
    },
    /// An action was ordered.
    Ordered(Action),
    /// An action ended.
    Ended {
        /// What was ordered.
        action: Action,
        /// What came of it.
        outcome: Outcome,
    },
    /// The program's last thread is gone.
    ProgramEnded,
    /// Someone else changed the affinity of a task that we had set; it is left alone from now on.
    HandsOff {
        /// Which task.
        task: TaskKey,
    },
}

/// One window, judged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WindowSummary {
    /// How long it was, in milliseconds.
    pub window_ms: u64,
    /// How long the next will be, in milliseconds.
    pub next_ms: u64,
    /// Samples of this program.
    pub samples: u64,
    /// Samples lost meanwhile, on the whole machine.
    pub lost: u64,
    /// Share of samples lost since the tables were last judged, in per mille; what other programs lost
    /// counts too, for nobody knows whose it was.
    pub lost_permille: u32,
    /// Samples that the judgement rests on: of this window, and of those before that were joined to it.
    pub samples_judged: u64,
    /// Share of the processor time of tasks that take part that is of tasks which were sampled, in per mille.
    pub coverage_permille: u32,
    /// Whether there was enough to go by: samples enough, and not too many lost.
    pub confident: bool,
    /// How sure the thread moves that were wanted and would have paid are, taken together.
    pub plan: Option<Evidence>,
    /// Tasks that took part.
    pub tasks: u32,
    /// Pages tracked.
    pub pages: u32,
    /// Pages of the memory that is known to be in use: those that were sampled, and what lies between.
    pub memory_pages: u64,
    /// Share of the program's memory that no window has shown in use, in per mille; none where samples
    /// are not of writes alone.
    pub unseen_permille: Option<u32>,
    /// Pages dropped from the table because their set was full.
    pub pages_dropped: u64,
    /// Samples that are in no table: of threads that take no part, have ended or are too many, or with an
    /// address that no process has.
    pub aside: u64,
    /// Pages that were looked up and are not there: what was sampled there is no memory, or no more.
    pub nowhere: u64,
    /// What found no room.
    pub no_room: NoRoom,
    /// Proposals of the policy.
    pub proposals: u32,
    /// Actions ordered.
    pub actions: u32,
    /// Pages that may go and wait for their turn: more than this window could move.
    pub pages_left: u64,
    /// Mean distance of communication, weighted by amount, in hundredths (1000 is all local); none
    /// without communication.
    pub distance_centi: Option<u32>,
    /// Share of tracked accesses that are local to their page's node, in per mille; none while unknown.
    pub local_permille: Option<u32>,
    /// Instructions per cycle of the program, in thousandths; none where they are not counted.
    pub ipc_milli: Option<u32>,
}

/// What found no room in the tables of a program, beside pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoRoom {
    /// Processes that did not join since the window before.
    pub processes: u64,
    /// Shared mappings, and others that may not be the program's alone, which are there now. Their pages are
    /// taken for the process's own.
    pub mappings: u64,
    /// Objects that are mapped now and are not known as what processes share.
    pub objects: u64,
    /// Times in this window that two threads talked through a cache or by messages and could not be noted.
    pub talk: u64,
    /// Runs of pages in this window of which it was forgotten that they moved.
    pub moves: u64,
}
