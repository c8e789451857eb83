//! What can be wrong with a file of perf.

use std::fmt;
use std::io;

/// Why a file of perf cannot be read, or not beyond a place.
#[derive(Debug)]
pub enum PerfDataError {
    /// It does not begin as one.
    NotPerfData,
    /// Bytes are not what perf writes.
    Damaged {
        /// Where in the file.
        offset: u64,
        /// What is wrong there.
        reason: &'static str,
        /// Whether it is in what was compressed; then `offset` is where its last piece begins.
        compressed: bool,
    },
    /// It is a file of perf that cannot be read here.
    Unsupported {
        /// Where that shows.
        offset: u64,
        /// What cannot be read.
        what: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// The file could not be read.
    Read {
        /// Where.
        offset: u64,
        /// Why.
        source: io::Error,
    },
}

impl PerfDataError {
    pub(super) const fn damaged(offset: u64, reason: &'static str) -> Self {
        Self::Damaged {
            offset,
            reason,
            compressed: false,
        }
    }
}

impl fmt::Display for PerfDataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPerfData => f.write_str(
                "not a file of perf: it does not begin with `PERFILE2` at offset 0, in either byte order",
            ),
            Self::Damaged {
                offset,
                reason,
                compressed,
            } => {
                let place = if *compressed {
                    "in the compressed data "
                } else {
                    ""
                };
                write!(f, "damaged {place}at offset {offset}: {reason}")
            }
            Self::Unsupported {
                offset,
                what,
                remedy,
            } => write!(f, "cannot read {what}, at offset {offset}; {remedy}"),
            Self::Read { offset, .. } => write!(f, "cannot read at offset {offset}"),
        }
    }
}

impl std::error::Error for PerfDataError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read { source, .. } => Some(source),
            _ => None,
        }
    }
}
