//! A host that changes nothing.

use crate::action::{Action, Host, Outcome, PageOutcome};

/// Answers as if actions were done: the host of a dry run. Events tell what they were.
#[derive(Clone, Copy, Debug)]
pub struct Recorder;

impl Host for Recorder {
    fn perform(&mut self, action: &Action) -> Outcome {
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
    fn everything_is_answered_as_done() {
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
        let outcome = Recorder.perform(&action);
        assert_eq!(
            outcome,
            Outcome::Moved {
                pages: vec![on, on],
                spent_ns: 0,
                took_ns: 0
            }
        );
    }
}
