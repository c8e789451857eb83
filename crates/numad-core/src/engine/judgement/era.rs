//! How often a program began to do something else, and how long it has done the same.

use std::time::Duration;

use crate::likeness::likeness;
use crate::policy::Program;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Era {
    number: u32,
    /// Judged windows in a row that showed something else than those before.
    other: u32,
    /// The last judged window was not as those before.
    is_unlike: bool,
    /// Since two windows in a row showed something else, or the first.
    lasts: Duration,
}

/// Likeness of what is said now and what was said before below which the program does something else: two pairs in five
/// have changed.
const OTHER: f64 = 0.6;

/// The same below which a window is not as those before: the program may have changed on the way.
const ALIKE: f64 = 0.97;

/// Windows in a row that may begin an era. A change within a window is seen in that one or in the next; one after them
/// that is unlike them as well is of a program that goes to and fro all the time, which is what it does.
const BEGIN_MAX: u32 = 2;

/// Of the windows before, each counts half of the one after it: so much of the variance of one remains in their sum.
const FADED: f64 = 1.0 / 3.0;

impl Era {
    pub(super) const fn number(&self) -> u32 {
        self.number
    }

    /// Whether the last judged window began an era.
    pub(super) const fn begins(&self) -> bool {
        matches!(self.other, 1..=BEGIN_MAX)
    }

    /// Whether it was not as those before, and may be in the midst of a change.
    pub(super) const fn is_unlike(&self) -> bool {
        self.is_unlike
    }

    /// How long the program has done the same, whatever we changed meanwhile. One window may be
    /// unlike the others by chance, where little is said.
    pub(super) const fn lasts(&self) -> Duration {
        self.lasts
    }

    /// Ends a window that was so long.
    pub(super) const fn pass(&mut self, lasted: Duration) {
        self.lasts = self.lasts.saturating_add(lasted);
    }

    /// Compares a judged window, in which a sample counted so much, with those before it.
    pub(super) fn note(&mut self, program: &Program<'_>, sample: f64) {
        let both = program.decayed.pairs().map(|(one, other, all)| {
            let now = program.live.between(one, other);
            (now as f64, all.saturating_sub(now) as f64)
        });
        // Where chance alone is seen, nothing changed.
        let alike = likeness(both, (sample, sample * FADED)).unwrap_or(1.0);
        self.is_unlike = alike < ALIKE;
        self.other = match alike < OTHER {
            true => self.other.saturating_add(1),
            false => 0,
        };
        self.number += u32::from(self.begins());
        if self.other > 1 {
            self.lasts = Duration::ZERO;
        }
    }
}
