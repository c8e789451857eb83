//! How often a program began to do something else, and how long it will go on as it does.

use std::time::Duration;

use crate::likeness::{Likeness, Said, likeness};
use crate::policy::Program;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Era {
    pub number: u32,
    /// Judged windows in a row that showed something else than those before.
    other: u32,
    /// Judged windows since it began.
    age: u32,
    /// The last judged window was not as those before: the program may be in the midst of a change.
    pub is_unlike: bool,
    /// Since it began, and how long eras lasted before: the last counts half, the one before it a
    /// quarter, and so on to what was expected at first.
    lasts: Duration,
    before: Duration,
}

/// Likeness of what is said now and what was said before below which the program does something else: two pairs in five
/// have changed.
const OTHER: f64 = 0.6;

/// Standard errors that it is below that at the least: where little is said windows are unlike by
/// chance. With half `phases` loses 1.3 % on interlagos, with double 0.9 % on 2x16 with 8 MiB under
/// `auto` (docs/measurements.md).
const SURE: f64 = 2.0;

/// The same below which a window is not as those before: the program may have changed on the way.
const ALIKE: f64 = 0.97;

/// Windows in a row that may begin an era. A change within a window is seen in that one or in the next; one after them
/// that is unlike them as well is of a program that goes to and fro all the time, which is what it does.
const BEGIN_MAX: u32 = 2;

/// Judged windows for which an era is young: in the first it may not be known yet who shares what.
const YOUNG: u32 = 2;

/// Of the windows before, each counts half of the one after it: so much of the variance of one remains in their sum.
const FADED: f64 = 1.0 / 3.0;

impl Era {
    /// The first, which is expected to last so long.
    pub(super) fn new(first: Duration) -> Self {
        Self {
            before: first,
            ..Self::default()
        }
    }

    /// Whether the last judged window began an era.
    pub(super) const fn begins(&self) -> bool {
        matches!(self.other, 1..=BEGIN_MAX)
    }

    /// Whether an era began in the last judged window or just before it.
    pub(super) const fn is_young(&self) -> bool {
        self.number > 0 && self.age < YOUNG
    }

    /// How long the program will go on as it does, whatever we change meanwhile: as long as it has
    /// already, or until this era has lasted as long as those before.
    pub(super) fn goes_on(&self) -> Duration {
        self.lasts.max(self.before.saturating_sub(self.lasts))
    }

    /// Ends a window that was so long.
    pub(super) const fn pass(&mut self, lasted: Duration) {
        self.lasts = self.lasts.saturating_add(lasted);
    }

    /// Compares a judged window, in which a sample counted so much, with those before it. Where
    /// nothing that is shared lasts, it is another each time, and that is what the program does.
    pub(super) fn note(&mut self, program: &Program<'_>, sample: f64, lasts: bool) {
        // Who was not seen in the window may do what he did before: faults come in bursts, now of
        // these threads and now of those.
        let is_seen = |task: usize| program.tasks[task].samples > 0;
        let pairs = program.decayed.pairs();
        let seen = pairs.filter(|&(one, other, _)| is_seen(one) && is_seen(other));
        let both = seen.map(|(one, other, all)| {
            let now = program.live.between(one, other);
            ((one, other), (now as f64, all.saturating_sub(now) as f64))
        });
        // Where chance alone is seen, nothing changed.
        let found = likeness(both, (sample, sample * FADED)).filter(|_| lasts);
        self.is_unlike = found.is_some_and(|found| found.alike < ALIKE);
        self.other = match found.is_some_and(is_other) {
            true => self.other.saturating_add(1),
            false => 0,
        };
        self.number += u32::from(self.begins());
        self.age = match self.begins() {
            true => 0,
            false => self.age.saturating_add(1),
        };
        match self.other {
            0 => {}
            1 => self.end(),
            // The same change once more.
            _ => self.lasts = Duration::ZERO,
        }
    }

    fn end(&mut self) {
        let lasted = std::mem::take(&mut self.lasts);
        self.before = (self.before + lasted) / 2;
    }
}

/// Whether pairs say something else than before, where a sample counts so much.
pub(super) fn are_other(pairs: impl Iterator<Item = Said> + Clone, sample: f64) -> bool {
    likeness(pairs, (sample, sample * FADED)).is_some_and(is_other)
}

fn is_other(found: Likeness) -> bool {
    found.alike + SURE * found.error < OTHER
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_goes_on_for_as_long_as_it_has_or_as_it_did_the_thing_before() {
        let seconds = Duration::from_secs;
        let goes_on = |before, lasts| {
            let mut era = Era::new(seconds(before));
            era.pass(seconds(lasts));
            era.goes_on()
        };
        assert_eq!(goes_on(0, 5), seconds(5));
        assert_eq!(goes_on(60, 5), seconds(55));
        assert_eq!(goes_on(60, 45), seconds(45));
        assert_eq!(goes_on(60, 100), seconds(100));
    }

    #[test]
    fn what_is_expected_comes_to_what_eras_last() {
        let mut era = Era::new(Duration::from_secs(300));
        let mut expected = Vec::new();
        for _ in 0..6 {
            era.pass(Duration::from_secs(4));
            era.end();
            expected.push(era.goes_on().as_secs());
        }
        assert_eq!(expected, [152, 78, 41, 22, 13, 8]);
    }
}
