//! A report as a table, as JSON, and as pictures.

use std::fmt;

use crate::driver::{Snapshot, WindowRow};
use crate::json;
use crate::picture::{SIDE_MAX, places, shades};
use crate::report::{Report, Summary};
use crate::story::Story;

/// The table: window by window, then in all.
#[derive(Debug)]
pub struct Table<'a>(pub &'a Report);

/// The table with what was seen, what was done and why, and the undo.
#[derive(Debug)]
pub struct Show<'a>(pub &'a Report);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        head(f, self.0)?;
        window_table(f, &self.0.windows)?;
        totals(f, self.0)?;
        last_words(f, self.0)
    }
}

impl fmt::Display for Show<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.0;
        head(f, report)?;
        snapshots(f, "Seen before anything was changed", &report.before)?;
        writeln!(f, "\nWhat was done and why")?;
        story(f, &report.story)?;
        snapshots(f, "In the end", &report.after)?;
        writeln!(f)?;
        window_table(f, &report.windows)?;
        totals(f, report)?;
        last_words(f, report)
    }
}

/// What was done and why.
pub(crate) fn story(f: &mut fmt::Formatter<'_>, story: &Story) -> fmt::Result {
    for line in story.lines() {
        wrapped(f, &format!("  {line}"), STORY_INDENT)?;
    }
    if story.more() > 0 {
        writeln!(f, "  and {} lines more", story.more())?;
    }
    if story.lines().is_empty() {
        writeln!(f, "  nothing")?;
    }
    Ok(())
}

/// A mean distance; a dash while unknown.
pub(crate) fn distance(centi: Option<u32>) -> String {
    centi.map_or_else(
        || "-".to_owned(),
        |centi| format!("{}.{:02}", centi / 100, centi % 100),
    )
}

/// A terminal is at least this wide.
const WIDTH: usize = 80;
/// Where the sentences of the story begin, behind time and program.
const STORY_INDENT: usize = 25;

/// A line, broken between words where a terminal would break it anywhere.
pub(crate) fn wrapped(f: &mut fmt::Formatter<'_>, line: &str, indent: usize) -> fmt::Result {
    let mut rest = line;
    let mut room = WIDTH;
    while let Some((end, _)) = rest.char_indices().nth(room) {
        let Some(at) = rest[..=end].rfind(' ').filter(|&at| at > indent) else {
            break;
        };
        write!(f, "{}\n{:indent$}", &rest[..at], "")?;
        rest = &rest[at + 1..];
        room = WIDTH - indent;
    }
    writeln!(f, "{rest}")
}

fn head(f: &mut fmt::Formatter<'_>, report: &Report) -> fmt::Result {
    let scenario = &report.scenario;
    let nodes = report.topology.nodes().len();
    let line = format!(
        "SIMULATED machine {} ({nodes} nodes, {} cpus), {} threads of {}{}, policy {}, {} s, faults {}",
        scenario.topology,
        report.topology.usable().len(),
        scenario.threads.unwrap_or(0),
        scenario.workload,
        scenario.conditions,
        scenario.policy,
        scenario.seconds,
        scenario.faults.names(),
    );
    wrapped(f, &line, "SIMULATED ".len())?;
    writeln!(f)
}

fn window_table(f: &mut fmt::Formatter<'_>, windows: &[WindowRow]) -> fmt::Result {
    writeln!(
        f,
        "  time prog window samples  lost wanted bound pages refused distance local speed"
    )?;
    for row in windows {
        let summary = &row.summary;
        let distance = distance(summary.distance_centi);
        writeln!(
            f,
            "{:3}.{:02} {:4} {:4}ms {:7} {:5} {:6} {:5} {:5} {:7} {distance:>8} {:4.0}% {:4.0}%",
            row.time_ms / 1000,
            row.time_ms % 1000 / 10,
            row.program,
            summary.window_ms,
            summary.samples,
            summary.lost,
            summary.proposals,
            row.bound,
            row.moved_pages,
            row.refused,
            row.local_share.unwrap_or(0.0) * 100.0,
            row.speed.unwrap_or(0.0) * 100.0,
        )?;
    }
    writeln!(f)
}

fn totals(f: &mut fmt::Formatter<'_>, report: &Report) -> fmt::Result {
    let (found, none) = (&report.outcome, &report.none);
    let policy = &report.scenario.policy;
    writeln!(f, "{:26}{:>14}{policy:>14}", "in all", "none")?;
    let mut line = |name: &str, value: fn(&Summary) -> String| {
        writeln!(f, "{name:26}{:>14}{:>14}", value(none), value(found))
    };
    line("work done", |s| format!("{:.3} s", s.work_s))?;
    line("speed", |s| format!("{:.1} %", s.speed * 100.0))?;
    line("mean latency", |s| format!("{:.1} ns", s.latency_ns))?;
    line("local accesses", |s| {
        format!("{:.1} %", s.local_share * 100.0)
    })?;
    line("controller imbalance", |s| format!("{:.2}", s.imbalance))?;
    line("threads changing node", |s| s.task_moves.to_string())?;
    line("pages changing node", |s| s.page_moves.to_string())?;
    writeln!(
        f,
        "work done compared to none: {:+.1} %",
        report.gain_percent()
    )
}

fn last_words(f: &mut fmt::Formatter<'_>, report: &Report) -> fmt::Result {
    let undo = if report.undo_complete {
        "complete: every mask and every page is what it was"
    } else {
        "INCOMPLETE"
    };
    writeln!(f, "undo: {undo}")?;
    for violation in &report.violations {
        writeln!(f, "VIOLATION {violation}")?;
    }
    Ok(())
}

fn snapshots(f: &mut fmt::Formatter<'_>, title: &str, snapshots: &[Snapshot]) -> fmt::Result {
    for snapshot in snapshots {
        writeln!(f, "\n{title}, program {}", snapshot.program)?;
        write!(f, "{}", shades(snapshot))?;
        if snapshot.threads.len() > SIDE_MAX {
            // Else each row says it.
            for line in places(snapshot).lines() {
                wrapped(f, line, "  node 0: ".len())?;
            }
        }
    }
    Ok(())
}

impl Report {
    /// The whole report as one line of JSON. Beginning with the seed, so that it can be run again.
    #[must_use]
    pub fn json(&self) -> String {
        let scenario = &self.scenario;
        let settings = scenario.settings.iter();
        json::object(&[
            ("seed", scenario.seed.to_string()),
            ("topology", json::text(&scenario.topology)),
            ("workload", json::text(&scenario.workload.to_string())),
            ("threads", scenario.threads.unwrap_or(0).to_string()),
            (
                "conditions",
                json::text(scenario.conditions.to_string().trim_start()),
            ),
            ("bandwidth", json::text(&scenario.bandwidth.to_string())),
            ("seconds", scenario.seconds.to_string()),
            ("policy", json::text(&scenario.policy)),
            (
                "settings",
                json::array(settings.map(|(name, text)| json::text(&format!("{name}={text}")))),
            ),
            ("faults", json::text(&scenario.faults.names())),
            ("windows", json::array(self.windows.iter().map(window_json))),
            ("outcome", summary_json(&self.outcome)),
            ("none", summary_json(&self.none)),
            ("gain_percent", json::number(self.gain_percent())),
            ("before", json::array(self.before.iter().map(snapshot_json))),
            ("after", json::array(self.after.iter().map(snapshot_json))),
            (
                "story",
                json::array(self.story.lines().iter().map(|line| json::text(line))),
            ),
            ("undo_complete", self.undo_complete.to_string()),
            (
                "violations",
                json::array(self.violations.iter().map(|line| json::text(line))),
            ),
        ])
    }
}

fn window_json(row: &WindowRow) -> String {
    let summary = &row.summary;
    let distance = summary.distance_centi.map(|centi| centi.to_string());
    json::object(&[
        ("time_ms", row.time_ms.to_string()),
        ("program", row.program.to_string()),
        ("window_ms", summary.window_ms.to_string()),
        ("next_ms", summary.next_ms.to_string()),
        ("samples", summary.samples.to_string()),
        ("lost", summary.lost.to_string()),
        ("tasks", summary.tasks.to_string()),
        ("pages", summary.pages.to_string()),
        ("proposals", summary.proposals.to_string()),
        ("bound", row.bound.to_string()),
        ("moved_pages", row.moved_pages.to_string()),
        ("refused", row.refused.to_string()),
        ("distance_centi", json::optional(distance)),
        ("local_share", json::number(row.local_share.unwrap_or(0.0))),
        ("speed", json::number(row.speed.unwrap_or(0.0))),
    ])
}

fn summary_json(summary: &Summary) -> String {
    json::object(&[
        ("work_s", json::number(summary.work_s)),
        ("speed", json::number(summary.speed)),
        ("latency_ns", json::number(summary.latency_ns)),
        ("local_share", json::number(summary.local_share)),
        ("imbalance", json::number(summary.imbalance)),
        ("task_moves", summary.task_moves.to_string()),
        ("page_moves", summary.page_moves.to_string()),
        ("samples", summary.samples.to_string()),
        ("lost", summary.lost.to_string()),
    ])
}

pub(crate) fn snapshot_json(snapshot: &Snapshot) -> String {
    let threads = snapshot.threads.iter().map(|(key, node)| {
        json::object(&[
            ("tid", key.tid.to_string()),
            ("node", json::optional(node.map(|node| node.to_string()))),
        ])
    });
    let pairs = snapshot.matrix.pairs();
    let pairs = pairs.map(|(one, other, amount)| format!("[{one},{other},{amount}]"));
    json::object(&[
        ("program", snapshot.program.to_string()),
        ("threads", json::array(threads)),
        ("communication", json::array(pairs)),
    ])
}
