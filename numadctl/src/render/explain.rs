//! What `explain` shows: the program, its threads, what was done and what was not.

use control::rows::{
    Attachment, AttachmentDetail, EventRow, Evidence, KernelMoves, RankRow, ThreadRow,
};

use super::attachment::handle;
use super::counters;
use super::table::{Side, table};
use super::units::{bytes, count, nanoseconds, seconds, share};
use super::wrap::{labelled, paragraph, wrapped};

/// Three sentences: what was seen, what was done, and what was not. In lines of at most `width`.
#[must_use]
pub fn brief(detail: &AttachmentDetail, events: &[EventRow], width: usize) -> String {
    let row = &detail.attachment;
    let last = |kinds: &[&str]| {
        let found = events
            .iter()
            .rfind(|row| kinds.contains(&row.kind.as_str()));
        found.map(|row| row.text.as_str())
    };
    let seen = seen(row);
    let ledger = &row.ledger;
    let order = last(&["ordered"]).map_or_else(
        || "nothing has been ordered yet".to_owned(),
        |order| format!("the last order was: {}", without_amount(order)),
    );
    let moved = match ledger.pages_moved {
        0 => "no page moved".to_owned(),
        pages => format!(
            "{} ({}) moved",
            count(pages, "page"),
            bytes(ledger.bytes_moved)
        ),
    };
    let done = format!(
        "Done under policy {}: {} bound, {moved}; {order}.",
        row.policy,
        count(ledger.threads_bound.into(), "thread"),
    );
    let refused = last(&["dropped", "failed", "hands_off"]);
    let not_done = format!(
        "{}; `numadctl detach {}` puts everything back.",
        refused.map_or_else(
            || "Nothing was refused".to_owned(),
            |refused| format!("Not done: {refused}")
        ),
        handle(row)
    );
    let sentences = [seen, done, not_done];
    let lines = sentences.iter().flat_map(|line| wrapped(line, width));
    lines.map(|line| line + "\n").collect()
}

/// What was sampled, and of whom.
fn seen(row: &Attachment) -> String {
    // The others wait; they are left where they are.
    let busy = if row.tasks < row.threads { "busy " } else { "" };
    let how = match row.tasks {
        0 => "how its threads use memory".to_owned(),
        1 => format!("how its {busy}thread uses memory"),
        tasks => format!("how its {tasks} {busy}threads share memory"),
    };
    let (time, command) = (seconds(row.attached_s), &row.command);
    match row.samples {
        0 => format!("In {time} numad sampled nothing of {command}: {how} is not known."),
        1 => format!("In {time} numad sampled 1 memory access of {command}, which shows {how}."),
        samples => format!(
            "In {time} numad sampled {samples} memory accesses of {command}, which show {how}."
        ),
    }
}

/// An order without the amount behind its reason: a figure of the matrix, which says nothing alone.
fn without_amount(order: &str) -> &str {
    order.split(" (amount ").next().unwrap_or(order)
}

/// Everything about one program, in lines of at most `width` where words allow it.
#[must_use]
pub fn text(detail: &AttachmentDetail, events: &[EventRow], width: usize) -> String {
    let mut text = head(detail, width);
    text.push_str("\nthreads\n");
    text.push_str(&threads(&detail.threads, &detail.attachment.ranks));
    if events.is_empty() {
        text.push_str("\nno window has been judged yet\n");
    } else {
        text.push_str("\nevents, oldest first\n");
        text.push_str(&told(events, width));
    }
    text
}

/// What is remembered of a program that has ended.
#[must_use]
pub fn ended(id: u32, events: &[EventRow], width: usize) -> String {
    format!(
        "attachment {id} has ended; events, oldest first\n{}",
        told(events, width)
    )
}

fn told(events: &[EventRow], width: usize) -> String {
    let rows = events.iter().flat_map(|event| event_rows(event, width));
    let rows: Vec<Vec<String>> = rows.collect();
    let columns = [
        ("AT", Side::Right),
        ("KIND", Side::Left),
        ("WHAT", Side::Left),
    ];
    table(&columns, &rows)
}

/// What an event says, in as many rows as it takes.
fn event_rows(event: &EventRow, width: usize) -> Vec<Vec<String>> {
    // What time (an hour in), kind, and the space between columns take.
    const BESIDE: usize = 22;
    let mut at = format!("{:.1} s", event.at_s);
    let mut kind = event.kind.clone();
    wrapped(&event.text, width.saturating_sub(BESIDE))
        .into_iter()
        .map(|line| vec![std::mem::take(&mut at), std::mem::take(&mut kind), line])
        .collect()
}

fn head(detail: &AttachmentDetail, width: usize) -> String {
    let row = &detail.attachment;
    let ledger = &row.ledger;
    let pids: Vec<String> = row.pids.iter().map(ToString::to_string).collect();
    let settings = detail.settings.iter();
    let settings: Vec<String> = settings
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let dry = if row.dry_run {
        ", changing nothing (dry run)"
    } else {
        ""
    };
    let word = if pids.len() == 1 {
        "process"
    } else {
        "processes"
    };
    let who = format!(
        "attachment {}: {} ({word} {}), under policy {} for {}{dry}",
        row.id,
        row.command,
        pids.join(", "),
        row.policy,
        seconds(row.attached_s)
    );
    let mut text = paragraph(&who, width);
    if !settings.is_empty() {
        text.push_str(&labelled("settings", &settings.join(" "), width));
    }
    if let Some(jobs) = super::attachment::jobs(row) {
        text.push_str(&labelled("ranks", &jobs, width));
    }
    if let Some(external) = &row.external {
        let words = super::external::words(external);
        text.push_str(&labelled("external", &words, width));
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
    text.push_str(&labelled("seen", &seen, width));
    text.push_str(&labelled("evidence", &evidence(&row.evidence), width));
    let done = format!(
        "{} bound now, {} in all; {} ({}) moved, {} refused",
        count(ledger.threads_bound.into(), "thread"),
        count(ledger.thread_moves, "move"),
        count(ledger.pages_moved, "page"),
        bytes(ledger.bytes_moved),
        ledger.pages_refused,
    );
    text.push_str(&labelled("done", &done, width));
    let cost = format!(
        "{} of processor time in system calls that moved pages, the longest took {}",
        nanoseconds(ledger.spent_ns),
        nanoseconds(ledger.pause_max_ns),
    );
    text.push_str(&labelled("cost", &cost, width));
    text.push_str(&beside(row, width));
    text.push_str(&labelled("effect", &effect(row), width));
    if let Some(counted) = row.counts.as_ref().and_then(counters::program) {
        text.push_str(&labelled("counted", &counted, width));
    }
    text
}

fn effect(row: &Attachment) -> String {
    let distance = row
        .distance
        .map_or_else(|| "-".to_owned(), |distance| format!("{distance:.1}"));
    format!(
        "mean distance of communication {distance} (10 is all local), local accesses {}",
        share(row.local_share),
    )
}

/// What the kernel's own balancing did meanwhile, or what nobody sees because it is off.
fn beside(row: &Attachment, width: usize) -> String {
    let kernel = row.kernel.as_ref().map(by_kernel);
    let unseen = row.unseen_share.and_then(super::attachment::unseen);
    let lines = [("kernel", kernel), ("unseen", unseen)].into_iter();
    let lines = lines.filter_map(|(label, what)| Some(labelled(label, &what?, width)));
    lines.collect()
}

fn by_kernel(row: &KernelMoves) -> String {
    let machine = row.machine_pages.map_or_else(
        || "it does not tell how many pages it moved".to_owned(),
        |pages| format!("{} moved on the machine meanwhile", count(pages, "page")),
    );
    format!(
        "balances too: {machine}; {} of this program not where numad had put it, and left there; \
         {} left to it",
        count(row.pages_elsewhere, "page"),
        count(row.left, "proposal"),
    )
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

fn threads(rows: &[ThreadRow], ranks: &[RankRow]) -> String {
    let of_rank = |row: &ThreadRow| {
        let rank = ranks.iter().find(|rank| rank.pid == row.pid);
        rank.map_or_else(|| "-".to_owned(), |rank| rank.rank.to_string())
    };
    let with_ranks = usize::from(!ranks.is_empty());
    let number = |node: Option<u32>| node.map_or_else(|| "-".to_owned(), |node| node.to_string());
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let cells = [
                of_rank(row),
                row.tid.to_string(),
                row.name.clone(),
                row.cpu.to_string(),
                number(row.node),
                number(row.placed),
                if row.takes_part { "yes" } else { "no" }.to_owned(),
                share(Some(row.busy)),
                row.samples.to_string(),
            ];
            cells[1 - with_ranks..].to_vec()
        })
        .collect();
    let columns = [
        ("RANK", Side::Right),
        ("THREAD", Side::Right),
        ("NAME", Side::Left),
        ("CPU", Side::Right),
        ("NODE", Side::Right),
        ("PLACED", Side::Right),
        ("TAKES PART", Side::Left),
        ("BUSY", Side::Right),
        ("SAMPLES", Side::Right),
    ];
    table(&columns[1 - with_ranks..], &rows)
}
