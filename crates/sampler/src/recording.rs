//! Recordings: what a source delivered, in a file.
//!
//! The format is described in `docs/recording-format.md`. It is a header and a sequence of blocks,
//! each with its own length and checksum and none depending on another, so a file that was cut off
//! anywhere is read up to its last whole block. Reading is total: any bytes give records or an
//! error with the offset, in bounded memory.

use std::fmt;
use std::io;

use numad_core::{Record, Time};

mod body;
mod read;
mod survey;
mod write;

pub use read::RecordingReader;
pub(crate) use read::{Block, Front, WRONG_END, front_block, front_header};
pub use survey::{SeenThread, Survey, THREADS_MAX};
pub use write::{RecordingWriter, WriteError};

/// What a file begins with.
pub const MAGIC: [u8; 8] = *b"NUMADREC";
/// The version written where there are no messages, which programs that know no other can read.
pub const VERSION: u16 = 1;
/// The version with messages; later ones are not read.
pub const VERSION_MESSAGES: u16 = 2;
/// Most bytes in the header's fields; a machine with 1,024 processors needs about 300 KiB of topology.
pub const HEADER_BYTES_MAX: u32 = 8 << 20;
/// Most bytes in a block.
pub const BLOCK_BYTES_MAX: u32 = 1 << 20;
// The shortest entry takes two bytes, so a decoded block takes at most 40 MiB, as the format's
// description promises.
const _: () = assert!(BLOCK_BYTES_MAX as usize / 2 * size_of::<Entry>() <= 40 << 20);
/// Longest name of a thread or program in a recording; longer ones are cut when written.
pub const NAME_BYTES_MAX: usize = 4096;

/// Size of the fixed part of the file before the header's fields, and of a block before its body.
const PREFIX_BYTES: usize = 16;
const BLOCK_DATA: [u8; 4] = *b"DATA";
const BLOCK_END: [u8; 4] = *b"END.";

/// What is known of a recording as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Bytes in a page of the machine.
    pub page_bytes: u64,
    /// The clock of all times, by its name in `clock_gettime`.
    pub clock: String,
    /// The source and what it covers, for people.
    pub source: String,
    /// The machine, in any form that `topology` reads; empty if it was not recorded.
    pub topology: String,
    /// Whether it may hold messages between processes, which makes it one of version 2.
    pub messages: bool,
}

impl Header {
    /// Whether its samples are page faults, which stand for no known number of accesses: taken by
    /// numad, or imported from events of `perf` that all are faults.
    #[must_use]
    pub fn of_faults(&self) -> bool {
        let Some(events) = self.source.strip_prefix("imported from perf") else {
            return self.source.starts_with("faults");
        };
        let names = events.split_once(": ").map_or("", |(_, names)| names);
        !names.is_empty() && names.split(", ").all(|name| name.contains("fault"))
    }
}

/// One thing in a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// What the source delivered.
    Record(Record),
    /// All before this had been delivered at that time.
    Mark(Time),
}

/// How a recording ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With the writer's last word.
    Complete,
    /// Without: the writer was stopped, or the file was cut, at this offset or behind it. What comes
    /// before it has been read.
    CutOff {
        /// Bytes up to the end of the last whole block.
        offset: u64,
    },
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Complete => f.write_str("complete"),
            Self::CutOff { offset } => write!(f, "cut off at offset {offset}"),
        }
    }
}

/// Why a recording cannot be read, or not beyond a place.
#[derive(Debug)]
pub enum RecordingError {
    /// It does not begin as one.
    NotARecording,
    /// It was cut off in its header, so that nothing can be read.
    NoHeader {
        /// Bytes there are.
        offset: u64,
    },
    /// It is of a version that this program does not know.
    Version {
        /// Which.
        found: u16,
    },
    /// Bytes are not what was written.
    Damaged {
        /// Where the block begins that cannot be read, or the header.
        offset: u64,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The file could not be read.
    Read {
        /// Where.
        offset: u64,
        /// Why.
        source: io::Error,
    },
}

impl fmt::Display for RecordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotARecording => {
                f.write_str("not a recording: it does not begin with `NUMADREC`")
            }
            Self::NoHeader { offset } => {
                write!(f, "cut off at offset {offset}, in the header")
            }
            Self::Version { found } => write!(
                f,
                "recording of version `{found}`, but only versions up to {VERSION_MESSAGES} can be read"
            ),
            Self::Damaged { offset, reason } => write!(f, "damaged at offset {offset}: {reason}"),
            Self::Read { offset, .. } => write!(f, "cannot read at offset {offset}"),
        }
    }
}

impl std::error::Error for RecordingError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Reads a whole recording that is in memory.
///
/// # Errors
/// At damage; what came before it is lost with this function, so use [`RecordingReader`] to keep it.
pub fn read(bytes: &[u8]) -> Result<(Header, Vec<Entry>, Ending), RecordingError> {
    let mut reader = RecordingReader::open(bytes)?;
    let mut entries = Vec::new();
    while reader.next_block(&mut entries)? {}
    let ending = reader.ending().expect("the last block has been read");
    Ok((reader.header().clone(), entries, ending))
}

#[cfg(test)]
mod tests;
