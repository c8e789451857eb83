//! How an external policy does.

use control::rows::External;

use super::units::count;

/// In one line: what it is doing, how many windows it answered, what went wrong.
#[must_use]
pub fn words(row: &External) -> String {
    let mut text = format!(
        "{}; {} of {} answered, {} passed over",
        row.state,
        row.answered,
        count(row.asked, "window"),
        row.passed_over
    );
    let faults = [
        (row.crashes, "crash"),
        (row.silences, "silence"),
        (row.garbage, "line of garbage"),
    ];
    for (number, what) in faults {
        match (number, what) {
            (0, _) => {}
            (1, _) => text.push_str(&format!(", 1 {what}")),
            (_, "crash") => text.push_str(&format!(", {number} crashes")),
            (_, "silence") => text.push_str(&format!(", {number} silences")),
            _ => text.push_str(&format!(", {number} lines of garbage")),
        }
    }
    if let Some(fault) = &row.last_fault {
        text.push_str(&format!("; last: {fault}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_wrong_is_told_and_what_did_not_is_not() {
        let mut row = External {
            state: "at work as partners".to_owned(),
            asked: 12,
            answered: 12,
            passed_over: 1,
            starts: 1,
            ..External::default()
        };
        let well = "at work as partners; 12 of 12 windows answered, 1 passed over";
        assert_eq!(words(&row), well);
        row.crashes = 2;
        row.garbage = 1;
        row.last_fault = Some("it ended with exit code 1".to_owned());
        let ill = ", 2 crashes, 1 line of garbage; last: it ended with exit code 1";
        assert_eq!(words(&row), format!("{well}{ill}"));
    }
}
