//! What follows from the slices of an experiment. The same slices give the same results, bit for bit.

use std::collections::BTreeMap;

use control::experiment::{Ending, Experiment, ResultRow, Slice, Verdict};

use crate::verdict::Verdict as Judged;
use crate::{Ended, Rules, holm, judge, student};

/// Results of every arm but the control: those of the primary metric first, then of the other metrics.
#[must_use]
pub fn results(experiment: &Experiment) -> Vec<ResultRow> {
    let others = experiment.arms.len() - 1;
    let ended = match experiment.ending {
        Ending::Complete | Ending::ProgramEnded | Ending::Failed => Ended::AsPlanned,
        // Its user saw how it stood, so only what holds at every look is claimed.
        Ending::Running | Ending::Decided | Ending::Interrupted => Ended::ByLook,
    };
    let primary = metric_results(experiment, 0, others, ended);
    let secondary = experiment.metrics.len() - 1;
    let questions = others * secondary;
    let rest =
        (1..=secondary).flat_map(|metric| metric_results(experiment, metric, questions, ended));
    let mut rest: Vec<ResultRow> = rest.collect();
    let adjusted = holm(&rest.iter().map(|row| row.p).collect::<Vec<f64>>());
    for (row, adjusted) in rest.iter_mut().zip(adjusted) {
        row.p_adjusted = adjusted;
    }
    let mut rows = primary;
    let adjusted = holm(&rows.iter().map(|row| row.p).collect::<Vec<f64>>());
    for (row, adjusted) in rows.iter_mut().zip(adjusted) {
        row.p_adjusted = adjusted;
    }
    rows.append(&mut rest);
    rows
}

/// The same experiment with its results, ended like this.
#[must_use]
pub fn ended(mut experiment: Experiment, ending: Ending, why: &str) -> Experiment {
    experiment.ending = ending;
    why.clone_into(&mut experiment.why);
    experiment.results = results(&experiment);
    experiment
}

/// The slice of this block and arm.
#[must_use]
pub fn slice(experiment: &Experiment, block: usize, arm: usize) -> Option<&Slice> {
    let is = |number: u32, index: usize| usize::try_from(number) == Ok(index);
    let mut slices = experiment.slices.iter();
    slices.find(|slice| is(slice.block, block) && is(slice.arm, arm))
}

/// The mean; none of nothing.
#[must_use]
pub(crate) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    (count > 0.0).then(|| sum / count)
}

/// Values of an arm, sorted.
#[must_use]
pub fn arm_values(experiment: &Experiment, arm: usize, metric: usize) -> Vec<f64> {
    let of_arm = experiment
        .slices
        .iter()
        .filter(|slice| usize::try_from(slice.arm) == Ok(arm));
    let mut values: Vec<f64> = of_arm
        .filter_map(|slice| slice.values.get(metric).copied()?)
        .collect();
    values.sort_by(f64::total_cmp);
    values
}

/// How verdicts are made when so many questions share the chance of a false alarm.
#[must_use]
pub fn rules(experiment: &Experiment, questions: usize) -> Rules {
    Rules {
        margin: experiment.margin.ln_1p(),
        contrasts: questions,
        looks: experiment.looks,
    }
}

/// Whether a look at the primary metric decides every arm.
#[must_use]
pub fn decided(experiment: &Experiment) -> bool {
    let rules = rules(experiment, experiment.arms.len() - 1);
    experiment.looks
        && (1..experiment.arms.len())
            .all(|arm| crate::decided(&amounts(experiment, arm, 0), &rules))
}

/// Whether the pairs that are left will hardly decide anything: for some arm that no look has decided an effect as large as
/// the margin, or as what was seen, would take more than four times the pairs planned.
#[must_use]
pub fn futile(experiment: &Experiment) -> bool {
    let planned = usize::try_from(experiment.blocks).unwrap_or(usize::MAX);
    let rules = rules(experiment, experiment.arms.len() - 1);
    experiment.looks
        && (1..experiment.arms.len())
            .any(|arm| crate::futile(&amounts(experiment, arm, 0), planned, &rules))
}

/// Parts of 1 that differences of logarithms are told to: 2^36. Rounding of logarithms is a hundred
/// times less, any effect a million times more. Equal effects so tie, as the test takes them.
const PARTS: f64 = 68_719_476_736.0;

/// The differences between an arm and the control, with their blocks: of logarithms, above 0 is better.
#[must_use]
pub fn differences(experiment: &Experiment, arm: usize, metric: usize) -> Vec<(usize, f64)> {
    let sign = if experiment.metrics[metric].higher_is_better {
        1.0
    } else {
        -1.0
    };
    let blocks = usize::try_from(experiment.blocks).unwrap_or_default();
    let (own, control) = (
        logarithms(experiment, arm, metric),
        logarithms(experiment, 0, metric),
    );
    let difference = |block| {
        let exact: f64 = sign * (own.get(&block)? - control.get(&block)?);
        // No difference has no sign: adding 0 makes one of -0.
        Some((block, (exact * PARTS).round() / PARTS + 0.0))
    };
    (0..blocks).filter_map(difference).collect()
}

/// Logarithms of an arm's values by block, of those that have one: of the slices that [`slice()`]
/// gives.
fn logarithms(experiment: &Experiment, arm: usize, metric: usize) -> BTreeMap<usize, f64> {
    let mut slices: BTreeMap<usize, &Slice> = BTreeMap::new();
    for slice in &experiment.slices {
        if usize::try_from(slice.arm) == Ok(arm)
            && let Ok(block) = usize::try_from(slice.block)
        {
            slices.entry(block).or_insert(slice);
        }
    }
    let values = slices.into_iter().filter_map(|(block, slice)| {
        let value = slice.values.get(metric).copied()??;
        (value.is_finite() && value > 0.0).then(|| (block, value.ln()))
    });
    values.collect()
}

/// The same without their blocks.
fn amounts(experiment: &Experiment, arm: usize, metric: usize) -> Vec<f64> {
    let pairs = differences(experiment, arm, metric).into_iter();
    pairs.map(|(_, difference)| difference).collect()
}

/// How much better an arm is where the control went first, and where it went second, if these differ by more than chance:
/// then who goes first leaves something behind.
#[must_use]
pub fn by_order(experiment: &Experiment, arm: usize) -> Option<[f64; 2]> {
    let mut first = Vec::new();
    let mut second = Vec::new();
    for (block, difference) in differences(experiment, arm, 0) {
        let at = |arm| slice(experiment, block, arm).map(|slice| slice.at_s);
        match at(0) < at(arm) {
            true => first.push(difference),
            false => second.push(difference),
        }
    }
    let [first, second] = [first, second].map(|differences| student::spread(&differences));
    let apart = (first.mean - second.mean).abs() > first.margin + second.margin;
    apart.then(|| [first, second].map(|spread| spread.mean.exp_m1()))
}

fn metric_results(
    experiment: &Experiment,
    metric: usize,
    questions: usize,
    ended: Ended,
) -> Vec<ResultRow> {
    let rules = rules(experiment, questions);
    let row = |arm: usize| {
        let judged = judge(&amounts(experiment, arm, metric), &rules, ended);
        let share = |logarithm: f64| logarithm.is_finite().then(|| logarithm.exp_m1());
        let (verdict, more_pairs) = match judged.verdict {
            Judged::Better => (Verdict::Better, None),
            Judged::Worse => (Verdict::Worse, None),
            Judged::Same => (Verdict::Same, None),
            Judged::Undecided { more_pairs } => (Verdict::Undecided, more_pairs),
        };
        ResultRow {
            arm: experiment.arms[arm].name.clone(),
            metric: experiment.metrics[metric].name.clone(),
            pairs: u32::try_from(judged.pairs).unwrap_or(u32::MAX),
            gain: share(judged.effect),
            low: share(judged.interval.low),
            high: share(judged.interval.high),
            confidence: judged.confidence,
            p: judged.p,
            p_adjusted: judged.p,
            p_anytime: judged.p_anytime,
            verdict,
            more_pairs: more_pairs.and_then(|pairs| u64::try_from(pairs).ok()),
        }
    };
    (1..experiment.arms.len()).map(row).collect()
}
