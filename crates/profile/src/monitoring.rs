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

use std::collections::BTreeMap;
use std::fmt;

use control::profile::TASKS_MAX;

/// Bytes and messages from each rank to each, by the numbers of both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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

impl Messages {
    /// Adds what a file tells.
    ///
    /// # Errors
    /// Names the first line that is cut or of another version. Nothing is added then.
    pub fn add(&mut self, text: &str) -> Result<(), MonitoringError> {
        let mut read = self.clone();
        let mut told = false;
        for (number, line) in text.lines().enumerate() {
            let failed = |text: String| MonitoringError {
                line: number + 1,
                text,
            };
            let fields: Vec<&str> = line.split('\t').collect();
            match fields[0] {
                "E" | "I" | "S" => read.message(&fields, false).map_err(failed)?,
                "R" => read.message(&fields, true).map_err(failed)?,
                "C" | "D" | "O2A" | "A2O" | "A2A" => {}
                other if other.starts_with('#') || other.trim().is_empty() => {}
                other => return Err(failed(format!("unknown kind `{}`", shortened(other)))),
            }
            told |= !line.trim().is_empty();
        }
        if !told {
            return Err(MonitoringError {
                line: 1,
                text: "the file is empty".to_owned(),
            });
        }
        *self = read;
        Ok(())
    }

    /// How many ranks there are.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.highest.map_or(0, |rank| rank as usize + 1)
    }

    fn message(&mut self, fields: &[&str], turned: bool) -> Result<(), String> {
        let [_, from, to, bytes, messages, ..] = fields else {
            return Err(format!("{} fields, at least 5 expected", fields.len()));
        };
        let (from, to) = (rank(from)?, rank(to)?);
        let bytes = amount(bytes, " bytes")?;
        let messages = amount(messages, " msgs sent")?;
        let pair = if turned { (to, from) } else { (from, to) };
        let sum = self.sent.entry(pair).or_default();
        sum.0 = sum.0.saturating_add(bytes);
        sum.1 = sum.1.saturating_add(messages);
        self.highest = self.highest.max(Some(from.max(to)));
        Ok(())
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
                        D\tMPI_COMM_WORLD\tprocs: 0,1,2,3\nO2A\t0\t0 bytes\t0 msgs sent\n";

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
    }
}
