//! Bytes of a feed to entries, in whatever pieces they arrive.

use crate::recording::{Block, Entry, Front, Header, MAGIC, RecordingError, WRONG_END};
use crate::recording::{front_block, front_header};

/// Entries of a block for which memory is kept until the next. Blocks of numad's own writer have fewer.
const ENTRIES_KEPT: usize = 1 << 15;

/// Reads recordings that follow each other in one stream of bytes.
///
/// Total: any bytes give entries or an error. Holds one header or one block, and no more memory than bytes came for
/// it. A block gives its entries when it is whole and its checksum is right. After an error the stream is of no more
/// use: nothing tells where the next block begins.
#[derive(Debug, Default)]
pub struct Stream {
    header: Option<Header>,
    /// What came of the header or block that is not whole.
    buffer: Vec<u8>,
    /// Bytes before it.
    offset: u64,
    entries: Vec<Entry>,
    /// Entries since the header.
    count: u64,
    /// Its writer said that the recording is complete.
    ended: bool,
}

impl Stream {
    /// Before the first byte.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The header that was read last; none before the first.
    #[must_use]
    pub const fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// Whether a header or block has begun and is not whole.
    #[must_use]
    pub const fn is_within(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// Takes bytes, and hands on the entries of every block that they complete, with the header
    /// that they are of.
    ///
    /// # Errors
    /// When they are no recording, of another version, or damaged. Blocks before that were handed on.
    pub fn take(
        &mut self,
        mut bytes: &[u8],
        out: &mut dyn FnMut(&Header, Entry),
    ) -> Result<(), RecordingError> {
        loop {
            let header = self.header.as_ref().filter(|_| !self.expects_header());
            let needed = if let Some(header) = header {
                match front_block(&mut self.buffer, header, &mut self.entries) {
                    Err(reason) => return Err(self.damaged(reason)),
                    Ok(Front::Short(needed)) => needed,
                    Ok(Front::Whole(block)) => {
                        self.finish(block, out)?;
                        continue;
                    }
                }
            } else {
                match front_header(&mut self.buffer).map_err(|error| self.here(error))? {
                    Front::Short(needed) => needed,
                    Front::Whole(header) => {
                        self.begin(header);
                        continue;
                    }
                }
            };
            if bytes.is_empty() {
                return Ok(());
            }
            let missing = needed - self.buffer.len();
            let (taken, rest) = bytes.split_at(missing.min(bytes.len()));
            self.buffer.extend_from_slice(taken);
            bytes = rest;
        }
    }

    /// A writer may follow another, who stopped between two blocks, without a gap.
    fn expects_header(&self) -> bool {
        self.header.is_none() || self.ended || self.buffer.starts_with(&MAGIC[..4])
    }

    fn begin(&mut self, header: Header) {
        self.header = Some(header);
        self.ended = false;
        self.count = 0;
        self.pass();
        // Headers may be a hundred times larger than blocks usually are.
        self.buffer.shrink_to(1 << 16);
    }

    fn finish(
        &mut self,
        block: Block,
        out: &mut dyn FnMut(&Header, Entry),
    ) -> Result<(), RecordingError> {
        match block {
            Block::Data { entries } => self.count += u64::from(entries),
            Block::End { entries } if entries == self.count => self.ended = true,
            Block::End { .. } => return Err(self.damaged(WRONG_END)),
        }
        self.pass();
        for entry in self.entries.drain(..) {
            if let Some(header) = &self.header {
                out(header, entry);
            }
        }
        self.entries.shrink_to(ENTRIES_KEPT);
        Ok(())
    }

    fn pass(&mut self) {
        self.offset += self.buffer.len() as u64;
        self.buffer.clear();
    }

    const fn damaged(&self, reason: &'static str) -> RecordingError {
        RecordingError::Damaged {
            offset: self.offset,
            reason,
        }
    }

    /// An error of a header, which counts from the header's beginning, as one of the stream.
    fn here(&self, error: RecordingError) -> RecordingError {
        match error {
            RecordingError::Damaged { offset, reason } => RecordingError::Damaged {
                offset: self.offset + offset,
                reason,
            },
            other => other,
        }
    }
}
