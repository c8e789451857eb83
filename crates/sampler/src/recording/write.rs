//! Writing recordings.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use numad_core::{Record, Time};

use super::body::{Base, encode, encode_mark, put};
use super::{
    BLOCK_BYTES_MAX, BLOCK_DATA, BLOCK_END, HEADER_BYTES_MAX, Header, MAGIC, NAME_BYTES_MAX,
    PREFIX_BYTES, VERSION, VERSION_MESSAGES,
};
use crate::checksum::crc32c;

/// A block is written when it has so many bytes: little is lost when the machine stops, and the
/// prefix costs one part in four thousand.
const BLOCK_BYTES: usize = 64 << 10;

/// Most bytes of one entry: a name and a few numbers.
const ENTRY_BYTES_MAX: usize = NAME_BYTES_MAX + 64;

const _: () = assert!(BLOCK_BYTES + ENTRY_BYTES_MAX <= BLOCK_BYTES_MAX as usize);

/// Writes a recording, a block at a time; needs memory for one block.
///
/// After an error nothing more is written: the file stays readable up to its last whole block, and
/// every later call succeeds without doing anything, so that a full disk is reported once.
pub struct RecordingWriter<W> {
    out: W,
    path: PathBuf,
    block: Vec<u8>,
    /// Whether it is of the version that has messages.
    messages: bool,
    base: Base,
    entries_in_block: u32,
    entries: u64,
    /// Entries that were not written because of an error.
    dropped: u64,
    failed: bool,
}

/// Why a recording goes no further.
#[derive(Debug)]
pub struct WriteError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot write recording `{}`", self.path.display())
    }
}

impl std::error::Error for WriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

impl<W> fmt::Debug for RecordingWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordingWriter")
            .field("path", &self.path)
            .field("entries", &self.entries)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

impl RecordingWriter<File> {
    /// Begins a recording in a new file, readable by its owner only: addresses are secrets.
    ///
    /// # Errors
    /// When the file exists, or cannot be made or written.
    pub fn create(path: &Path, header: &Header) -> Result<Self, WriteError> {
        use std::os::unix::fs::OpenOptionsExt;
        let file = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(|source| WriteError {
                path: path.to_owned(),
                source,
            })?;
        Self::new(file, path, header)
    }
}

impl<W: Write> RecordingWriter<W> {
    /// Begins a recording; `path` is what errors name.
    ///
    /// # Errors
    /// When the header cannot be written, or is longer than the format allows.
    pub fn new(out: W, path: &Path, header: &Header) -> Result<Self, WriteError> {
        let mut writer = Self {
            out,
            path: path.to_owned(),
            block: Vec::with_capacity(BLOCK_BYTES + ENTRY_BYTES_MAX),
            messages: header.messages,
            base: Base::default(),
            entries_in_block: 0,
            entries: 0,
            dropped: 0,
            failed: false,
        };
        let header = encode_header(header).map_err(|error| writer.fail(error))?;
        writer
            .out
            .write_all(&header)
            .map_err(|error| writer.fail(error))?;
        Ok(writer)
    }

    /// Appends a record. Messages are left out of a recording whose header does not say that it may have any.
    ///
    /// # Errors
    /// The first time that something cannot be written.
    pub fn record(&mut self, record: &Record) -> Result<(), WriteError> {
        if matches!(record, Record::Sent(_)) && !self.messages {
            return Ok(());
        }
        self.append(|base, block| encode(base, record, block))
    }

    /// Notes that all records so far had been delivered at this time; a replay gives them in one go.
    ///
    /// # Errors
    /// The first time that something cannot be written.
    pub fn mark(&mut self, time: Time) -> Result<(), WriteError> {
        self.append(|base, block| encode_mark(base, time, block))
    }

    /// Writes out what is buffered, so that it is in the file whatever comes next.
    ///
    /// # Errors
    /// The first time that something cannot be written.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        if self.failed {
            return Ok(());
        }
        self.write_block()
            .and_then(|()| self.out.flush())
            .map_err(|error| self.fail(error))
    }

    /// Ends the recording with the word that it is complete, and gives back what was written to.
    ///
    /// # Errors
    /// When something cannot be written, unless that was reported before.
    pub fn finish(mut self) -> Result<W, WriteError> {
        self.flush()?;
        if !self.failed {
            put(&mut self.block, self.entries);
            let end = block(BLOCK_END, 0, &self.block);
            self.out
                .write_all(&end)
                .and_then(|()| self.out.flush())
                .map_err(|error| self.fail(error))?;
        }
        Ok(self.out)
    }

    /// Entries that could not be written after an error.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    fn append(&mut self, encode: impl FnOnce(&mut Base, &mut Vec<u8>)) -> Result<(), WriteError> {
        if self.failed {
            self.dropped += 1;
            return Ok(());
        }
        encode(&mut self.base, &mut self.block);
        self.entries_in_block += 1;
        self.entries += 1;
        if self.block.len() < BLOCK_BYTES {
            return Ok(());
        }
        self.write_block().map_err(|error| self.fail(error))
    }

    fn write_block(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let block = block(BLOCK_DATA, self.entries_in_block, &self.block);
        self.block.clear();
        self.base = Base::default();
        self.out.write_all(&block)?;
        self.entries_in_block = 0;
        Ok(())
    }

    fn fail(&mut self, source: io::Error) -> WriteError {
        self.failed = true;
        self.dropped += u64::from(self.entries_in_block);
        WriteError {
            path: self.path.clone(),
            source,
        }
    }
}

/// Prefix and body of a block: what it is, how many bytes, how many entries, checksum of all that.
fn block(kind: [u8; 4], entries: u32, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).expect("blocks are bounded");
    let mut bytes = Vec::with_capacity(PREFIX_BYTES + body.len());
    bytes.extend(kind);
    bytes.extend(length.to_le_bytes());
    bytes.extend(entries.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(body);
    seal(&mut bytes);
    bytes
}

/// Puts the checksum of everything into bytes 12 to 15, which count as zero in it.
fn seal(bytes: &mut [u8]) {
    let checksum = crc32c(bytes);
    bytes[12..PREFIX_BYTES].copy_from_slice(&checksum.to_le_bytes());
}

fn encode_header(header: &Header) -> io::Result<Vec<u8>> {
    let mut fields = Vec::new();
    let mut page = Vec::new();
    put(&mut page, header.page_bytes);
    for (tag, value) in [
        (super::read::TAG_PAGE_BYTES, page.as_slice()),
        (super::read::TAG_CLOCK, header.clock.as_bytes()),
        (super::read::TAG_SOURCE, header.source.as_bytes()),
        (super::read::TAG_TOPOLOGY, header.topology.as_bytes()),
    ] {
        fields.push(tag);
        put(&mut fields, value.len() as u64);
        fields.extend(value);
    }
    let length = u32::try_from(fields.len())
        .ok()
        .filter(|length| *length <= HEADER_BYTES_MAX)
        .ok_or_else(|| io::Error::other("the description of the machine is too long"))?;
    // Magic (8), length (4), checksum (4), version (2).
    let mut bytes = MAGIC.to_vec();
    bytes.extend(length.to_le_bytes());
    bytes.extend([0; 4]);
    let version = match header.messages {
        true => VERSION_MESSAGES,
        false => VERSION,
    };
    bytes.extend(version.to_le_bytes());
    bytes.extend(fields);
    seal(&mut bytes);
    Ok(bytes)
}
