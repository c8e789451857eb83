//! What numad costs the machine, and the one budget for it.
//!
//! The budget is a share of the processor time of the whole machine. Into it count our own work, and what taking samples
//! costs the programs, as the source estimates; not what clients ask of us, or whoever asks often would keep us from
//! everything else. What is told as used has that in it as well. Two things give way:
//!
//! - *Samples* get what the rest leaves; at least a tenth, or a busy moment of ours would make us blind. And no
//!   processor pays more than the same share of its own time: a program of one thread would pay for the whole machine.
//! - *Windows* wait. What was used beyond the budget is a debt, which time pays off. A window that has ended is judged
//!   when that leaves the debt below what [`BURST`] allows, so that over any time `t` we take no more than
//!   `t + BURST` allow, and one judgement where that alone is dearer. A window that waits
//!   goes on: nothing is lost but promptness. One that has waited for [`WAIT_MOST`] waits no longer: then it is something
//!   else of ours that takes too much.

use std::collections::VecDeque;
use std::time::Duration;

use numad_core::Time;
use sampler::{RateStatus, Spending};

/// How often the source is told what it costs.
const EVERY: Duration = Duration::from_secs(1);

/// What windows may use at a time beyond what they may use in the long run: the budget of so long. A sixth of the
/// thirty seconds over which people look at what a program takes.
const BURST: Duration = Duration::from_secs(5);

/// Longest that a window waits for want of budget. A debt that takes longer is forgotten.
const WAIT_MOST: Duration = Duration::from_secs(60);

/// Times that are looked back at when it is told what was used.
const LATELY: usize = 30;

/// What was spent since the source was told the last time, and what is to be made up for.
#[derive(Clone, Debug)]
pub(super) struct Overhead {
    since: Time,
    /// Our processor time then, with what clients asked for.
    own: Duration,
    /// What we took since then, without that.
    worked: Duration,
    /// Samples taken then.
    taken: u64,
    /// Our time in reading samples and folding them, since then.
    drained: Duration,
    /// Seconds of processor time that there were, and that were used, in the times before.
    lately: VecDeque<(f64, f64)>,
    /// Seconds of processor time used beyond the budget.
    debt: f64,
    /// Seconds of it that the budget gives in a second; none before the first look.
    income: Option<f64>,
    /// Seconds that judging took, lately at most.
    judging: f64,
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
            worked: Duration::ZERO,
            taken: 0,
            drained: Duration::ZERO,
            lately: VecDeque::new(),
            debt: 0.0,
            income: None,
            judging: 0.0,
        }
    }

    /// Takes note of a reading of the source.
    pub(super) fn drained(&mut self, spent: Duration) {
        self.drained += spent;
    }

    /// Takes note of work that no client asked for, readings and judgements among it.
    pub(super) fn worked(&mut self, spent: Duration) {
        self.worked += spent;
    }

    /// When the source is to be told next.
    pub(super) fn due(&self) -> Time {
        self.since.after(EVERY)
    }

    /// Takes note of what judging a window took.
    pub(super) fn judged(&mut self, spent: Duration) {
        // A judgement that has less to do is soon believed.
        self.judging = spent.as_secs_f64().max(self.judging / 2.0);
    }

    /// When a window may be judged that ends at `end`.
    pub(super) fn ready(&self, end: Time) -> Time {
        let Some(income) = self.income else {
            return end;
        };
        let burst = income * BURST.as_secs_f64();
        let over = self.debt + self.judging.min(burst) - burst;
        let wait = Duration::try_from_secs_f64(over / income).unwrap_or_default();
        end.max(self.since.after(wait)).min(end.after(WAIT_MOST))
    }

    /// Share of the machine's processor time that was used in the last half a minute.
    pub(super) fn used(&self) -> Option<f64> {
        let there: f64 = self.lately.iter().map(|(there, _)| there).sum();
        let used: f64 = self.lately.iter().map(|(_, used)| used).sum();
        (there > 0.0).then(|| used / there)
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
        let reading = self.drained.min(self.worked);
        let rest = (self.worked - reading).as_secs_f64();
        let allowed = (budget - rest).max(budget / 10.0);
        if self.lately.len() >= LATELY {
            self.lately.pop_front();
        }
        self.lately
            .push_back((machine, (own + target).as_secs_f64()));
        self.income = (budget > 0.0).then(|| budget / elapsed.as_secs_f64());
        let most = self.income.unwrap_or_default() * WAIT_MOST.as_secs_f64();
        let work = (self.worked + target).as_secs_f64();
        self.debt = (self.debt + work - budget).clamp(0.0, most);
        self.since = measured.now;
        self.own = measured.own;
        self.worked = Duration::ZERO;
        self.taken = measured.rate.map_or(0, |rate| rate.taken);
        self.drained = Duration::ZERO;
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

    /// Two processors for a second, of which one per cent is 20 ms: `own_ms` of our own work, `drained_ms`
    /// of them reading, so many samples, and a millisecond for a client. Gives what sampling cost and may, in ms, and the share used.
    #[track_caller]
    fn check(own_ms: u64, drained_ms: u64, samples: u64, expected: (u64, u64), permille: f64) {
        let mut overhead = Overhead::new(Time(0), Duration::from_millis(7));
        overhead.drained(Duration::from_millis(drained_ms));
        overhead.worked(Duration::from_millis(own_ms));
        let spending = overhead.spending(&Measured {
            now: Time(1_000 * MILLI),
            own: Duration::from_millis(8 + own_ms),
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
        check(0, 0, 0, (0, 20), 0.5);
        check(8, 3, 4_000, (3, 15), 5.5);
        check(8, 8, 0, (8, 20), 4.5);
        // Interrupted while reading: it cannot have cost more than all of us did.
        check(8, 30, 0, (8, 20), 4.5);
        // More than the budget for the rest alone.
        check(500, 1, 0, (1, 2), 250.5);
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
        assert!((overhead.used().unwrap() - 0.00525).abs() < 1e-9);
        // No time at all, no source that could say.
        measured.rate = None;
        let spending = overhead.spending(&measured);
        assert_eq!(spending.allowed_ns, 0);
        assert_eq!(overhead.ready(Time(5)), Time(5));
    }

    /// Ten minutes of one who judges a window of this many seconds whenever it may, each for so many milliseconds, on
    /// eight processors with one per cent for us, and takes `idle_ms` a second beside. Gives the milliseconds used in
    /// each second.
    fn live(window_s: u64, judging_ms: u64, idle_ms: u64) -> Vec<u64> {
        let mut overhead = Overhead::new(Time(0), Duration::ZERO);
        let mut own = 0;
        let mut end = Time(window_s * 1_000 * MILLI);
        let mut seconds = Vec::new();
        for second in 1..=600 {
            let before = own;
            own += idle_ms;
            for part in 0..10 {
                let now = Time((second * 1_000 + part * 100) * MILLI);
                if now >= overhead.ready(end) {
                    own += judging_ms;
                    overhead.judged(Duration::from_millis(judging_ms));
                    end = now.after(Duration::from_secs(window_s));
                }
            }
            overhead.worked(Duration::from_millis(own - before));
            overhead.spending(&Measured {
                now: Time((second + 1) * 1_000 * MILLI),
                own: Duration::from_millis(own),
                rate: None,
                cpus: 8,
                budget: 0.01,
            });
            seconds.push(own - before);
        }
        seconds
    }

    /// Over any 30 s no more than a fifth above the budget of 80 ms a second, unless by what is `beyond` the burst; the
    /// first 30 s are for settling.
    #[track_caller]
    fn check_held(window_s: u64, judging_ms: u64, idle_ms: u64, (beyond, least): (u64, u64)) {
        let seconds = live(window_s, judging_ms, idle_ms);
        let worst = seconds[30..]
            .windows(30)
            .map(|some| some.iter().sum::<u64>())
            .max();
        let most = 30 * 80 * 6 / 5 + beyond;
        assert!(worst.unwrap() <= most, "{worst:?} of {seconds:?}");
        let all: u64 = seconds.iter().sum();
        assert!(all >= least * 600, "{all}: idle though there is budget");
        assert!(all <= 83 * 600, "{all}");
    }

    #[test]
    fn windows_wait_until_the_budget_allows_them() {
        // Nothing has to wait.
        check_held(1, 10, 10, (0, 19));
        // Windows each of which takes more than a second may.
        check_held(1, 160, 5, (0, 70));
        check_held(1, 380, 5, (0, 70));
        check_held(8, 380, 20, (0, 65));
        // One that takes more than the burst of 400 ms.
        check_held(1, 1_500, 5, (1_100, 60));
    }

    #[test]
    fn windows_are_judged_even_so_when_others_take_all() {
        let seconds = live(1, 20, 500);
        let judged = seconds.iter().filter(|&&spent| spent > 500).count();
        assert!((9..=40).contains(&judged), "{judged}");
    }
}
