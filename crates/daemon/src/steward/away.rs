//! What goes on while the hand undoes: those who only look are answered, and a stand-in tells what the hand told last,
//! and changes nothing.

use actuator::{Breathe, ProcessKey};
use control::rows::{Finding, UndoReport};
use numad_core::{Action, AttachmentId, Host, Outcome, Refusal};

use super::Steward;
use super::seams::{Hand, Scope};

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
        let Some(mut between) = self.between.take() else {
            return self.parts.hand.undo(scope, &mut || {});
        };
        let away = Box::new(Away::of(&*self.parts.hand));
        let mut hand = std::mem::replace(&mut self.parts.hand, away);
        let report = hand.undo(scope, &mut || {
            between(self);
        });
        self.parts.hand = hand;
        self.between = Some(between);
        report
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
