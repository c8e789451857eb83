//! What happened since the start.

use numad_core::{Action, EventKind, Outcome};

use super::program;

/// What happened since the start, for `/metrics`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(super) attached: u64,
    pub(super) refused_attaches: u64,
    pub(super) windows: u64,
    pub(super) samples: u64,
    pub(super) lost: u64,
    pub(super) proposals_dropped: u64,
    pub(super) hands_off: u64,
    pub(super) thread_moves: u64,
    pub(super) pages_moved: u64,
    pub(super) refusals: u64,
    pub(super) moving_ns: u64,
    pub(super) reloads: u64,
    pub(super) reloads_refused: u64,
    /// Samples in recordings that have ended.
    pub(super) recorded: u64,
}

impl Counters {
    pub(super) fn take(&mut self, kind: &EventKind) {
        match kind {
            EventKind::Window(_) => self.windows += 1,
            EventKind::TaskDropped { .. } => self.proposals_dropped += 1,
            EventKind::PagesDropped { count, .. } => self.proposals_dropped += count,
            EventKind::HandsOff { .. } => self.hands_off += 1,
            EventKind::Ended { action, outcome } => self.take_outcome(action, outcome),
            EventKind::Ordered(_) | EventKind::ProgramEnded => {}
        }
    }

    fn take_outcome(&mut self, action: &Action, outcome: &Outcome) {
        let (moves, tally, spent_ns) = program::tally(action, outcome);
        self.thread_moves += moves;
        self.pages_moved += tally.moved;
        self.refusals += tally.refused.values().sum::<u64>();
        self.moving_ns += spent_ns;
    }
}
