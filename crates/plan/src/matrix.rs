//! Matrices as files have them, for tasks between whom direction does not matter.

use control::{ErrorKind, Failure};
use numad_core::CommMatrix;
use profile::monitoring::{self, Messages};
use profile::table::Table;

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
    let table = Table::parse(text(bytes)?);
    let table = table.map_err(|error| wrong(format!("the matrix is wrong: {error}")))?;
    let mut matrix = CommMatrix::new(table.rows.len());
    for (from, row) in table.rows.iter().enumerate() {
        for (to, &amount) in row.iter().enumerate() {
            matrix.add(from, to, amount);
        }
    }
    Ok(matrix)
}

/// Whether these bytes are a file of Open MPI's monitoring, and not comma-separated values.
#[must_use]
pub fn is_monitoring(bytes: &[u8]) -> bool {
    text(bytes).is_ok_and(monitoring::is_monitoring)
}

/// Reads what Open MPI's monitoring writes, files with their names: bytes of point-to-point
/// messages and of those within collective calls.
///
/// # Errors
/// Names the file, and the first line that is wrong.
pub fn from_monitoring(files: &[(String, Vec<u8>)]) -> Result<CommMatrix, Failure> {
    let mut messages = Messages::default();
    for (name, bytes) in files {
        let read = text(bytes).map(|text| messages.add(text))?;
        read.map_err(|error| {
            let text = format!("`{name}` is no whole file of Open MPI's monitoring: {error}");
            Failure::new(ErrorKind::Usage, text)
                .remedy("run the program to its end, and copy the file again")
        })?;
    }
    if messages.sent.is_empty() {
        return Err(wrong("the files tell of no message"));
    }
    let mut matrix = CommMatrix::new(messages.ranks());
    for (&(from, to), &(amount, _)) in &messages.sent {
        matrix.add(from as usize, to as usize, amount);
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
        let file = |text: &str| (format!("x{}.prof", text.len()), text.as_bytes().to_vec());
        let whole = [
            file("# head\nE\t0\t1\t108 bytes\t27 msgs sent\t0,0\n"),
            file("\u{feff}I\t1\t2\t4 bytes\t1 msgs sent\n"),
        ];
        assert!(whole.iter().skip(1).all(|(_, bytes)| is_monitoring(bytes)));
        let pairs: Vec<_> = from_monitoring(&whole).unwrap().pairs().collect();
        assert_eq!(pairs, [(0, 1, 108), (1, 2, 4)]);
        // The second file would hide that the first is cut, if they were read as one.
        let cut = [file("# POINT TO POINT\n"), whole[1].clone()];
        let failure = from_monitoring(&cut).unwrap_err();
        assert!(
            failure.message.starts_with("`x17.prof` is no whole file"),
            "{failure}"
        );
    }

    #[test]
    fn a_byte_order_mark_hides_no_row() {
        let pairs: Vec<_> = from_csv("\u{feff}0,5\n6,0\n".as_bytes())
            .unwrap()
            .pairs()
            .collect();
        assert_eq!(pairs, [(0, 1, 11)]);
    }

    #[test]
    fn a_head_may_begin_with_any_letter() {
        for text in ["Elbe,Inn\n", "# ranks,0\n", "I,0\n"] {
            assert!(!is_monitoring(text.as_bytes()), "{text}");
        }
    }

    #[track_caller]
    fn refused(bytes: &[u8], part: &str) {
        let failure = from_csv(bytes).unwrap_err();
        assert!(failure.message.contains(part), "{failure}");
        assert!(!failure.message.contains('\n'));
    }

    #[test]
    fn nonsense_is_refused_on_one_line() {
        refused(b"", "no row of amounts");
        refused(b"\xff", "no text");
        refused(b"1,2\n3,4\n5,6", "line 1: 2 cells in a matrix of 3 rows");
        refused(b"1,2\n3\n", "line 2");
        refused(b"0,-1\n1,0", "line 1: `-1` is no amount");
        refused(b"0,1\n-1,0", "`-1` is no amount");
        refused(b"tid,node\n", "no row");
        for bytes in [&b"E\t0\t1\tx bytes"[..], b"E\t0\t99999999999\t1 bytes", b""] {
            let failure = from_monitoring(&[("x".to_owned(), bytes.to_vec())]).unwrap_err();
            assert_eq!(failure.kind, ErrorKind::Usage);
        }
    }
}
