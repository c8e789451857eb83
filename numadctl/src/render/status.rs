//! What `status` shows.

use control::rows::{Attachment, Status};

use super::table::{Side, table};
use super::units::{bytes, count, seconds, share};

/// The daemon in a few lines, then a table of programs.
#[must_use]
pub fn text(status: &Status) -> String {
    let busy = if status.up_s > 0.0 {
        format!(
            " ({:.2} % of one processor)",
            status.cpu_s / status.up_s * 100.0
        )
    } else {
        String::new()
    };
    let mut text = format!(
        "numad {}, process {}, up {}\nmachine  {}\nsource   {}\ncost     {:.1} s{busy}, {} resident\n",
        status.version,
        status.pid,
        seconds(status.up_s),
        status.machine,
        status.source,
        status.cpu_s,
        bytes(status.resident_bytes),
    );
    let used = status
        .used_percent
        .map_or_else(|| "nothing".to_owned(), |used| format!("{used:.2} %"));
    text.push_str(&format!(
        "budget   {} % of all processors, {used} used\n",
        status.budget_percent
    ));
    if status.sample_period > 1 {
        let period = status.sample_period;
        text.push_str(&format!("rate     one sample for each {period} events\n"));
    }
    text.push_str(&format!(
        "journal  {} not undone\n",
        count(status.journal_open, "change")
    ));
    if status.nodes <= 1 {
        text.push_str(
            "note     one memory node: sampling and mapping work, there is nowhere to move\n",
        );
    }
    for note in &status.source_notes {
        text.push_str(&format!("note     {note}\n"));
    }
    for rival in &status.rivals {
        text.push_str(&format!("rival    {rival}\n"));
    }
    text.push_str(&super::counters::machine(status));
    text.push('\n');
    if status.attachments.is_empty() {
        text.push_str("nothing is attached; `numadctl attach PID --policy NAME` puts a program under a policy\n");
    } else {
        text.push_str(&programs(&status.attachments));
    }
    text
}

fn programs(rows: &[Attachment]) -> String {
    let head = [
        ("ID", Side::Right),
        ("PID", Side::Left),
        ("COMMAND", Side::Left),
        ("POLICY", Side::Left),
        ("FOR", Side::Right),
        ("TASKS", Side::Right),
        ("WINDOWS", Side::Right),
        ("SAMPLES", Side::Right),
        ("LOST", Side::Right),
        ("SEEN", Side::Right),
        ("SURE", Side::Left),
        ("BOUND", Side::Right),
        ("PAGES", Side::Right),
        ("DIST", Side::Right),
        ("LOCAL", Side::Right),
    ];
    let rows: Vec<Vec<String>> = rows.iter().map(program).collect();
    table(&head, &rows)
}

fn program(row: &Attachment) -> Vec<String> {
    let dry = if row.dry_run { " (dry run)" } else { "" };
    vec![
        row.id.to_string(),
        processes(&row.pids),
        row.command.clone(),
        format!("{}{dry}", row.policy),
        seconds(row.attached_s),
        format!("{}/{}", row.tasks, row.threads),
        row.windows.to_string(),
        row.evidence.samples.to_string(),
        share(Some(row.evidence.lost_share)),
        share(Some(row.evidence.coverage)),
        if row.evidence.confident { "yes" } else { "no" }.to_owned(),
        row.ledger.threads_bound.to_string(),
        row.ledger.pages_moved.to_string(),
        row.distance
            .map_or_else(|| "-".to_owned(), |distance| format!("{distance:.1}")),
        share(row.local_share),
    ]
}

/// The first process, and how many more.
fn processes(pids: &[u32]) -> String {
    match pids {
        [] => "-".to_owned(),
        [pid] => pid.to_string(),
        [pid, rest @ ..] => format!("{pid} +{}", rest.len()),
    }
}
