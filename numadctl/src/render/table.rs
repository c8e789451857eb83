//! Plain tables: columns as wide as their widest cell.

use super::wrap::on_one_line;

/// Where the text of a column stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// The same in lines of at most `width`: columns with the highest number are left out first, those
/// with 0 never.
#[must_use]
pub fn fitting(columns: &[(&str, Side, u8)], rows: &[Vec<String>], width: usize) -> String {
    let mut left_from = u8::MAX;
    loop {
        let shown = |index: &usize| columns[*index].2 < left_from;
        let kept: Vec<usize> = (0..columns.len()).filter(shown).collect();
        let head: Vec<(&str, Side)> = kept
            .iter()
            .map(|&index| (columns[index].0, columns[index].1))
            .collect();
        let cells = |row: &Vec<String>| kept.iter().map(|&index| row[index].clone()).collect();
        let text = table(&head, &rows.iter().map(cells).collect::<Vec<_>>());
        let widest = text.lines().map(|line| line.chars().count()).max();
        let last = kept
            .iter()
            .map(|&index| columns[index].2)
            .max()
            .unwrap_or(0);
        if last == 0 || widest.unwrap_or(0) <= width {
            return text;
        }
        left_from = last;
    }
}

/// A table with a head line; every row has as many cells as there are columns.
#[must_use]
pub fn table(head: &[(&str, Side)], rows: &[Vec<String>]) -> String {
    let of_lines = |row: &Vec<String>| row.iter().map(|cell| on_one_line(cell)).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(of_lines).collect();
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
    for row in std::iter::once(&names).chain(&rows) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_two_lines_makes_no_row() {
        let columns = [("NAME", Side::Left), ("CPU", Side::Right)];
        let rows = [vec!["a\nb\tc".to_owned(), "1".to_owned()]];
        assert_eq!(table(&columns, &rows), "NAME   CPU\na?b?c    1\n");
    }

    #[test]
    fn what_does_not_fit_is_left_out_by_rank() {
        let columns = [
            ("ID", Side::Right, 0),
            ("PROGRAM", Side::Left, 2),
            ("FOR", Side::Right, 1),
        ];
        let rows = [vec!["1".to_owned(), "solver".to_owned(), "3 s".to_owned()]];
        assert_eq!(
            fitting(&columns, &rows, 16),
            "ID  PROGRAM  FOR\n 1  solver   3 s\n"
        );
        assert_eq!(fitting(&columns, &rows, 15), "ID  FOR\n 1  3 s\n");
        assert_eq!(fitting(&columns, &rows, 1), "ID\n 1\n");
    }
}
