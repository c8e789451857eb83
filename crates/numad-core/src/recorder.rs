//! A host that changes nothing.

use crate::action::{Action, Host, Outcome, PageOutcome};

/// Notes actions and answers as if they were done: the host of a dry run.
///
/// Keeps the latest [`RECORDED_MAX`] actions and counts the rest.
#[derive(Debug, Default)]
pub struct Recorder {
    actions: Vec<Action>,
    forgotten: u64,
}

/// Actions that a [`Recorder`] keeps.
pub const RECORDED_MAX: usize = 4096;

impl Recorder {
    /// What would have been done, oldest first.
    #[must_use]
    pub fn actions(&self) -> &[Action] {
        &self.actions
    }

    /// Takes what was noted so far out.
    pub fn take(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// Actions that are not kept because there were too many.
    #[must_use]
    pub const fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

impl Host for Recorder {
    fn perform(&mut self, action: &Action) -> Outcome {
        if self.actions.len() >= RECORDED_MAX {
            // In halves, so that forgetting costs little per action.
            self.actions.drain(..RECORDED_MAX / 2);
            self.forgotten += RECORDED_MAX as u64 / 2;
        }
        self.actions.push(action.clone());
        match action {
            Action::Bind { .. } => Outcome::Bound,
            Action::MovePages { pages, node, .. } => Outcome::Moved {
                pages: vec![PageOutcome::On(*node); pages.len()],
                spent_ns: 0,
                took_ns: 0,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use topology::{NodeId, Pid};

    use super::*;
    use crate::action::{AttachmentId, Reach};
    use crate::policy::{Reason, SpaceId};

    #[test]
    fn everything_is_noted_and_answered_as_done() {
        let mut recorder = Recorder::default();
        let action = Action::MovePages {
            attachment: AttachmentId(1),
            pid: Pid(2),
            space: SpaceId(3),
            pages: vec![0x1000, 0x2000],
            node: NodeId(5),
            reason: Reason::Order,
            evidence: None,
            reach: Reach::Alone,
            object: None,
        };
        let on = PageOutcome::On(NodeId(5));
        let outcome = recorder.perform(&action);
        assert_eq!(
            outcome,
            Outcome::Moved {
                pages: vec![on, on],
                spent_ns: 0,
                took_ns: 0
            }
        );
        assert_eq!(recorder.actions(), std::slice::from_ref(&action));
        for _ in 0..RECORDED_MAX {
            recorder.perform(&action);
        }
        assert_eq!(recorder.forgotten(), RECORDED_MAX as u64 / 2);
        assert_eq!(
            recorder.take().len() as u64 + recorder.forgotten(),
            RECORDED_MAX as u64 + 1
        );
    }
}
