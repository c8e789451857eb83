//! What `perf record -z` wrote: records in a zstd frame that is cut into pieces and never ends.
//!
//! The decoder holds the last window of what it decoded until the frame ends, and perf does not end
//! it. So records come later here than they would in perf, by up to a window; [`Inflate::behind`]
//! says when what was fed before is out. At the end of the file the frame is ended for perf.

use std::io::Read as _;

use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Largest window, and so the memory that the decoder takes. perf's default level has 2 MiB, and
/// levels up to 19 have no more than this.
const WINDOW_BYTES_MAX: u64 = 8 << 20;
/// Longest header of a frame.
const FRAME_HEADER_BYTES_MAX: usize = 18;
const CHECKSUM_BYTES: usize = 4;
const BLOCK_HEADER_BYTES: usize = 3;
/// An empty block that says it is the last.
const LAST_BLOCK: [u8; 3] = [1, 0, 0];
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The compressed part of a file, as far as it has been fed.
pub(super) struct Inflate {
    decoder: FrameDecoder,
    /// Whether the frame's header has been read.
    begun: bool,
    /// Whether the frame's header promises a checksum.
    checksum: bool,
    /// Compressed bytes, from `eaten` on not decoded yet.
    fed: Vec<u8>,
    eaten: usize,
    /// Decoded bytes from `taken` on.
    ready: Vec<u8>,
    taken: usize,
    /// Bytes that came out, and how many may be held back.
    released: u64,
    window: u64,
}

impl std::fmt::Debug for Inflate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inflate")
            .field("fed", &self.fed.len())
            .field("released", &self.released)
            .finish_non_exhaustive()
    }
}

/// What is wrong with compressed data.
pub(super) type Broken = &'static str;

impl Inflate {
    pub(super) fn new() -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(WINDOW_BYTES_MAX);
        Self {
            decoder,
            begun: false,
            checksum: false,
            fed: Vec::new(),
            eaten: 0,
            ready: Vec::new(),
            taken: 0,
            released: 0,
            window: 0,
        }
    }

    /// Adds a piece; at most as long as a record.
    pub(super) fn feed(&mut self, piece: &[u8]) {
        self.fed.drain(..self.eaten);
        self.eaten = 0;
        self.fed.extend_from_slice(piece);
    }

    fn waiting(&self) -> &[u8] {
        self.fed.get(self.eaten..).unwrap_or_default()
    }

    /// Decoded bytes that have not been consumed.
    pub(super) fn ready(&self) -> &[u8] {
        self.ready.get(self.taken..).unwrap_or_default()
    }

    pub(super) fn consume(&mut self, count: usize) {
        self.taken += count;
    }

    /// How much must have come out for all that was fed so far to be out.
    pub(super) const fn behind(&self) -> u64 {
        self.released.saturating_add(self.window)
    }

    /// How much came out and has been consumed.
    pub(super) fn consumed(&self) -> u64 {
        let waiting = u64::try_from(self.ready().len()).unwrap_or(u64::MAX);
        self.released.saturating_sub(waiting)
    }

    /// Decodes one block of what was fed; false if there is no whole one.
    ///
    /// # Errors
    /// When it is no zstd.
    pub(super) fn step(&mut self) -> Result<bool, Broken> {
        if !self.begun && !self.begin()? {
            return Ok(false);
        }
        let Some((mut bytes, last)) = block_bytes(self.waiting()) else {
            return Ok(false);
        };
        if last && self.checksum {
            bytes += CHECKSUM_BYTES;
        }
        if self.waiting().len() < bytes {
            return Ok(false);
        }
        self.begun = !last;
        self.decode(bytes)?;
        Ok(true)
    }

    /// Ends the frame, so that all that was held back comes out. True if something did.
    ///
    /// # Errors
    /// When what was fed is not whole.
    pub(super) fn finish(&mut self) -> Result<bool, Broken> {
        if !self.waiting().is_empty() {
            return Err("the compressed data is cut off in the middle of a block");
        }
        if !self.begun {
            return Ok(false);
        }
        self.begun = false;
        self.feed(&LAST_BLOCK);
        if self.checksum {
            // The decoder is built without the means to check it, and takes any.
            self.feed(&[0; CHECKSUM_BYTES]);
        }
        self.decode(self.waiting().len())?;
        Ok(true)
    }

    /// Reads the header of the frame; false if it is not whole.
    fn begin(&mut self) -> Result<bool, Broken> {
        let waiting = self.fed.get(self.eaten..).unwrap_or_default();
        let magic = waiting.len().min(MAGIC.len());
        if waiting[..magic] != MAGIC[..magic] {
            return Err("the compressed data is no zstd");
        }
        let Some(length) = frame_header_bytes(waiting) else {
            return Ok(false);
        };
        debug_assert!(length <= FRAME_HEADER_BYTES_MAX);
        let Some(header) = waiting.get(..length) else {
            return Ok(false);
        };
        self.checksum = header[MAGIC.len()] & 0x04 != 0;
        self.decoder.reset(header).map_err(|_zstd| {
            "the compressed data needs a dictionary or a window of more than 8 MiB; record with `-z` below 20"
        })?;
        self.window = window_bytes(header).unwrap_or(WINDOW_BYTES_MAX);
        self.begun = true;
        self.eaten += length;
        Ok(true)
    }

    /// Decodes the first `bytes` of what was fed, which are one block.
    fn decode(&mut self, bytes: usize) -> Result<(), Broken> {
        let decoded = self.decoder.decode_blocks(
            &self.fed[self.eaten..self.eaten + bytes],
            BlockDecodingStrategy::UptoBlocks(1),
        );
        decoded.map_err(|_zstd| "the compressed data does not decompress")?;
        self.eaten += bytes;
        self.ready.drain(..self.taken);
        self.taken = 0;
        let start = self.ready.len();
        let count = self.decoder.can_collect();
        self.ready.resize(start + count, 0);
        self.decoder
            .read_exact(&mut self.ready[start..])
            .map_err(|_short| "the compressed data does not decompress")?;
        self.released = self
            .released
            .saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        Ok(())
    }
}

/// Length of the header of a frame (RFC 8878, 3.1.1.1); none if that is not there yet.
fn frame_header_bytes(bytes: &[u8]) -> Option<usize> {
    let descriptor = *bytes.get(MAGIC.len())?;
    let single_segment = descriptor & 0x20 != 0;
    let window = usize::from(!single_segment);
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 0x03)];
    let content = match descriptor >> 6 {
        0 => usize::from(single_segment),
        1 => 2,
        2 => 4,
        _ => 8,
    };
    Some(MAGIC.len() + 1 + window + dictionary + content)
}

/// The window that the header of a frame declares (3.1.1.1.2); none if it has no word on it.
fn window_bytes(header: &[u8]) -> Option<u64> {
    let single_segment = header.get(MAGIC.len())? & 0x20 != 0;
    if single_segment {
        return None;
    }
    let window = *header.get(MAGIC.len() + 1)?;
    let base = 1u64 << (10 + (window >> 3));
    Some(base + base / 8 * u64::from(window & 7))
}

/// Length of a block with its header (3.1.1.2), and whether it is the last one.
fn block_bytes(bytes: &[u8]) -> Option<(usize, bool)> {
    let [a, b, c] = *bytes.first_chunk::<BLOCK_HEADER_BYTES>()?;
    let header = u32::from_le_bytes([a, b, c, 0]);
    /// A block that is one byte over and over.
    const REPEATED: u32 = 1;
    let size = if header >> 1 & 3 == REPEATED {
        1
    } else {
        usize::try_from(header >> 3).ok()?
    };
    Some((BLOCK_HEADER_BYTES + size, header & 1 != 0))
}
