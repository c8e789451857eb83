//! Memory straight from the kernel, shared by threads that write to it without locks.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::mman::{self, MapFlags, MmapAdvise, ProtFlags};
use nix::sys::signal::Signal;
use nix::unistd::{ForkResult, Pid};

/// Bytes in the smallest page of any machine.
const PAGE_BYTES_MIN: usize = 4096;

/// Bytes in a cache line; one word of each is touched.
const LINE_BYTES: usize = 64;

/// A walk of a region: Knuth's multiplier for a linear congruential sequence, which visits every line of a power of
/// two of them, and most of any other number.
const CHAIN_FACTOR: usize = 0x5851_f42d_4c95_7f2d;
const CHAIN_STEP: usize = 0x1405_7b7e_f767_814f;

/// What regions are for.
const ACCESS: ProtFlags = ProtFlags::PROT_READ.union(ProtFlags::PROT_WRITE);

/// What kind of pages private memory is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pages {
    /// Small ones, so that a page is what the tables call a page.
    #[default]
    Small,
    /// Huge ones, if the kernel gives them to who asks.
    Huge,
    /// As the kernel is set up.
    Any,
}

/// How private memory is laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Of what pages.
    pub pages: Pages,
    /// Small pages between a boundary of a huge page and its beginning.
    pub offset_pages: usize,
}

/// Bytes in a huge page, of the smallest kind that any machine has.
const HUGE_BYTES: usize = 2 << 20;

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
    /// Maps that many bytes, rounded up to whole pages.
    pub(crate) fn map(bytes: NonZeroUsize, layout: Layout) -> io::Result<Self> {
        let mapped = if layout.offset_pages == 0 {
            Self::anonymous(bytes, MapFlags::MAP_PRIVATE)?
        } else {
            Self::at_offset(bytes, layout.offset_pages * PAGE_BYTES_MIN)?
        };
        match layout.pages {
            Pages::Small => mapped.advised(MmapAdvise::MADV_NOHUGEPAGE),
            Pages::Huge => mapped.advised(MmapAdvise::MADV_HUGEPAGE),
            Pages::Any => Ok(mapped),
        }
    }

    /// Maps bytes that begin so far behind a boundary of a huge page, and gives the rest of a larger mapping back.
    fn at_offset(bytes: NonZeroUsize, offset: usize) -> io::Result<Self> {
        let bytes = bytes.get().next_multiple_of(PAGE_BYTES_MIN);
        let offset = offset % HUGE_BYTES;
        let whole = NonZeroUsize::MIN.saturating_add(bytes + offset + HUGE_BYTES - 1);
        // SAFETY: a new anonymous mapping at an address of the kernel's choice aliases nothing.
        let first = unsafe { mman::mmap_anonymous(None, whole, ACCESS, MapFlags::MAP_PRIVATE) }?;
        let address = first.addr().get();
        let before = address.next_multiple_of(HUGE_BYTES) + offset - address;
        let after = whole.get() - before - bytes;
        // SAFETY: `before + bytes` is at most what was just mapped.
        let start = unsafe { first.byte_add(before) };
        // SAFETY: as above; this is the end of what stays.
        let end = unsafe { start.byte_add(bytes) };
        for (at, length) in [(first, before), (end, after)] {
            if length >= PAGE_BYTES_MIN {
                // SAFETY: this part of our own new mapping is reached by nobody.
                unsafe { mman::munmap(at, length) }?;
            }
        }
        let bytes = NonZeroUsize::MIN.saturating_add(bytes - 1);
        Ok(Self { start, bytes })
    }

    /// The same, shared with processes that are forked afterwards.
    pub(crate) fn map_shared(bytes: NonZeroUsize) -> io::Result<Self> {
        Self::anonymous(bytes, MapFlags::MAP_SHARED)?.advised(MmapAdvise::MADV_NOHUGEPAGE)
    }

    fn anonymous(bytes: NonZeroUsize, flags: MapFlags) -> io::Result<Self> {
        // SAFETY: a new anonymous mapping at an address of the kernel's choice aliases nothing.
        let start = unsafe { mman::mmap_anonymous(None, bytes, ACCESS, flags) }?;
        Ok(Self { start, bytes })
    }

    /// Maps an object that other processes map too.
    pub(crate) fn map_object(object: &impl AsFd, bytes: NonZeroUsize) -> io::Result<Self> {
        let flags = MapFlags::MAP_SHARED;
        // SAFETY: a new mapping at an address of the kernel's choice; what others write to the object is only
        // reached as atomics here too.
        let start = unsafe { mman::mmap(None, bytes, ACCESS, flags, object, 0) }?;
        Self { start, bytes }.advised(MmapAdvise::MADV_NOHUGEPAGE)
    }

    fn advised(self, advice: MmapAdvise) -> io::Result<Self> {
        self.advise(advice).or_else(|error| {
            // A kernel without huge pages has nothing to switch off.
            if error.raw_os_error() == Some(libc::EINVAL) {
                Ok(())
            } else {
                Err(error)
            }
        })?;
        Ok(self)
    }

    /// Lines that it has.
    pub(crate) const fn lines(&self) -> usize {
        self.bytes.get() / LINE_BYTES
    }

    /// Adds one to a word of every line, `times` over; from the last to the first if `backwards`.
    pub(crate) fn sweep(&self, times: usize, backwards: bool) {
        self.sweep_first(self.lines(), times, backwards);
    }

    /// The same with its first lines alone.
    pub(crate) fn sweep_first(&self, lines: usize, times: usize, backwards: bool) {
        for _ in 0..times {
            for step in 0..lines {
                self.add(if backwards { lines - 1 - step } else { step });
            }
        }
    }

    /// Adds one to a word of so many lines of every so many pieces, or of each of them once, from the
    /// line `from` of those on. Returns where it came.
    pub(crate) fn sweep_dealt(
        &self,
        from: usize,
        count: Option<usize>,
        (piece_lines, index, of): (usize, usize, usize),
    ) -> usize {
        let pieces = self.lines().div_ceil(piece_lines);
        let own = pieces.saturating_sub(index).div_ceil(of) * piece_lines;
        let (mut at, mut left) = (from, count.unwrap_or(own));
        while left > 0 && own > 0 {
            at = if at < own { at } else { 0 };
            let first = (at / piece_lines * of + index) * piece_lines + at % piece_lines;
            let stretch = left.min(piece_lines - at % piece_lines);
            (first..(first + stretch).min(self.lines())).for_each(|line| self.add(line));
            (at, left) = (at + stretch, left - stretch);
        }
        at
    }

    /// Touches one of so many pieces dealt out in turn first.
    pub(crate) fn touch_dealt(&self, piece_lines: usize, index: usize, of: usize) {
        for first in self.dealt(piece_lines, index, of) {
            for line in first..(first + piece_lines).min(self.lines()) {
                self.word(line * LINE_BYTES).store(1, Ordering::Relaxed);
            }
        }
    }

    /// The first line of each piece of one of those they are dealt out to.
    fn dealt(
        &self,
        piece_lines: usize,
        index: usize,
        of: usize,
    ) -> impl Iterator<Item = usize> + use<> {
        (index * piece_lines..self.lines()).step_by(piece_lines * of)
    }

    /// Adds one to a word of a line.
    pub(crate) fn add(&self, line: usize) {
        let word = self.word(line * LINE_BYTES);
        let more = word.load(Ordering::Relaxed).wrapping_add(1);
        word.store(more, Ordering::Relaxed);
    }

    /// Reads so many lines, each of which only the one before leads to. Returns where it came.
    pub(crate) fn chase(&self, from: usize, steps: usize) -> usize {
        let lines = self.lines();
        (0..steps).fold(from % lines, |line, _| {
            // All words of what is only read are the same; the odd factor leads from line to line like chance.
            let read = self.word(line * LINE_BYTES).load(Ordering::Relaxed);
            let next = line.wrapping_mul(CHAIN_FACTOR).wrapping_add(CHAIN_STEP);
            (next ^ usize::from(read == u64::MAX)) % lines
        })
    }

    /// Touches one of so many equal parts, so that its pages come to the node of the calling thread. Only
    /// writes: a huge page that is read first stays a page of zeros and is split by the first write.
    pub(crate) fn touch_part(&self, part: usize, of: usize) {
        let lines = self.bytes.get() / LINE_BYTES;
        for line in lines * part / of..lines * (part + 1) / of {
            self.word(line * LINE_BYTES).store(1, Ordering::Relaxed);
        }
    }

    /// Stores to every page. Of memory that is shared a load would not do: when that faults, the kernel maps
    /// the pages around as well, and nobody would see that they are used.
    pub(crate) fn store_to_each_page(&self) {
        for offset in (0..self.bytes.get()).step_by(PAGE_BYTES_MIN) {
            self.word(offset).store(1, Ordering::Relaxed);
        }
    }

    /// Gives every page back to the kernel; the next touch of each gets a fresh one.
    pub(crate) fn release(&self) -> io::Result<()> {
        self.advise(MmapAdvise::MADV_DONTNEED)
    }

    /// Counts one at a place; processes that share the region see it.
    pub(crate) fn count(&self, place: usize) {
        self.word(place * LINE_BYTES)
            .fetch_add(1, Ordering::Relaxed);
    }

    /// What was counted at a place.
    pub(crate) fn counted(&self, place: usize) -> u64 {
        self.word(place * LINE_BYTES).load(Ordering::Relaxed)
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

/// Runs `child` in a process of its own, which dies with the calling thread, and gives its number.
///
/// # Errors
/// When no process can be made, or this one has other threads: what they hold would be held for ever.
pub(crate) fn in_child(child: impl FnOnce()) -> io::Result<Pid> {
    let threads = std::fs::read_dir("/proc/self/task")?.count();
    if threads != 1 {
        return Err(io::Error::other(
            "a process with several threads does not fork",
        ));
    }
    let parent = nix::unistd::getpid();
    // SAFETY: this process has one thread, as was just counted, so that the child may do what it could.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => Ok(child),
        ForkResult::Child => {
            let dies = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).is_ok();
            if dies && nix::unistd::getppid() == parent {
                child();
            }
            // Nothing of the parent's is to be dropped twice, nor its output to be written twice.
            // SAFETY: ends the process at once; no memory is involved.
            unsafe { libc::_exit(0) }
        }
    }
}

/// The kernel's number of the calling thread.
pub(crate) fn own_tid() -> i32 {
    nix::unistd::gettid().as_raw()
}
