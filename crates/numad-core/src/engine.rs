//! The engine: folds samples, judges windows, asks policies, guards, orders.
//!
//! Order of calls: `handle_attach`, then any number of `handle_record`; when `deadline` has come,
//! `wanted_pages` tells what to look up, `handle_observation` closes the window, then
//! `poll_action` until it gives none, with one `handle_outcome` after each action; `poll_event` any time.

use std::sync::Arc;
use std::time::Duration;

use topology::{NodeId, Pid, TaskKey, Topology};

use crate::action::{Action, AttachmentId, Outcome};
use crate::event::Event;
use crate::matrix::CommMatrix;
use crate::observation::{AttachSpec, Observation, TaskState};
use crate::policy::{Page, PageKey};
use crate::sample::Record;
use crate::time::Time;

/// Limits of the engine as a whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EngineOptions {
    /// Slots of each program's page table; a power of two.
    pub page_slots: usize,
    /// Bytes in a page.
    pub page_bytes: u64,
    /// Most tasks of one program that take part; the busiest do.
    pub tasks_max: usize,
    /// Events kept until they are polled; older ones are dropped and counted.
    pub events_max: usize,
}

/// What the engine does around one program's policy.
#[derive(Clone, Debug, PartialEq)]
pub struct AttachOptions {
    /// How windows get longer and shorter.
    pub interval: IntervalLaw,
    /// Share of one processor below which a thread takes no part, 0 to 1.
    pub busy_min: f64,
    /// Samples in the window below which nothing is done.
    pub samples_min: u64,
    /// Page moves per window.
    pub page_moves_max: usize,
    /// Thread moves per window.
    pub task_moves_max: usize,
    /// How long a moved task or page stays before it may move again; doubles with each return.
    pub hold: Duration,
    /// Share of a node's memory that stays free.
    pub headroom: f64,
    /// Bind to one core instead of a whole node.
    pub bind_core: bool,
    /// Move threads.
    pub move_threads: bool,
    /// Move pages.
    pub move_pages: bool,
}

/// How the length of windows follows what happens (ALGORITHMS section 2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum IntervalLaw {
    /// LAPT: adds 50 ms when nothing changed, halves when something did.
    Lapt {
        /// First window.
        start: Duration,
        /// Shortest.
        min: Duration,
        /// Longest.
        max: Duration,
    },
    /// `OnDeLoc`: multiplies by `factor` when nothing changed, divides by it when something did.
    OnDeLoc {
        /// Shortest, and the first.
        min: Duration,
        /// Longest.
        max: Duration,
        /// Above 1.
        factor: f64,
    },
}

/// Why a program cannot be put under a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttachError {
    /// A process already belongs to an attachment.
    AlreadyAttached {
        /// The process.
        pid: Pid,
        /// To which.
        to: AttachmentId,
    },
    /// No process was named.
    NoProcess,
}

/// All attached programs of one machine.
#[derive(Debug)]
pub struct Engine {
    topology: Arc<Topology>,
    options: EngineOptions,
}

impl Engine {
    /// An engine with nothing attached.
    #[must_use]
    pub fn new(topology: Arc<Topology>, options: EngineOptions) -> Self {
        Self { topology, options }
    }

    /// Puts a program under a policy.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn handle_attach(
        &mut self,
        _now: Time,
        _spec: AttachSpec,
    ) -> Result<AttachmentId, AttachError> {
        let _ = (&self.topology, self.options);
        Err(AttachError::NoProcess)
    }

    /// Forgets a program; true if there was one. What it changed is undone by whoever keeps the journal.
    pub fn handle_detach(&mut self, _now: Time, _attachment: AttachmentId) -> bool {
        false
    }

    /// Takes one record of a source. Records of programs that are not attached are ignored.
    pub fn handle_record(&mut self, _record: &Record) {}

    /// When the next window ends; none when nothing is attached.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        None
    }

    /// Programs whose window has ended by now, by ascending number.
    #[must_use]
    pub fn due(&self, _now: Time) -> Vec<AttachmentId> {
        Vec::new()
    }

    /// Pages of a program whose place the next decision wants to know, at most `max`, hottest first.
    #[must_use]
    pub fn wanted_pages(&self, _attachment: AttachmentId, _max: usize) -> Vec<PageKey> {
        Vec::new()
    }

    /// Which process's address space a page key names; none once the program is gone.
    #[must_use]
    pub fn process_of(&self, _page: PageKey) -> Option<Pid> {
        None
    }

    /// Closes the window of every program in the observation that is due, and decides.
    pub fn handle_observation(&mut self, _now: Time, _observation: &Observation) {}

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<Action> {
        None
    }

    /// What came of an action that was polled.
    pub fn handle_outcome(&mut self, _now: Time, _action: &Action, _outcome: &Outcome) {}

    /// The next thing to tell people.
    pub fn poll_event(&mut self) -> Option<Event> {
        None
    }

    /// Threads of a program, for those who show them; empty when there is no such program.
    #[must_use]
    pub fn tasks(&self, _attachment: AttachmentId) -> Vec<TaskState> {
        Vec::new()
    }

    /// The tasks that take part and what they say to each other: in the last window, and decayed.
    #[must_use]
    pub fn matrices(
        &self,
        _attachment: AttachmentId,
    ) -> Option<(Vec<TaskKey>, CommMatrix, CommMatrix)> {
        None
    }

    /// Tracked pages of a program with their homes, hottest first, at most `max`.
    #[must_use]
    pub fn pages(&self, _attachment: AttachmentId, _max: usize) -> Vec<(Page, Option<NodeId>)> {
        Vec::new()
    }
}
