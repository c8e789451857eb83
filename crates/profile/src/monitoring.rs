//! Files of Open MPI's `pml_monitoring`: what one rank sent to each other one.
//!
//! ```text
//! # POINT TO POINT
//! E   0   1   3584 bytes   7 msgs sent   0,0,0,0,...
//! I   0   2   8 bytes      1 msgs sent   0,0,0,0,...
//! # OSC
//! S   0   1   64 bytes     1 msgs sent
//! # COLLECTIVES
//! C   0   1   8 bytes      1 msgs sent
//! ```
//!
//! Fields are parted by tabs. `E` are messages of the program and `I` those that collectives consist of; `S` and `R`
//! are one-sided puts and gets. `C` and the lines of communicators tell the collectives again, so they are left out.
//!
//! Open MPI 3 and later write the three heads always, in this order, so a file that has the first and not the last is cut.
//! Behind the last head nothing counts; there a cut shows in a line or in the four lines of a communicator, and one between
//! communicators does not. Open MPI 2 writes no heads, only lines `E` and `I`: whether lines lack there cannot be known.

use std::collections::BTreeMap;
use std::fmt;

use control::profile::TASKS_MAX;

/// Bytes and messages from each rank to each, by the numbers of both. There is no copy of it: one for each file made
/// reading many files quadratic.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Messages {
    /// By sender and receiver.
    pub sent: BTreeMap<(u32, u32), (u64, u64)>,
    /// The highest rank that a file of its own was read of, or that a message names.
    pub highest: Option<u32>,
}

/// Why a text is no such file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonitoringError {
    /// Line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub text: String,
}

impl fmt::Display for MonitoringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.text)
    }
}

impl std::error::Error for MonitoringError {}

/// Heads of the parts of a file, in their order.
const HEADS: [&str; 3] = ["# POINT TO POINT", "# OSC", "# COLLECTIVES"];

/// Lines of a communicator, in their order.
const COMMUNICATOR: [&str; 4] = ["D", "O2A", "A2O", "A2A"];

/// Whether a text begins as a file of monitoring does, and not as a matrix: by a head, or a kind and a tab.
#[must_use]
pub fn is_monitoring(text: &str) -> bool {
    let first = unmarked(text).trim_start();
    let heads = HEADS.iter().any(|head| first.starts_with(head));
    let mut first = first.chars();
    heads
        || matches!(
            (first.next(), first.next()),
            (Some('E' | 'I' | 'S' | 'R' | 'C'), Some('\t'))
        )
}

/// A text without the byte order mark that may stand before it.
pub(crate) fn unmarked(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

fn misplaced(found: &str, expected: &str) -> String {
    format!("`{found}` where `{expected}` is expected; lines are missing, or files were joined")
}

/// How far a file is.
#[derive(Default)]
struct Progress {
    /// Heads seen.
    heads: usize,
    /// Lines seen of the communicator that is being told.
    lines: usize,
}

impl Progress {
    fn head(&mut self, line: &str) -> Result<(), String> {
        let Some(place) = HEADS.iter().position(|head| line.trim_end() == *head) else {
            return Ok(());
        };
        if place != self.heads {
            let expected = HEADS.get(self.heads).unwrap_or(&"the end");
            return Err(misplaced(HEADS[place], expected));
        }
        self.heads += 1;
        Ok(())
    }

    fn communicator(&mut self, kind: &str) -> Result<(), String> {
        let expected = COMMUNICATOR[self.lines];
        if kind != expected {
            return Err(misplaced(kind, expected));
        }
        self.lines = (self.lines + 1) % COMMUNICATOR.len();
        Ok(())
    }

    /// What lacks at the end of the file.
    fn lacking(&self, text: &str) -> Option<String> {
        if !text.ends_with('\n') {
            return Some("the file ends within this line".to_owned());
        }
        if self.heads > 0 && self.heads < HEADS.len() {
            return Some(format!(
                "the file ends before `{}`: it is cut",
                HEADS[self.heads]
            ));
        }
        (self.lines > 0).then(|| {
            format!(
                "the file ends before `{}`: it is cut",
                COMMUNICATOR[self.lines]
            )
        })
    }
}

impl Messages {
    /// Adds what a whole file tells.
    ///
    /// # Errors
    /// Names the first line that is cut or of another version, or after which lines lack. Nothing is added then.
    pub fn add(&mut self, text: &str) -> Result<(), MonitoringError> {
        let text = unmarked(text);
        // What is there already is not looked at: many files are as much work as they have lines.
        let mut read = Vec::new();
        let mut progress = Progress::default();
        let (mut told, mut last) = (false, 1);
        for (number, line) in text.lines().enumerate() {
            let failed = |text: String| MonitoringError {
                line: number + 1,
                text,
            };
            let fields: Vec<&str> = line.split('\t').collect();
            match fields[0] {
                "E" | "I" | "S" => read.push(Line::read(&fields, false).map_err(failed)?),
                "R" => read.push(Line::read(&fields, true).map_err(failed)?),
                "C" => {}
                "D" | "O2A" | "A2O" | "A2A" => progress.communicator(fields[0]).map_err(failed)?,
                other if other.starts_with('#') => progress.head(line).map_err(failed)?,
                other if other.trim().is_empty() => {}
                other => return Err(failed(format!("unknown kind `{}`", shortened(other)))),
            }
            if !line.trim().is_empty() {
                (told, last) = (true, number + 1);
            }
        }
        let lacking = match told {
            true => progress.lacking(text),
            false => Some("the file is empty".to_owned()),
        };
        if let Some(text) = lacking {
            return Err(MonitoringError { line: last, text });
        }
        read.iter().for_each(|line| self.count(line));
        Ok(())
    }

    /// How many ranks there are.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.highest.map_or(0, |rank| rank as usize + 1)
    }

    fn count(&mut self, line: &Line) {
        let (from, to) = line.pair;
        let sum = self.sent.entry(line.pair).or_default();
        sum.0 = sum.0.saturating_add(line.bytes);
        sum.1 = sum.1.saturating_add(line.messages);
        self.highest = self.highest.max(Some(from.max(to)));
    }
}

/// What one line tells.
struct Line {
    pair: (u32, u32),
    bytes: u64,
    messages: u64,
}

impl Line {
    fn read(fields: &[&str], turned: bool) -> Result<Self, String> {
        let [_, from, to, bytes, messages, ..] = fields else {
            return Err(format!("{} fields, at least 5 expected", fields.len()));
        };
        let (from, to) = (rank(from)?, rank(to)?);
        Ok(Self {
            pair: if turned { (to, from) } else { (from, to) },
            bytes: amount(bytes, " bytes")?,
            messages: amount(messages, " msgs sent")?,
        })
    }
}

fn rank(text: &str) -> Result<u32, String> {
    let rank: Option<u32> = text.parse().ok();
    rank.filter(|&rank| (rank as usize) < TASKS_MAX)
        .ok_or_else(|| {
            format!(
                "unknown rank `{}`, 0 to {} expected",
                shortened(text),
                TASKS_MAX - 1
            )
        })
}

fn amount(text: &str, unit: &str) -> Result<u64, String> {
    let number = text
        .strip_suffix(unit)
        .and_then(|number| number.parse().ok());
    number.ok_or_else(|| {
        format!(
            "`{}`, a number and `{}` expected",
            shortened(text),
            unit.trim()
        )
    })
}

pub(crate) fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REAL: &str = "# POINT TO POINT\nE\t0\t1\t3584 bytes\t7 msgs sent\t0,0,7\nI\t0\t1\t8 bytes\t1 msgs sent\n\
                        I\t0\t2\t8 bytes\t1 msgs sent\t0,1\n# OSC\nS\t0\t2\t64 bytes\t1 msgs sent\n\
                        R\t0\t3\t5 bytes\t1 msgs sent\n# COLLECTIVES\nC\t0\t1\t8 bytes\t1 msgs sent\n\
                        D\tMPI_COMM_WORLD\tprocs: 0,1,2,3\nO2A\t0\t0 bytes\t0 msgs sent\n\
                        A2O\t0\t0 bytes\t0 msgs sent\nA2A\t0\t24 bytes\t1 msgs sent\n";

    #[test]
    fn what_open_mpi_writes() {
        let mut messages = Messages::default();
        messages.add(REAL).unwrap();
        let expected = [((0, 1), (3592, 8)), ((0, 2), (72, 2)), ((3, 0), (5, 1))];
        assert_eq!(messages.sent, BTreeMap::from(expected));
        assert_eq!(messages.ranks(), 4);
    }

    #[track_caller]
    fn refused(text: &str, expected: &str) {
        let mut messages = Messages::default();
        assert_eq!(messages.add(text).unwrap_err().to_string(), expected);
        assert_eq!(messages, Messages::default());
    }

    #[test]
    fn what_is_cut_or_of_another_version() {
        refused("", "line 1: the file is empty");
        refused("E\t0\t1\t35", "line 1: 4 fields, at least 5 expected");
        refused(
            "E\t0\t1\t35\t7 msgs sent",
            "line 1: `35`, a number and `bytes` expected",
        );
        refused(
            "E\t0\t-1\t35 bytes\t7 msgs sent",
            "line 1: unknown rank `-1`, 0 to 1023 expected",
        );
        refused("\nE 0 1 35 bytes", "line 2: unknown kind `E 0 1 35 bytes`");
        refused(
            "E\t0\t1\t35 bytes\t7 msgs sent\t0,0,7",
            "line 1: the file ends within this line",
        );
    }

    #[test]
    fn a_cut_is_seen_wherever_the_format_makes_it_knowable() {
        let lines: Vec<&str> = REAL.split_inclusive('\n').collect();
        for kept in 1..lines.len() {
            let found = Messages::default().add(&lines[..kept].concat());
            // Behind the last head: lines of the collectives, and then a communicator whole.
            assert_eq!(
                found.is_ok(),
                kept == 8 || kept == 9,
                "{kept} lines: {found:?}"
            );
            assert_eq!(
                found.map_err(|error| error.line).err().unwrap_or(kept),
                kept
            );
        }
        for kept in (1..REAL.len()).filter(|&kept| !REAL[..kept].ends_with('\n')) {
            assert!(
                Messages::default().add(&REAL[..kept]).is_err(),
                "{kept} bytes"
            );
        }
        refused(
            "# POINT TO POINT\nE\t0\t1\t35 bytes\t7 msgs sent\n",
            "line 2: the file ends before `# OSC`: it is cut",
        );
        refused(
            &lines[4..].concat(),
            "line 1: `# OSC` where `# POINT TO POINT` is expected; lines are missing, or files were joined",
        );
        refused(
            &[REAL, REAL].concat(),
            "line 14: `# POINT TO POINT` where `the end` is expected; lines are missing, or files were joined",
        );
    }

    #[test]
    fn lines_without_heads_are_those_of_open_mpi_2() {
        let mut messages = Messages::default();
        messages
            .add("I\t0\t1\t8 bytes\t1 msgs sent\nE\t0\t1\t8 bytes\t1 msgs sent\n")
            .unwrap();
        assert_eq!(messages.sent, BTreeMap::from([((0, 1), (16, 2))]));
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_line() {
        let (mut plain, mut marked) = (Messages::default(), Messages::default());
        plain.add(REAL).unwrap();
        marked.add(&format!("\u{feff}{REAL}")).unwrap();
        assert_eq!(marked, plain);
    }

    #[test]
    fn a_matrix_is_no_file_of_monitoring() {
        for text in [
            "Elbe,Inn\n0,1\n",
            "I,E\n",
            "# ranks,0,1\n0,0,5\n",
            "#,0,1\n",
            "0,1\n",
            "",
            "E 0 1",
        ] {
            assert!(!is_monitoring(text), "{text}");
        }
        for text in [REAL, "\u{feff}# OSC\n", "\nE\t0", "I\t1\t0", "S\t0"] {
            assert!(is_monitoring(text), "{text}");
        }
    }
}
