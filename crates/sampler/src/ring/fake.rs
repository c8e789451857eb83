//! A writer that treats a memory file as the kernel treats a ring, for tests.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::ftruncate;

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
        let file: OwnedFd = memfd_create("ring", MFdFlags::MFD_CLOEXEC)?;
        let bytes = (data_pages + 1) * page_bytes();
        ftruncate(&file, i64::try_from(bytes).unwrap())?;
        let reader = Ring::map(&file, data_pages)?;
        let ring = Ring::map(&file, data_pages)?;
        ring.counter(DATA_HEAD).store(start, Ordering::Release);
        ring.counter(DATA_TAIL).store(start, Ordering::Release);
        let kernel = Self {
            ring,
            lost_unreported: 0,
            lost: 0,
        };
        Ok((reader, kernel))
    }

    /// The writer of a memory file that is a ring already.
    pub(crate) fn over(file: &OwnedFd, data_pages: usize) -> io::Result<Self> {
        Ok(Self {
            ring: Ring::map(file, data_pages)?,
            lost_unreported: 0,
            lost: 0,
        })
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
        let head = self.ring.counter(DATA_HEAD).load(Ordering::Relaxed);
        let tail = self.ring.counter(DATA_TAIL).load(Ordering::Acquire);
        let size = self.ring.data_bytes as u64;
        if head.wrapping_sub(tail) + bytes.len() as u64 > size {
            return false;
        }
        let start = usize::try_from(head % size).unwrap();
        let until_end = bytes.len().min(self.ring.data_bytes - start);
        self.copy(start, &bytes[..until_end]);
        self.copy(0, &bytes[until_end..]);
        let head = head.wrapping_add(bytes.len() as u64);
        self.ring.counter(DATA_HEAD).store(head, Ordering::Release);
        true
    }

    fn copy(&self, start: usize, bytes: &[u8]) {
        assert!(start + bytes.len() <= self.ring.data_bytes);
        // SAFETY: `start` is inside the data pages.
        let to = unsafe { self.ring.data.add(start) };
        // SAFETY: the destination lies in the data pages (asserted above) between head and tail + size,
        // which the reader does not touch; the source is an ordinary slice elsewhere.
        unsafe {
            to.copy_from_nonoverlapping(std::ptr::NonNull::from_ref(bytes).cast(), bytes.len());
        }
    }

    /// Sets the head to any number, as no kernel does.
    pub(crate) fn set_head(&self, head: u64) {
        self.ring.counter(DATA_HEAD).store(head, Ordering::Release);
    }
}
