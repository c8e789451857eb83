//! What `policies` shows.

use control::rows::PolicyRow;

use super::table::{Side, table};

/// Names and summaries.
#[must_use]
pub fn list(rows: &[PolicyRow]) -> String {
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| vec![row.name.clone(), row.summary.clone()])
        .collect();
    table(
        &[("POLICY", Side::Left), ("WHAT IT DOES", Side::Left)],
        &cells,
    )
}

/// One policy with its settings.
#[must_use]
pub fn page(row: &PolicyRow) -> String {
    let mut text = format!("{}: {}\n", row.name, row.summary);
    if row.settings.is_empty() {
        text.push_str("\nit has no settings\n");
        return text;
    }
    // Sentences do not fit a table: a setting is a line of figures and a line of help.
    for setting in &row.settings {
        text.push_str(&format!("\n{} = {}", setting.name, setting.value));
        if setting.value != setting.default {
            text.push_str(&format!("   (default {})", setting.default));
        }
        text.push_str(&format!(
            "\n    expects {}\n    {}\n",
            setting.expects, setting.help
        ));
    }
    text
}
