//! How long a switch takes, measured before the first slice: each policy is entered once, and the ledger of its moves tells
//! when it was two thirds done. The washout that follows is the same for all arms and fixed before the coins are drawn.

use std::collections::VecDeque;

use crate::conductor::Step;

/// Between two looks at the ledger.
const LOOK_MS: u64 = 500;

/// A program without a move for so long has settled, if that is also half of the time it had: the longest window of a policy
/// is 8 s by default, and a move needs two that agree.
const QUIET_MS: u64 = 20_000;

/// Longest that a policy may take to settle. In our testbed programs need 5 to 18 s.
const ARM_MAX_MS: u64 = 120_000;

/// Least time constant: caches have to warm up where nothing moves.
const CONSTANT_LEAST_MS: u64 = 1_000;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Pilot {
    arms: VecDeque<usize>,
    /// The arm that is entered, and since when.
    entered: Option<Entered>,
    /// The longest of all arms so far.
    constant_ms: u64,
    /// The arm that did not settle.
    restless: Option<usize>,
}

#[derive(Clone, Debug)]
struct Entered {
    arm: usize,
    since_ms: u64,
    /// Time since then, and moves so far.
    looks: Vec<(u64, u64)>,
    done: bool,
}

impl Pilot {
    /// One that enters these arms.
    pub(crate) fn new(arms: impl IntoIterator<Item = usize>) -> Self {
        Self {
            arms: arms.into_iter().collect(),
            entered: None,
            constant_ms: CONSTANT_LEAST_MS,
            restless: None,
        }
    }

    /// What is to be done now; `Over` when the time constant is known, or an arm does not settle.
    pub(crate) fn next(&mut self, now_ms: u64) -> Step {
        let Some(entered) = &mut self.entered else {
            let next = self.arms.pop_front().filter(|_| self.restless.is_none());
            let Some(arm) = next else {
                return Step::Over;
            };
            self.entered = Some(Entered {
                arm,
                since_ms: now_ms,
                looks: Vec::new(),
                done: false,
            });
            return Step::Enter { block: 0, arm };
        };
        if entered.done {
            self.entered = None;
            return Step::Leave;
        }
        let looks = u64::try_from(entered.looks.len()).unwrap_or(u64::MAX);
        let due_ms = entered.since_ms + LOOK_MS * looks;
        match now_ms < due_ms {
            true => Step::Wait { until_ms: due_ms },
            false => Step::Read,
        }
    }

    /// So many threads and pages were moved since the arm was entered.
    pub(crate) fn read(&mut self, now_ms: u64, moves: u64) {
        let Some(entered) = &mut self.entered else {
            return;
        };
        let spent_ms = now_ms.saturating_sub(entered.since_ms);
        entered.looks.push((spent_ms, moves));
        let reached = |share: u64| {
            let looks = entered.looks.iter();
            // In hundredths: 100 is the last move.
            let mut reached = looks.filter(|(_, done)| done * 100 >= moves * share);
            reached.next().map_or(0, |(at_ms, _)| *at_ms)
        };
        let quiet_ms = spent_ms - reached(100);
        if quiet_ms >= QUIET_MS && quiet_ms >= spent_ms / 2 {
            entered.done = true;
            self.constant_ms = self.constant_ms.max(reached(63));
        } else if spent_ms >= ARM_MAX_MS {
            entered.done = true;
            self.restless = Some(entered.arm);
        }
    }

    /// No further arm is entered, and the present one is left.
    pub(crate) fn stop(&mut self) {
        self.arms.clear();
        if let Some(entered) = &mut self.entered {
            entered.done = true;
        }
    }

    /// The time constant, once it is over; the arm that does not settle is the error.
    pub(crate) const fn constant_ms(&self) -> Result<u64, usize> {
        match self.restless {
            None => Ok(self.constant_ms),
            Some(arm) => Err(arm),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays a pilot over arms whose moves follow from the time since they were entered.
    fn played(moves: &[fn(u64) -> u64]) -> (Result<u64, usize>, u64) {
        let mut pilot = Pilot::new(0..moves.len());
        let (mut now, mut since, mut entered) = (5_000, 0, None);
        loop {
            match pilot.next(now) {
                Step::Enter { arm, .. } => {
                    assert_eq!(entered, None);
                    (entered, since) = (Some(arm), now);
                }
                Step::Wait { until_ms } => now = until_ms,
                Step::Read => pilot.read(now, moves[entered.unwrap()](now - since)),
                Step::Leave => entered = None,
                Step::Over => {
                    assert_eq!(entered, None);
                    return (pilot.constant_ms(), now - 5_000);
                }
                step => panic!("{step:?}"),
            }
        }
    }

    #[test]
    fn the_slowest_arm_tells() {
        assert_eq!(played(&[|_| 0]), (Ok(1_000), 20_000));
        // A hundred pages a second for 10 s.
        let (constant, took) = played(&[|_| 0, |ms| ms.min(10_000) / 10]);
        assert_eq!(constant, Ok(6_500));
        assert_eq!(took, 20_000 + 30_000);
        // Long settling needs a long quiet.
        assert_eq!(played(&[|ms| ms.min(40_000)]), (Ok(25_500), 80_000));
    }

    #[test]
    fn who_never_settles_is_named() {
        assert_eq!(played(&[|ms| ms, |_| 0]), (Err(0), 120_000));
    }
}
