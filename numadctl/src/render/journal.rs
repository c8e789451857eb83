//! What the undo journal holds, as a table.

use control::rows::{JournalMask, JournalReport, JournalRow};

use super::table::{Side, table};
use super::units::{count, seconds};

/// The table of processes, and what is shared; whether all is shown, or one user's processes alone.
#[must_use]
pub fn text(report: &JournalReport, all: bool) -> String {
    let directory = &report.directory;
    let mut text = if report.stale {
        format!(
            "the journal in `{directory}` is of an earlier boot: all that it could undo ended with that\n"
        )
    } else if report.processes.is_empty() && report.shared.is_empty() && report.switches.is_empty()
    {
        let whose = if all { "" } else { " of your processes" };
        format!("the journal in `{directory}` lists no changes{whose}\n")
    } else {
        let many = u64::try_from(report.processes.len()).unwrap_or(u64::MAX);
        format!(
            "the journal in `{directory}` holds changes of {}\n",
            count(many, "process")
        )
    };
    if !report.processes.is_empty() {
        let rows: Vec<Vec<String>> = report.processes.iter().map(row).collect();
        text += &table(HEAD, &rows);
    }
    for shared in &report.shared {
        let pages = count(shared.pages, "page");
        text += &format!("{pages} of shared memory `{}`\n", shared.memory);
    }
    for switch in &report.switches {
        text += &format!("{switch}\n");
    }
    if report.damaged > 0 {
        text += &format!("{} damaged, and skipped\n", count(report.damaged, "line"));
    }
    text
}

const HEAD: &[(&str, Side)] = &[
    ("PROCESS", Side::Right),
    ("COMMAND", Side::Left),
    ("FOR", Side::Right),
    ("THREADS", Side::Right),
    ("PARKED", Side::Right),
    ("PAGES", Side::Right),
    ("MASKS", Side::Left),
];

fn row(row: &JournalRow) -> Vec<String> {
    let (shown, rest) = row.masks.split_at(row.masks.len().min(MASKS_MAX));
    let mut masks: Vec<String> = shown.iter().map(mask).collect();
    if !rest.is_empty() {
        masks.push(format!("{} more", rest.len()));
    }
    vec![
        row.pid.to_string(),
        row.command.clone().unwrap_or_else(|| "(ended)".to_owned()),
        row.since_s.map_or_else(|| "-".to_owned(), seconds),
        row.threads.to_string(),
        row.parked.to_string(),
        row.pages.to_string(),
        masks.join(", "),
    ]
}

fn mask(mask: &JournalMask) -> String {
    let list = |list: &Option<String>| list.clone().unwrap_or_else(|| "none".to_owned());
    format!(
        "{} -> {} ({})",
        list(&mask.had),
        list(&mask.got),
        mask.threads
    )
}

/// Changes of masks that are shown of one process; `--json` has all.
const MASKS_MAX: usize = 3;
