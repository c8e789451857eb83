//! What `explain` shows: the program, its threads, what was done and what was not.

use control::rows::{AttachmentDetail, EventRow, Evidence, ThreadRow};

use super::counters;
use super::table::{Side, table};
use super::units::{bytes, count, nanoseconds, seconds, share};
use super::wrap::{WIDTH, labelled, wrapped};

/// Everything about one program.
#[must_use]
pub fn text(detail: &AttachmentDetail, events: &[EventRow]) -> String {
    let mut text = head(detail);
    text.push_str("\nthreads\n");
    text.push_str(&threads(&detail.threads));
    if events.is_empty() {
        text.push_str("\nno window has been judged yet\n");
    } else {
        text.push_str("\nevents, oldest first\n");
        text.push_str(&told(events));
    }
    text
}

/// What is remembered of a program that has ended.
#[must_use]
pub fn ended(id: u32, events: &[EventRow]) -> String {
    format!(
        "attachment {id} has ended; events, oldest first\n{}",
        told(events)
    )
}

fn told(events: &[EventRow]) -> String {
    let rows: Vec<Vec<String>> = events.iter().flat_map(event_rows).collect();
    let columns = [
        ("AT", Side::Right),
        ("KIND", Side::Left),
        ("WHAT", Side::Left),
    ];
    table(&columns, &rows)
}

/// What an event says, in as many rows as it takes.
fn event_rows(event: &EventRow) -> Vec<Vec<String>> {
    // What time (an hour in), kind, and the space between columns leave.
    const TEXT_WIDTH: usize = WIDTH - 22;
    let mut at = format!("{:.1} s", event.at_s);
    let mut kind = event.kind.clone();
    wrapped(&event.text, TEXT_WIDTH)
        .into_iter()
        .map(|line| vec![std::mem::take(&mut at), std::mem::take(&mut kind), line])
        .collect()
}

fn head(detail: &AttachmentDetail) -> String {
    let row = &detail.attachment;
    let ledger = &row.ledger;
    let pids: Vec<String> = row.pids.iter().map(ToString::to_string).collect();
    let settings: Vec<String> = detail
        .settings
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let dry = if row.dry_run {
        ", changing nothing (dry run)"
    } else {
        ""
    };
    let mut text = format!(
        "attachment {}: {} (process {}), under policy {} for {}{dry}\n",
        row.id,
        row.command,
        pids.join(", "),
        row.policy,
        seconds(row.attached_s)
    );
    if !settings.is_empty() {
        text.push_str(&labelled("settings", &settings.join(" ")));
    }
    let seen = format!(
        "{} in {} by {}, {} in the last one; {} lost on the machine; {} tracked; \
         the present window is of {} ms",
        count(row.samples, "sample"),
        count(row.windows, "window"),
        row.source,
        row.samples_window,
        row.lost,
        count(row.pages.into(), "page"),
        row.window_ms,
    );
    text.push_str(&labelled("seen", &seen));
    text.push_str(&labelled("evidence", &evidence(&row.evidence)));
    text.push_str(&format!(
        "done      {} bound now, {} in all; {} ({}) moved, {} refused\n",
        count(ledger.threads_bound.into(), "thread"),
        count(ledger.thread_moves, "move"),
        count(ledger.pages_moved, "page"),
        bytes(ledger.bytes_moved),
        ledger.pages_refused,
    ));
    text.push_str(&format!(
        "cost      {} in system calls that moved pages, the longest {}\n",
        nanoseconds(ledger.spent_ns),
        nanoseconds(ledger.pause_max_ns),
    ));
    text.push_str(&format!(
        "effect    mean distance of communication {} (10 is all local), local accesses {}\n",
        row.distance
            .map_or_else(|| "-".to_owned(), |distance| format!("{distance:.1}")),
        share(row.local_share),
    ));
    if let Some(counted) = row.counts.as_ref().and_then(counters::program) {
        text.push_str(&labelled("counted", &counted));
    }
    text
}

fn evidence(row: &Evidence) -> String {
    format!(
        "{} judged by in the last window: {:.1} a thread, {:.1} a page; {:.1} % lost, {} of busy time \
         seen; {}; a move needs {:.1} %",
        count(row.samples, "sample"),
        row.samples_per_task,
        row.samples_per_page,
        row.lost_share * 100.0,
        share(Some(row.coverage)),
        if row.confident {
            "enough to decide"
        } else {
            "not enough to decide"
        },
        row.confidence_min * 100.0,
    )
}

fn threads(rows: &[ThreadRow]) -> String {
    let number = |node: Option<u32>| node.map_or_else(|| "-".to_owned(), |node| node.to_string());
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            vec![
                row.tid.to_string(),
                row.name.clone(),
                row.cpu.to_string(),
                number(row.node),
                number(row.placed),
                if row.takes_part { "yes" } else { "no" }.to_owned(),
                share(Some(row.busy)),
                row.samples.to_string(),
            ]
        })
        .collect();
    let columns = [
        ("THREAD", Side::Right),
        ("NAME", Side::Left),
        ("CPU", Side::Right),
        ("NODE", Side::Right),
        ("PLACED", Side::Right),
        ("TAKES PART", Side::Left),
        ("BUSY", Side::Right),
        ("SAMPLES", Side::Right),
    ];
    table(&columns, &rows)
}
