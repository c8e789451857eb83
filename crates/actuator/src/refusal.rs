//! The kernel's error numbers as reasons.

use nix::errno::Errno;
use numad_core::Refusal;

/// What a call of `move_pages` ends in that was given up. The kernel itself never says that of it.
pub(crate) const UNANSWERED: Errno = Errno::ETIMEDOUT;

/// Why `sched_setaffinity` or `sched_getaffinity` failed.
pub(crate) const fn of_affinity(errno: Errno) -> Refusal {
    match errno {
        Errno::ESRCH => Refusal::Gone,
        Errno::EPERM | Errno::EACCES => Refusal::NotPermitted,
        // No processor of the mask is in the cpuset, or the kernel forbids it for this thread.
        Errno::EINVAL => Refusal::NotAllowed,
        // A deadline thread's bandwidth does not fit.
        Errno::EBUSY => Refusal::Busy,
        Errno::ENOMEM => Refusal::NoMemory,
        Errno::ENOSYS => Refusal::Unsupported,
        other => Refusal::Other(other as i32),
    }
}

/// Why a whole call of `move_pages` failed.
pub(crate) const fn of_move(errno: Errno) -> Refusal {
    match errno {
        Errno::ESRCH => Refusal::Gone,
        Errno::EPERM => Refusal::NotPermitted,
        // The target's cpuset does not have the node.
        Errno::EACCES => Refusal::NotAllowed,
        Errno::ENODEV => Refusal::NoSuchNode,
        Errno::ENOMEM => Refusal::NoMemory,
        Errno::ENOSYS => Refusal::Unsupported,
        UNANSWERED => Refusal::Unanswered,
        // E2BIG, EFAULT, EINVAL: mistakes of ours, kept apart by their numbers.
        other => Refusal::Other(other as i32),
    }
}

/// Why a switch of the machine was not read or changed.
pub(crate) const fn of_switch(errno: Errno) -> Refusal {
    match errno {
        Errno::ENOENT => Refusal::Unsupported,
        Errno::EPERM | Errno::EACCES | Errno::EROFS => Refusal::NotPermitted,
        other => Refusal::Other(other as i32),
    }
}

/// Why one page did not move; `status` is a negative error number.
pub(crate) fn of_page(status: i32) -> Refusal {
    match Errno::from_raw(status.saturating_neg()) {
        // Not present; or not mapped, or the zero page.
        Errno::ENOENT | Errno::EFAULT => Refusal::Gone,
        Errno::EBUSY | Errno::EAGAIN => Refusal::Busy,
        // Mapped by several processes, and MPOL_MF_MOVE_ALL was not asked for.
        Errno::EACCES => Refusal::Shared,
        Errno::ENOMEM => Refusal::NoMemory,
        Errno::ENODEV => Refusal::NoSuchNode,
        Errno::EPERM => Refusal::NotPermitted,
        Errno::UnknownErrno => Refusal::Other(status.saturating_neg()),
        // EIO: could not be written back. EINVAL: its file system cannot move it.
        other => Refusal::Other(other as i32),
    }
}

/// What to do about it; empty where there is nothing.
pub(crate) const fn remedy(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::NotPermitted => "; run as root or grant CAP_SYS_NICE and CAP_SYS_PTRACE",
        Refusal::NoMemory => "; free memory on that node and undo again",
        Refusal::Busy => "; undo again later",
        Refusal::Unanswered => "; end that program, or undo again when it is done",
        Refusal::Journal => "; make room on its disk and undo again",
        Refusal::Hidden(libc::EMFILE | libc::ENFILE) => {
            "; raise the limit of open files and undo again"
        }
        Refusal::Hidden(_) => "; undo again as root",
        Refusal::Shared => "; undo again when the process that shares it has ended",
        Refusal::NotAllowed | Refusal::NoSuchNode => {
            "; allow the node in the target's cpuset and undo again"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_errors_are_told_apart() {
        for (errno, refusal) in [
            (libc::ENOENT, Refusal::Gone),
            (libc::EFAULT, Refusal::Gone),
            (libc::EBUSY, Refusal::Busy),
            (libc::EAGAIN, Refusal::Busy),
            (libc::EACCES, Refusal::Shared),
            (libc::ENOMEM, Refusal::NoMemory),
            (libc::EIO, Refusal::Other(libc::EIO)),
            (libc::EINVAL, Refusal::Other(libc::EINVAL)),
            (4000, Refusal::Other(4000)),
            (i32::MAX, Refusal::Other(i32::MAX)),
        ] {
            assert_eq!(of_page(-errno), refusal);
        }
        assert_eq!(of_page(i32::MIN), Refusal::Other(i32::MAX));
    }

    #[test]
    fn call_errors_are_told_apart() {
        for (errno, affinity, pages) in [
            (Errno::ESRCH, Refusal::Gone, Refusal::Gone),
            (Errno::EPERM, Refusal::NotPermitted, Refusal::NotPermitted),
            (
                Errno::EINVAL,
                Refusal::NotAllowed,
                Refusal::Other(libc::EINVAL),
            ),
            (Errno::EACCES, Refusal::NotPermitted, Refusal::NotAllowed),
            (
                Errno::ENODEV,
                Refusal::Other(libc::ENODEV),
                Refusal::NoSuchNode,
            ),
            (Errno::ENOMEM, Refusal::NoMemory, Refusal::NoMemory),
            (
                Errno::E2BIG,
                Refusal::Other(libc::E2BIG),
                Refusal::Other(libc::E2BIG),
            ),
            (
                Errno::EFAULT,
                Refusal::Other(libc::EFAULT),
                Refusal::Other(libc::EFAULT),
            ),
            (Errno::ENOSYS, Refusal::Unsupported, Refusal::Unsupported),
            (
                UNANSWERED,
                Refusal::Other(libc::ETIMEDOUT),
                Refusal::Unanswered,
            ),
        ] {
            assert_eq!((of_affinity(errno), of_move(errno)), (affinity, pages));
        }
    }
}
