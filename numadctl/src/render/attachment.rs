//! What `attach`, `detach` and `undo` say.

use control::rows::{Attachment, Moving, UndoReport};

use super::units::{bytes, count, seconds};
use super::wrap::on_one_line;

/// How commands name a program: its only process, else the number it has in `status`.
pub(crate) fn handle(row: &Attachment) -> String {
    match row.pids.as_slice() {
        [pid] => pid.to_string(),
        _ => format!("id:{}", row.id),
    }
}

/// How far memory is that takes more than one window to move.
pub(crate) fn moving(moving: &Moving) -> String {
    let wanted = moving.bytes_moved.saturating_add(moving.bytes_left);
    let left = moving.seconds_left.map(seconds);
    let left = left.map_or_else(String::new, |left| format!(", about {left} left"));
    format!(
        "{} of {} moved{left}",
        bytes(moving.bytes_moved),
        bytes(wanted)
    )
}

/// What was attached, and, on a line of its own that no terminal breaks, where to look next.
#[must_use]
pub fn attached(row: &Attachment) -> String {
    let processes = match row.pids.as_slice() {
        [pid] => format!("process {pid}"),
        [pid, rest @ ..] => format!(
            "process {pid} and {}",
            count(u64::try_from(rest.len()).unwrap_or(u64::MAX), "other")
        ),
        [] => "no process".to_owned(),
    };
    let dry = if row.dry_run {
        ", changing nothing"
    } else {
        ""
    };
    let in_vain = row.in_vain.as_ref();
    let in_vain = in_vain.map_or_else(String::new, |why| format!("warning: {why}\n"));
    format!(
        "attached {processes} ({}) under policy {}{dry}\n{in_vain}see `numadctl explain {}`\n",
        on_one_line(&row.command),
        row.policy,
        handle(row)
    )
}

/// How much of a program's memory nobody can see, and how more of it is seen; none where it is little.
pub(crate) fn unseen(share: f64) -> Option<String> {
    (share >= UNSEEN_MIN).then(|| {
        format!(
            "{:.0} % of its memory: page faults show writes alone. It is not moved, and threads leave it only for more. \
             With the kernel's balancing reads are seen as well: `engine.balancing = \"cooperate\"`, or `sysctl \
             kernel.numa_balancing=1`",
            share * 100.0
        )
    })
}

/// Stacks, what an allocator keeps, and what was written long ago come to less.
const UNSEEN_MIN: f64 = 0.1;

/// What is back where it was, what is not, and why.
#[must_use]
pub fn undone(report: &UndoReport) -> String {
    let threads = count(report.threads_restored, "thread");
    let mut text = match report.pages_restored {
        0 if report.threads_restored == 0 => "nothing was to be put back\n".to_owned(),
        // Most often no page was moved: then pages are no concern of the reader.
        0 => format!("put back {threads}\n"),
        pages => format!("put back {threads} and {}\n", count(pages, "page")),
    };
    if report.threads_gone > 0 || report.pages_gone > 0 {
        let (threads, pages) = (
            count(report.threads_gone, "thread"),
            count(report.pages_gone, "page"),
        );
        text.push_str(&format!("gone meanwhile: {threads}, {pages}\n"));
    }
    if report.threads_left > 0 {
        let threads = count(report.threads_left, "thread");
        text.push_str(&format!(
            "left alone: {threads} that someone else changed since\n"
        ));
    }
    if report.threads_parked > 0 {
        let threads = count(report.threads_parked, "thread");
        text.push_str(&format!(
            "put back when their cpuset allows it: {threads}, without an affinity until then\n"
        ));
    }
    if report.pages_left > 0 {
        let pages = count(report.pages_left, "page");
        text.push_str(&format!(
            "left for a later undo: {pages} of shared memory that no process has in use now\n"
        ));
    }
    for failed in &report.failed {
        text.push_str(&format!("not put back: {failed}\n"));
    }
    text
}

/// The ranks of MPI jobs among its processes: `job 4711 (openmpi): ranks 0-3 of 4`; nothing where there are none.
pub(super) fn jobs(row: &Attachment) -> Option<String> {
    let jobs = row.ranks.chunk_by(|one, other| one.job == other.job);
    let jobs: Vec<String> = jobs
        .map(|ranks| {
            let mut numbers: Vec<u32> = ranks.iter().map(|rank| rank.rank).collect();
            numbers.dedup();
            let of = ranks[0]
                .size
                .map_or_else(String::new, |size| format!(" of {size}"));
            let word = if numbers.len() == 1 { "rank" } else { "ranks" };
            let (job, launcher) = (&ranks[0].job, &ranks[0].launcher);
            format!("job {job} ({launcher}): {word} {}{of}", spans(&numbers))
        })
        .collect();
    (!jobs.is_empty()).then(|| jobs.join("; "))
}

/// Ascending numbers, in short: `0-3,7`.
fn spans(numbers: &[u32]) -> String {
    let spans = numbers.chunk_by(|one, other| one.checked_add(1) == Some(*other));
    let spans = spans.map(|span| match span {
        [first, .., last] => format!("{first}-{last}"),
        [one] => one.to_string(),
        [] => String::new(),
    });
    spans.collect::<Vec<_>>().join(",")
}

/// A policy in a table, where a dry run is told apart.
pub(super) fn policy(name: &str, dry_run: bool) -> String {
    let dry = if dry_run { " (dry run)" } else { "" };
    format!("{name}{dry}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_a_row_are_one_span() {
        assert_eq!(spans(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(spans(&[u32::MAX]), "4294967295");
    }
}
