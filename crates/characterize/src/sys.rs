//! The room for raw system calls: where the calling thread's new memory goes, and that it runs only
//! when nobody else wants to.

use libc::{c_int, c_ulong};
use nix::errno::Errno;
use topology::NodeId;

/// Words of a mask with a bit for every node that Linux can number (1,024).
const MASK_WORDS: usize = 16;
/// Memory comes from the nodes of the mask and no others.
const MPOL_BIND: c_int = 2;

/// Lets all memory that the calling thread touches first come from one node.
pub(crate) fn bind_memory_to(node: NodeId) -> Result<(), Errno> {
    let number = usize::try_from(node.0).unwrap_or(usize::MAX);
    let mut mask: [c_ulong; MASK_WORDS] = [0; MASK_WORDS];
    let bits = c_ulong::BITS as usize;
    let word = mask.get_mut(number / bits).ok_or(Errno::EINVAL)?;
    *word = 1 << (number % bits);
    // SAFETY: the kernel only reads, and at most the bits it is told of, one fewer than it is told:
    // those of the array that the pointer comes from, which lives until the call is over.
    let result = unsafe {
        libc::syscall(
            libc::SYS_set_mempolicy,
            MPOL_BIND,
            mask.as_ptr(),
            MASK_WORDS * bits + 1,
        )
    };
    Errno::result(result).map(drop)
}

/// From now on the calling thread, and those that it starts, run only where a processor is idle.
///
/// # Errors
/// What the kernel says.
pub fn run_when_idle() -> Result<(), Errno> {
    // SAFETY: a structure of numbers, for which zero is a value: this class knows no priorities.
    let none: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel only reads the structure, which lives until the call is over; 0 is the
    // caller.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const none) };
    Errno::result(result).map(drop)
}
