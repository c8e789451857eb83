//! How the length of windows follows what happens.

use std::time::Duration;

/// How the length of windows follows what happens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum IntervalLaw {
    /// Ours: a sixteenth of the time since something changed. So what a change costs until it is
    /// seen is the same part of the time that it lasts, however long that is, and a program that
    /// stands still is hardly looked at.
    Calm {
        /// Shortest, and the first.
        min: Duration,
        /// Longest.
        max: Duration,
    },
    /// LAPT: adds 50 ms when nothing changed, halves when something did.
    Lapt {
        /// First window.
        start: Duration,
        /// Shortest.
        min: Duration,
        /// Longest.
        max: Duration,
    },
    /// `OnDeLoc`: multiplies by `factor` when nothing changed, divides by it when something did.
    OnDeLoc {
        /// Shortest, and the first.
        min: Duration,
        /// Longest.
        max: Duration,
        /// Above 1.
        factor: f64,
    },
}

impl IntervalLaw {
    /// What programs get that ask for no law: from an eighth of a second to 8 s.
    pub const CALM: Self = Self::Calm {
        min: Duration::from_millis(125),
        max: Duration::from_secs(8),
    };

    /// LAPT's own figures: 300 ms, within 50 and 500 ms.
    pub const LAPT: Self = Self::Lapt {
        start: Duration::from_millis(300),
        min: Duration::from_millis(50),
        max: Duration::from_millis(500),
    };

    /// `OnDeLoc`'s own figures: from 500 ms by factors of 2, here up to 8 s.
    pub const ONDELOC: Self = Self::OnDeLoc {
        min: Duration::from_millis(500),
        max: Duration::from_secs(8),
        factor: 2.0,
    };

    /// First, shortest and longest window.
    const fn lengths(self) -> (Duration, Duration, Duration) {
        match self {
            Self::Lapt { start, min, max } => (start, min, max),
            Self::Calm { min, max } | Self::OnDeLoc { min, max, .. } => (min, min, max),
        }
    }
}

/// What a window did to the mapping of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    Same,
    /// Nothing, and more samples would tell of more pages where they should be: samples of many
    /// short windows are forgotten before they do. The next is twice as long, but no longer than
    /// the time since something changed.
    Unsure,
    /// A thread was ordered to another node.
    Changed,
    /// The program does something else, and threads are wanted elsewhere: the length begins anew,
    /// whatever the law, so that what is to be done about it is not put off by a length that fitted
    /// what was before.
    Anew,
    /// A move waits for a second window to agree, or pages went, which others may follow; the length
    /// stays, so that neither is put off.
    Undecided,
}

/// A law and the present length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    law: IntervalLaw,
    current: Duration,
    /// How long nothing has changed.
    calm: Duration,
}

/// Windows in the time since something changed, under [`IntervalLaw::Calm`]. docs/measurements.md
/// has half and double.
const CALM_WINDOWS: u32 = 16;
/// What LAPT adds.
const LAPT_STEP: Duration = Duration::from_millis(50);

impl Interval {
    /// Begins with the law's first length.
    ///
    /// # Errors
    /// Says which figure makes no sense.
    pub fn new(law: IntervalLaw) -> Result<Self, String> {
        let (start, min, max) = law.lengths();
        if let IntervalLaw::OnDeLoc { factor, .. } = law
            && !(factor.is_finite() && factor > 1.0)
        {
            return Err(format!(
                "the factor is `{factor}`, must be above 1 and finite"
            ));
        }
        if min.is_zero() {
            return Err("the shortest window is 0, must be above".to_owned());
        }
        if min > max {
            return Err(format!(
                "the shortest window `{min:?}` is longer than the longest `{max:?}`"
            ));
        }
        if !(min..=max).contains(&start) {
            return Err(format!(
                "the first window `{start:?}` is outside shortest and longest"
            ));
        }
        Ok(Self {
            law,
            current: start,
            calm: Duration::ZERO,
        })
    }

    /// The length of the present window.
    #[must_use]
    pub const fn current(&self) -> Duration {
        self.current
    }

    /// Whether all windows are to be of one length.
    #[must_use]
    pub fn is_fixed(&self) -> bool {
        let (_, min, max) = self.law.lengths();
        min == max
    }

    /// Makes the present window no longer than this, and gives its length. It is never shorter than
    /// the law allows.
    pub fn shorten(&mut self, most: Duration) -> Duration {
        let (_, min, _) = self.law.lengths();
        self.current = self.current.min(most.max(min));
        self.current
    }

    /// Ends a window that lasted so long, which may be longer than it should have, and gives the
    /// length of the next.
    pub fn next(&mut self, change: Change, lasted: Duration) -> Duration {
        self.calm = match change {
            Change::Same | Change::Unsure => self.calm.saturating_add(lasted),
            Change::Undecided => self.calm,
            Change::Changed | Change::Anew => Duration::ZERO,
        };
        let (_, min, max) = self.law.lengths();
        let next = match (self.law, change) {
            (_, Change::Undecided) => self.current,
            (_, Change::Anew) => min,
            (IntervalLaw::Calm { .. }, Change::Unsure) => (self.current * 2).min(self.calm),
            (IntervalLaw::Calm { .. }, _) => self.calm / CALM_WINDOWS,
            (IntervalLaw::Lapt { .. }, Change::Changed) => self.current / 2,
            (IntervalLaw::Lapt { .. }, _) => self.current + LAPT_STEP,
            (IntervalLaw::OnDeLoc { factor, .. }, Change::Changed) => {
                scaled(self.current, 1.0 / factor, min)
            }
            (IntervalLaw::OnDeLoc { factor, .. }, _) => scaled(self.current, factor, max),
        };
        self.current = next.clamp(min, max);
        self.current
    }
}

/// The product, or `otherwise` where it is no duration.
fn scaled(length: Duration, by: f64, otherwise: Duration) -> Duration {
    Duration::try_from_secs_f64(length.as_secs_f64() * by).unwrap_or(otherwise)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_may_be_shortened_down_to_the_shortest() {
        let mut interval = Interval::new(IntervalLaw::ONDELOC).unwrap();
        assert_eq!(interval.next(Change::Same, ms(500)), ms(1000));
        assert_eq!(interval.shorten(ms(2000)), ms(1000));
        assert_eq!(interval.shorten(ms(700)), ms(700));
        assert_eq!(interval.shorten(ms(70)), ms(500));
        assert_eq!(interval.current(), ms(500));
    }

    const fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// Feeds `s`ame, u`n`sure, `c`hanged, `a`new and `u`ndecided windows.
    #[track_caller]
    fn check(law: IntervalLaw, windows: &str, expected: &[u64]) {
        let mut interval = Interval::new(law).unwrap();
        let lengths: Vec<Duration> = windows
            .chars()
            .map(|window| {
                let change = match window {
                    's' => Change::Same,
                    'n' => Change::Unsure,
                    'c' => Change::Changed,
                    'a' => Change::Anew,
                    _ => Change::Undecided,
                };
                interval.next(change, interval.current())
            })
            .collect();
        let expected: Vec<Duration> = expected.iter().map(|&length| ms(length)).collect();
        assert_eq!(lengths, expected, "{law:?} {windows}");
    }

    #[test]
    fn both_laws_follow_their_papers() {
        check(IntervalLaw::LAPT, "ssccs", &[350, 400, 200, 100, 150]);
        check(IntervalLaw::LAPT, "nc", &[350, 175]);
        check(IntervalLaw::LAPT, "cccc", &[150, 75, 50, 50]);
        check(IntervalLaw::LAPT, "sssssu", &[350, 400, 450, 500, 500, 500]);
        let windows = [1000, 2000, 4000, 8000, 8000, 4000];
        check(IntervalLaw::ONDELOC, "sssssc", &windows);
        check(IntervalLaw::ONDELOC, "scccu", &[1000, 500, 500, 500, 500]);
        check(
            IntervalLaw::ONDELOC,
            "sssscas",
            &[1000, 2000, 4000, 8000, 4000, 500, 1000],
        );
        check(IntervalLaw::LAPT, "sssas", &[350, 400, 450, 50, 100]);
        let gentle = IntervalLaw::OnDeLoc {
            min: ms(1000),
            max: ms(1400),
            factor: 1.25,
        };
        check(gentle, "sscc", &[1250, 1400, 1120, 1000]);
    }

    #[test]
    fn calm_makes_windows_a_part_of_the_time_since_something_changed() {
        let calm = IntervalLaw::Calm {
            min: ms(100),
            max: ms(250),
        };
        check(calm, "ssuscs", &[100; 6]);
        check(calm, "nnnns", &[100, 200, 250, 250, 100]);
        let mut late = Interval::new(calm).unwrap();
        assert_eq!(
            late.next(Change::Same, ms(3200)),
            ms(200),
            "by what it lasted"
        );
        assert_eq!(late.next(Change::Undecided, ms(3200)), ms(200));
        assert_eq!(late.next(Change::Same, ms(60_000)), ms(250));
        assert_eq!(late.next(Change::Anew, ms(1)), ms(100));
    }

    #[track_caller]
    fn refused(law: IntervalLaw, reason: &str) {
        assert_eq!(Interval::new(law).unwrap_err().to_string(), reason);
    }

    #[test]
    fn figures_without_sense_are_refused() {
        let ondeloc = |min, max, factor| IntervalLaw::OnDeLoc {
            min: ms(min),
            max: ms(max),
            factor,
        };
        for (factor, text) in [
            (1.0, "1"),
            (0.5, "0.5"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "inf"),
        ] {
            let reason = format!("the factor is `{text}`, must be above 1 and finite");
            refused(ondeloc(1, 2, factor), &reason);
        }
        refused(
            ondeloc(3, 2, 2.0),
            "the shortest window `3ms` is longer than the longest `2ms`",
        );
        refused(
            ondeloc(0, 2, 2.0),
            "the shortest window is 0, must be above",
        );
        let late = IntervalLaw::Lapt {
            start: ms(9),
            min: ms(1),
            max: ms(8),
        };
        refused(
            late,
            "the first window `9ms` is outside shortest and longest",
        );
    }
}
