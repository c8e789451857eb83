//! What `status` shows.

use control::rows::{Attachment, Status};

use super::table::{Side, table};
use super::units::{bytes, count, seconds, share};
use super::wrap::labelled;
use crate::terminal::WIDTH_MAX;

/// The programs, then the daemon, in lines of at most `width`.
///
/// Columns that do not fit are left out, the least important first; 80 show those that say whether a
/// program is helped.
#[must_use]
pub fn text(status: &Status, width: usize) -> String {
    let mut text = if status.attachments.is_empty() {
        "nothing is attached; `numadctl attach PID --policy NAME` attaches a program\n".to_owned()
    } else {
        programs(&status.attachments, width)
    };
    for row in &status.attachments {
        if let Some(moving) = &row.moving {
            let label = format!("moving {}", row.id);
            let words = super::attachment::moving(moving);
            text.push_str(&labelled(&label, &words, width.min(WIDTH_MAX)));
        }
        if let Some(jobs) = super::attachment::jobs(row) {
            let label = format!("ranks {}", row.id);
            text.push_str(&labelled(&label, &jobs, width.min(WIDTH_MAX)));
        }
        if let Some(external) = &row.external {
            let words = super::external::words(external);
            let label = format!("policy {}", row.id);
            text.push_str(&labelled(&label, &words, width.min(WIDTH_MAX)));
        }
        if let Some(unseen) = row.unseen_share.and_then(super::attachment::unseen) {
            let label = format!("unseen {}", row.id);
            text.push_str(&labelled(&label, &unseen, width.min(WIDTH_MAX)));
        }
    }
    text.push('\n');
    text.push_str(&daemon(status, width.min(WIDTH_MAX)));
    text
}

fn daemon(status: &Status, width: usize) -> String {
    let mut text = format!(
        "numad {}, process {}, up {}\n",
        status.version,
        status.pid,
        seconds(status.up_s)
    );
    // Of a daemon that has only begun this is the price of its start.
    let busy = if status.up_s >= BUSY_FROM_S {
        let percent = status.cpu_s / status.up_s * 100.0;
        format!(" ({percent:.2} % of one processor)")
    } else {
        String::new()
    };
    let resident = bytes(status.resident_bytes);
    let cost = format!("{:.1} s{busy}, {resident} resident", status.cpu_s);
    let used = status
        .used_percent
        .map_or_else(|| "nothing".to_owned(), |used| format!("{used:.2} %"));
    let budget = format!("{} % of all processors, {used} used", status.budget_percent);
    let journal = format!("{} not undone", count(status.journal_open, "change"));
    let mut line = |label: &str, what: &str| text.push_str(&labelled(label, what, width));
    line("machine", &status.machine);
    line("source", &status.source);
    line("cost", &cost);
    line("budget", &budget);
    if status.sample_period > 1 {
        let period = status.sample_period;
        line("rate", &format!("one sample for each {period} events"));
    }
    line("journal", &journal);
    if status.nodes <= 1 {
        let note = "one memory node: sampling and mapping work, there is nowhere to move";
        line("note", note);
    }
    for note in &status.source_notes {
        line("note", note);
    }
    for rival in &status.rivals {
        line("rival", rival);
    }
    text.push_str(&super::counters::machine(status, width));
    text
}

/// From so many seconds on the share of a processor says something.
const BUSY_FROM_S: f64 = 10.0;

/// A column of the table of programs.
struct Column {
    name: &'static str,
    side: Side,
    /// Those with the highest rank are left out first; rank 0 never is.
    rank: u8,
    cell: fn(&Attachment) -> String,
}

/// Every column, in the order shown.
const COLUMNS: [Column; 15] = [
    column("ID", Side::Right, 0, |row| row.id.to_string()),
    column("PID", Side::Left, 0, |row| processes(&row.pids)),
    column("COMMAND", Side::Left, 0, |row| row.command.clone()),
    column("POLICY", Side::Left, 0, policy),
    column("FOR", Side::Right, 5, |row| seconds(row.attached_s)),
    column("TASKS", Side::Right, 4, |row| {
        format!("{}/{}", row.tasks, row.threads)
    }),
    column("WINDOWS", Side::Right, 9, |row| row.windows.to_string()),
    column("SAMPLES", Side::Right, 8, |row| {
        row.evidence.samples.to_string()
    }),
    column("LOST", Side::Right, 10, |row| {
        share(Some(row.evidence.lost_share))
    }),
    column("SEEN", Side::Right, 11, |row| {
        share(Some(row.evidence.coverage))
    }),
    column("SURE", Side::Left, 6, |row| {
        if row.evidence.confident { "yes" } else { "no" }.to_owned()
    }),
    column("BOUND", Side::Right, 2, |row| {
        row.ledger.threads_bound.to_string()
    }),
    column("PAGES", Side::Right, 3, |row| {
        row.ledger.pages_moved.to_string()
    }),
    column("DIST", Side::Right, 7, |row| {
        row.distance
            .map_or_else(|| "-".to_owned(), |distance| format!("{distance:.1}"))
    }),
    column("LOCAL", Side::Right, 1, |row| share(row.local_share)),
];

const fn column(
    name: &'static str,
    side: Side,
    rank: u8,
    cell: fn(&Attachment) -> String,
) -> Column {
    Column {
        name,
        side,
        rank,
        cell,
    }
}

fn programs(attachments: &[Attachment], width: usize) -> String {
    let mut rank = u8::MAX;
    loop {
        let shown: Vec<&Column> = COLUMNS.iter().filter(|one| one.rank <= rank).collect();
        let head: Vec<(&str, Side)> = shown.iter().map(|one| (one.name, one.side)).collect();
        let rows: Vec<Vec<String>> = attachments
            .iter()
            .map(|row| shown.iter().map(|one| (one.cell)(row)).collect())
            .collect();
        let text = table(&head, &rows);
        let widest = text.lines().map(|line| line.chars().count()).max();
        let highest = shown.iter().map(|one| one.rank).max().unwrap_or(0);
        if highest == 0 || widest.unwrap_or(0) <= width {
            return text;
        }
        rank = highest - 1;
    }
}

fn policy(row: &Attachment) -> String {
    super::attachment::policy(&row.policy, row.dry_run)
}

/// The first process, and how many more.
fn processes(pids: &[u32]) -> String {
    match pids {
        [] => "-".to_owned(),
        [pid] => pid.to_string(),
        [pid, rest @ ..] => format!("{pid} +{}", rest.len()),
    }
}
