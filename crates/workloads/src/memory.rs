//! Memory straight from the kernel, shared by threads that write to it without locks.

use std::io;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::mman::{self, MapFlags, MmapAdvise, ProtFlags};

/// Bytes in a cache line; one word of each is touched.
const LINE_BYTES: usize = 64;

/// A mapping of whole pages, zero at first.
#[derive(Debug)]
pub(crate) struct Region {
    start: NonNull<libc::c_void>,
    bytes: NonZeroUsize,
}

// SAFETY: the mapping is owned by this value alone, and its words are only reached as atomics.
unsafe impl Send for Region {}
// SAFETY: as for `Send`; every method takes `&self` and writes through atomics or by `madvise`,
// which other threads see as zero words, never as torn ones.
unsafe impl Sync for Region {}

impl Region {
    /// Maps that many bytes; of small pages, so that a page is what the tables call a page, unless huge
    /// ones are welcome.
    pub(crate) fn map(bytes: NonZeroUsize, huge_pages: bool) -> io::Result<Self> {
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new private anonymous mapping at an address of the kernel's choice aliases nothing.
        let start = unsafe { mman::mmap_anonymous(None, bytes, access, MapFlags::MAP_PRIVATE) }?;
        let region = Self { start, bytes };
        let advice = if huge_pages {
            MmapAdvise::MADV_HUGEPAGE
        } else {
            MmapAdvise::MADV_NOHUGEPAGE
        };
        region.advise(advice).or_else(|error| {
            // A kernel without huge pages has nothing to switch off.
            if error.raw_os_error() == Some(libc::EINVAL) {
                Ok(())
            } else {
                Err(error)
            }
        })?;
        Ok(region)
    }

    /// Adds one to a word of every line, `times` over; from the last to the first if `backwards`.
    pub(crate) fn sweep(&self, times: usize, backwards: bool) {
        let lines = self.bytes.get() / LINE_BYTES;
        for _ in 0..times {
            for step in 0..lines {
                let line = if backwards { lines - 1 - step } else { step };
                let word = self.word(line * LINE_BYTES);
                word.store(
                    word.load(Ordering::Relaxed).wrapping_add(1),
                    Ordering::Relaxed,
                );
            }
        }
    }

    /// Touches one of so many equal parts, so that its pages come to the node of the calling thread. Only
    /// writes: a huge page that is read first stays a page of zeros and is split by the first write.
    pub(crate) fn touch_part(&self, part: usize, of: usize) {
        let lines = self.bytes.get() / LINE_BYTES;
        for line in lines * part / of..lines * (part + 1) / of {
            self.word(line * LINE_BYTES).store(1, Ordering::Relaxed);
        }
    }

    /// Gives every page back to the kernel; the next touch of each gets a fresh one.
    pub(crate) fn release(&self) -> io::Result<()> {
        self.advise(MmapAdvise::MADV_DONTNEED)
    }

    fn advise(&self, advice: MmapAdvise) -> io::Result<()> {
        // SAFETY: the range is exactly this mapping, and its words may become zero at any time.
        unsafe { mman::madvise(self.start, self.bytes.get(), advice) }.map_err(io::Error::from)
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(
            offset + size_of::<AtomicU64>() <= self.bytes.get(),
            "word outside of the region"
        );
        // SAFETY: the offset is within the mapping, as just asserted.
        let word = unsafe { self.start.as_ptr().byte_add(offset) };
        // SAFETY: mappings begin at a page and offsets are multiples of a line, so the word is
        // aligned; it is mapped until `Drop`, and nobody reaches it but as an atomic.
        unsafe { AtomicU64::from_ptr(word.cast()) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the range is exactly what `map` mapped, and no reference outlives `self`.
        let unmapped = unsafe { mman::munmap(self.start, self.bytes.get()) };
        debug_assert_eq!(unmapped, Ok(()), "unmapping our own mapping");
    }
}

/// The kernel's number of the calling thread.
pub(crate) fn own_tid() -> i32 {
    nix::unistd::gettid().as_raw()
}
