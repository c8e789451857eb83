//! What an experiment has to say, for a terminal.

use control::experiment::{Ending, Experiment, Kind, ResultRow, Verdict};
use experiment::bootstrap;
use experiment::disturbance::{OfArm, of_arm};
use experiment::results::{self, arm_values};

use super::table::{Side, table};
use super::units::seconds;
use super::wrap::paragraph;

/// Verdict first, then the figures behind it; sentences in lines of at most `width`.
#[must_use]
pub fn text(experiment: &Experiment, width: usize) -> String {
    let mut text = String::new();
    for row in primary(experiment) {
        text.push_str(&paragraph(&sentence(experiment, row), width));
    }
    text.push('\n');
    text.push_str(&paragraph(&ending(experiment), width));
    for note in notes(experiment) {
        text.push_str(&paragraph(&format!("note: {note}"), width));
    }
    text.push('\n');
    text.push_str(&arms(experiment));
    text.push('\n');
    text.push_str(&result_table(&experiment.results));
    if let Some((head, rows)) = disturbed(experiment) {
        let head: Vec<(&str, Side)> = head
            .iter()
            .enumerate()
            .map(|(at, name)| (*name, if at == 0 { Side::Left } else { Side::Right }))
            .collect();
        text.push_str("\nbeside the policies, mean of each one's slices, switching included\n");
        text.push_str(&table(&head, &rows));
    }
    text
}

/// What disturbed each arm's slices, who was disturbed, and what leaving the arm took: only columns that something is
/// known of.
pub(crate) fn disturbed(experiment: &Experiment) -> Option<(Vec<&'static str>, Vec<Vec<String>>)> {
    let arms: Vec<OfArm> = (0..experiment.arms.len())
        .map(|arm| of_arm(experiment, arm))
        .collect();
    let share = |value: f64| percent(value);
    let number = |value: f64| format!("{value:.1}");
    type Column = (&'static str, fn(&OfArm) -> Option<f64>, fn(f64) -> String);
    let columns: [Column; 7] = [
        ("WAIT CPU", |it| it.pressure, share),
        ("WAIT MEMORY", |it| it.memory_pressure, share),
        ("STOLEN", |it| it.stolen, share),
        ("KERNEL MOVED", |it| it.balanced_pages, number),
        ("NEIGHBOUR CPU", |it| it.neighbour_cpu, share),
        ("NEIGHBOUR MEMORY", |it| it.neighbour_memory, share),
        ("UNDO MS", |it| it.undo_ms, number),
    ];
    let known: Vec<&Column> = columns
        .iter()
        .filter(|column| arms.iter().any(|arm| (column.1)(arm).is_some()))
        .collect();
    let head = std::iter::once("POLICY").chain(known.iter().map(|column| column.0));
    let rows = experiment.arms.iter().zip(&arms).map(|(named, arm)| {
        let cells = known
            .iter()
            .map(|column| (column.1)(arm).map_or_else(|| "-".to_owned(), column.2));
        std::iter::once(named.name.clone()).chain(cells).collect()
    });
    (!known.is_empty()).then(|| (head.collect(), rows.collect()))
}

/// Results of the metric that the verdict goes by.
pub(crate) fn primary(experiment: &Experiment) -> &[ResultRow] {
    let count = experiment.arms.len() - 1;
    experiment.results.get(..count).unwrap_or_default()
}

fn pairs(count: u64, which: &str) -> String {
    match count {
        1 => format!("1 {which}pair"),
        _ => format!("{count} {which}pairs"),
    }
}

/// The verdict on an arm in one sentence.
pub(crate) fn sentence(experiment: &Experiment, row: &ResultRow) -> String {
    let control = &experiment.arms[0].name;
    let (arm, metric) = (&row.arm, &row.metric);
    let effect = || {
        let gain = row.gain.unwrap_or_default();
        format!(
            "{metric} is {} {} ({}, {:.1} % confidence, {})",
            percent(gain.abs()),
            if gain >= 0.0 { "better" } else { "worse" },
            range(row),
            row.confidence * 100.0,
            pairs(u64::from(row.pairs), "")
        )
    };
    match row.verdict {
        Verdict::Better => format!("{arm} is better than {control}: {}", effect()),
        Verdict::Worse => format!("{arm} is worse than {control}: {}", effect()),
        Verdict::Same => format!(
            "{arm} is the same as {control} within {}: {}",
            percent(experiment.margin),
            effect()
        ),
        Verdict::Undecided if row.pairs == 0 => {
            format!("undecided between {arm} and {control}: no pair of values")
        }
        Verdict::Undecided => {
            let more = row.more_pairs.map_or_else(String::new, |more| {
                format!(
                    "; about {} would tell an effect of {}",
                    pairs(more, "more "),
                    percent(experiment.margin)
                )
            });
            let gain = row.gain.map_or_else(String::new, signed);
            let (range, pairs) = (range(row), pairs(u64::from(row.pairs), ""));
            format!(
                "undecided between {arm} and {control}: {metric} {gain} ({range}, {pairs}){more}"
            )
        }
    }
}

/// How it ended, how much there is, and what its order follows from.
pub(crate) fn ending(experiment: &Experiment) -> String {
    let how = match experiment.ending {
        Ending::Running => "not ended",
        Ending::Complete => "complete",
        Ending::Decided if experiment.why.is_empty() => "ended early, decided",
        Ending::Decided => "ended early",
        Ending::Interrupted => "interrupted",
        Ending::ProgramEnded => "the program ended",
        Ending::Failed => "failed",
    };
    let why = match experiment.why.as_str() {
        "" => String::new(),
        why => format!(" ({why})"),
    };
    let (done, what) = (experiment.slices.len(), noun(experiment));
    let planned = usize::try_from(experiment.blocks).unwrap_or_default() * experiment.arms.len();
    let timing = match (experiment.slice_ms, experiment.washout_ms) {
        (Some(slice), Some(washout)) => {
            format!(", slices of {slice} ms of which the first {washout} ms are dropped")
        }
        _ => String::new(),
    };
    format!(
        "{how}{why}: {done} of {planned} {what}, seed {}, margin {}{timing}",
        experiment.seed,
        percent(experiment.margin)
    )
}

/// What one measured piece is called.
pub(crate) fn noun(experiment: &Experiment) -> &'static str {
    match experiment.kind {
        Kind::Runs => "runs",
        Kind::Slices => "slices",
    }
}

/// What a reader should know beside the verdict.
pub(crate) fn notes(experiment: &Experiment) -> Vec<String> {
    let mut notes = Vec::new();
    for (index, metric) in experiment.metrics.iter().enumerate() {
        let values = experiment
            .slices
            .iter()
            .filter_map(|slice| slice.values.get(index));
        let missing = values
            .filter(|value| !value.is_some_and(|value| value > 0.0))
            .count();
        if missing > 0 {
            notes.push(format!(
                "{missing} of the {} {} no value above 0 of {}; pairs without one do not count",
                noun(experiment),
                if missing == 1 { "has" } else { "have" },
                metric.name
            ));
        }
    }
    let failed = experiment
        .slices
        .iter()
        .filter(|slice| slice.exit_code.is_some_and(|code| code != 0));
    let failed = failed.count();
    if failed > 0 {
        notes.push(format!(
            "{failed} of the runs ended with another exit code than 0"
        ));
    }
    for (index, arm) in experiment.arms.iter().enumerate().skip(1) {
        if let Some([first, second]) = results::by_order(experiment, index) {
            notes.push(format!(
                "{}: {} where the control went first, {} where it went second; what runs first may leave something behind",
                arm.name,
                signed(first),
                signed(second)
            ));
        }
        if experiment.kind == Kind::Runs
            && let Some(total) = total_time(experiment, index)
        {
            notes.push(format!("{}: {total}", arm.name));
        }
    }
    if experiment.ending == Ending::Interrupted {
        notes.push("whoever interrupts has seen how it stood, so the bounds are those that hold at every look".to_owned());
    }
    notes
}

/// The time of all runs together as a share of the control's, by the bootstrap.
fn total_time(experiment: &Experiment, arm: usize) -> Option<String> {
    let metric = experiment
        .metrics
        .iter()
        .position(|metric| metric.name == "wall")?;
    let value = |block, arm| {
        results::slice(experiment, block, arm)?
            .values
            .get(metric)
            .copied()?
    };
    let pairs: Vec<(f64, f64)> = (0..usize::try_from(experiment.blocks).ok()?)
        .filter_map(|block| Some((value(block, 0)?, value(block, arm)?)))
        .collect();
    let (ratio, interval) = bootstrap::ratio_of_sums(&pairs, 0.05, u64::from(experiment.seed));
    (interval.low.is_finite()).then(|| {
        format!(
            "all runs together took {:.3} times as long as the control's ({:.3} to {:.3}, bootstrap, 95 %; no part of the verdict)",
            ratio, interval.low, interval.high
        )
    })
}

/// Each arm's values of each metric: median and quartiles.
fn arms(experiment: &Experiment) -> String {
    let head = [
        ("POLICY", Side::Left),
        ("METRIC", Side::Left),
        ("N", Side::Right),
        ("LEAST", Side::Right),
        ("MEDIAN", Side::Right),
        ("MOST", Side::Right),
        ("UNIT", Side::Left),
    ];
    table(&head, &arm_rows(experiment))
}

/// Rows of that table.
pub(crate) fn arm_rows(experiment: &Experiment) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (number, arm) in experiment.arms.iter().enumerate() {
        for (index, metric) in experiment.metrics.iter().enumerate() {
            let values = arm_values(experiment, number, index);
            let at = |share| figure(bootstrap::quantile(&values, share));
            rows.push(vec![
                arm.name.clone(),
                metric.name.clone(),
                values.len().to_string(),
                at(0.0),
                at(0.5),
                at(1.0),
                metric.unit.clone(),
            ]);
        }
    }
    rows
}

fn result_table(results: &[ResultRow]) -> String {
    let head = [
        ("POLICY", Side::Left),
        ("METRIC", Side::Left),
        ("PAIRS", Side::Right),
        ("GAIN", Side::Right),
        ("BOUNDS", Side::Left),
        ("P", Side::Right),
        ("VERDICT", Side::Left),
    ];
    table(&head, &result_rows(results))
}

/// Rows of that table.
pub(crate) fn result_rows(results: &[ResultRow]) -> Vec<Vec<String>> {
    results
        .iter()
        .map(|row| {
            vec![
                row.arm.clone(),
                row.metric.clone(),
                row.pairs.to_string(),
                row.gain.map_or_else(|| "-".to_owned(), signed),
                range(row),
                probability(row.p_adjusted),
                word(row.verdict).to_owned(),
            ]
        })
        .collect()
}

fn probability(p: f64) -> String {
    if p < 0.0001 {
        "<0.0001".to_owned()
    } else {
        format!("{p:.4}")
    }
}

/// A verdict in one word.
pub(crate) const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Same => "the same",
        Verdict::Undecided => "undecided",
    }
}

fn range(row: &ResultRow) -> String {
    match (row.low, row.high) {
        (Some(low), Some(high)) => format!("{} to {}", signed(low), signed(high)),
        (Some(low), None) => format!("at least {}", signed(low)),
        (None, Some(high)) => format!("at most {}", signed(high)),
        (None, None) => "no bounds yet".to_owned(),
    }
}

/// A share as `+5.2 %`.
pub(crate) fn signed(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}

/// A share as `5.2 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Four digits that count.
pub(crate) fn figure(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let amount = value.abs();
    if amount >= 1e6 || (amount > 0.0 && amount < 1e-3) {
        return format!("{value:.3e}");
    }
    let decimals = match amount {
        1000.0.. => 0,
        100.0.. => 1,
        10.0.. => 2,
        1.0.. => 3,
        _ => 4,
    };
    format!("{value:.decimals$}")
}

/// How long what remains takes, as far as one can tell.
#[must_use]
pub fn remaining(experiment: &Experiment) -> Option<String> {
    let planned = usize::try_from(experiment.blocks).ok()? * experiment.arms.len();
    let done = experiment.slices.len();
    let last = experiment.slices.last()?;
    let left = planned.checked_sub(done)?;
    let each = (last.at_s + last.length_s) / done as f64;
    Some(seconds(each * left as f64))
}
