//! What `doctor` shows.

use control::rows::Finding;

use super::units::count;
use super::wrap::wrapped;

/// Where texts begin, behind the level.
const INDENT: usize = 9;

/// The verdict in one line, then each finding with its remedy below, what is missing first. What is
/// as it should be is only counted, unless `verbose`. In lines of at most `width`.
#[must_use]
pub fn text(findings: &[Finding], verbose: bool, width: usize) -> String {
    let of = |level: &str| -> Vec<&Finding> {
        let found = findings.iter().filter(|finding| finding.level == level);
        found.collect()
    };
    let (missing, limited) = (grouped(&of("missing")), grouped(&of("limited")));
    let fine: Vec<&Finding> = findings
        .iter()
        .filter(|finding| finding.level != "missing" && finding.level != "limited")
        .collect();
    let number = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
    let mut text = match (missing.len(), limited.len()) {
        (0, 0) => "ready, and nothing is missing\n".to_owned(),
        (0, limits) => format!("ready, with {}\n", count(number(limits), "limit")),
        (things, _) => format!("not ready: {} missing\n", count(number(things), "thing")),
    };
    for finding in missing.iter().chain(&limited) {
        push(&mut text, finding, width);
    }
    if verbose {
        for finding in &fine {
            push(&mut text, finding, width);
        }
    } else if !fine.is_empty() {
        let checks = count(number(fine.len()), "check");
        let are = if fine.len() == 1 { "is" } else { "are" };
        text.push_str(&format!(
            "{checks} {are} fine; `numadctl doctor --verbose` shows all\n"
        ));
    }
    text
}

/// Findings that say the same of several subjects are one, which names them all.
fn grouped(findings: &[&Finding]) -> Vec<Finding> {
    let mut groups: Vec<Finding> = Vec::new();
    for finding in findings {
        let same =
            |group: &&mut Finding| group.text == finding.text && group.remedy == finding.remedy;
        match groups.iter_mut().find(same) {
            Some(group) => group.subject.push_str(&format!(", {}", finding.subject)),
            None => groups.push((*finding).clone()),
        }
    }
    groups
}

fn push(text: &mut String, finding: &Finding, width: usize) {
    let room = width.saturating_sub(INDENT);
    let what = format!("{}: {}", finding.subject, finding.text);
    for (number, line) in wrapped(&what, room).iter().enumerate() {
        let level = if number == 0 {
            finding.level.as_str()
        } else {
            ""
        };
        text.push_str(&format!("{level:<INDENT$}{line}\n"));
    }
    if finding.remedy.is_empty() {
        return;
    }
    for (number, line) in wrapped(&finding.remedy, room.saturating_sub(3))
        .iter()
        .enumerate()
    {
        let arrow = if number == 0 { "->" } else { "" };
        text.push_str(&format!("{:INDENT$}{arrow:<3}{line}\n", ""));
    }
}
