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
    let cells: Vec<Vec<String>> = row
        .settings
        .iter()
        .map(|setting| {
            vec![
                setting.name.clone(),
                setting.value.clone(),
                setting.default.clone(),
                setting.expects.clone(),
                setting.help.clone(),
            ]
        })
        .collect();
    let head = [
        ("SETTING", Side::Left),
        ("VALUE", Side::Left),
        ("DEFAULT", Side::Left),
        ("EXPECTS", Side::Left),
        ("MEANING", Side::Left),
    ];
    text.push('\n');
    text.push_str(&table(&head, &cells));
    text
}
