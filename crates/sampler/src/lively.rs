//! Whether something of a program is worth changing, or may be, so that it is looked at sooner.

use numad_core::{Action, EventKind, Veto};

/// What windows found worth changing since this was asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lively {
    /// A thread is moved, or may be when more is seen, or the program does something else.
    threads: bool,
    pages: u64,
    /// Of the last window.
    memory_pages: u64,
    next_ms: u64,
}

/// Pages that are moved in a window, of those that the program is known to use, as a divisor, from
/// which on it is lively. Of the pages of a service a few are always moved for little.
const LIVELY_PAGES: u64 = 100;

impl Lively {
    /// Takes what happened to the program.
    pub fn note(&mut self, event: &EventKind) {
        match event {
            EventKind::Window(summary) => {
                // What is to be seen again sooner has changed.
                self.threads |= summary.next_ms < self.next_ms;
                (self.next_ms, self.memory_pages) = (summary.next_ms, summary.memory_pages);
            }
            EventKind::Ordered(Action::Bind { .. })
            | EventKind::TaskDropped {
                veto: Veto::Unconfirmed | Veto::Evidence,
                ..
            } => self.threads = true,
            EventKind::Ordered(Action::MovePages { pages, .. }) => {
                let count = u64::try_from(pages.len()).unwrap_or(u64::MAX);
                self.pages = self.pages.saturating_add(count);
            }
            EventKind::Ended { .. }
            | EventKind::HandsOff { .. }
            | EventKind::TaskDropped { .. }
            | EventKind::PagesDropped { .. }
            | EventKind::ProgramEnded => {}
        }
    }

    /// Whether something was worth changing since this was asked the last time.
    pub fn take(&mut self) -> bool {
        let (threads, pages) = (self.threads, self.pages);
        (self.threads, self.pages) = (false, 0);
        threads || pages > self.memory_pages / LIVELY_PAGES
    }
}

#[cfg(test)]
mod tests {
    use numad_core::event::WindowSummary;
    use numad_core::{AttachmentId, Reach, Reason, SpaceId};
    use topology::{NodeId, Pid, StartTicks, TaskKey, Tid};

    use super::*;

    /// Whether a window is lively after one of 4 s: of a thousand pages, the next of so
    /// many milliseconds, in which the policy wanted these.
    #[track_caller]
    fn check(next_ms: u64, wanted: &[EventKind], expected: bool) {
        let mut lively = Lively::default();
        let window = |next_ms| {
            EventKind::Window(WindowSummary {
                next_ms,
                memory_pages: 1000,
                ..WindowSummary::default()
            })
        };
        lively.note(&window(4000));
        wanted.iter().for_each(|event| lively.note(event));
        lively.note(&window(next_ms));
        assert_eq!(lively.take(), expected);
        assert!(!lively.take(), "it was asked a moment ago");
    }

    fn pages(count: u64) -> EventKind {
        EventKind::Ordered(Action::MovePages {
            attachment: AttachmentId(1),
            pid: Pid(100),
            space: SpaceId(0),
            pages: (0..count).map(|page| page * 4096).collect(),
            node: NodeId(0),
            reason: Reason::Order,
            evidence: None,
            reach: Reach::Alone,
            object: None,
        })
    }

    fn dropped(veto: Veto) -> EventKind {
        EventKind::TaskDropped {
            task: TaskKey {
                pid: Pid(100),
                tid: Tid(101),
                start: StartTicks(1),
            },
            node: NodeId(1),
            reason: Reason::Order,
            veto,
        }
    }

    #[test]
    fn what_is_worth_changing_or_may_be_makes_a_program_lively() {
        check(8000, &[], false);
        check(8000, &[pages(6), pages(4)], false);
        check(8000, &[pages(6), pages(5)], true);
        check(8000, &[dropped(Veto::Unconfirmed)], true);
        check(8000, &[dropped(Veto::Evidence)], true);
        check(8000, &[dropped(Veto::DoesNotPay)], false);
        // It does something else.
        check(2000, &[], true);
    }
}
