//! What numad costs the machine, and the one budget for it.
//!
//! The budget is a share of the processor time of the whole machine. Into it count our own processor
//! time, all of it, and what taking samples costs the programs, as the source estimates. What we
//! need ourselves beside sampling is not to be had back, so sampling gets what is left; at least a
//! tenth, or a busy moment of ours would make us blind. And no processor pays more than the same share
//! of its own time: a program of one thread would pay for the whole machine.

use std::time::Duration;

use numad_core::Time;
use sampler::{RateStatus, Spending};

/// How often the source is told what it costs.
const EVERY: Duration = Duration::from_secs(1);

/// What was spent since the source was told the last time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overhead {
    since: Time,
    /// Our processor time then.
    own: Duration,
    /// Samples taken then.
    taken: u64,
    /// Our time in reading samples and folding them, since then.
    drained: Duration,
    /// Share of the machine that was used in the time before.
    used: Option<f64>,
}

/// What is measured anew each time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) now: Time,
    /// Our processor time so far.
    pub(super) own: Duration,
    pub(super) rate: Option<RateStatus>,
    /// Processors of the machine that are online.
    pub(super) cpus: usize,
    /// Share of their time that all may take.
    pub(super) budget: f64,
}

impl Overhead {
    pub(super) const fn new(now: Time, own: Duration) -> Self {
        Self {
            since: now,
            own,
            taken: 0,
            drained: Duration::ZERO,
            used: None,
        }
    }

    /// Takes note of a reading of the source.
    pub(super) fn drained(&mut self, spent: Duration) {
        self.drained += spent;
    }

    /// When the source is to be told next.
    pub(super) fn due(&self) -> Time {
        self.since.after(EVERY)
    }

    /// Share of the machine's processor time that was used lately.
    pub(super) const fn used(&self) -> Option<f64> {
        self.used
    }

    /// What the source is to be told; begins anew.
    pub(super) fn spending(&mut self, measured: &Measured) -> Spending {
        let elapsed = measured.now.since(self.since);
        let machine = elapsed.as_secs_f64() * count(measured.cpus.max(1));
        let own = measured.own.saturating_sub(self.own);
        let target = measured.rate.map_or(Duration::ZERO, |rate| {
            let samples = rate.taken.saturating_sub(self.taken);
            Duration::from_nanos(samples.saturating_mul(u64::from(rate.target_ns)))
        });
        let budget = machine * measured.budget;
        // Reading takes no more processor time than we had in all, however long it was interrupted.
        let reading = self.drained.min(own);
        let rest = (own - reading).as_secs_f64();
        let allowed = (budget - rest).max(budget / 10.0);
        let used = (machine > 0.0).then(|| (own + target).as_secs_f64() / machine);
        *self = Self {
            taken: measured.rate.map_or(0, |rate| rate.taken),
            used,
            ..Self::new(measured.now, measured.own)
        };
        Spending {
            elapsed,
            own_ns: u64::try_from(reading.as_nanos()).unwrap_or(u64::MAX),
            allowed_ns: nanoseconds(allowed),
            processor_allowed_ns: nanoseconds(elapsed.as_secs_f64() * measured.budget),
        }
    }
}

fn nanoseconds(seconds: f64) -> u64 {
    let time = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "no machine has so many processors that a float cannot count them"
)]
const fn count(cpus: usize) -> f64 {
    cpus as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000_000;

    fn rate(taken: u64) -> Option<RateStatus> {
        Some(RateStatus {
            period: 1,
            fixed: false,
            target_ns: 500,
            taken,
            held_back_by: None,
            turns_permille: 1000,
        })
    }

    /// Two processors for a second, of which one per cent is 20 ms: `own_ms` of our own, `drained_ms`
    /// of them reading, so many samples. Gives what sampling cost and may, in ms, and the share used.
    #[track_caller]
    fn check(own_ms: u64, drained_ms: u64, samples: u64, expected: (u64, u64), permille: f64) {
        let mut overhead = Overhead::new(Time(0), Duration::from_millis(7));
        overhead.drained(Duration::from_millis(drained_ms));
        let spending = overhead.spending(&Measured {
            now: Time(1_000 * MILLI),
            own: Duration::from_millis(7 + own_ms),
            rate: rate(samples),
            cpus: 2,
            budget: 0.01,
        });
        assert_eq!(spending.elapsed, Duration::from_secs(1));
        assert_eq!(
            (spending.own_ns / MILLI, spending.allowed_ns.div_ceil(MILLI)),
            expected
        );
        assert!((overhead.used().unwrap() * 1000.0 - permille).abs() < 1e-6);
    }

    #[test]
    fn sampling_gets_what_the_rest_leaves() {
        check(0, 0, 0, (0, 20), 0.0);
        check(8, 3, 4_000, (3, 15), 5.0);
        check(8, 8, 0, (8, 20), 4.0);
        // Interrupted while reading: it cannot have cost more than all of us did.
        check(8, 30, 0, (8, 20), 4.0);
        // More than the budget for the rest alone.
        check(500, 1, 0, (1, 2), 250.0);
    }

    #[test]
    fn each_time_counts_for_itself() {
        let mut overhead = Overhead::new(Time(0), Duration::ZERO);
        assert_eq!(overhead.used(), None);
        let mut measured = Measured {
            now: Time(1_000 * MILLI),
            own: Duration::from_millis(10),
            rate: rate(1_000),
            cpus: 1,
            budget: 0.01,
        };
        overhead.spending(&measured);
        assert_eq!(overhead.due(), Time(2_000 * MILLI));
        measured.now = Time(2_000 * MILLI);
        let spending = overhead.spending(&measured);
        assert_eq!((spending.own_ns, spending.allowed_ns), (0, 10 * MILLI));
        assert!(overhead.used().unwrap() < 1e-9);
        // No time at all, no source that could say.
        measured.rate = None;
        let spending = overhead.spending(&measured);
        assert_eq!((spending.allowed_ns, overhead.used()), (0, None));
    }
}
