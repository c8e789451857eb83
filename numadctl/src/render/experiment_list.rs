//! The experiments of the daemon, a line for each.

use control::experiment::{Ending, ExperimentRow};

use super::table::{Side, fitting};
use super::units::seconds;

/// The list, oldest first, in lines of at most `width` where that leaves anything.
#[must_use]
pub fn list(rows: &[ExperimentRow], width: usize) -> String {
    if rows.is_empty() {
        return "no experiments; `numadctl ab PID` begins one\n".to_owned();
    }
    let head = [
        ("ID", Side::Right, 0),
        ("STATE", Side::Left, 0),
        ("PROGRAM", Side::Left, 0),
        ("POLICIES", Side::Left, 2),
        ("METRIC", Side::Left, 3),
        ("SLICES", Side::Right, 1),
        ("LEFT", Side::Right, 1),
    ];
    let cells = |row: &ExperimentRow| {
        vec![
            row.id.to_string(),
            state(row),
            row.subject.join(", "),
            row.arms.join(","),
            row.metric.clone(),
            format!("{}/{}", row.slices, row.planned),
            match (row.state.as_str(), row.left_s) {
                ("running", Some(left)) => seconds(left),
                _ => "-".to_owned(),
            },
        ]
    };
    let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
    fitting(&head, &rows, width)
}

fn state(row: &ExperimentRow) -> String {
    match (row.behind, row.ending) {
        (Some(other), _) => format!("waits for {other}"),
        (None, Ending::Running) => row.state.clone(),
        (None, Ending::Complete) => "complete".to_owned(),
        (None, Ending::Decided) => "decided".to_owned(),
        (None, Ending::Interrupted) => "interrupted".to_owned(),
        (None, Ending::ProgramEnded) => "program ended".to_owned(),
        (None, Ending::Failed) => "failed".to_owned(),
    }
}
