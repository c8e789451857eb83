//! What `doctor` shows.

use control::rows::Finding;

/// One paragraph for each finding, with its remedy below.
#[must_use]
pub fn text(findings: &[Finding]) -> String {
    let level = findings
        .iter()
        .map(|finding| finding.level.chars().count())
        .max()
        .unwrap_or(0);
    findings
        .iter()
        .map(|finding| {
            let mut text = format!(
                "{:<level$}  {}: {}\n",
                finding.level, finding.subject, finding.text
            );
            if !finding.remedy.is_empty() {
                text.push_str(&format!("{:level$}  -> {}\n", "", finding.remedy));
            }
            text
        })
        .collect()
}
