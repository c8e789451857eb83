//! System calls as a trait, so that tests have a kernel that dies when told to.

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::time::{ClockId, clock_gettime};
use numad_core::Reach;
use topology::{CpuSet, NodeId, Pid, Tid};

pub use nix::errno::Errno;

use crate::{pagemap, sys};

/// Gives memory of large blocks back to the system when they are freed, for the whole process.
///
/// glibc does so at first, but takes a freed block for a sign that more of that size will come, and
/// from then on keeps blocks of up to 32 MiB. A fixed bound stops that; other allocators stay as
/// they are.
pub fn give_back_blocks_from(bytes: i32) {
    #[cfg(target_env = "gnu")]
    {
        let taken = sys::map_blocks_from(bytes);
        debug_assert!(taken, "a bound that glibc takes");
    }
    #[cfg(not(target_env = "gnu"))]
    let _kept_as_it_is = bytes;
}

/// Sets the nice value, -20 (first) to 19 (last), of the calling thread and of those that it makes
/// from now on. The one change in this crate that concerns nobody but ourselves.
///
/// # Errors
/// `EACCES` or `EPERM` without `CAP_SYS_NICE` or a limit that allows it.
pub fn set_own_nice(nice: i32) -> Result<(), Errno> {
    sys::set_own_nice(nice)
}

/// The system calls that are needed. Statuses of pages are as the kernel gives them: a node, or a
/// negative error number.
pub trait Kernel: fmt::Debug {
    /// Holds a process, so that it can be told later whether it still has its number.
    type Hold: fmt::Debug;

    /// Holds a process. None where the kernel has nothing to hold it by, or there are too many open
    /// files.
    ///
    /// # Errors
    /// `ESRCH` when there is no such process.
    fn hold(&mut self, pid: Pid) -> Result<Option<Self::Hold>, Errno>;

    /// Whether a held process of this number lives, so that it has had the number all the time, and
    /// has a thread of that number.
    ///
    /// # Errors
    /// When the kernel does not tell.
    fn has(&mut self, held: &Self::Hold, pid: Pid, tid: Tid) -> Result<bool, Errno>;

    /// Lets some milliseconds pass, in which others run.
    fn rest(&mut self);

    /// Whether calls are worth any patience from now on, as those of undo are.
    fn insist(&mut self, _insists: bool) {}

    /// The affinity of a thread, processors online only.
    ///
    /// # Errors
    /// As the kernel gives them.
    fn affinity(&mut self, tid: Tid) -> Result<CpuSet, Errno>;

    /// Gives a thread another affinity.
    ///
    /// # Errors
    /// As the kernel gives them.
    fn set_affinity(&mut self, tid: Tid, mask: Mask<'_>) -> Result<(), Errno>;

    /// Writes where each page is to `statuses`, which is as long as `pages`.
    ///
    /// # Errors
    /// As the kernel gives them.
    fn query_pages(&mut self, pid: Pid, pages: &[u64], statuses: &mut [i32]) -> Result<(), Errno>;

    /// Makes these calls of [`Self::query_pages`], so many side by side where there are threads for
    /// that, and notes how each ended. Gives the processor time of those threads, without this one.
    fn query_side_by_side(&mut self, calls: &mut [QueryCall<'_>], _most: usize) -> Duration {
        for call in calls {
            call.ended = Some(self.query_pages(call.pid, call.pages, call.statuses));
        }
        Duration::ZERO
    }

    /// Which of these pages of a process are of a file, or of memory that is shared by its name.
    /// Others have those that are not only as those do that it was forked from, or made. Nothing of
    /// pages that are not in memory, and where the kernel does not tell.
    fn of_files(&mut self, pid: Pid, pages: &[u64]) -> Vec<Option<bool>>;

    /// Moves pages to a node: with [`Reach::Alone`] those that no other process maps. Statuses of
    /// pages that were not tried, or not successfully, may be left as they are.
    ///
    /// # Errors
    /// As the kernel gives them.
    fn move_pages(
        &mut self,
        pid: Pid,
        pages: &[u64],
        to: (NodeId, Reach),
        statuses: &mut [i32],
    ) -> Result<(), Errno>;

    /// Makes these calls of [`Self::move_pages`], so many side by side where there are threads for
    /// that, and notes how each ended and how long it took. Gives the processor time of those
    /// threads, without this one.
    fn move_side_by_side(&mut self, calls: &mut [MoveCall<'_>], movers: usize) -> Duration;

    /// What `kernel.numa_balancing` says, of which the lowest bit is balancing between nodes.
    ///
    /// # Errors
    /// `ENOENT` when the kernel has no such switch.
    fn balancing(&mut self) -> Result<u32, Errno>;

    /// Makes it say something else.
    ///
    /// # Errors
    /// `EPERM` without `CAP_SYS_ADMIN`, `EROFS` or `EACCES` where it may not be written.
    fn set_balancing(&mut self, mode: u32) -> Result<(), Errno>;
}

/// The bit of `kernel.numa_balancing` with which the kernel balances between nodes.
pub(crate) const BALANCES: u32 = 1;

/// A call of [`Kernel::query_pages`] that others go on beside.
#[derive(Debug)]
pub struct QueryCall<'a> {
    /// Whose pages.
    pub pid: Pid,
    /// Their first addresses.
    pub pages: &'a [u64],
    /// Where each is.
    pub statuses: &'a mut [i32],
    /// How the call ended; none until it did.
    pub ended: Option<Result<(), Errno>>,
}

/// A call of [`Kernel::move_pages`] that others go on beside.
#[derive(Debug)]
pub struct MoveCall<'a> {
    /// Whose pages.
    pub pid: Pid,
    /// Their first addresses.
    pub pages: &'a [u64],
    /// Where to.
    pub to: (NodeId, Reach),
    /// What became of each.
    pub statuses: &'a mut [i32],
    /// How the call ended; none until it did.
    pub ended: Option<Result<(), Errno>>,
    /// How long it took.
    pub took: Duration,
    /// Processor time of that: the rest it waited, above all until every processor has let go of
    /// pages that it kept aside.
    pub spent: Duration,
}

/// An affinity to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask<'a> {
    /// These processors.
    These(&'a CpuSet),
    /// Every processor there can ever be: has the effect of no affinity at all, in that the thread
    /// follows its cpuset, also when that grows (docs/decisions/0003).
    Every,
}

/// The kernel that runs this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Linux;

impl Kernel for Linux {
    type Hold = OwnedFd;

    fn hold(&mut self, pid: Pid) -> Result<Option<OwnedFd>, Errno> {
        match sys::pidfd_open(number(pid.0)?) {
            Ok(held) => Ok(Some(held)),
            Err(Errno::ESRCH) => Err(Errno::ESRCH),
            Err(_none_to_be_had) => Ok(None),
        }
    }

    fn has(&mut self, held: &OwnedFd, pid: Pid, tid: Tid) -> Result<bool, Errno> {
        let (pid, tid) = (number(pid.0)?, number(tid.0)?);
        // It becomes readable when the process ends. A signal that waits for this thread ends the
        // call, and says nothing of the process.
        let mut waiting = [PollFd::new(held.as_fd(), PollFlags::POLLIN)];
        let ended = loop {
            match poll(&mut waiting, PollTimeout::ZERO) {
                Err(Errno::EINTR) => {}
                ended => break ended? > 0,
            }
        };
        Ok(!ended && sys::is_thread_of(pid, tid))
    }

    fn rest(&mut self) {
        thread::sleep(REST);
    }

    fn affinity(&mut self, tid: Tid) -> Result<CpuSet, Errno> {
        let mut words = [0; sys::MASK_WORDS];
        sys::get_affinity(number(tid.0)?, &mut words)?;
        Ok(CpuSet::from_words(&words))
    }

    fn set_affinity(&mut self, tid: Tid, mask: Mask<'_>) -> Result<(), Errno> {
        let tid = number(tid.0)?;
        match mask {
            Mask::These(cpus) => sys::set_affinity(tid, cpus.words()),
            Mask::Every => sys::set_affinity(tid, &[u64::MAX; sys::MASK_WORDS]),
        }
    }

    fn query_pages(&mut self, pid: Pid, pages: &[u64], statuses: &mut [i32]) -> Result<(), Errno> {
        sys::query_pages(number(pid.0)?, pages, statuses)
    }

    fn of_files(&mut self, pid: Pid, pages: &[u64]) -> Vec<Option<bool>> {
        pagemap::of_files(pid, pages)
    }

    fn query_side_by_side(&mut self, calls: &mut [QueryCall<'_>], most: usize) -> Duration {
        side_by_side(calls, most, |call| {
            call.ended = Some(Self.query_pages(call.pid, call.pages, call.statuses));
        })
    }

    fn move_pages(
        &mut self,
        pid: Pid,
        pages: &[u64],
        (node, reach): (NodeId, Reach),
        statuses: &mut [i32],
    ) -> Result<(), Errno> {
        let node = i32::try_from(node.0).map_err(|_too_large| Errno::ENODEV)?;
        let nodes = vec![node; pages.len()];
        sys::move_pages(
            number(pid.0)?,
            pages,
            &nodes,
            statuses,
            reach == Reach::Program,
        )
    }

    fn move_side_by_side(&mut self, calls: &mut [MoveCall<'_>], movers: usize) -> Duration {
        side_by_side(calls, movers, |call| {
            let (began, before) = (Instant::now(), thread_processor_time());
            call.ended = Some(Self.move_pages(call.pid, call.pages, call.to, call.statuses));
            call.took = began.elapsed();
            call.spent = thread_processor_time().saturating_sub(before);
        })
    }

    fn balancing(&mut self) -> Result<u32, Errno> {
        let text = fs::read_to_string(BALANCING).map_err(|error| errno_of(&error))?;
        text.trim().parse().map_err(|_no_number| Errno::EINVAL)
    }

    fn set_balancing(&mut self, mode: u32) -> Result<(), Errno> {
        fs::write(BALANCING, mode.to_string()).map_err(|error| errno_of(&error))
    }
}

/// Makes these calls with so many threads at most: each takes the next as soon as it is done with
/// one. This thread is one of them, and the only one where no other can be made. Gives the processor
/// time of the others.
pub(crate) fn side_by_side<T: Send>(
    calls: &mut [T],
    most: usize,
    make: impl Fn(&mut T) + Sync,
) -> Duration {
    let threads = most.min(calls.len());
    let calls = Mutex::new(calls.iter_mut());
    let next = || calls.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        while let Some(call) = next() {
            make(call);
        }
        thread_processor_time()
    };
    thread::scope(|scope| {
        let mover = || thread::Builder::new().name("mover".to_owned());
        let others = (1..threads).filter_map(|_| mover().spawn_scoped(scope, work).ok());
        let others: Vec<_> = others.collect();
        work();
        let spent = others.into_iter().map(|other| other.join());
        spent.map(Result::unwrap_or_default).sum()
    })
}

/// Processor time of the thread that asks, so far.
#[must_use]
pub fn thread_processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

const BALANCING: &str = "/proc/sys/kernel/numa_balancing";

fn errno_of(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

/// Longer than a thread in the midst of making another is kept from a processor, on a machine with
/// a dozen ready threads for each: the kernel's slices are 3 to 4 ms.
const REST: Duration = Duration::from_millis(45);

/// A number of a thread or process for a call. 0 would mean "myself", and is nobody's number.
fn number(id: u32) -> Result<i32, Errno> {
    i32::try_from(id)
        .ok()
        .filter(|&id| id > 0)
        .ok_or(Errno::ESRCH)
}
