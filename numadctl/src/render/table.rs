//! Plain tables: columns as wide as their widest cell.

/// Where the text of a column stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A table with a head line; every row has as many cells as there are columns.
#[must_use]
pub fn table(head: &[(&str, Side)], rows: &[Vec<String>]) -> String {
    let widths: Vec<usize> = head
        .iter()
        .enumerate()
        .map(|(column, (name, _))| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
                .max(name.chars().count())
        })
        .collect();
    let names: Vec<String> = head.iter().map(|(name, _)| (*name).to_owned()).collect();
    let mut text = String::new();
    for row in std::iter::once(&names).chain(rows) {
        let cells = row.iter().zip(&widths).zip(head);
        let line: Vec<String> = cells
            .map(|((cell, &width), (_, side))| match side {
                Side::Left => format!("{cell:<width$}"),
                Side::Right => format!("{cell:>width$}"),
            })
            .collect();
        text.push_str(line.join("  ").trim_end());
        text.push('\n');
    }
    text
}
