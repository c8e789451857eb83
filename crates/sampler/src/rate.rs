//! How often a source samples: the law that keeps its cost within what it may cost.
//!
//! Pure: what was seen goes in, a period comes out. A period is how many events make one sample; the
//! law knows nothing else. It has two regimes, and one memory:
//!
//! ```text
//!            cost above what is allowed, or buffers pressed, for UP_DWELL
//!   steady ─────────────────────────────────────────────────────────────▶ longer period
//!      ▲                                                                       │
//!      └── cost below 3/8 of what is allowed, buffers at ease, for BACK_DWELL ─┘  half the period
//! ```
//!
//! Half the period is at most 3/4 of what is allowed, so a way back is not at once a way out again.
//! If it is all the same (bursts press the buffers, or other costs grow), that period is remembered
//! as too short until the program itself does half as much. So for a demand that varies by less than
//! a factor of two the law settles; a test simulates that. A source that is pressed doubles its period
//! before it loses: at three quarters of a buffer, or when the kernel throttles it.

use std::fmt;
use std::time::Duration;

use numad_core::Time;

/// Bounds of the law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateOptions {
    /// Where it begins.
    pub start: u64,
    /// Shortest period, at least 1.
    pub least: u64,
    /// Longest.
    pub most: u64,
    /// Every period is a multiple of this, at least 1. IBS counts in sixteens.
    pub step: u64,
    /// Whether the period stays as it is, whatever it costs.
    pub fixed: bool,
    /// What taking one sample costs the program that is sampled, in nanoseconds; an estimate.
    pub target_ns: u32,
}

/// What was seen since the law was last asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateInput {
    /// How long that was.
    pub elapsed: Duration,
    /// Samples that were taken, of any program.
    pub samples: u64,
    /// Our own processor time for them, in nanoseconds.
    pub own_ns: u64,
    /// What sampling may cost in this time, ourselves and programs together, in nanoseconds.
    pub allowed_ns: u64,
    /// Samples of these that the busiest processor took.
    pub busiest: u64,
    /// What they may cost that processor in this time, in nanoseconds: whoever runs there pays all.
    pub busiest_allowed_ns: u64,
    /// How full the fullest buffer was at most, in per mille.
    pub fill_permille: u16,
    /// Samples lost.
    pub lost: u64,
    /// Times that the kernel stopped an event for coming too often.
    pub throttled: u64,
    /// Records that tell who came, went and was named, of anybody. No period makes them fewer.
    pub others: u64,
}

impl RateInput {
    /// What is due to samples. Anybody can fill the buffers with other records, as by renaming a
    /// thread all the time: where those are most of what came, they are what did not fit. How many
    /// samples did not is unknown then, so they become no more frequent either.
    fn due_to_samples(&self) -> Self {
        let all = u128::from(self.samples.saturating_add(self.others)).max(1);
        let for_others = u128::from(self.own_ns) * u128::from(self.others) / all;
        let crowded = self.others > self.samples;
        Self {
            own_ns: self.own_ns - u64::try_from(for_others).unwrap_or(self.own_ns),
            fill_permille: if crowded {
                EASE_PERMILLE
            } else {
                self.fill_permille
            },
            lost: if crowded { 0 } else { self.lost },
            ..*self
        }
    }
}

/// A period that changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateChange {
    /// Until now.
    pub from: u64,
    /// From now on.
    pub to: u64,
    /// Why.
    pub why: Why,
}

/// Why a period changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Sampling cost more than it may.
    Cost,
    /// Samples were lost, or nearly.
    Pressure,
    /// The kernel throttled the event.
    Throttled,
    /// There is room for more.
    Room,
}

impl Why {
    /// In words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Cost => "sampling cost more than its share of the budget",
            Self::Pressure => "the buffers filled faster than they are read",
            Self::Throttled => "the kernel throttled the event",
            Self::Room => "the budget has room",
        }
    }
}

impl fmt::Display for RateChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, why } = self;
        write!(
            f,
            "one sample for each {to} events instead of {from}: {}",
            why.words()
        )
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct RateLaw {
    options: RateOptions,
    period: u64,
    /// Shorter ones would tell nothing that anybody could use, see [`Self::enough`].
    enough: u64,
    /// When it changed last, and whether that was a way back.
    changed: Option<(Time, Why)>,
    /// A period that was tried and too short, with the events per second at which it was.
    too_short: Option<(u64, u64)>,
    last: Option<Why>,
}

impl RateLaw {
    /// Begins at the start of the options, brought within their bounds.
    #[must_use]
    pub fn new(options: RateOptions) -> Self {
        let mut law = Self {
            options,
            period: 1,
            enough: 1,
            changed: None,
            too_short: None,
            last: None,
        };
        law.period = law.within(options.start);
        law
    }

    /// Events for each sample.
    #[must_use]
    pub fn period(&self) -> u64 {
        match self.options.fixed {
            true => self.period,
            false => self.within(self.period.max(self.enough)),
        }
    }

    /// With one sample for each so many events there are enough of what comes next; what costs or losses ask for
    /// may be rarer still.
    pub fn enough(&mut self, period: u64) {
        self.enough = period;
    }

    /// Whether the period stays as it is.
    #[must_use]
    pub const fn is_fixed(&self) -> bool {
        self.options.fixed
    }

    /// What a sample costs the program that is sampled, as estimated.
    #[must_use]
    pub const fn target_ns(&self) -> u32 {
        self.options.target_ns
    }

    /// Why the period is longer than the shortest; none if it is not, or has not changed.
    #[must_use]
    pub fn held_back_by(&self) -> Option<Why> {
        self.last
            .filter(|why| *why != Why::Room && self.period > self.options.least)
    }

    /// Takes what was seen until `now`; gives the change, if there is one. Changes nothing for less
    /// than [`SEEN_LEAST`]: too little to judge.
    pub fn next(&mut self, now: Time, seen: &RateInput) -> Option<RateChange> {
        if self.options.fixed || seen.elapsed < SEEN_LEAST {
            return None;
        }
        let seen = &seen.due_to_samples();
        let since = self.changed.map_or(Duration::MAX, |(at, _)| now.since(at));
        let cost = self.cost(seen);
        let trouble = trouble(seen, cost);
        let (to, why) = match trouble {
            Some(why) if since >= UP_DWELL => (self.longer(cost, why), why),
            None if since >= BACK_DWELL && self.has_room(seen, cost) => {
                (self.within(self.period / 2), Why::Room)
            }
            _ => return None,
        };
        let current = self.period();
        if to == self.period {
            return None;
        }
        let came_back = matches!(self.changed, Some((at, Why::Room)) if now.since(at) < WATCHED);
        if why != Why::Room && came_back {
            self.too_short = Some((current, events_per_second(seen, current)));
        }
        self.period = to;
        self.changed = Some((now, why));
        self.last = Some(why);
        let (from, to) = (current, self.period());
        (from != to).then_some(RateChange { from, to, why })
    }

    /// What sampling costs and may cost, of the machine or of its busiest processor, whichever is
    /// nearer to its limit.
    fn cost(&self, seen: &RateInput) -> Cost {
        let of = |samples: u64| samples.saturating_mul(u64::from(self.options.target_ns));
        let machine = Cost {
            spent: seen.own_ns.saturating_add(of(seen.samples)),
            allowed: seen.allowed_ns,
        };
        let busiest = Cost {
            spent: of(seen.busiest),
            allowed: seen.busiest_allowed_ns,
        };
        let left = u128::from(machine.spent) * u128::from(busiest.allowed);
        let right = u128::from(busiest.spent) * u128::from(machine.allowed);
        if busiest.spent > 0 && right > left {
            busiest
        } else {
            machine
        }
    }

    /// So many times longer that the cost is three quarters of what is allowed, by powers of two.
    fn longer(&self, cost: Cost, why: Why) -> u64 {
        let mut factor = 2;
        if why == Why::Cost {
            let goal = (cost.allowed / 4 * 3).max(1);
            while factor < FACTOR_MAX && cost.spent / factor > goal {
                factor *= 2;
            }
        }
        self.within(self.period().saturating_mul(factor))
    }

    fn has_room(&self, seen: &RateInput, cost: Cost) -> bool {
        let at_ease = seen.fill_permille < EASE_PERMILLE && cost.spent <= cost.allowed / 8 * 3;
        let barred = self.too_short.is_some_and(|(period, events)| {
            self.within(self.period / 2) <= period
                && events_per_second(seen, self.period()) > events / 2
        });
        at_ease && !barred
    }

    /// Brings a period within the bounds, up to a multiple of the step.
    fn within(&self, period: u64) -> u64 {
        let step = self.options.step.max(1);
        let least = self
            .options
            .least
            .max(1)
            .div_ceil(step)
            .saturating_mul(step);
        let most = (self.options.most / step * step).max(least);
        let multiple = period.div_ceil(step).checked_mul(step).unwrap_or(most);
        multiple.clamp(least, most)
    }
}

/// Nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Cost {
    spent: u64,
    allowed: u64,
}

fn trouble(seen: &RateInput, cost: Cost) -> Option<Why> {
    if seen.throttled > 0 {
        Some(Why::Throttled)
    } else if seen.lost > 0 || seen.fill_permille >= PRESSED_PERMILLE {
        Some(Why::Pressure)
    } else if cost.spent > cost.allowed {
        Some(Why::Cost)
    } else {
        None
    }
}

fn events_per_second(seen: &RateInput, period: u64) -> u64 {
    let millis = u64::try_from(seen.elapsed.as_millis())
        .unwrap_or(u64::MAX)
        .max(1);
    seen.samples.saturating_mul(period) / millis.div_ceil(1_000)
}

/// Least time that is judged.
pub const SEEN_LEAST: Duration = Duration::from_millis(200);

/// Least time between a change and one to a longer period: long enough to see what the last did, short
/// because losses are being made.
pub const UP_DWELL: Duration = Duration::from_secs(1);

/// Least time between a change and one to a shorter period: several windows of the engine, and ten
/// times the other, so that a program that works in bursts of seconds is not followed up and down.
pub const BACK_DWELL: Duration = Duration::from_secs(10);

/// A longer period that becomes necessary this soon after a way back says that the way back was wrong. Long enough
/// for a burst that comes about once a minute to be remembered; with 60 s it had the rate change for ever.
const WATCHED: Duration = Duration::from_secs(120);

/// Pressed: what a drain finds at three quarters, a late drain may find lost.
const PRESSED_PERMILLE: u16 = 750;

/// At ease: twice as much would still not wake us early (a half does).
const EASE_PERMILLE: u16 = 250;

/// Most that a period is lengthened at once.
const FACTOR_MAX: u64 = 64;

#[cfg(test)]
mod tests;
