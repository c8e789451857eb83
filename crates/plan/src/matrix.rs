//! Matrices as files have them.

use control::{ErrorKind, Failure};
use numad_core::CommMatrix;

/// Most ranks or threads that a matrix may have: its table then takes 512 MiB.
pub const TASKS_MAX: usize = 8192;

fn wrong(text: impl Into<String>) -> Failure {
    Failure::new(ErrorKind::Usage, text)
        .remedy("give what `numadctl matrix --csv` prints, or a square of numbers")
}

fn text(bytes: &[u8]) -> Result<&str, Failure> {
    std::str::from_utf8(bytes).map_err(|_no_text| wrong("the matrix is no text"))
}

/// Reads comma-separated values: what `numadctl matrix --csv` prints, or a square of amounts alone.
///
/// Both directions of a pair add up; the diagonal is left out.
///
/// # Errors
/// Names the first line that is wrong.
pub fn from_csv(bytes: &[u8]) -> Result<CommMatrix, Failure> {
    let lines = text(bytes)?.lines().enumerate();
    let mut lines = lines.filter(|(_, line)| !line.trim().is_empty()).peekable();
    let Some(&(_, first)) = lines.peek() else {
        return Err(wrong("the matrix is empty"));
    };
    let has_head = first.starts_with("tid,node");
    let (skip, tasks) = match has_head {
        true => {
            let columns = first.split(',').skip(2);
            (
                2,
                columns.filter(|name| !name.starts_with("samples:")).count(),
            )
        }
        false => (0, first.split(',').count()),
    };
    if tasks == 0 || tasks > TASKS_MAX {
        let text = format!("the matrix has `{tasks}` columns; it may have 1 to {TASKS_MAX}");
        return Err(wrong(text));
    }
    if has_head {
        lines.next();
    }
    let mut matrix = CommMatrix::new(tasks);
    let mut row = 0;
    for (number, line) in lines {
        let number = number + 1;
        if row == tasks {
            return Err(wrong(format!(
                "line {number} of the matrix is one too many for `{tasks}` columns"
            )));
        }
        let cells: Vec<&str> = line.split(',').skip(skip).map(str::trim).collect();
        if cells.len() < tasks || (!has_head && cells.len() > tasks) {
            let text = format!(
                "line {number} of the matrix has `{}` amounts, not `{tasks}`",
                cells.len()
            );
            return Err(wrong(text));
        }
        for (column, cell) in cells.iter().take(tasks).enumerate() {
            let amount: u64 = cell.parse().map_err(|_no_number| {
                let shown: String = cell.chars().take(20).collect();
                wrong(format!(
                    "line {number} of the matrix: `{}` is no amount",
                    shown.escape_debug()
                ))
            })?;
            matrix.add(row, column, amount);
        }
        row += 1;
    }
    if row < tasks {
        return Err(wrong(format!(
            "the matrix ends after `{row}` of `{tasks}` rows"
        )));
    }
    Ok(matrix)
}

/// Reads what Open MPI's monitoring writes, one file after the other: bytes of point-to-point
/// messages (`E`) and of those within collective calls (`I`).
///
/// # Errors
/// Names the first line that is wrong.
pub fn from_monitoring(bytes: &[u8]) -> Result<CommMatrix, Failure> {
    let mut sent: Vec<(usize, usize, u64)> = Vec::new();
    for (number, line) in text(bytes)?.lines().enumerate() {
        let words: Vec<&str> = line.split('\t').collect();
        if !matches!(words.first(), Some(&("E" | "I"))) {
            continue;
        }
        let bytes = words.get(3).and_then(|word| word.strip_suffix(" bytes"));
        let rank = |at: usize| words.get(at).and_then(|word| word.parse::<usize>().ok());
        let (Some(from), Some(to), Some(amount)) =
            (rank(1), rank(2), bytes.and_then(|word| word.parse().ok()))
        else {
            return Err(wrong(format!(
                "line {} is none of Open MPI's monitoring",
                number + 1
            )));
        };
        if from.max(to) >= TASKS_MAX {
            return Err(wrong(format!(
                "rank `{}` is too large; at most {TASKS_MAX} are planned",
                from.max(to)
            )));
        }
        sent.push((from, to, amount));
    }
    let Some(last) = sent.iter().map(|&(from, to, _)| from.max(to)).max() else {
        return Err(wrong("the files tell of no message"));
    };
    let mut matrix = CommMatrix::new(last + 1);
    for (from, to, amount) in sent {
        matrix.add(from, to, amount);
    }
    Ok(matrix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matrix_prints_is_read() {
        let printed = "tid,node,7,9,samples:7,samples:9\n7,0,0,5,0,1\n9,,5,0,1,0\n";
        let matrix = from_csv(printed.as_bytes()).unwrap();
        assert_eq!((matrix.count(), matrix.between(0, 1)), (2, 10));
    }

    #[test]
    fn a_square_is_read_and_its_diagonal_left_out() {
        let matrix = from_csv(b"9, 1,0\n2,9,0\n\n0,3,9\n").unwrap();
        let pairs: Vec<_> = matrix.pairs().collect();
        assert_eq!(pairs, [(0, 1, 3), (1, 2, 3)]);
    }

    #[test]
    fn monitoring_is_read() {
        let text = b"# head\nE\t0\t1\t108 bytes\t27 msgs sent\t0,0\nI\t1\t2\t4 bytes\t1 msgs sent\nD\tcomm\n";
        let pairs: Vec<_> = from_monitoring(text).unwrap().pairs().collect();
        assert_eq!(pairs, [(0, 1, 108), (1, 2, 4)]);
    }

    #[track_caller]
    fn refused(bytes: &[u8], part: &str) {
        let failure = from_csv(bytes).unwrap_err();
        assert!(failure.message.contains(part), "{failure}");
        assert!(!failure.message.contains('\n'));
    }

    #[test]
    fn nonsense_is_refused_on_one_line() {
        refused(b"", "empty");
        refused(b"\xff", "no text");
        refused(b"1,2\n3,4\n5,6", "one too many");
        refused(b"1,2\n3\n", "line 2");
        refused(b"1,2\n", "after `1` of `2`");
        refused(b"0,-1\n1,0", "`-1` is no amount");
        refused(b"a,b", "no amount");
        refused(b"tid,node\n", "0");
        for bytes in [&b"E\t0\t1\tx bytes"[..], b"E\t0\t99999999999\t1 bytes", b""] {
            let failure = from_monitoring(bytes).unwrap_err();
            assert_eq!(failure.kind, ErrorKind::Usage);
        }
    }
}
