//! When which arm is entered, measured and left. Time comes in, steps come out.

use std::collections::VecDeque;

use crate::design::{Design, Timing};

/// Readings between the begin and the end of the measured part: enough for a mean, few enough for a metric whose
/// command takes a second.
const READINGS: u64 = 8;

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Enter an arm. The arm before has been left.
    Enter {
        /// Block, from 0.
        block: usize,
        /// Arm, from 0.
        arm: usize,
    },
    /// Do nothing until then.
    Wait {
        /// The time in milliseconds.
        until_ms: u64,
    },
    /// The washout is over: take the first reading.
    Begin,
    /// Take another reading.
    Read,
    /// Take the last reading. The slice counts.
    Finish,
    /// Undo the arm, threads and pages.
    Leave,
    /// All is done, or was stopped; no arm is entered.
    Over,
}

/// Gives out the steps of an experiment in order. Every step but `Wait` and `Over` counts as carried out when the next is
/// asked for.
#[derive(Clone, Debug)]
pub(crate) struct Conductor {
    slices: VecDeque<(usize, usize)>,
    timing: Timing,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No arm is entered.
    Between,
    /// Since this time an arm is entered; so many readings have been taken.
    Within { since_ms: u64, readings: u64 },
    /// An arm is entered and only waits to be left.
    Leaving,
}

impl Conductor {
    /// The steps of a design.
    pub(crate) fn new(design: &Design, timing: Timing) -> Self {
        Self {
            slices: design.slices().collect(),
            timing,
            phase: Phase::Between,
        }
    }

    /// What is to be done now.
    pub(crate) fn next(&mut self, now_ms: u64) -> Step {
        match self.phase {
            Phase::Between => match self.slices.pop_front() {
                None => Step::Over,
                Some((block, arm)) => {
                    self.phase = Phase::Within {
                        since_ms: now_ms,
                        readings: 0,
                    };
                    Step::Enter { block, arm }
                }
            },
            Phase::Within { since_ms, readings } => self.within(now_ms, since_ms, readings),
            Phase::Leaving => {
                self.phase = Phase::Between;
                Step::Leave
            }
        }
    }

    /// Ends the present slice with the reading that was taken last; it counts.
    pub(crate) fn cut_short(&mut self) {
        if let Phase::Within { readings: 1.., .. } = self.phase {
            self.phase = Phase::Leaving;
        }
    }

    /// Ends the experiment: the present arm is left, no other is entered.
    pub(crate) fn stop(&mut self) {
        self.slices.clear();
        if let Phase::Within { .. } = self.phase {
            self.phase = Phase::Leaving;
        }
    }

    fn within(&mut self, now_ms: u64, since_ms: u64, readings: u64) -> Step {
        let Timing {
            slice_ms,
            washout_ms,
        } = self.timing;
        // Readings are due at equal distances, the first at the end of the washout, the last at the end of the slice.
        let due_ms = since_ms + washout_ms + (slice_ms - washout_ms) * readings / (READINGS + 1);
        if now_ms < due_ms {
            return Step::Wait { until_ms: due_ms };
        }
        let late = now_ms >= since_ms + slice_ms;
        let step = match readings {
            0 => Step::Begin,
            _ if late => Step::Finish,
            _ => Step::Read,
        };
        self.phase = match step {
            Step::Finish => Phase::Leaving,
            _ => Phase::Within {
                since_ms,
                readings: readings + 1,
            },
        };
        step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conductor(blocks: usize) -> Conductor {
        let design = Design::draw(2, blocks, 1).unwrap();
        let timing = Timing::for_slices(1_000, 100).unwrap();
        Conductor::new(&design, timing)
    }

    /// Carries all steps out, each of which takes so long.
    fn played(mut conductor: Conductor, takes_ms: u64) -> Vec<(u64, Step)> {
        let (mut now, mut steps) = (0, Vec::new());
        loop {
            let step = conductor.next(now);
            match step {
                Step::Wait { until_ms } => now = until_ms,
                Step::Over => return steps,
                _ => {
                    steps.push((now, step));
                    now += takes_ms;
                }
            }
        }
    }

    #[test]
    fn a_slice_is_entered_washed_read_and_left() {
        let steps = played(conductor(1), 0);
        let slice: Vec<(u64, Step)> = steps.into_iter().skip(1).take(11).collect();
        assert_eq!(slice[0], (250, Step::Begin));
        assert_eq!(slice[1], (333, Step::Read));
        assert!(slice[1..9].iter().all(|(_, step)| *step == Step::Read));
        assert_eq!(slice[9], (1_000, Step::Finish));
        assert_eq!(slice[10], (1_000, Step::Leave));
    }

    #[test]
    fn every_arm_that_is_entered_is_left_before_the_next() {
        for takes_ms in [0, 30, 5_000] {
            let mut entered = false;
            let mut slices = 0;
            for (_, step) in played(conductor(6), takes_ms) {
                match step {
                    Step::Enter { .. } => {
                        assert!(!entered);
                        entered = true;
                        slices += 1;
                    }
                    Step::Leave => {
                        assert!(entered);
                        entered = false;
                    }
                    _ => assert!(entered),
                }
            }
            assert_eq!((entered, slices), (false, 12));
        }
    }

    /// Wherever it is stopped, what was entered is left, and nothing is entered any more.
    #[test]
    fn stopping_leaves_no_arm_behind() {
        for after in 0..40 {
            let mut conductor = conductor(2);
            let (mut now, mut entered) = (0, false);
            for _ in 0..after {
                match conductor.next(now) {
                    Step::Enter { .. } => entered = true,
                    Step::Leave => entered = false,
                    Step::Wait { until_ms } => now = until_ms,
                    _ => {}
                }
            }
            conductor.stop();
            let mut rest = Vec::new();
            loop {
                match conductor.next(now) {
                    Step::Over => break,
                    step => rest.push(step),
                }
            }
            let wanted: &[Step] = if entered { &[Step::Leave] } else { &[] };
            assert_eq!(rest, wanted, "after {after}");
        }
    }

    #[test]
    fn a_slice_that_harms_ends_early() {
        let mut conductor = conductor(1);
        let Step::Enter { .. } = conductor.next(0) else {
            panic!("nothing is entered");
        };
        conductor.cut_short();
        assert_eq!(
            conductor.next(0),
            Step::Wait { until_ms: 250 },
            "nothing is measured yet"
        );
        assert_eq!(conductor.next(250), Step::Begin);
        assert_eq!(conductor.next(400), Step::Read);
        conductor.cut_short();
        assert_eq!(conductor.next(400), Step::Leave);
        assert!(matches!(conductor.next(400), Step::Enter { .. }));
    }

    /// A command that takes longer than the slice: begin and end are measured all the same.
    #[test]
    fn who_is_late_still_measures() {
        let steps = played(conductor(1), 5_000);
        let kinds: Vec<Step> = steps
            .iter()
            .skip(1)
            .take(3)
            .map(|(_, step)| *step)
            .collect();
        assert_eq!(kinds, [Step::Begin, Step::Finish, Step::Leave]);
    }
}
