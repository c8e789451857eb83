//! What `attach`, `detach` and `undo` say.

use control::rows::{Attachment, UndoReport};

use super::units::count;

/// How commands name a program: its only process, else the number it has in `status`.
pub(crate) fn handle(row: &Attachment) -> String {
    match row.pids.as_slice() {
        [pid] => pid.to_string(),
        _ => format!("id:{}", row.id),
    }
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
    format!(
        "attached {processes} ({}) under policy {}{dry}\nsee `numadctl explain {}`\n",
        row.command,
        row.policy,
        handle(row)
    )
}

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
