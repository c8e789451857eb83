//! A replay as a table and as JSON.

use std::fmt;

use sampler::recording::{Ending, Survey};
use topology::{NodeId, TaskKey};

use super::ReplayReport;
use crate::driver::WindowRow;
use crate::json;
use crate::render::{distance, snapshot_json, story, wrapped};

/// The table: what was replayed, window by window, what was done and why, and in all.
#[derive(Debug)]
pub struct Table<'a>(pub &'a ReplayReport);

/// Where text begins behind a label.
const INDENT: usize = 10;

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.0;
        head(f, report)?;
        windows(f, &report.windows)?;
        writeln!(f, "\nWhat would have been done and why")?;
        story(f, &report.story)?;
        writeln!(f, "\nThreads in the end")?;
        places(f, report)?;
        totals(f, report)
    }
}

/// What it holds beside samples, where it does.
fn messages(survey: &Survey) -> String {
    match survey.messages {
        0 => String::new(),
        some => format!(" and {}", counted(some, "message", "messages")),
    }
}

fn head(f: &mut fmt::Formatter<'_>, report: &ReplayReport) -> fmt::Result {
    let (spec, survey) = (&report.spec, &report.survey);
    let ending = match (&survey.damage, survey.ending) {
        (Some(damage), _) => damage.to_string(),
        (None, Ending::Complete) => "complete".to_owned(),
        (None, cut_off) => cut_off.to_string(),
    };
    let lines = [
        ("REPLAY", format!("`{}`, {ending}", spec.name)),
        (
            "holds",
            format!(
                "{}{} of {} in {}, {} lost, {:.1} s",
                counted(survey.samples, "sample", "samples"),
                messages(survey),
                counted(many(survey.threads.len()), "thread", "threads"),
                counted(many(survey.processes().len()), "process", "processes"),
                survey.lost,
                length_s(report)
            ),
        ),
        ("source", or_untold(&survey.header.source).to_owned()),
        ("machine", machine(report)),
        ("policy", policy(report)),
    ];
    for (label, text) in lines {
        wrapped(f, &format!("{label:INDENT$}{text}"), INDENT)?;
    }
    writeln!(f)
}

/// A count with its noun.
fn counted(count: u64, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

fn many(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

fn or_untold(text: &str) -> &str {
    if text.is_empty() { "not told" } else { text }
}

fn machine(report: &ReplayReport) -> String {
    let how = if report.other_machine {
        "another than the recorded one, with threads spread as a scheduler does at first"
    } else {
        "as recorded, with threads where they were sampled"
    };
    format!("{}; {how}", report.topology.summary())
}

fn policy(report: &ReplayReport) -> String {
    let mut text = report.spec.policy.clone();
    for (name, value) in &report.spec.settings {
        text += &format!(" {name}={value}");
    }
    text
}

fn length_s(report: &ReplayReport) -> f64 {
    let span = report.survey.span;
    span.map_or(0.0, |(first, last)| last.since(first).as_secs_f64())
}

fn windows(f: &mut fmt::Formatter<'_>, rows: &[WindowRow]) -> fmt::Result {
    writeln!(
        f,
        "  time window samples  lost tasks  pages wanted bound moved distance   was local"
    )?;
    let share = |share: Option<f64>| {
        share.map_or_else(|| "-".to_owned(), |share| format!("{:.0}%", share * 100.0))
    };
    for row in rows {
        let summary = &row.summary;
        writeln!(
            f,
            "{:3}.{:02} {:4}ms {:7} {:5} {:5} {:6} {:6} {:5} {:5} {:>8} {:>5} {:>5}",
            row.time_ms / 1000,
            row.time_ms % 1000 / 10,
            summary.window_ms,
            summary.samples,
            summary.lost,
            summary.tasks,
            summary.pages,
            summary.proposals,
            row.bound,
            row.moved_pages,
            distance(summary.distance_centi),
            share(row.untouched_share),
            share(row.local_share),
        )?;
    }
    if rows.is_empty() {
        writeln!(f, "  none: the recording is shorter than a window")?;
    }
    Ok(())
}

/// Threads by node, in the order of nodes.
fn places(f: &mut fmt::Formatter<'_>, report: &ReplayReport) -> fmt::Result {
    let mut nodes: Vec<Option<NodeId>> = report.placement.iter().map(|(_, node)| *node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    for node in &nodes {
        let on = report.placement.iter().filter(|(_, at)| at == node);
        let tids: Vec<String> = on.map(|(key, _)| key.tid.to_string()).collect();
        let label = node.map_or_else(|| "unknown".to_owned(), |node| format!("node {node}"));
        wrapped(f, &format!("  {label:8}{}", tids.join(" ")), INDENT)?;
    }
    if nodes.is_empty() {
        writeln!(f, "  none: all have ended")?;
    }
    Ok(())
}

fn totals(f: &mut fmt::Formatter<'_>, report: &ReplayReport) -> fmt::Result {
    let (bound, moved) = report.changes();
    writeln!(
        f,
        "\nin all    {} bound, {} moved, on paper",
        counted(bound, "thread", "threads"),
        counted(moved, "page", "pages")
    )?;
    let local = report.local_shares.map_or_else(
        || "not known".to_owned(),
        |(local, untouched)| {
            format!(
                "{:.1} % as it was, {:.1} % as replayed",
                untouched * 100.0,
                local * 100.0
            )
        },
    );
    wrapped(
        f,
        &format!("local     {local} (model: a page is at home where it was first seen in use)"),
        INDENT,
    )?;
    if report.pages_untold > 0 {
        let count = report.pages_untold;
        wrapped(
            f,
            &format!("note      {count} samples are of pages too many to be followed"),
            INDENT,
        )?;
    }
    for violation in &report.violations {
        writeln!(f, "VIOLATION {violation}")?;
    }
    Ok(())
}

impl ReplayReport {
    /// The whole report as one line of JSON.
    #[must_use]
    pub fn json(&self) -> String {
        let survey = &self.survey;
        let settings = self.spec.settings.iter();
        let snapshot = |snapshot: &Option<_>| json::optional(snapshot.as_ref().map(snapshot_json));
        let (bound, moved) = self.changes();
        let shares = |pick: fn((f64, f64)) -> f64| {
            json::optional(self.local_shares.map(|both| json::number(pick(both))))
        };
        let damage = survey.damage.as_ref();
        json::object(&[
            ("file", json::text(&self.spec.name)),
            ("complete", self.is_complete().to_string()),
            (
                "damage",
                json::optional(damage.map(|damage| json::text(&damage.to_string()))),
            ),
            ("samples", survey.samples.to_string()),
            ("messages", survey.messages.to_string()),
            ("message_bytes", survey.message_bytes.to_string()),
            ("lost", survey.lost.to_string()),
            ("threads", survey.threads.len().to_string()),
            ("processes", survey.processes().len().to_string()),
            ("duration_s", json::number(length_s(self))),
            ("source", json::text(&survey.header.source)),
            ("machine", json::text(&self.topology.summary())),
            ("other_machine", self.other_machine.to_string()),
            ("policy", json::text(&self.spec.policy)),
            (
                "settings",
                json::array(settings.map(|(name, text)| json::text(&format!("{name}={text}")))),
            ),
            ("windows", json::array(self.windows.iter().map(window_json))),
            ("before", snapshot(&self.before)),
            ("after", snapshot(&self.after)),
            (
                "placement",
                json::array(self.placement.iter().map(place_json)),
            ),
            (
                "story",
                json::array(self.story.lines().iter().map(|line| json::text(line))),
            ),
            ("bound", bound.to_string()),
            ("moved_pages", moved.to_string()),
            ("local_share_model", shares(|(local, _)| local)),
            ("untouched_share_model", shares(|(_, untouched)| untouched)),
            ("samples_of_untold_pages", self.pages_untold.to_string()),
            (
                "violations",
                json::array(self.violations.iter().map(|line| json::text(line))),
            ),
        ])
    }
}

fn place_json((key, node): &(TaskKey, Option<NodeId>)) -> String {
    json::object(&[
        ("pid", key.pid.to_string()),
        ("tid", key.tid.to_string()),
        ("node", json::optional(node.map(|node| node.to_string()))),
    ])
}

fn window_json(row: &WindowRow) -> String {
    let summary = &row.summary;
    let optional = |share: Option<f64>| json::optional(share.map(json::number));
    let distance = summary.distance_centi.map(|centi| centi.to_string());
    json::object(&[
        ("time_ms", row.time_ms.to_string()),
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
        ("local_share_model", optional(row.local_share)),
        ("untouched_share_model", optional(row.untouched_share)),
    ])
}
