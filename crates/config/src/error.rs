//! What is wrong with settings files.

use std::fmt;
use std::path::PathBuf;

/// Most problems that one load reports; a file that is not ours at all would give thousands.
pub(crate) const PROBLEMS_MAX: usize = 20;

/// Longest quotation of a file's content in a message.
const QUOTE_CHARS_MAX: usize = 300;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file it is in.
    pub file: PathBuf,
    /// The line, from 1; none when it is about the file as a whole.
    pub line: Option<usize>,
    /// What is wrong and what would be right, on one line.
    pub text: String,
}

impl Problem {
    pub(crate) fn new(file: impl Into<PathBuf>, line: Option<usize>, text: &str) -> Self {
        let mut text: String = text
            .chars()
            .map(|c| if c.is_control() { '?' } else { c })
            .take(QUOTE_CHARS_MAX + 1)
            .collect();
        if let Some((cut, _)) = text.char_indices().nth(QUOTE_CHARS_MAX) {
            text.truncate(cut);
            text.push_str("...");
        }
        Self {
            file: file.into(),
            line,
            text,
        }
    }
}

/// `FILE:LINE: text`.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.text)
    }
}

/// Everything that is wrong with the settings files, at least one thing, at most 20, in the order
/// of files and lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Each of them.
    pub problems: Vec<Problem>,
    /// How many more there are.
    pub more: usize,
}

/// One line for each problem.
impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            problem.fmt(f)?;
        }
        if self.more > 0 {
            write!(f, "\nand {} more", self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// Gathers problems; everything about a file is looked at before it is refused.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    found: Vec<Problem>,
    more: usize,
}

impl Problems {
    pub(crate) fn add(&mut self, problem: Problem) {
        if self.found.len() < PROBLEMS_MAX {
            self.found.push(problem);
        } else {
            self.more = self.more.saturating_add(1);
        }
    }

    /// The error, if anything was found.
    pub(crate) fn finish(self) -> Result<(), ConfigError> {
        if self.found.is_empty() {
            return Ok(());
        }
        Err(ConfigError {
            problems: self.found,
            more: self.more,
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }
}
