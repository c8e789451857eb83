//! The ring that the kernel writes records into, and nothing else: mapping, reading where it lies,
//! giving space back.
//!
//! The layout is that of `perf_event_mmap_page`: one page of header with `data_head` (how many bytes
//! the kernel has written since it began) and `data_tail` (how many we have taken), then a power of
//! two of data pages. Between tail and head the kernel writes nothing, so those bytes may be
//! borrowed until the tail is moved.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

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
}

// SAFETY: the mapping belongs to the process, not to a thread, and is reached only through `self`.
unsafe impl Send for Ring {}

/// The bytes that have been written and not been taken, borrowed from the ring.
#[derive(Debug)]
pub struct Unread<'a> {
    ring: &'a mut Ring,
    /// Where they begin, counted since the ring began.
    tail: u64,
    /// How many there are; 0 if there are more than the ring holds.
    length: usize,
    /// What the tail becomes when they are taken.
    head: u64,
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
        // The kernel publishes records by storing the head after them; acquiring it makes them visible.
        let head = self.counter(DATA_HEAD).load(Ordering::Acquire);
        // Nobody else stores the tail.
        let tail = self.counter(DATA_TAIL).load(Ordering::Relaxed);
        // More than fits was never promised to stand still, so it must not be borrowed.
        let length = usize::try_from(head.wrapping_sub(tail))
            .ok()
            .filter(|length| *length <= self.data_bytes)
            .unwrap_or(0);
        Unread {
            ring: self,
            tail,
            length,
            head,
        }
    }

    fn counter(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: both offsets lie in the header page, which is mapped as long as `self` lives.
        let counter = unsafe { self.base.add(offset) }.cast::<u64>();
        // SAFETY: the mapping is page aligned and the offsets are multiples of 8; the kernel accesses the
        // counters with single aligned loads and stores, which is what atomics demand of others.
        unsafe { AtomicU64::from_ptr(counter.as_ptr()) }
    }
}

impl Unread<'_> {
    /// The bytes, oldest first; the second piece follows the first and is empty unless the ring's end
    /// lies between them.
    #[must_use]
    pub fn pieces(&self) -> (&[u8], &[u8]) {
        let size = self.ring.data_bytes;
        // The size is a power of two, so the low bits of the tail are the place in the ring.
        let start = usize::try_from(self.tail & (size as u64 - 1)).expect("less than a usize");
        let until_end = self.length.min(size - start);
        (
            self.slice(start, until_end),
            self.slice(0, self.length - until_end),
        )
    }

    /// How many bytes there are.
    #[must_use]
    pub const fn length(&self) -> usize {
        self.length
    }

    /// Whether the writer claims to have written over bytes that were not taken. The kernel does not
    /// do that; if it happens, the bytes mean nothing and none are given.
    #[must_use]
    pub const fn is_overrun(&self) -> bool {
        self.head.wrapping_sub(self.tail) > self.ring.data_bytes as u64
    }

    /// Gives the space back to the kernel.
    pub fn take(self) {
        // Releasing keeps our reads of the records before the store that lets them be overwritten.
        self.ring
            .counter(DATA_TAIL)
            .store(self.head, Ordering::Release);
    }

    fn slice(&self, start: usize, length: usize) -> &[u8] {
        debug_assert!(start + length <= self.ring.data_bytes);
        // SAFETY: `start` is inside the data pages, which are mapped as long as the ring lives.
        let first = unsafe { self.ring.data.add(start) };
        // SAFETY: `start + length` stays within the data pages (`pieces` cuts at their end), the bytes
        // lie between tail and head, where the kernel does not write, and `self` borrows the ring
        // mutably, so the tail cannot move while the slice lives.
        unsafe { std::slice::from_raw_parts(first.as_ptr(), length) }
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
