//! An experiment on a running program, as a machine of states: it says what is to be done next, takes what was read, and
//! keeps the slices. Whoever carries the steps out brings the time and the readings.

use std::time::Duration;

use control::experiment::{Ending, Experiment, Moved, Sight, Slice};

use crate::conductor::{Conductor, Step};
use crate::design::Design;
use crate::metric::{self, Reading};
use crate::pilot::Pilot;
use crate::plan::{self, kept};
use crate::{Totals, bootstrap, results};

/// Readings of a slice before it may end for harm: a single one may be a hiccup.
const READINGS_BEFORE_HARM: usize = 3;

/// See the module. All times are since its beginning.
#[derive(Clone, Debug)]
pub struct Trial {
    experiment: Experiment,
    /// Length of a slice, where it is asked for and a pilot goes before.
    slice_ms: Option<u64>,
    max_harm: f64,
    phase: Phase,
    /// When the first slice began.
    slices_from: Duration,
    entered: Option<Entered>,
    /// Why it ends, if not because all is done.
    stopped: Option<(Ending, String)>,
}

#[derive(Clone, Debug)]
enum Phase {
    Pilot(Pilot),
    Slices(Conductor),
    Over,
}

/// An arm that is entered.
#[derive(Clone, Debug)]
struct Entered {
    block: usize,
    arm: usize,
    at: Duration,
    /// Whether numad touches the program under it.
    touched: bool,
    /// What had disturbed the machine until then.
    before: Totals,
    readings: Vec<Reading>,
    /// Its slice has all its readings, or ended for harm.
    counts: bool,
}

/// How an arm was left.
#[derive(Clone, Debug)]
pub struct Left {
    /// When the undo began.
    pub at: Duration,
    /// How long it took.
    pub undo: Duration,
    /// What has disturbed the machine.
    pub totals: Totals,
}

impl Trial {
    /// One of this plan. Where its slices have no length yet a pilot goes before, and `slice_ms` is the length that is asked
    /// for. A slice that is worse than usual under the control by the share `max_harm` ends early.
    #[must_use]
    pub fn new(experiment: Experiment, slice_ms: Option<u64>, max_harm: f64) -> Self {
        let pilot = Pilot::new(pilot_arms(&experiment));
        let mut trial = Self {
            experiment,
            slice_ms,
            max_harm,
            phase: Phase::Pilot(pilot),
            slices_from: Duration::ZERO,
            entered: None,
            stopped: None,
        };
        if let (Some(slice_ms), Some(washout_ms)) =
            (trial.experiment.slice_ms, trial.experiment.washout_ms)
        {
            trial.begin_slices(crate::Timing {
                slice_ms,
                washout_ms,
            });
        }
        trial
    }

    /// What is known so far, without results.
    #[must_use]
    pub const fn experiment(&self) -> &Experiment {
        &self.experiment
    }

    /// The arm that is entered.
    #[must_use]
    pub fn arm(&self) -> Option<u32> {
        u32::try_from(self.entered.as_ref()?.arm).ok()
    }

    /// Keeps what was last seen of the program under an arm, in place of what was seen before.
    pub fn saw(&mut self, sight: Sight) {
        self.experiment.saw(sight);
    }

    /// Whether slices are not begun yet.
    #[must_use]
    pub const fn is_pilot(&self) -> bool {
        matches!(self.phase, Phase::Pilot(_))
    }

    /// Whether the reading that is due needs numbers that commands print.
    #[must_use]
    pub fn needs_commands(&self) -> bool {
        let outside = |name: &str| metric::source(name).is_some_and(|source| source.is_outside());
        let mut metrics = self.experiment.metrics.iter();
        !self.is_pilot() && metrics.any(|metric| outside(&metric.name))
    }

    /// What is to be done now. Every step but `Wait` and `Over` counts as carried out when the next is asked for;
    /// [`Self::entered`], [`Self::read`] and [`Self::left`] tell what came of it.
    pub fn next(&mut self, now: Duration) -> Step {
        let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let step = match &mut self.phase {
            Phase::Pilot(pilot) => pilot.next(now_ms),
            Phase::Slices(conductor) => conductor.next(now_ms),
            Phase::Over => return Step::Over,
        };
        match step {
            Step::Over if self.is_pilot() && self.stopped.is_none() => {
                self.slices_from = now;
                self.end_pilot();
                self.next(now)
            }
            Step::Over => {
                self.end();
                step
            }
            Step::Enter { block, arm } => {
                self.entered = Some(Entered {
                    block,
                    arm,
                    at: now,
                    touched: self.experiment.arms[arm].policy.is_some(),
                    before: Totals::default(),
                    readings: Vec::new(),
                    counts: false,
                });
                step
            }
            step => step,
        }
    }

    /// The arm was entered.
    pub fn entered(&mut self, before: Totals) {
        if let Some(entered) = &mut self.entered {
            entered.before = before;
        }
    }

    /// A reading was taken for `step`.
    pub fn read(&mut self, step: Step, reading: Reading) {
        let now_ms = u64::try_from(reading.at.as_millis()).unwrap_or(u64::MAX);
        if let Phase::Pilot(pilot) = &mut self.phase {
            pilot.read(now_ms, reading.moved.threads + reading.moved.pages);
            return;
        }
        if let Some(entered) = &mut self.entered {
            entered.readings.push(reading);
        }
        let harms = step == Step::Read && self.harms();
        if let Some(entered) = &mut self.entered {
            entered.counts |= harms || step == Step::Finish;
        }
        if let (true, Phase::Slices(conductor)) = (harms, &mut self.phase) {
            conductor.cut_short();
        }
    }

    /// The arm was left. Gives the slice, if it counts.
    pub fn left(&mut self, left: &Left) -> Option<&Slice> {
        let entered = self.entered.take()?;
        if !entered.counts {
            return None;
        }
        let slice = self.slice(&entered, left);
        let valued = slice.values.first().copied().flatten().is_some();
        self.experiment.slices.push(slice);
        let (done, arms) = (self.experiment.slices.len(), self.experiment.arms.len());
        if done == 1 && !valued {
            let name = &self.experiment.metrics[0].name;
            let why = format!("metric `{name}` {}", metric::NO_VALUE);
            self.stop(Ending::Failed, why);
        } else if done.is_multiple_of(arms)
            && done < self.planned()
            && results::decided(&self.experiment)
        {
            self.stop(Ending::Decided, String::new());
        } else if done.is_multiple_of(arms)
            && done < self.planned()
            && results::futile(&self.experiment)
        {
            let why = "values differ so much between slices that the pairs planned cannot decide";
            self.stop(Ending::Decided, why.to_owned());
        }
        self.experiment.slices.last()
    }

    /// Ends it: the present arm is left, no other is entered. The first reason stays.
    pub fn stop(&mut self, ending: Ending, why: String) {
        self.stopped.get_or_insert((ending, why));
        match &mut self.phase {
            Phase::Pilot(pilot) => pilot.stop(),
            Phase::Slices(conductor) => conductor.stop(),
            Phase::Over => {}
        }
    }

    /// Ends it because the present slice was not what its arm says, so that it does not count.
    pub fn spoil(&mut self, why: String) {
        if let Some(entered) = &mut self.entered {
            entered.counts = false;
        }
        self.stop(Ending::Failed, why);
    }

    /// Slices that there are to be.
    #[must_use]
    pub fn planned(&self) -> usize {
        self.experiment.blocks as usize * self.experiment.arms.len()
    }

    fn end_pilot(&mut self) {
        let Phase::Pilot(pilot) = &self.phase else {
            return;
        };
        let timing = match pilot.constant_ms() {
            Ok(constant_ms) => plan::timing(self.slice_ms, constant_ms)
                .map_err(|failure| format!("{} ({})", failure.message, failure.remedy)),
            Err(arm) => Err(format!(
                "under `{}` the program was still being moved after 2 min (name --slice and --time-constant)",
                self.experiment.arms[arm].name
            )),
        };
        match timing {
            Ok(timing) => self.begin_slices(timing),
            Err(why) => {
                self.stopped = Some((Ending::Failed, why));
                self.end();
            }
        }
    }

    fn begin_slices(&mut self, timing: crate::Timing) {
        let experiment = &mut self.experiment;
        experiment.slice_ms = Some(timing.slice_ms);
        experiment.washout_ms = Some(timing.washout_ms);
        let (arms, blocks) = (experiment.arms.len(), experiment.blocks as usize);
        match Design::draw(arms, blocks, u64::from(experiment.seed)) {
            Ok(design) => self.phase = Phase::Slices(Conductor::new(&design, timing)),
            Err(error) => {
                self.stopped = Some((Ending::Failed, error.to_string()));
                self.end();
            }
        }
    }

    fn end(&mut self) {
        self.phase = Phase::Over;
        let (ending, why) = self
            .stopped
            .clone()
            .unwrap_or((Ending::Complete, String::new()));
        // Results of a large experiment take long, and whoever reads it computes them anew.
        (self.experiment.ending, self.experiment.why) = (ending, why);
    }

    /// Whether the present slice is worse than the control's usual one by more than is allowed.
    fn harms(&self) -> bool {
        let Some(entered) = self
            .entered
            .as_ref()
            .filter(|it| it.arm > 0 && it.readings.len() > READINGS_BEFORE_HARM)
        else {
            return false;
        };
        let metric = &self.experiment.metrics[0];
        let usual = results::arm_values(&self.experiment, 0, 0);
        let usual = bootstrap::quantile(&usual, 0.5);
        let source = metric::source(&metric.name);
        let Some(value) = source.and_then(|it| metric::value(it, 0, &entered.readings)) else {
            return false;
        };
        let ratio = if metric.higher_is_better {
            value / usual
        } else {
            usual / value
        };
        ratio < 1.0 - self.max_harm
    }

    fn slice(&self, entered: &Entered, left: &Left) -> Slice {
        let metrics = self.experiment.metrics.iter().enumerate();
        let values = metrics.map(|(index, metric)| {
            let source = metric::source(&metric.name)?;
            metric::value(source, index, &entered.readings).map(kept)
        });
        let number = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
        let moved = entered.readings.last().map(|reading| reading.moved);
        let length = left.at.saturating_sub(entered.at);
        let whole = length + left.undo;
        let at = entered.at.saturating_sub(self.slices_from);
        Slice {
            block: number(entered.block),
            arm: number(entered.arm),
            at_s: kept(at.as_secs_f64()),
            length_s: kept(length.as_secs_f64()),
            values: values.collect(),
            exit_code: None,
            output: None,
            pressure: left.totals.waited_since(&entered.before, whole),
            disturbed: left.totals.since(&entered.before, whole),
            moved: entered.touched.then(|| Moved {
                undo_ms: u64::try_from(left.undo.as_millis()).ok(),
                ..moved.unwrap_or_default()
            }),
        }
    }
}

/// The arms that a pilot enters: every policy with its settings once.
fn pilot_arms(experiment: &Experiment) -> Vec<usize> {
    let arms = &experiment.arms;
    let alike = |one: usize, other: usize| {
        arms[one].policy == arms[other].policy && arms[one].set == arms[other].set
    };
    (0..arms.len())
        .filter(|&arm| arms[arm].policy.is_some() && !(0..arm).any(|other| alike(arm, other)))
        .collect()
}

#[cfg(test)]
mod tests {
    use control::experiment::{ExperimentRequest, Verdict};
    use control::rows::Counts;

    use super::*;

    /// What the machine does under an arm: instructions per millisecond, and moves.
    type World = fn(arm: usize, now: Duration) -> (u64, u64);

    fn trial(change: impl FnOnce(&mut ExperimentRequest)) -> Trial {
        let mut request = plan::tests::request();
        change(&mut request);
        let experiment = plan::slices(&request, "", String::new()).unwrap();
        Trial::new(experiment, request.slice_ms, request.max_harm)
    }

    /// Plays it to its end, on a clock that only goes when someone waits; stops it after so many steps.
    fn played(mut trial: Trial, world: World, steps_max: usize) -> (Experiment, Duration) {
        let (mut now, mut instructions, mut entered) = (Duration::ZERO, 0, None);
        for steps in 0.. {
            if steps == steps_max {
                trial.stop(Ending::Interrupted, "enough".to_owned());
            }
            let step = trial.next(now);
            match step {
                Step::Enter { arm, .. } => {
                    assert_eq!(entered.replace(arm), None);
                    trial.entered(totals(now));
                }
                Step::Wait { until_ms } => {
                    let then = Duration::from_millis(until_ms);
                    let rate = world(entered.unwrap_or(0), now).0;
                    instructions += rate * millis(then - now);
                    now = then;
                }
                Step::Begin | Step::Read | Step::Finish => {
                    let (_, pages) = world(entered.unwrap(), now);
                    trial.read(
                        step,
                        Reading {
                            at: now,
                            counts: Some(Counts {
                                instructions: Some(instructions),
                                ..Counts::default()
                            }),
                            moved: Moved {
                                pages,
                                ..Moved::default()
                            },
                            ..Reading::default()
                        },
                    );
                }
                Step::Leave => {
                    entered.take().unwrap();
                    trial.left(&Left {
                        at: now,
                        undo: Duration::from_millis(7),
                        totals: totals(now),
                    });
                }
                Step::Over => break,
            }
        }
        assert_eq!(entered, None, "an arm is left behind");
        let mut experiment = trial.experiment().clone();
        assert_eq!(
            experiment.results,
            [],
            "they would hold up whoever has others to serve"
        );
        experiment.results = results::results(&experiment);
        (experiment, now)
    }

    fn totals(now: Duration) -> Totals {
        Totals {
            cpu: Some(now / 2),
            memory: Some(now / 4),
            ..Totals::default()
        }
    }

    fn millis(time: Duration) -> u64 {
        u64::try_from(time.as_millis()).unwrap()
    }

    fn better(arm: usize, now: Duration) -> (u64, u64) {
        // Drift, and 10 % more under the second arm.
        let arm = u64::try_from(arm).unwrap();
        ((100_000 + millis(now)) * (10 + arm), arm * 5)
    }

    #[test]
    fn slices_become_a_verdict() {
        let (experiment, took) = played(trial(|it| it.blocks = 8), better, usize::MAX);
        assert_eq!(experiment.ending, Ending::Complete);
        assert_eq!(experiment.slices.len(), 16);
        assert_eq!(took, Duration::from_secs(16));
        assert_eq!(experiment.results[0].verdict, Verdict::Better);
        let slice = &experiment.slices[3];
        assert_eq!((slice.at_s, slice.length_s), (3.0, 1.0));
        let moved = slice.moved.unwrap();
        assert_eq!(
            (moved.pages, moved.undo_ms),
            (u64::from(slice.arm) * 5, Some(7))
        );
        assert!((slice.pressure.unwrap() - 0.5 / 1.007).abs() < 1e-9);
        let disturbed = slice.disturbed.unwrap();
        assert!((disturbed.memory_pressure.unwrap() - 0.25 / 1.007).abs() < 1e-9);
        assert_eq!(disturbed.stolen, None);
    }

    #[test]
    fn the_same_readings_give_the_same_experiment() {
        let once = || played(trial(|_| {}), better, usize::MAX).0;
        let text = |experiment: &Experiment| serde_json::to_string(experiment).unwrap();
        assert_eq!(text(&once()), text(&once()));
    }

    #[test]
    fn a_look_that_decides_ends_it() {
        let long = trial(|it| (it.blocks, it.looks) = (100, true));
        let (experiment, _) = played(long, better, usize::MAX);
        assert_eq!(experiment.ending, Ending::Decided);
        assert!(experiment.slices.len() < 60, "{}", experiment.slices.len());
        assert!(experiment.slices.len().is_multiple_of(2));
    }

    /// Wherever it is stopped: every arm is left, and there is a report of what there is.
    #[test]
    fn it_can_be_stopped_at_every_step() {
        for steps in 0..200 {
            let (experiment, _) = played(trial(|_| {}), better, steps);
            let ended = (experiment.ending, experiment.why.as_str());
            assert!(
                ended == (Ending::Interrupted, "enough") || experiment.slices.len() == 12,
                "{steps}: {ended:?}"
            );
        }
        for steps in 0..200 {
            let pilot = trial(|it| (it.time_constant_ms, it.slice_ms) = (None, None));
            let (experiment, _) = played(pilot, better, steps);
            assert_eq!(experiment.ending, Ending::Interrupted, "{steps}");
        }
    }

    #[test]
    fn a_slice_that_harms_ends_early_and_counts() {
        let harmful: World = |arm, _| (if arm == 0 { 10_000 } else { 1_000 }, 0);
        let (experiment, took) = played(trial(|_| {}), harmful, usize::MAX);
        assert_eq!(experiment.slices.len(), 12);
        assert_eq!(experiment.results[0].verdict, Verdict::Worse);
        assert!(took < Duration::from_secs(10), "{took:?}");
    }

    #[test]
    fn what_cannot_be_decided_any_more_ends_early() {
        // Slices differ by a factor of up to 5, whatever the arm.
        let wild: World = |_, now| (1_000 + millis(now) / 1_000 * 7_919 % 13 * 400, 0);
        let long = trial(|it| (it.blocks, it.looks) = (20, true));
        let (experiment, _) = played(long, wild, usize::MAX);
        assert_eq!(experiment.ending, Ending::Decided);
        assert!(
            experiment.why.contains("cannot decide"),
            "{}",
            experiment.why
        );
        assert_eq!(experiment.results[0].verdict, Verdict::Undecided);
        assert!(experiment.slices.len() < 40, "{}", experiment.slices.len());
        // Who wants all pairs gets them.
        let all = trial(|it| (it.blocks, it.looks) = (20, false));
        assert_eq!(played(all, wild, usize::MAX).0.slices.len(), 40);
    }

    #[test]
    fn a_metric_without_a_value_ends_it_after_one_slice() {
        let (experiment, _) = played(trial(|_| {}), |_, _| (0, 0), usize::MAX);
        assert_eq!(experiment.ending, Ending::Failed);
        assert!(experiment.why.contains("no value here"));
        assert_eq!(experiment.slices.len(), 1);
    }

    #[test]
    fn a_pilot_tells_how_long_slices_must_be() {
        // 12 s until two thirds of a policy's pages have moved.
        let slow: World = |arm, now| match arm {
            0 => (1_000, 0),
            _ => (1_000, millis(now).saturating_sub(20_000).min(19_000)),
        };
        let of = |slice_ms| {
            let trial = trial(|it| (it.time_constant_ms, it.slice_ms) = (None, slice_ms));
            played(trial, slow, usize::MAX).0
        };
        let experiment = of(None);
        assert_eq!(experiment.slice_ms, Some(120_000));
        assert_eq!(experiment.washout_ms, Some(30_000));
        assert_eq!(experiment.slices.len(), 12);
        assert!(experiment.slices[0].at_s.abs() < 1e-9);
        let refused = of(Some(59_000));
        assert_eq!(refused.ending, Ending::Failed);
        assert!(refused.why.contains("at least 60000 ms"), "{}", refused.why);
        assert_eq!(of(Some(60_000)).washout_ms, Some(30_000));
    }
}
