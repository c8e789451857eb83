//! What undos did, added up and in words.

use control::rows::UndoReport;

/// A report in one line.
#[must_use]
pub fn undo_text(report: &UndoReport) -> String {
    let mut text = format!(
        "{} threads restored, {} gone, {} left to others, {} outside of their cpusets; {} pages \
         restored, {} gone, {} in nobody's use",
        report.threads_restored,
        report.threads_gone,
        report.threads_left,
        report.threads_parked,
        report.pages_restored,
        report.pages_gone,
        report.pages_left
    );
    for failed in &report.failed {
        text += &format!("; {failed}");
    }
    text
}

/// Adds what a further undo did.
pub(super) fn add_up(report: &mut UndoReport, more: UndoReport) {
    report.threads_restored += more.threads_restored;
    report.threads_gone += more.threads_gone;
    report.threads_left += more.threads_left;
    report.threads_parked += more.threads_parked;
    report.pages_restored += more.pages_restored;
    report.pages_gone += more.pages_gone;
    report.pages_left += more.pages_left;
    report.failed.extend(more.failed);
}
