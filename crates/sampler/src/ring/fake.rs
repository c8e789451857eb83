//! A writer that treats a memory file as the kernel treats a ring, for tests.

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::ftruncate;

use super::trace::{TRACE_HEAD, TRACE_TAIL};
use super::{DATA_HEAD, DATA_TAIL, Ring, page_bytes};

/// The kernel's side of a ring.
#[derive(Debug)]
pub(crate) struct FakeKernel {
    /// The same pages as the reader's, mapped a second time.
    ring: Ring,
    lost_unreported: u64,
    /// Records that found no room since the beginning, as the event's own count would say.
    pub(crate) lost: u64,
}

impl FakeKernel {
    /// A ring whose counters begin at `start`, and its writer.
    pub(crate) fn new(data_pages: usize, start: u64) -> io::Result<(Ring, Self)> {
        let (reader, kernel, _file) = Self::open(data_pages, 0, start)?;
        Ok((reader, kernel))
    }

    /// The same with a trace area, whose counters begin there too.
    pub(crate) fn with_trace(
        data_pages: usize,
        trace_pages: usize,
        start: u64,
    ) -> io::Result<(Ring, Self)> {
        let (mut reader, kernel, file) = Self::open(data_pages, trace_pages, start)?;
        reader.map_trace(&file, trace_pages)?;
        Ok((reader, kernel))
    }

    /// A ring, its writer, and the file that is both, with room for a trace area that the reader is to
    /// map.
    pub(crate) fn open(
        data_pages: usize,
        trace_pages: usize,
        start: u64,
    ) -> io::Result<(Ring, Self, OwnedFd)> {
        let file: OwnedFd = memfd_create("ring", MFdFlags::MFD_CLOEXEC)?;
        let bytes = (data_pages + 1 + trace_pages) * page_bytes();
        ftruncate(&file, i64::try_from(bytes).unwrap())?;
        let reader = Ring::map(&file, data_pages)?;
        let mut ring = Ring::map(&file, data_pages)?;
        for counter in [DATA_HEAD, DATA_TAIL, TRACE_HEAD, TRACE_TAIL] {
            ring.word(counter).store(start, Ordering::Release);
        }
        if trace_pages > 0 {
            ring.map_trace(&file, trace_pages)?;
        }
        let kernel = Self {
            ring,
            lost_unreported: 0,
            lost: 0,
        };
        Ok((reader, kernel, file))
    }

    /// Writes trace and publishes it if there is room.
    pub(crate) fn trace(&mut self, bytes: &[u8]) -> bool {
        let area = self.ring.trace.as_ref().unwrap();
        let (base, size) = (area.base, area.bytes);
        let head = self.ring.word(TRACE_HEAD).load(Ordering::Relaxed);
        let tail = self.ring.word(TRACE_TAIL).load(Ordering::Acquire);
        if head.wrapping_sub(tail) + bytes.len() as u64 > size as u64 {
            return false;
        }
        let start = usize::try_from(head % size as u64).unwrap();
        let until_end = bytes.len().min(size - start);
        copy(base, size, start, &bytes[..until_end]);
        copy(base, size, 0, &bytes[until_end..]);
        let head = head.wrapping_add(bytes.len() as u64);
        self.ring.word(TRACE_HEAD).store(head, Ordering::Release);
        true
    }

    /// Up to where the trace was written.
    pub(crate) fn trace_head(&self) -> u64 {
        self.ring.trace_published()
    }

    /// Writes a word of the header page, as the kernel does when it maps or schedules an event.
    pub(crate) fn set_word(&self, offset: usize, value: u64) {
        self.ring.word(offset).store(value, Ordering::Release);
    }

    /// The writer of a memory file that is a ring already.
    pub(crate) fn over(file: &OwnedFd, data_pages: usize) -> io::Result<Self> {
        Ok(Self {
            ring: Ring::map(file, data_pages)?,
            lost_unreported: 0,
            lost: 0,
        })
    }

    /// The same with a trace area behind the ring.
    pub(crate) fn over_trace(
        file: &OwnedFd,
        data_pages: usize,
        trace_pages: usize,
    ) -> io::Result<Self> {
        let mut kernel = Self::over(file, data_pages)?;
        kernel.ring.map_trace(file, trace_pages)?;
        Ok(kernel)
    }

    /// Writes a record if there is room; before it, what was lost while there was none.
    pub(crate) fn write(&mut self, record: &[u8]) -> bool {
        if self.lost_unreported > 0 {
            let mut lost = [2u32.to_ne_bytes(), [0, 0, 24, 0]].concat();
            lost.extend(1u64.to_ne_bytes());
            lost.extend(self.lost_unreported.to_ne_bytes());
            if !self.put(&[&lost, record].concat()) {
                self.lose();
                return false;
            }
            self.lost_unreported = 0;
            return true;
        }
        let written = self.put(record);
        if !written {
            self.lose();
        }
        written
    }

    fn lose(&mut self) {
        self.lost_unreported += 1;
        self.lost += 1;
    }

    fn put(&mut self, bytes: &[u8]) -> bool {
        let head = self.ring.word(DATA_HEAD).load(Ordering::Relaxed);
        let tail = self.ring.word(DATA_TAIL).load(Ordering::Acquire);
        let size = self.ring.data_bytes as u64;
        if head.wrapping_sub(tail) + bytes.len() as u64 > size {
            return false;
        }
        let start = usize::try_from(head % size).unwrap();
        let until_end = bytes.len().min(self.ring.data_bytes - start);
        let (data, data_bytes) = (self.ring.data, self.ring.data_bytes);
        copy(data, data_bytes, start, &bytes[..until_end]);
        copy(data, data_bytes, 0, &bytes[until_end..]);
        let head = head.wrapping_add(bytes.len() as u64);
        self.ring.word(DATA_HEAD).store(head, Ordering::Release);
        true
    }

    /// Sets the head to any number, as no kernel does.
    pub(crate) fn set_head(&self, head: u64) {
        self.ring.word(DATA_HEAD).store(head, Ordering::Release);
    }
}

fn copy(base: NonNull<u8>, size: usize, start: usize, bytes: &[u8]) {
    assert!(start + bytes.len() <= size);
    // SAFETY: `start` is inside the pages, which are mapped as long as their `FakeKernel` lives.
    let to = unsafe { base.add(start) };
    // SAFETY: the destination lies in the pages (asserted above) between head and tail + size, which the
    // reader does not touch; the source is an ordinary slice elsewhere.
    unsafe { to.copy_from_nonoverlapping(NonNull::from_ref(bytes).cast(), bytes.len()) }
}
