//! Reading recordings.

use std::io::{self, Read};

use super::body::{Base, decode, number};
use super::{
    BLOCK_BYTES_MAX, BLOCK_DATA, BLOCK_END, Ending, Entry, HEADER_BYTES_MAX, Header, MAGIC,
    PREFIX_BYTES, RecordingError, VERSION, VERSION_MESSAGES,
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
        loop {
            let needed = match front_header(&mut bytes)? {
                Front::Whole(header) => {
                    return Ok(Self {
                        input,
                        header,
                        offset: bytes.len() as u64,
                        entries: 0,
                        block: Vec::new(),
                        ending: None,
                    });
                }
                Front::Short(needed) => needed,
            };
            let offset = bytes.len() as u64;
            let whole = fill(&mut input, &mut bytes, needed)
                .map_err(|source| RecordingError::Read { offset, source })?;
            if !whole {
                if bytes.is_empty() {
                    return Err(RecordingError::NotARecording);
                }
                front_header(&mut bytes)?;
                let offset = bytes.len() as u64;
                return Err(RecordingError::NoHeader { offset });
            }
        }
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
        let block = loop {
            match front_block(&mut self.block, &self.header, out).map_err(damaged)? {
                Front::Whole(block) => break block,
                Front::Short(needed) => {
                    if !fill(&mut self.input, &mut self.block, needed).map_err(failed)? {
                        return Ok(self.cut_off());
                    }
                }
            }
        };
        match block {
            Block::Data { entries } => self.entries += u64::from(entries),
            Block::End { entries } if entries == self.entries => {
                self.ending = Some(Ending::Complete);
            }
            Block::End { .. } => return Err(damaged(WRONG_END)),
        }
        self.offset += self.block.len() as u64;
        Ok(self.ending.is_none())
    }

    /// Always false: there is no block.
    const fn cut_off(&mut self) -> bool {
        self.ending = Some(Ending::CutOff {
            offset: self.offset,
        });
        false
    }
}

/// What stands at the front of some bytes. Whoever reads a recording appends bytes until it is whole.
#[derive(Debug)]
pub(crate) enum Front<T> {
    /// It has at least so many bytes, and there are fewer.
    Short(usize),
    /// It takes all the bytes.
    Whole(T),
}

/// A block that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Block {
    /// One with entries.
    Data {
        /// How many.
        entries: u32,
    },
    /// The last one.
    End {
        /// Entries of all blocks before it, as the writer counted them.
        entries: u64,
    },
}

/// What is wrong with an end block whose count is not that of the entries before it.
pub(crate) const WRONG_END: &str = "the count at the end is wrong";

/// The header at the front of bytes that end where it ends, or before. Spoils its checksum.
pub(crate) fn front_header(bytes: &mut [u8]) -> Result<Front<Header>, RecordingError> {
    const FIELDS: usize = PREFIX_BYTES + VERSION_BYTES;
    if !MAGIC.starts_with(&bytes[..bytes.len().min(MAGIC.len())]) {
        return Err(RecordingError::NotARecording);
    }
    // The version stands behind the prefix, so that an unknown one is told by its number even if
    // everything else has another meaning there.
    if bytes.len() < FIELDS {
        return Ok(Front::Short(FIELDS));
    }
    let version = u16::from_le_bytes([bytes[PREFIX_BYTES], bytes[PREFIX_BYTES + 1]]);
    if version != VERSION && version != VERSION_MESSAGES {
        return Err(RecordingError::Version { found: version });
    }
    let damaged = |reason| RecordingError::Damaged { offset: 0, reason };
    let length = u32_at(bytes, 8);
    if length > HEADER_BYTES_MAX {
        return Err(damaged("the header is too long"));
    }
    let end = FIELDS + length as usize;
    if bytes.len() < end {
        return Ok(Front::Short(end));
    }
    check(bytes).map_err(damaged)?;
    decode_header(&bytes[FIELDS..])
        .map(|header| {
            Front::Whole(Header {
                messages: version == VERSION_MESSAGES,
                ..header
            })
        })
        .map_err(damaged)
}

/// The block behind such a header, at the front of bytes that end where it ends, or before; its entries are appended to `out`. Spoils its
/// checksum.
pub(crate) fn front_block(
    bytes: &mut [u8],
    header: &Header,
    out: &mut Vec<Entry>,
) -> Result<Front<Block>, &'static str> {
    if bytes.len() < PREFIX_BYTES {
        return Ok(Front::Short(PREFIX_BYTES));
    }
    let kind = [bytes[0], bytes[1], bytes[2], bytes[3]];
    if kind != BLOCK_DATA && kind != BLOCK_END {
        return Err("no block begins here");
    }
    let (length, count) = (u32_at(bytes, 4), u32_at(bytes, 8));
    if length == 0 || length > BLOCK_BYTES_MAX {
        return Err("a block has an impossible length");
    }
    let end = PREFIX_BYTES + length as usize;
    if bytes.len() < end {
        return Ok(Front::Short(end));
    }
    check(bytes)?;
    let mut body = &bytes[PREFIX_BYTES..];
    if kind == BLOCK_END {
        let entries = number(&mut body).map_err(|_no_number| WRONG_END)?;
        if !body.is_empty() {
            return Err(WRONG_END);
        }
        return Ok(Front::Whole(Block::End { entries }));
    }
    let mut base = Base::of(header.messages);
    let before = out.len();
    while !body.is_empty() {
        out.push(decode(&mut base, &mut body)?);
    }
    if out.len() - before != count as usize {
        return Err("a block has a wrong count");
    }
    Ok(Front::Whole(Block::Data { entries: count }))
}

/// Appends bytes until there are so many, or as many as the input has; whether that was all. Memory grows with what is
/// there, not with what a length claims.
fn fill(input: &mut impl Read, bytes: &mut Vec<u8>, wanted: usize) -> io::Result<bool> {
    let missing = wanted - bytes.len();
    Ok(input.take(missing as u64).read_to_end(bytes)? == missing)
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
