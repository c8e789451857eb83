//! A profile as text.

use control::profile::{Class, Group, Level, Metrics, Pair, Profile};

use super::table::{Side, table};
use super::units::{bytes, count, share};
use super::wrap::paragraph;

/// Pairs that are listed.
const PAIRS_MAX: usize = 12;

/// The profile, in a few tables, and sentences in lines of at most `width`.
#[must_use]
pub fn text(profile: &Profile, width: usize) -> String {
    let what = format!(
        "{}: {}, {}{}",
        profile.source,
        count(profile.tasks.len() as u64, "task"),
        level(profile.level),
        length(profile)
    );
    let mut text = paragraph(&what, width) + &paragraph(&verdict(profile), width) + "\n";
    let rows: Vec<Vec<String>> = known(&profile.metrics).map(Vec::from).into();
    text += &table(
        &[
            ("METRIC", Side::Left),
            ("VALUE", Side::Right),
            ("WHAT", Side::Left),
        ],
        &rows,
    );
    let head = ["GROUP", "FROM", "TO", "TASKS", "EVENTS", "BYTES"];
    let head: Vec<(&str, Side)> = head.map(|name| (name, Side::Right)).into();
    text += &format!("\n{}", table(&head, &groups(profile)));
    let (pairs, left_out) = pairs(profile);
    let head = [
        ("PAIR", Side::Left),
        ("EVENTS", Side::Right),
        ("BYTES", Side::Right),
    ];
    text += &format!("\n{}", table(&head, &pairs));
    if left_out > 0 {
        text += &format!("and {}\n", count(left_out as u64, "pair"));
    }
    for unknown in &profile.unknown {
        let why = format!("{} is unknown: {}", unknown.metric, unknown.why);
        text += &paragraph(&why, width);
    }
    for note in &profile.notes {
        text += &paragraph(&format!("note: {note}"), width);
    }
    text
}

pub(super) const fn level(level: Level) -> &'static str {
    match level {
        Level::Line => "sharing of lines",
        Level::Page => "sharing of pages",
        Level::Message => "messages",
    }
}

pub(super) fn length(profile: &Profile) -> String {
    profile
        .length_s
        .map_or_else(String::new, |length| format!(", {length:.3} s"))
}

/// One sentence on the class, with the thresholds that it rests on.
pub(super) fn verdict(profile: &Profile) -> String {
    let limits = &profile.thresholds;
    match profile.class {
        Some(Class::NonMapping) => format!(
            "Class: non-mapping. CommR is below {} and DramR below {}: mapping cannot help.",
            limits.comm_min, limits.dram_min
        ),
        Some(Class::Static) => format!(
            "Class: static. CommDyn is at most {}: one mapping before the start serves (`numadctl plan`).",
            limits.changes_max
        ),
        Some(Class::Dynamic) => format!(
            "Class: dynamic. CommDyn is above {}: mapping must follow the program (`numadctl attach`).",
            limits.changes_max
        ),
        None => match &profile.class_unknown {
            Some(why) => format!("Class: unknown. {why}.{}", otherwise(profile)),
            None => "Class: unknown. A metric that decides it is not known here.".to_owned(),
        },
    }
}

/// What is known of a class that is not.
fn otherwise(profile: &Profile) -> &'static str {
    match profile.class_if_mapping_helps {
        Some(Class::Static) => " If mapping helps at all: static.",
        Some(Class::Dynamic) => " If mapping helps at all: dynamic.",
        Some(Class::NonMapping) | None => "",
    }
}

/// Name, value and meaning of each metric; of one that is not known, why.
pub(super) fn metrics(profile: &Profile) -> [[String; 3]; 6] {
    let mut rows = known(&profile.metrics);
    for [name, _, meaning] in &mut rows {
        if let Some(unknown) = profile.unknown.iter().find(|it| it.metric == *name) {
            *meaning += &format!("; unknown: {}", unknown.why);
        }
    }
    rows
}

fn known(metrics: &Metrics) -> [[String; 3]; 6] {
    let row =
        |name: &str, value: String, meaning: &str| [name.to_owned(), value, meaning.to_owned()];
    let changes = metrics
        .changes
        .map_or_else(|| "-".to_owned(), |changes| changes.to_string());
    [
        row(
            "Lcomm",
            bytes(metrics.comm_bytes),
            "communication, both directions",
        ),
        row(
            "CommR",
            share(metrics.comm_ratio),
            "communication per memory access",
        ),
        row(
            "CommC",
            share(metrics.concurrency),
            "mean part of the tasks that is in a group",
        ),
        row(
            "DramR",
            share(metrics.dram_ratio),
            "accesses that memory answered",
        ),
        row(
            "CommLoc",
            format!("{:.4}", metrics.locality),
            "variance of a task's pairs, the largest is 1",
        ),
        row(
            "CommDyn",
            changes,
            "changes of the order of tasks, second by second",
        ),
    ]
}

/// A row for each group.
pub(super) fn groups(profile: &Profile) -> Vec<Vec<String>> {
    let time = |time: Option<f64>| time.map_or_else(|| "-".to_owned(), |time| format!("{time:.3}"));
    let row = |(number, group): (usize, &Group)| {
        let sum =
            |part: fn(&Pair) -> u64| group.pairs.iter().map(part).fold(0, u64::saturating_add);
        let mut tasks: Vec<usize> = group
            .pairs
            .iter()
            .flat_map(|pair| [pair.low, pair.high])
            .collect();
        tasks.sort_unstable();
        tasks.dedup();
        vec![
            (number + 1).to_string(),
            time(group.from_s),
            time(group.to_s),
            tasks.len().to_string(),
            sum(|pair| pair.events).to_string(),
            bytes(sum(|pair| pair.bytes)),
        ]
    };
    profile.groups.iter().enumerate().map(row).collect()
}

/// A row for each of the pairs that communicate most, and how many more there are.
pub(super) fn pairs(profile: &Profile) -> (Vec<Vec<String>>, usize) {
    let mut sums: std::collections::BTreeMap<(usize, usize), (u64, u64)> =
        std::collections::BTreeMap::new();
    for pair in profile.groups.iter().flat_map(|group| &group.pairs) {
        let sum = sums.entry((pair.low, pair.high)).or_default();
        sum.0 = sum.0.saturating_add(pair.bytes);
        sum.1 = sum.1.saturating_add(pair.events);
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|&(pair, (bytes, _))| (std::cmp::Reverse(bytes), pair));
    let left_out = sums.len().saturating_sub(PAIRS_MAX);
    let rows = sums
        .into_iter()
        .take(PAIRS_MAX)
        .map(|((low, high), (sum, events))| {
            vec![
                format!("{} - {}", profile.tasks[low], profile.tasks[high]),
                events.to_string(),
                bytes(sum),
            ]
        });
    (rows.collect(), left_out)
}
