//! What was done and why, in sentences.

use std::time::Duration;

use numad_core::{Action, Event, EventKind, Outcome, PageOutcome};

/// Lines for people, in the order in which things happened; bounded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Story {
    lines: Vec<String>,
    more: u64,
}

/// Lines that are kept; a run at defaults has fewer.
const LINES_MAX: usize = 400;

impl Story {
    /// The lines.
    #[must_use]
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// How many more there would be.
    #[must_use]
    pub const fn more(&self) -> u64 {
        self.more
    }

    /// Adds what an event has to say, if it has.
    pub(crate) fn add(&mut self, elapsed: Duration, program: u32, event: &Event) {
        let Some(text) = sentence(&event.kind) else {
            return;
        };
        if self.lines.len() == LINES_MAX {
            self.more += 1;
            return;
        }
        let seconds = elapsed.as_millis() as f64 / 1000.0;
        self.lines
            .push(format!("{seconds:7.2} s  program {program}: {text}"));
    }
}

fn sentence(kind: &EventKind) -> Option<String> {
    match kind {
        EventKind::Window(_) | EventKind::Ordered(_) => None,
        EventKind::TaskDropped {
            task, node, veto, ..
        } => Some(format!("thread {} not to node {node}: {veto}", task.tid)),
        EventKind::PagesDropped { count, veto, .. } => {
            Some(format!("{count} {} not moved: {veto}", noun(*count == 1)))
        }
        EventKind::Ended { action, outcome } => Some(ended(action, outcome)),
        EventKind::ProgramEnded => Some("has ended".to_owned()),
        EventKind::HandsOff { task } => Some(format!(
            "thread {} is left alone: someone else changed its affinity",
            task.tid
        )),
    }
}

fn ended(action: &Action, outcome: &Outcome) -> String {
    match (action, outcome) {
        (
            Action::Bind {
                task, node, reason, ..
            },
            Outcome::Refused(refusal),
        ) => {
            format!(
                "thread {} not to node {node} ({reason}): {refusal}",
                task.tid
            )
        }
        (
            Action::Bind {
                task, node, reason, ..
            },
            _,
        ) => {
            format!("thread {} to node {node}: {reason}", task.tid)
        }
        (
            Action::MovePages { node, reason, .. },
            Outcome::Moved {
                pages, spent_ns, ..
            },
        ) => {
            let moved = |page: &&PageOutcome| matches!(page, PageOutcome::On(_));
            let moved = pages.iter().filter(moved).count();
            let refused = |page: &&PageOutcome| matches!(page, PageOutcome::Refused(_));
            let refused = pages.iter().filter(refused).count();
            let spent = spent_ns / 1000;
            let refused = match refused {
                0 => String::new(),
                some => format!(", {some} refused"),
            };
            format!(
                "{moved} {} to node {node} in {spent} us{refused}: {reason}",
                noun(moved == 1)
            )
        }
        (Action::MovePages { node, pages, .. }, other) => {
            format!("{} pages not to node {node}: {other:?}", pages.len())
        }
    }
}

/// The noun after a number.
const fn noun(one: bool) -> &'static str {
    if one { "page" } else { "pages" }
}
