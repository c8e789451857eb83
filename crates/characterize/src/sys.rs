//! The room for raw system calls: where the calling thread runs and its new memory goes, and that
//! it runs only when nobody else wants to.

use libc::{c_int, c_ulong};
use nix::errno::Errno;
use topology::{CpuId, NodeId};

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

/// Lets the calling thread run on one processor alone. The sets of glibc and nix end at 1,024.
pub(crate) fn run_on(cpu: CpuId) -> Result<(), Errno> {
    let mask = mask_of(cpu);
    // SAFETY: the kernel only reads, at most the given number of bytes, and that is the size of the
    // vector the pointer comes from, which lives until the call is over; 0 is the caller.
    let result =
        unsafe { libc::sched_setaffinity(0, size_of_val(&mask[..]), mask.as_ptr().cast()) };
    Errno::result(result).map(drop)
}

/// As many words as it takes; the kernel takes those beyond for clear.
fn mask_of(cpu: CpuId) -> Vec<c_ulong> {
    let bits = c_ulong::BITS as usize;
    let mut mask = vec![0; cpu.index() / bits];
    mask.push(1 << (cpu.index() % bits));
    mask
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_has_every_processor_that_there_can_be() {
        for number in [0, 63, 64, 1_023, 1_024, 65_535] {
            let mask = mask_of(CpuId(number));
            let (last, others) = mask.split_last().unwrap();
            assert!(others.iter().all(|word| *word == 0) && last.is_power_of_two());
            let before = u32::try_from(others.len()).unwrap() * c_ulong::BITS;
            assert_eq!(before + last.trailing_zeros(), number);
        }
    }
}
