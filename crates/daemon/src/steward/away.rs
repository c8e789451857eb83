//! What goes on while the hand undoes: those who only look are answered, and a stand-in tells what the hand told last,
//! and changes nothing.

use std::time::Duration;

use actuator::{Breathe, ProcessKey};
use control::rows::{Finding, UndoReport};
use numad_core::{Action, AttachmentId, Host, Outcome, Refusal, Time};

use super::seams::{Hand, Scope};
use super::{Steward, undo_text};

/// How long others have the engine's thread, at the least, before an undo goes on that had to give
/// up.
const UNDO_AGAIN: Duration = Duration::from_secs(5);

/// Something that is done again and again in the midst of long work. Says whether somebody waits for its end.
pub type Between = Box<dyn FnMut(&mut Steward) -> bool + Send>;

impl Steward {
    /// What is to be done again and again in the midst of long work.
    pub fn answer_between(&mut self, between: Between) {
        self.between = Some(between);
    }

    /// Answers those who only look, in the midst of long work. Whether others wait for its end.
    pub(super) fn answer_looks(&mut self) -> bool {
        let Some(mut between) = self.between.take() else {
            return false;
        };
        let waited_for = between(self);
        self.between = Some(between);
        waited_for
    }

    /// Puts back what was changed, and answers those who only look meanwhile.
    pub(super) fn put_back(&mut self, scope: &Scope) -> UndoReport {
        self.with_hand(|hand, breathe| hand.undo(scope, breathe))
    }

    /// Goes on with what an undo had to give up for now, if it is time for that.
    pub(super) fn put_back_more(&mut self, now: Time) {
        if !self.parts.hand.is_unfinished() {
            self.undo_again = None;
            return;
        }
        if now < *self.undo_again.get_or_insert(now.after(UNDO_AGAIN)) {
            return;
        }
        let began = self.now();
        if let Some(report) = self.with_hand(|hand, breathe| hand.undo_more(breathe)) {
            let text = undo_text(&report);
            self.parts
                .log
                .info(format_args!("went on with an undo: {text}"));
        }
        let now = self.now();
        let unfinished = self.parts.hand.is_unfinished();
        self.undo_again = unfinished.then(|| now.after(self.rest_after(now.since(began))));
    }

    /// How long others have the engine's thread after an undo that took so long: whoever makes
    /// processes without end gets no more of it by that than by asking.
    fn rest_after(&self, took: Duration) -> Duration {
        let share = self.parts.config.limits.user_share_percent;
        let whole = took.saturating_mul(100) / share.max(1);
        UNDO_AGAIN.max(whole.saturating_sub(took))
    }

    /// Lets the hand do something that takes long, and answers those who only look meanwhile.
    fn with_hand<T>(&mut self, work: impl FnOnce(&mut dyn Hand, Breathe<'_>) -> T) -> T {
        let Some(mut between) = self.between.take() else {
            return work(&mut *self.parts.hand, &mut || {});
        };
        let away = Box::new(Away::of(&*self.parts.hand));
        let mut hand = std::mem::replace(&mut self.parts.hand, away);
        let done = work(&mut *hand, &mut || {
            between(self);
        });
        self.parts.hand = hand;
        self.between = Some(between);
        done
    }
}

/// The stand-in.
#[derive(Debug)]
struct Away {
    open_rows: u64,
    findings: Vec<Finding>,
}

impl Away {
    fn of(hand: &dyn Hand) -> Self {
        Self {
            open_rows: hand.open_rows(),
            findings: hand.findings(),
        }
    }
}

impl Host for Away {
    fn perform(&mut self, _action: &Action) -> Outcome {
        Outcome::Refused(Refusal::Busy)
    }
}

impl Hand for Away {
    fn undo(&mut self, _scope: &Scope, _breathe: Breathe<'_>) -> UndoReport {
        UndoReport::default()
    }

    fn follow(&mut self, _attachment: AttachmentId, _processes: &[ProcessKey]) {}

    fn tidy(&mut self) {}

    fn open_rows(&self) -> u64 {
        self.open_rows
    }

    fn take_pause_max_ns(&mut self) -> u64 {
        0
    }

    fn findings(&self) -> Vec<Finding> {
        self.findings.clone()
    }
}
