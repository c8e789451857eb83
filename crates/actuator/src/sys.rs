//! The room for raw system calls: affinity masks of any size, `move_pages`, how large pages are,
//! and who has a number.
//!
//! glibc's `cpu_set_t`, and with it nix's `CpuSet`, ends at 1,024 processors, and neither
//! has `move_pages`, `PAGEMAP_SCAN`, `pidfd_open` or `tgkill`. Nothing in here decides, converts
//! units, or loops.

use std::mem::size_of_val;
use std::ops::Range;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::ptr;

use libc::{c_int, c_long, c_void, pid_t};
use nix::errno::Errno;

/// Words of a mask that holds every processor number there can be.
pub(crate) const MASK_WORDS: usize = 1024;

/// Reads a thread's mask into `words`; the rest of them is left as it is.
pub(crate) fn get_affinity(tid: pid_t, words: &mut [u64; MASK_WORDS]) -> Result<(), Errno> {
    // SAFETY: the kernel writes at most the given number of bytes, and that is the size of the
    // array the pointer comes from, which is borrowed for the length of the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_sched_getaffinity,
            tid,
            size_of_val(words),
            words.as_mut_ptr(),
        )
    };
    Errno::result(result).map(drop)
}

/// Sets a thread's mask. Bits beyond `words` are clear; bits beyond the kernel's own size are ignored.
pub(crate) fn set_affinity(tid: pid_t, words: &[u64]) -> Result<(), Errno> {
    // SAFETY: the kernel only reads, at most the given number of bytes, and that is the size of the
    // slice the pointer comes from, which is borrowed for the length of the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_sched_setaffinity,
            tid,
            size_of_val(words),
            words.as_ptr(),
        )
    };
    Errno::result(result).map(drop)
}

/// Sets the nice value of the calling thread; threads it makes have it too.
pub(crate) fn set_own_nice(nice: c_int) -> Result<(), Errno> {
    // SAFETY: takes three numbers and no memory; 0 stands for the calling thread.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
    Errno::result(result).map(drop)
}

/// Has the allocator map every block of at least this many bytes by itself, so that freeing it gives
/// the memory back at once. False where the allocator has no such setting.
#[cfg(target_env = "gnu")]
pub(crate) fn map_blocks_from(bytes: c_int) -> bool {
    // SAFETY: takes two numbers and no memory; it locks the allocator itself, so that other threads
    // may allocate meanwhile.
    let taken = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, bytes) };
    taken == 1
}

/// Bytes in a page.
pub(crate) fn page_bytes() -> u64 {
    // SAFETY: takes a number, gives a number, and touches no memory of ours.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).expect("every Linux tells its page size")
}

/// Asks where pages of a process are: one status for each.
pub(crate) fn query_pages(pid: pid_t, pages: &[u64], statuses: &mut [c_int]) -> Result<(), Errno> {
    assert_eq!(pages.len(), statuses.len(), "one status for each page");
    // SAFETY: the kernel reads `pages.len()` pointers and writes as many statuses; both slices have
    // that length (asserted), u64 and a pointer have the same size (below), and with no array of
    // nodes it moves nothing. The addresses are looked up in the target's space, never followed here.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            pid,
            pages.len(),
            pages.as_ptr(),
            ptr::null::<c_int>(),
            statuses.as_mut_ptr(),
            NO_FLAGS,
        )
    };
    Errno::result(result).map(drop)
}

/// A descriptor of a process, closed on exec.
pub(crate) fn pidfd_open(pid: pid_t) -> Result<OwnedFd, Errno> {
    // SAFETY: the call takes numbers alone.
    let result = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let raw = c_int::try_from(Errno::result(result)?).map_err(|_too_large| Errno::EBADF)?;
    // SAFETY: the kernel has just made it for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Whether a thread of this number is one of this process. Sends nothing: signal 0 only asks.
pub(crate) fn is_thread_of(pid: pid_t, tid: pid_t) -> bool {
    // SAFETY: the call takes numbers alone.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, 0) };
    // Without the right to send it a signal the answer is EPERM, and it is there.
    Errno::result(result) != Err(Errno::ESRCH)
}

/// Moves pages, each to its node: those that no other process maps, with `all` the others too. Statuses
/// of pages that were not tried are left as they are. The number of pages that did not move is not told: statuses say which.
pub(crate) fn move_pages(
    pid: pid_t,
    pages: &[u64],
    nodes: &[c_int],
    statuses: &mut [c_int],
    all: bool,
) -> Result<(), Errno> {
    assert_eq!(pages.len(), statuses.len(), "one status for each page");
    assert_eq!(pages.len(), nodes.len(), "one node for each page");
    // SAFETY: as in `query_pages`, and the kernel reads as many nodes as there are pages (asserted).
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            pid,
            pages.len(),
            pages.as_ptr(),
            nodes.as_ptr(),
            statuses.as_mut_ptr(),
            if all { MPOL_MF_MOVE_ALL } else { MPOL_MF_MOVE },
        )
    };
    Errno::result(result).map(drop)
}

/// Whether the first page of a range, of a process of which this is the pagemap, is mapped as part
/// of a larger one. Changes nothing: categories are read alone.
pub(crate) fn is_large(pagemap: BorrowedFd<'_>, range: Range<u64>) -> Result<bool, Errno> {
    let mut found = [0_u64; REGION_WORDS];
    let mut asked = ScanArguments {
        size: size_of::<ScanArguments>() as u64,
        start: range.start,
        end: range.end,
        found: found.as_mut_ptr() as u64,
        found_max: 1,
        pages_max: 1,
        mask: PAGE_IS_HUGE,
        told: PAGE_IS_HUGE,
        ..ScanArguments::default()
    };
    // SAFETY: the descriptor is borrowed for the length of the call; the kernel reads and writes
    // the arguments, whose size they say, and writes at most one region, for which there is room.
    let result = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut asked) };
    Errno::result(result).map(|regions| regions > 0)
}

/// `struct pm_scan_arg` of `linux/fs.h`.
#[derive(Default)]
#[repr(C)]
struct ScanArguments {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walked: u64,
    found: u64,
    found_max: u64,
    pages_max: u64,
    inverted: u64,
    mask: u64,
    any_of: u64,
    told: u64,
}

/// `_IOWR('f', 16, struct pm_scan_arg)`, since Linux 6.7.
const PAGEMAP_SCAN: libc::Ioctl = 0xc060_6610_u32 as libc::Ioctl;
const _: () = assert!(size_of::<ScanArguments>() == 0x60, "as the number says");
/// Words of a `struct page_region`.
const REGION_WORDS: usize = 3;
const PAGE_IS_HUGE: u64 = 1 << 6;

const NO_FLAGS: c_int = 0;
/// Move pages that this process alone maps.
const MPOL_MF_MOVE: c_int = 1 << 1;
/// Move also what other processes map. Only for memory all of whose users are of one attached program, and
/// to put back what we moved (docs/decisions/0012).
const MPOL_MF_MOVE_ALL: c_int = 1 << 2;

const _: () = assert!(
    size_of::<u64>() == size_of::<*const c_void>(),
    "64-bit machines only"
);
const _: () = assert!(size_of::<c_long>() == 8, "64-bit machines only");
