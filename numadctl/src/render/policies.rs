//! What `policies` shows.

use control::rows::PolicyRow;

use super::table::{Side, table};
use super::wrap::wrapped;

/// Names and summaries, in lines of at most `width`.
#[must_use]
pub fn list(rows: &[PolicyRow], width: usize) -> String {
    let names = rows.iter().map(|row| row.name.chars().count());
    let margin = names.max().unwrap_or(0).max("POLICY".len()) + 2;
    let mut cells = Vec::new();
    for row in rows {
        let lines = wrapped(&row.summary, width.saturating_sub(margin));
        for (number, line) in lines.into_iter().enumerate() {
            let name = if number == 0 { row.name.as_str() } else { "" };
            cells.push(vec![name.to_owned(), line]);
        }
    }
    table(
        &[("POLICY", Side::Left), ("WHAT IT DOES", Side::Left)],
        &cells,
    )
}

/// One policy with its settings, in lines of at most `width`.
#[must_use]
pub fn page(row: &PolicyRow, width: usize) -> String {
    const MARGIN: usize = 4;
    let summary = format!("{}: {}", row.name, row.summary);
    let mut text = wrapped(&summary, width).join("\n");
    text.push('\n');
    if row.settings.is_empty() {
        text.push_str("\nit has no settings\n");
        return text;
    }
    // Sentences do not fit a table: a setting is a line of figures and lines of help.
    for setting in &row.settings {
        text.push_str(&format!("\n{} = {}", setting.name, setting.value));
        if setting.value != setting.default {
            text.push_str(&format!("   (default {})", setting.default));
        }
        text.push('\n');
        let expects = format!("expects {}", setting.expects);
        for told in [expects.as_str(), &setting.help] {
            for line in wrapped(told, width.saturating_sub(MARGIN)) {
                text.push_str(&format!("{:MARGIN$}{line}\n", ""));
            }
        }
    }
    text
}
