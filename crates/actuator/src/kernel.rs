//! System calls as a trait, so that tests have a kernel that dies when told to.

use std::fmt;

use numad_core::Reach;
use topology::{CpuSet, NodeId, Pid, Tid};

pub use nix::errno::Errno;

use crate::sys;

/// Gives memory of large blocks back to the system when they are freed, for the whole process.
///
/// glibc does so at first, but takes a freed block for a sign that more of that size will come, and
/// from then on keeps blocks of up to 32 MiB. A fixed bound stops that; other allocators stay as they are.
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

    /// Moves pages to a node: with [`Reach::Alone`] those that no other process maps. Statuses of pages that were not
    /// tried, or not successfully, may be left as they are.
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
}

/// A number of a thread or process for a call. 0 would mean "myself", and is nobody's number.
fn number(id: u32) -> Result<i32, Errno> {
    i32::try_from(id)
        .ok()
        .filter(|&id| id > 0)
        .ok_or(Errno::ESRCH)
}
