//! Bytes from a file or a pipe, with the place in it.

use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom};

use super::error::PerfDataError;

/// Read at a time. Also how far memory grows before the bytes for it are there.
const STEP: usize = 64 << 10;

/// Of what cannot be gone back in, so much of the beginning is kept: the events of a file are
/// described before its records, with their ids in any order. Thousand processors and ten events
/// take 80 KiB.
const KEPT_BYTES_MAX: usize = 4 << 20;

/// Goes to a place in a file.
type Jump<R> = fn(&mut BufReader<R>, u64) -> io::Result<()>;

/// Where bytes come from.
pub(super) struct Input<R> {
    inner: BufReader<R>,
    /// Goes to a place, where the input can do that.
    jump: Option<Jump<R>>,
    /// The beginning, of inputs that cannot.
    kept: Vec<u8>,
    /// How far `inner` has been read.
    reached: u64,
    /// How far the caller has been given.
    position: u64,
}

impl<R> std::fmt::Debug for Input<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input")
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

impl<R: Read + Seek> Input<R> {
    /// Of a file, from its beginning on.
    pub(super) fn file(inner: R) -> Self {
        Self {
            jump: Some(|inner, place| inner.seek(SeekFrom::Start(place)).map(drop)),
            ..Self::stream(inner)
        }
    }
}

impl<R: Read> Input<R> {
    /// Of a pipe.
    pub(super) fn stream(inner: R) -> Self {
        Self {
            inner: BufReader::with_capacity(STEP, inner),
            jump: None,
            kept: Vec::new(),
            reached: 0,
            position: 0,
        }
    }

    pub(super) const fn position(&self) -> u64 {
        self.position
    }

    /// Whether one can go to any place.
    pub(super) const fn is_file(&self) -> bool {
        self.jump.is_some()
    }

    /// Goes to a place, forwards or, where that is possible, backwards.
    pub(super) fn go_to(&mut self, place: u64) -> Result<(), PerfDataError> {
        if let Some(jump) = self.jump {
            // The system takes no offset beyond this; no file is that long.
            if i64::try_from(place).is_err() {
                let reason = "it points beyond the end of any file";
                return Err(PerfDataError::damaged(self.position, reason));
            }
            jump(&mut self.inner, place).map_err(|source| self.unreadable(source))?;
            (self.reached, self.position) = (place, place);
            return Ok(());
        }
        if place < self.position {
            let kept = u64::try_from(self.kept.len()).unwrap_or(u64::MAX);
            if self.reached > kept {
                return Err(PerfDataError::Unsupported {
                    offset: place,
                    what: "a pipe that has to be gone back in",
                    remedy: "give the file by its name",
                });
            }
            self.position = place;
            return Ok(());
        }
        self.pass(place - self.position)
    }

    /// Passes over so many bytes, which must be there.
    pub(super) fn pass(&mut self, mut count: u64) -> Result<(), PerfDataError> {
        let mut scratch = [0; 4096];
        while count > 0 {
            // All but the last page may be jumped over: reading that shows whether they are there.
            let page = u64::try_from(scratch.len()).unwrap_or(u64::MAX);
            if self.is_file() && count > page {
                let place = self.position.saturating_add(count - page);
                self.go_to(place)?;
                count = page;
            }
            let step = usize::try_from(count.min(page)).unwrap_or(scratch.len());
            self.fill(&mut scratch[..step])?;
            count -= u64::try_from(step).unwrap_or(count);
        }
        Ok(())
    }

    /// Reads bytes that must be there.
    pub(super) fn fill(&mut self, to: &mut [u8]) -> Result<(), PerfDataError> {
        let wanted = to.len();
        if self.read(to)? < wanted {
            let reason = "the file ends here, in the middle of what it says there is";
            return Err(PerfDataError::damaged(self.position, reason));
        }
        Ok(())
    }

    /// Reads so many bytes, which must be there, into the place of what `to` holds.
    pub(super) fn take(&mut self, count: u64, to: &mut Vec<u8>) -> Result<(), PerfDataError> {
        to.clear();
        let mut left = count;
        while left > 0 {
            let step = usize::try_from(left).unwrap_or(STEP).min(STEP);
            let start = to.len();
            to.resize(start + step, 0);
            self.fill(&mut to[start..])?;
            left -= u64::try_from(step).unwrap_or(left);
        }
        Ok(())
    }

    /// Reads what there is, fewer bytes only at the end.
    pub(super) fn read(&mut self, to: &mut [u8]) -> Result<usize, PerfDataError> {
        let mut done = 0;
        while done < to.len() {
            let count = self.read_some(&mut to[done..])?;
            if count == 0 {
                break;
            }
            done += count;
        }
        Ok(done)
    }

    fn read_some(&mut self, to: &mut [u8]) -> Result<usize, PerfDataError> {
        if self.position < self.reached {
            let at = usize::try_from(self.position).unwrap_or(usize::MAX);
            let kept = self.kept.get(at..).unwrap_or_default();
            let count = kept.len().min(to.len());
            to[..count].copy_from_slice(&kept[..count]);
            self.advance(count);
            return Ok(count);
        }
        let count = loop {
            match self.inner.read(to) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other.map_err(|source| self.unreadable(source))?,
            }
        };
        let whole = u64::try_from(self.kept.len()) == Ok(self.reached);
        if !self.is_file() && whole && self.kept.len() + count <= KEPT_BYTES_MAX {
            self.kept.extend_from_slice(&to[..count]);
        }
        self.advance(count);
        self.reached = self.position;
        Ok(count)
    }

    fn advance(&mut self, count: usize) {
        self.position += u64::try_from(count).unwrap_or(0);
    }

    const fn unreadable(&self, source: io::Error) -> PerfDataError {
        PerfDataError::Read {
            offset: self.position,
            source,
        }
    }
}
