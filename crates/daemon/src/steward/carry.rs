//! Carrying out what the engine orders, round by round.

use numad_core::{Action, Outcome, Refusal};

use super::Steward;

impl Steward {
    /// Does what the engine orders. Pages whose turn has not come when somebody wants something
    /// changed stay where they are: the next window wants them again.
    pub(super) fn carry_out(&mut self) {
        let mut waited_for = false;
        loop {
            let actions = self.engine.poll_actions(self.parts.hand.at_once());
            let Some(id) = actions.first().map(Action::attachment) else {
                return;
            };
            let outcomes = match self.programs.get_mut(&id) {
                Some(_) if waited_for && moves(&actions) => given_up(&actions),
                Some(program) => program.perform_all(&mut *self.parts.hand, &actions),
                None => vec![Outcome::Refused(Refusal::Gone); actions.len()],
            };
            for (action, outcome) in actions.iter().zip(&outcomes) {
                if let (Action::Bind { task, .. }, true) = (action, self.programs.contains_key(&id))
                {
                    self.parts.machine.rebound(id, *task);
                }
                let now = (self.parts.clock)();
                self.engine.handle_outcome(now, action, outcome);
            }
            // A thousand threads, each with a row that goes to the disk first, take longer than
            // the source's buffers hold.
            let now = (self.parts.clock)();
            if self
                .source
                .as_ref()
                .is_some_and(|source| now >= source.next_drain)
            {
                self.drain(now);
            }
            waited_for |= self.answer_looks();
        }
    }
}

/// Whether these actions move pages; all of a kind come together.
fn moves(actions: &[Action]) -> bool {
    matches!(actions.first(), Some(Action::MovePages { .. }))
}

/// What came of moves that were not tried.
fn given_up(actions: &[Action]) -> Vec<Outcome> {
    let nothing = || Outcome::Moved {
        pages: Vec::new(),
        spent_ns: 0,
        took_ns: 0,
    };
    actions.iter().map(|_| nothing()).collect()
}
