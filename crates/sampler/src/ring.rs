//! The ring that the kernel writes records into, and nothing else: mapping, reading where it lies,
//! giving space back.
//!
//! The layout is that of `perf_event_mmap_page`: one page of header with `data_head` (how many bytes
//! the kernel has written since it began) and `data_tail` (how many we have taken), then a power of
//! two of data pages. Between tail and head the kernel writes nothing, so those bytes may be
//! borrowed until the tail is moved. How the two counters are read and stored is in `ring/span.rs`, where
//! it is checked against every order in which two processors may see it.

use std::io;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

pub(crate) mod span;
pub(crate) mod trace;

use span::Span;
pub use trace::UnreadTrace;

/// Bytes of the header page that are given a meaning (`struct perf_event_mmap_page`).
const HEADER_BYTES: usize = 1088;
/// Offset of `data_head` in the header page; the part before it is padded to 1 KiB for good.
const DATA_HEAD: usize = 1024;
/// Offset of `data_tail`.
const DATA_TAIL: usize = 1032;

/// Bytes in a page of this machine.
#[must_use]
pub fn page_bytes() -> usize {
    // SAFETY: `sysconf` takes a number, returns a number, and touches no memory of ours.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).expect("every Linux tells its page size")
}

/// A mapped ring, which has one reader: us.
#[derive(Debug)]
pub struct Ring {
    /// Start of the mapping, the header page.
    base: NonNull<u8>,
    /// The data pages, behind it.
    data: NonNull<u8>,
    map_bytes: usize,
    /// A power of two.
    data_bytes: usize,
    /// Of events whose hardware writes by itself.
    trace: Option<trace::Area>,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is reached only through `self`.
unsafe impl Send for Ring {}

/// The bytes that have been written and not been taken, borrowed from the ring.
#[derive(Debug)]
pub struct Unread<'a> {
    ring: &'a mut Ring,
    span: Span,
}

impl Ring {
    /// Maps the ring of an event: a header page and `data_pages` more.
    ///
    /// The same call maps a memory file that is laid out like a ring, which is how tests stand in for
    /// the kernel.
    ///
    /// # Errors
    /// The kernel's: `EPERM` when the memory may not be locked, `EINVAL` unless `data_pages` is a
    /// power of two.
    pub fn map(descriptor: impl AsFd, data_pages: usize) -> io::Result<Self> {
        if !data_pages.is_power_of_two() {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let page = page_bytes();
        let data_bytes = data_pages.checked_mul(page);
        let map_bytes = data_bytes
            .and_then(|data| data.checked_add(page))
            .and_then(NonZeroUsize::new)
            .ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: no address is asked for, so no mapping of ours is replaced; what is mapped is shared
        // with the kernel and read only as `Unread` allows.
        let base = unsafe {
            mmap(
                None,
                map_bytes,
                protection,
                MapFlags::MAP_SHARED,
                descriptor,
                0,
            )
        }?
        .cast::<u8>();
        // SAFETY: the mapping is one page longer than `data_bytes`, so a page behind its start is inside it.
        let data = unsafe { base.add(page) };
        Ok(Self {
            base,
            data,
            map_bytes: map_bytes.get(),
            data_bytes: map_bytes.get() - page,
            trace: None,
        })
    }

    /// How many bytes of records fit.
    #[must_use]
    pub const fn data_bytes(&self) -> usize {
        self.data_bytes
    }

    /// What has been written and not been taken. It stays in the ring unless [`Unread::take`] is called.
    #[inline]
    pub fn unread(&mut self) -> Unread<'_> {
        let span = Span::unread(self.word(DATA_HEAD), self.word(DATA_TAIL), self.data_bytes);
        Unread { ring: self, span }
    }

    /// A word of the header page, which the kernel writes and reads while we do.
    ///
    /// # Panics
    /// If the offset is not that of a whole, aligned word of the header.
    pub(crate) fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset < HEADER_BYTES);
        // SAFETY: the offset was checked to lie in the header page, which is mapped as long as `self` lives.
        let word = unsafe { self.base.add(offset) }.cast::<u64>();
        // SAFETY: the mapping is page aligned and the offset a multiple of 8; the kernel accesses these
        // words with aligned loads and stores, and where they are halves of what we read as one, an
        // atomic load of both reads what it stored to each.
        unsafe { AtomicU64::from_ptr(word.as_ptr()) }
    }
}

impl Unread<'_> {
    /// The bytes, oldest first; the second piece follows the first and is empty unless the ring's end
    /// lies between them.
    #[must_use]
    pub fn pieces(&self) -> (&[u8], &[u8]) {
        let (first, second) = self.span.pieces();
        (self.slice(first), self.slice(second))
    }

    /// How many bytes there are.
    #[must_use]
    pub const fn length(&self) -> usize {
        self.span.length()
    }

    /// Whether the writer claims to have written over bytes that were not taken. The kernel does not
    /// do that; if it happens, the bytes mean nothing and none are given.
    #[must_use]
    pub const fn is_overrun(&self) -> bool {
        self.span.is_overrun()
    }

    /// Gives the space back to the kernel.
    pub fn take(self) {
        self.span.give_back(self.ring.word(DATA_TAIL));
    }

    fn slice(&self, place: Range<usize>) -> &[u8] {
        debug_assert!(place.start <= place.end && place.end <= self.ring.data_bytes);
        // SAFETY: the place is inside the data pages, which are mapped as long as the ring lives.
        let first = unsafe { self.ring.data.add(place.start) };
        // SAFETY: the place is within the data pages (`Span::pieces` cuts at their end), the bytes
        // lie between tail and head, where the kernel does not write, and `self` borrows the ring
        // mutably, so the tail cannot move while the slice lives.
        unsafe { std::slice::from_raw_parts(first.as_ptr(), place.len()) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: base and length are those of the mapping made in `map`, and every borrow of it has
        // ended, for they borrow `self`.
        let unmapped = unsafe { munmap(self.base.cast(), self.map_bytes) };
        debug_assert!(unmapped.is_ok(), "a mapping of ours can be unmapped");
    }
}

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod tests;
