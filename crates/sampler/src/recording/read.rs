//! Reading recordings.

use std::io::{self, Read};

use super::body::{Base, decode, number};
use super::{
    BLOCK_BYTES_MAX, BLOCK_DATA, BLOCK_END, Ending, Entry, HEADER_BYTES_MAX, Header, MAGIC,
    PREFIX_BYTES, RecordingError, VERSION,
};
use crate::checksum::crc32c;

pub(super) const TAG_PAGE_BYTES: u8 = 1;
pub(super) const TAG_CLOCK: u8 = 2;
pub(super) const TAG_SOURCE: u8 = 3;
pub(super) const TAG_TOPOLOGY: u8 = 4;

const VERSION_BYTES: usize = 2;

/// Reads a recording, a block at a time; needs memory for one block.
#[derive(Debug)]
pub struct RecordingReader<R> {
    input: R,
    header: Header,
    /// Bytes up to the end of the last whole block.
    offset: u64,
    entries: u64,
    /// The block being read.
    block: Vec<u8>,
    ending: Option<Ending>,
}

impl<R: Read> RecordingReader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// When it is no recording, of another version, or its header is damaged or incomplete.
    pub fn open(mut input: R) -> Result<Self, RecordingError> {
        let mut bytes = Vec::new();
        let failed = |offset: usize| {
            move |source| RecordingError::Read {
                offset: offset as u64,
                source,
            }
        };
        let whole = fill(&mut input, &mut bytes, PREFIX_BYTES).map_err(failed(0))?;
        let magic = &bytes[..bytes.len().min(MAGIC.len())];
        if magic.is_empty() || !MAGIC.starts_with(magic) {
            return Err(RecordingError::NotARecording);
        }
        let cut_off = |bytes: &[u8]| RecordingError::NoHeader {
            offset: bytes.len() as u64,
        };
        if !whole {
            return Err(cut_off(&bytes));
        }
        let length = u32_at(&bytes, 8);
        // The version stands behind the prefix, so that an unknown one is told by its number even if
        // everything else has another meaning there.
        let whole = fill(&mut input, &mut bytes, VERSION_BYTES).map_err(failed(PREFIX_BYTES))?;
        if !whole {
            return Err(cut_off(&bytes));
        }
        let version = u16::from_le_bytes([bytes[PREFIX_BYTES], bytes[PREFIX_BYTES + 1]]);
        if version != VERSION {
            return Err(RecordingError::Version { found: version });
        }
        let damaged = |reason| RecordingError::Damaged { offset: 0, reason };
        if length > HEADER_BYTES_MAX {
            return Err(damaged("the header is too long"));
        }
        let start = bytes.len();
        let whole = fill(&mut input, &mut bytes, length as usize).map_err(failed(start))?;
        if !whole {
            return Err(cut_off(&bytes));
        }
        check(&mut bytes).map_err(damaged)?;
        let header = decode_header(&bytes[start..]).map_err(damaged)?;
        Ok(Self {
            input,
            header,
            offset: bytes.len() as u64,
            entries: 0,
            block: Vec::new(),
            ending: None,
        })
    }

    /// What is known of the recording as a whole.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// How it ended; none before it did.
    #[must_use]
    pub const fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// Appends the entries of the next block; false when there is none.
    ///
    /// # Errors
    /// At damage, and when reading fails. Then nothing was appended, and every further call says that
    /// there is no more.
    pub fn next_block(&mut self, out: &mut Vec<Entry>) -> Result<bool, RecordingError> {
        if self.ending.is_some() {
            return Ok(false);
        }
        let before = out.len();
        let result = self.read_block(out);
        if result.is_err() {
            out.truncate(before);
            self.ending = Some(Ending::CutOff {
                offset: self.offset,
            });
        }
        result
    }

    fn read_block(&mut self, out: &mut Vec<Entry>) -> Result<bool, RecordingError> {
        let offset = self.offset;
        let failed = |source| RecordingError::Read { offset, source };
        let damaged = |reason| RecordingError::Damaged { offset, reason };
        self.block.clear();
        if !fill(&mut self.input, &mut self.block, PREFIX_BYTES).map_err(failed)? {
            return Ok(self.cut_off());
        }
        let kind = [self.block[0], self.block[1], self.block[2], self.block[3]];
        if kind != BLOCK_DATA && kind != BLOCK_END {
            return Err(damaged("no block begins here"));
        }
        let (length, count) = (u32_at(&self.block, 4), u32_at(&self.block, 8));
        if length == 0 || length > BLOCK_BYTES_MAX {
            return Err(damaged("a block has an impossible length"));
        }
        let whole = fill(&mut self.input, &mut self.block, length as usize).map_err(failed)?;
        if !whole {
            return Ok(self.cut_off());
        }
        check(&mut self.block).map_err(damaged)?;
        let mut body = &self.block[PREFIX_BYTES..];
        if kind == BLOCK_END {
            if number(&mut body) != Ok(self.entries) || !body.is_empty() {
                return Err(damaged("the count at the end is wrong"));
            }
            self.offset += self.block.len() as u64;
            self.ending = Some(Ending::Complete);
            return Ok(false);
        }
        let mut base = Base::default();
        let before = out.len();
        while !body.is_empty() {
            out.push(decode(&mut base, &mut body).map_err(damaged)?);
        }
        if out.len() - before != count as usize {
            return Err(damaged("a block has a wrong count"));
        }
        self.offset += self.block.len() as u64;
        self.entries += u64::from(count);
        Ok(true)
    }

    /// Always false: there is no block.
    const fn cut_off(&mut self) -> bool {
        self.ending = Some(Ending::CutOff {
            offset: self.offset,
        });
        false
    }
}

/// Appends so many bytes, or as many as there are; whether that was all. Memory grows with what is there, not with what
/// a length claims.
fn fill(input: &mut impl Read, bytes: &mut Vec<u8>, wanted: usize) -> io::Result<bool> {
    Ok(input.take(wanted as u64).read_to_end(bytes)? == wanted)
}

/// Whether the checksum in bytes 12 to 15 is right; sets them to zero.
fn check(bytes: &mut [u8]) -> Result<(), &'static str> {
    let expected = u32_at(bytes, 12);
    bytes[12..PREFIX_BYTES].fill(0);
    if crc32c(bytes) == expected {
        Ok(())
    } else {
        Err("the checksum is wrong")
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Fields of unknown number are skipped, so that a later writer may add some.
fn decode_header(mut bytes: &[u8]) -> Result<Header, &'static str> {
    let mut header = Header::default();
    while let Some((tag, rest)) = bytes.split_first() {
        bytes = rest;
        let length = usize::try_from(number(&mut bytes)?).unwrap_or(usize::MAX);
        let (mut value, rest) = bytes
            .split_at_checked(length)
            .ok_or("a field of the header is too long")?;
        bytes = rest;
        let text = |value| {
            str::from_utf8(value)
                .map(str::to_owned)
                .map_err(|_not_text| "a field of the header is not text")
        };
        match *tag {
            TAG_PAGE_BYTES => header.page_bytes = number(&mut value)?,
            TAG_CLOCK => header.clock = text(value)?,
            TAG_SOURCE => header.source = text(value)?,
            TAG_TOPOLOGY => header.topology = text(value)?,
            _ => {}
        }
    }
    Ok(header)
}
