//! What reading can end in.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Something that was looked for, or the news that it is not there any more.
///
/// Processes, threads, cgroups and nodes vanish between looking and reading. That is routine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence<T> {
    /// It is there, and this is what was read.
    Here(T),
    /// It is gone, or never was.
    Gone,
}

impl<T> Presence<T> {
    /// The same with another value.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Presence<U> {
        match self {
            Self::Here(value) => Presence::Here(change(value)),
            Self::Gone => Presence::Gone,
        }
    }

    /// The value, if there is one.
    pub fn here(self) -> Option<T> {
        match self {
            Self::Here(value) => Some(value),
            Self::Gone => None,
        }
    }
}

/// Something exists and cannot be read or understood.
#[derive(Debug)]
pub struct ReadError {
    /// Which file or directory.
    pub path: PathBuf,
    /// Why.
    pub cause: Cause,
}

/// Why something could not be read.
#[derive(Debug)]
pub enum Cause {
    /// The kernel refused.
    Io(io::Error),
    /// The text is not what it should be.
    Text(ParseError),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot read `{}`", self.path.display())
    }
}

impl ReadError {
    /// The kernel's error number; `EIO` where the text is to blame.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match &self.cause {
            Cause::Io(error) => error.raw_os_error().unwrap_or(libc::EIO),
            Cause::Text(_) => libc::EIO,
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.cause {
            Cause::Io(source) => Some(source),
            Cause::Text(source) => Some(source),
        }
    }
}

/// A text that is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// In which line, counted from 1.
    pub line: usize,
    /// The part that could not be read, cut to a screen's width.
    pub part: String,
    /// What was expected of it.
    pub reason: &'static str,
}

impl ParseError {
    /// An error about a part of the text.
    pub(crate) fn new(line: usize, part: &[u8], reason: &'static str) -> Self {
        let shown = &part[..part.len().min(SHOWN_BYTES)];
        Self {
            line,
            part: String::from_utf8_lossy(shown).into_owned(),
            reason,
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: `{}` {}", self.line, self.part, self.reason)
    }
}

impl std::error::Error for ParseError {}

/// How much of a damaged part an error repeats.
const SHOWN_BYTES: usize = 80;
