//! Memory that no sample shows in use.
//!
//! Page faults that we provoke are of writes. What threads only read is in no sample, and stays where
//! it is when they leave it for the sake of what they write. So what was never shown is taken to be
//! used as much as the rest, by all threads alike, from where each of them was while it came to be.

use super::Seen;
use crate::policy::{Page, Program};

/// See the module; in pages.
#[derive(Debug, Default)]
pub(super) struct Unseen {
    pub resident: u64,
    /// The same when the last window ended: what came since, nobody can have seen.
    pub before: Option<u64>,
    /// Most that were known to be in use when a window ended.
    shown: u64,
    /// As many as there were when it was noted where threads were.
    noted: u64,
}

impl Unseen {
    /// Pages that no window has shown.
    fn pages(&self) -> u64 {
        let old = self.before.unwrap_or(self.resident).min(self.resident);
        old.saturating_sub(self.shown)
    }

    /// Whether there is twice as much memory as when it was noted where threads were: then it is to be
    /// noted anew.
    pub(super) const fn grew(&mut self) -> bool {
        let grew = self.resident >= self.noted.saturating_mul(2);
        if grew {
            self.noted = self.resident;
        }
        grew
    }
}

impl Seen {
    /// Takes how much memory the program has.
    pub(super) fn note_resident(&mut self, bytes: u64) {
        self.unseen.resident = bytes >> self.page_shift;
        self.note_shown(0);
    }

    /// Takes how many pages are known to be in use in the window that ends. Never are more shown
    /// than there are: of what a program gave back, or had before it began another, none is left.
    pub(super) fn note_shown(&mut self, pages: u64) {
        let shown = self.unseen.shown.max(pages);
        self.unseen.shown = match self.unseen.resident {
            0 => shown,
            resident => shown.min(resident),
        };
    }

    /// Share of its pages that no window has shown; none while it is not known how many there are.
    pub(in crate::engine) fn unseen_share(&self) -> Option<f64> {
        let resident = self.unseen.resident;
        (resident > 0).then(|| self.unseen.pages() as f64 / resident as f64)
    }

    /// What each task is taken to do in the window with pages that no window has shown: its part of
    /// them, used as much as what is shown; and whether they are more than that. None where single
    /// pages are all that is ever shown, or a policy was chosen for what it does.
    pub(in crate::engine) fn unseen_use(&self, program: &Program<'_>) -> Option<(f64, bool)> {
        if !self.by_blocks {
            return None;
        }
        let pages = program.pages.iter();
        let shown: u64 = pages.clone().map(|page| page.span).sum();
        let weight: u64 = pages.map(Page::weight).sum();
        let (each, unseen) = (weight as f64 / shown.max(1) as f64, self.unseen.pages());
        let part = unseen as f64 / program.tasks.len().max(1) as f64;
        Some((each * part, unseen > self.unseen.shown))
    }
}
