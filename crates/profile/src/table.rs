//! A matrix in comma-separated values: one row for each sender, bytes to each receiver.
//!
//! A first row of names is taken for names, and so is a first column. What `numadctl matrix --csv` writes has the node
//! of each thread beside its name, and shares of samples behind the amounts. Spreadsheets begin a text with a byte order
//! mark; it belongs to no cell.

use control::profile::TASKS_MAX;

use crate::monitoring::{MonitoringError, shortened, unmarked};

/// A square matrix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// A name for each row; numbers where the text has none.
    pub names: Vec<String>,
    /// The cells.
    pub rows: Vec<Vec<u64>>,
}

impl Table {
    /// Reads it.
    ///
    /// # Errors
    /// Names the first line that is wrong.
    pub fn parse(text: &str) -> Result<Self, MonitoringError> {
        let mut lines = unmarked(text)
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty())
            .peekable();
        // Not what begins as a number does: a wrong amount is no name.
        let is_name =
            |line: &str| !line.starts_with(|first: char| first == '-' || first.is_ascii_digit());
        let head = lines.next_if(|(_, line)| is_name(line.trim_start()));
        let before = head.map_or(0, |(_, line)| match line.starts_with("tid,node,") {
            true => 2,
            false => 1,
        });
        let behind = head.map_or(0, |(_, line)| line.matches("samples:").count());
        let mut table = Self::default();
        let mut numbers = Vec::new();
        for (line, text) in lines {
            let failed = |text: String| MonitoringError {
                line: line + 1,
                text,
            };
            let cells: Vec<&str> = text.split(',').map(str::trim).collect();
            let name = match head {
                Some(_) => cells[0].to_owned(),
                None => table.rows.len().to_string(),
            };
            let amounts = cells.len().saturating_sub(before + behind);
            let row: Result<Vec<u64>, String> = cells
                .iter()
                .skip(before)
                .take(amounts)
                .map(|cell| {
                    number(cell).ok_or_else(|| format!("`{}` is no amount", shortened(cell)))
                })
                .collect();
            table.rows.push(row.map_err(failed)?);
            table.names.push(name);
            numbers.push(line + 1);
            if table.rows.len() > TASKS_MAX {
                return Err(failed(format!("more than {TASKS_MAX} rows")));
            }
        }
        let side = table.rows.len();
        let crooked = table.rows.iter().position(|row| row.len() != side);
        match crooked {
            Some(row) => Err(MonitoringError {
                line: numbers[row],
                text: format!("{} cells in a matrix of {side} rows", table.rows[row].len()),
            }),
            None if side == 0 => Err(MonitoringError {
                line: 1,
                text: "no row of amounts".to_owned(),
            }),
            None => Ok(table),
        }
    }
}

fn number(cell: &str) -> Option<u64> {
    cell.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_and_without_names() {
        let plain = Table::parse("0,5\n6,0\n").unwrap();
        assert_eq!(plain.rows, [[0, 5], [6, 0]]);
        assert_eq!(plain.names, ["0", "1"]);
        let named = Table::parse("tid,12,13\n12,0,5\n13,6,0\n").unwrap();
        assert_eq!(
            (named.rows, named.names),
            (plain.rows, vec!["12".to_owned(), "13".to_owned()])
        );
    }

    #[test]
    fn what_matrix_prints_is_read() {
        let printed = "tid,node,7,9,samples:7,samples:9\n7,0,0,5,0,1\n9,,5,0,1,0\n";
        let table = Table::parse(printed).unwrap();
        assert_eq!(table.rows, [[0, 5], [5, 0]]);
        assert_eq!(table.names, ["7", "9"]);
        let short = Table::parse("tid,node,7,9,samples:7,samples:9\n7,0\n9,0\n").unwrap_err();
        assert_eq!(short.to_string(), "line 2: 0 cells in a matrix of 2 rows");
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_row() {
        for text in [
            "0,5\n6,0\n",
            "tid,12,13\n12,0,5\n13,6,0\n",
            "tid,node,7,9\n7,0,0,5\n9,,5,0\n",
        ] {
            assert_eq!(
                Table::parse(&format!("\u{feff}{text}")),
                Table::parse(text),
                "{text}"
            );
        }
    }

    #[track_caller]
    fn refused(text: &str, expected: &str) {
        assert_eq!(Table::parse(text).unwrap_err().to_string(), expected);
    }

    #[test]
    fn what_is_no_matrix() {
        refused("", "line 1: no row of amounts");
        refused("0,1\n1\n", "line 2: 1 cells in a matrix of 2 rows");
        refused("0,1\n-1,0\n", "line 2: `-1` is no amount");
        refused("0,1\n", "line 1: 2 cells in a matrix of 1 rows");
    }

    #[test]
    fn errors_name_the_line_of_the_file() {
        refused("\n\n0,1\n\n1\n", "line 5: 1 cells in a matrix of 2 rows");
        refused(
            "\ntid,a,b\n\na,0,1\n\nb,1\n",
            "line 6: 1 cells in a matrix of 2 rows",
        );
        refused("0,1\r\n\r\n-1,0\r\n", "line 3: `-1` is no amount");
    }
}
