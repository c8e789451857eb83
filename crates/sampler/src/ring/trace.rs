//! The second area of memory that some events share with us: hardware writes its trace there by itself.
//!
//! It has a head and a tail of its own in the ring's header page and is mapped behind the ring. The
//! kernel moves the head when the hardware has been stopped and its writes are complete; until the tail
//! is moved, hardware is not let into the bytes between.

use std::io;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use super::span::{Counter, Span};
use super::{Ring, page_bytes};

/// Offset of `aux_head` in the header page.
pub(super) const TRACE_HEAD: usize = 1056;
/// Offset of `aux_tail`.
pub(super) const TRACE_TAIL: usize = 1064;
/// Offset of `aux_offset`: where the area begins in the event's file.
const TRACE_OFFSET: usize = 1072;
/// Offset of `aux_size`.
const TRACE_SIZE: usize = 1080;

/// The mapped area.
#[derive(Debug)]
pub(super) struct Area {
    pub(super) base: NonNull<u8>,
    /// A power of two.
    pub(super) bytes: usize,
}

/// The bytes of the trace that have been written and not been taken, borrowed from the ring.
#[derive(Debug)]
pub struct UnreadTrace<'a> {
    ring: &'a mut Ring,
    span: Span,
}

impl Ring {
    /// Maps the trace area of the event whose ring this is, of so many pages.
    ///
    /// # Errors
    /// The kernel's: `EOPNOTSUPP` if the event has no trace, `EPERM` when the memory may not be locked,
    /// `EINVAL` unless `pages` is a power of two, `EEXIST` if it is mapped already.
    pub fn map_trace(&mut self, descriptor: impl AsFd, pages: usize) -> io::Result<()> {
        let refused = |errno| Err(io::Error::from_raw_os_error(errno));
        if self.trace.is_some() {
            return refused(libc::EEXIST);
        }
        let bytes = pages.checked_mul(page_bytes()).and_then(NonZeroUsize::new);
        let (true, Some(bytes)) = (pages.is_power_of_two(), bytes) else {
            return refused(libc::EINVAL);
        };
        let Ok(offset) = libc::off_t::try_from(self.map_bytes) else {
            return refused(libc::EINVAL);
        };
        // The kernel maps what these two words ask for, and nothing else.
        self.word(TRACE_OFFSET)
            .store(self.map_bytes as u64, Ordering::Relaxed);
        self.word(TRACE_SIZE)
            .store(bytes.get() as u64, Ordering::Relaxed);
        // Writable, or the kernel would write over what was not taken.
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: no address is asked for, so no mapping of ours is replaced; what is mapped is shared
        // with the kernel and read only as `UnreadTrace` allows.
        let base = unsafe {
            mmap(
                None,
                bytes,
                protection,
                MapFlags::MAP_SHARED,
                descriptor,
                offset,
            )
        }?
        .cast::<u8>();
        self.trace = Some(Area {
            base,
            bytes: bytes.get(),
        });
        Ok(())
    }

    /// How many bytes of trace fit; none without a trace area.
    #[must_use]
    pub fn trace_bytes(&self) -> Option<usize> {
        self.trace.as_ref().map(|area| area.bytes)
    }

    /// Up to where the trace is complete, counted since it began. Records that the kernel wrote before
    /// are in the ring for whoever reads that after this.
    #[must_use]
    pub fn trace_published(&self) -> u64 {
        self.word(TRACE_HEAD).acquire()
    }

    /// The trace that was not taken, up to a place that [`Self::trace_published`] gave; none without a
    /// trace area.
    pub fn trace_unread(&mut self, until: u64) -> Option<UnreadTrace<'_>> {
        let size = self.trace_bytes()?;
        let span = Span::unread(self.word(TRACE_HEAD), self.word(TRACE_TAIL), size);
        Some(UnreadTrace {
            span: span.until(until),
            ring: self,
        })
    }
}

impl UnreadTrace<'_> {
    /// Where the bytes begin, counted since the trace began.
    #[must_use]
    pub const fn tail(&self) -> u64 {
        self.span.tail()
    }

    /// How many there are.
    #[must_use]
    pub const fn length(&self) -> usize {
        self.span.length()
    }

    /// How many fit.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.span.size()
    }

    /// Whether the head claims more than fits, which no kernel does; no bytes are given then.
    #[must_use]
    pub const fn is_overrun(&self) -> bool {
        self.span.is_overrun()
    }

    /// The bytes between two places counted since the trace began, cut to those there are; the second
    /// piece is empty unless the area's end lies between. With each piece goes where it lies in the area.
    #[must_use]
    pub fn between(&self, from: u64, to: u64) -> [(usize, &[u8]); 2] {
        let part = self.span.clone().part(from, to);
        let (first, second) = part.pieces();
        [first, second].map(|place| (place.start, self.slice(place)))
    }

    /// Gives the space back.
    pub fn take(self) {
        self.span.give_back(self.ring.word(TRACE_TAIL));
    }

    fn slice(&self, place: Range<usize>) -> &[u8] {
        let area = self.ring.trace.as_ref().expect("it was there to be read");
        debug_assert!(place.start <= place.end && place.end <= area.bytes);
        // SAFETY: the place is inside the area, which is mapped as long as the ring lives.
        let first = unsafe { area.base.add(place.start) };
        // SAFETY: the place is within the area (`Span::pieces` cuts at its end), the bytes lie between
        // tail and head, where neither kernel nor hardware writes, and `self` borrows the ring
        // mutably, so the tail cannot move while the slice lives.
        unsafe { std::slice::from_raw_parts(first.as_ptr(), place.len()) }
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: base and length are those of the mapping made in `map_trace`, and every borrow of it
        // has ended, for they borrow the ring that owns it.
        let unmapped = unsafe { munmap(self.base.cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "a mapping of ours can be unmapped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::fake::FakeKernel;

    fn joined(unread: &UnreadTrace<'_>) -> Vec<u8> {
        let from = unread.tail();
        let [(_, first), (_, second)] =
            unread.between(from, from.wrapping_add(unread.length() as u64));
        [first, second].concat()
    }

    #[test]
    fn a_trace_is_read_wherever_the_area_wraps() {
        let size = 2 * page_bytes() as u64;
        for start in (0..size)
            .step_by(56)
            .chain([size - 1, u64::MAX - 79, u64::MAX])
        {
            let (mut ring, mut kernel) = FakeKernel::with_trace(1, 2, start).unwrap();
            let bytes: Vec<u8> = (0..=255).collect();
            assert!(kernel.trace(&bytes));
            let published = ring.trace_published();
            assert!(kernel.trace(&[7; 9]), "written later");
            let unread = ring.trace_unread(published).unwrap();
            assert_eq!((unread.tail(), joined(&unread)), (start, bytes), "{start}");
            unread.take();
            let unread = ring.trace_unread(ring.trace_published()).unwrap();
            assert_eq!(joined(&unread), [7; 9]);
        }
    }

    #[test]
    fn parts_are_cut_to_what_there_is() {
        let (mut ring, mut kernel) = FakeKernel::with_trace(1, 1, 4000).unwrap();
        assert!(kernel.trace(&[5; 200]));
        let unread = ring.trace_unread(ring.trace_published()).unwrap();
        let lengths = |from, to| unread.between(from, to).map(|(_, bytes)| bytes.len());
        let end = page_bytes() - 4000;
        if end == 96 {
            assert_eq!(lengths(4000, 4200), [96, 104]);
            assert_eq!(lengths(4090, 4100), [6, 4]);
        }
        for (from, to, sum) in [
            (4010, 4010, 0),
            (4020, 4010, 0),
            (0, 4010, 10),
            (4190, 1 << 40, 10),
            (9000, 9999, 0),
            (0, 1, 0),
        ] {
            assert_eq!(lengths(from, to).iter().sum::<usize>(), sum, "{from} {to}");
        }
    }

    #[test]
    fn a_full_area_takes_nothing_until_it_is_emptied() {
        let (mut ring, mut kernel) = FakeKernel::with_trace(1, 1, 0).unwrap();
        let page = page_bytes();
        assert!(kernel.trace(&vec![1; page]));
        assert!(!kernel.trace(&[2]));
        let unread = ring.trace_unread(ring.trace_published()).unwrap();
        assert_eq!(unread.length(), page);
        unread.take();
        assert!(kernel.trace(&[2]));
    }

    #[test]
    fn without_an_area_there_is_no_trace() {
        let (mut ring, _kernel) = FakeKernel::new(1, 0).unwrap();
        assert!(ring.trace_unread(0).is_none() && ring.trace_bytes().is_none());
        let file = nix::sys::memfd::memfd_create("x", nix::sys::memfd::MFdFlags::empty()).unwrap();
        for pages in [0, 3, usize::MAX] {
            let error = ring.map_trace(&file, pages).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{pages}");
        }
    }
}
