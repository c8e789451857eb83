//! The system calls of events that `perf-event-open` does not make: opening an event from its whole
//! `perf_event_attr`, and speaking to one that is open.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use topology::CpuId;

use crate::attr::{EventAttr, READ_ENABLED, READ_ID, READ_LOST, READ_RUNNING};

/// `PERF_FLAG_FD_CLOEXEC`.
const FLAG_CLOSE_ON_EXEC: libc::c_ulong = 8;

// `_IO('$', n)` and, for the period, `_IOW('$', 4, __u64)`, from `include/uapi/linux/perf_event.h`.
const IOCTL_ENABLE: libc::Ioctl = 0x2400;
const IOCTL_DISABLE: libc::Ioctl = 0x2401;
const IOCTL_PERIOD: libc::Ioctl = 0x4008_2404;
const IOCTL_SET_OUTPUT: libc::Ioctl = 0x2405;

/// Opens an event on one processor for all tasks, in the group of `leader` if there is one.
pub(super) fn open(
    attr: &EventAttr,
    cpu: CpuId,
    leader: Option<BorrowedFd<'_>>,
) -> io::Result<OwnedFd> {
    let words = attr.to_words();
    let cpu = libc::c_int::try_from(cpu.0)
        .map_err(|_too_large| io::Error::from_raw_os_error(libc::ENODEV))?;
    let leader = leader.map_or(-1, |leader| leader.as_raw_fd());
    let every_task: libc::pid_t = -1;
    // SAFETY: the kernel reads as many bytes of `words` as the size field in its first word says, which
    // is the array's length (held by a test of `attr`), and writes back at most that size field. It
    // keeps no pointer. The other arguments are numbers.
    let descriptor = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            words.as_ptr(),
            every_task,
            cpu,
            leader,
            FLAG_CLOSE_ON_EXEC,
        )
    };
    let descriptor = RawFd::try_from(descriptor).unwrap_or(-1);
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us, and nobody else knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

pub(super) fn enable(event: BorrowedFd<'_>) -> io::Result<()> {
    number_ioctl(event, IOCTL_ENABLE, 0)
}

pub(super) fn disable(event: BorrowedFd<'_>) -> io::Result<()> {
    number_ioctl(event, IOCTL_DISABLE, 0)
}

/// Has an event write into the ring of another.
pub(super) fn set_output(event: BorrowedFd<'_>, owner: BorrowedFd<'_>) -> io::Result<()> {
    number_ioctl(event, IOCTL_SET_OUTPUT, owner.as_raw_fd())
}

fn number_ioctl(event: BorrowedFd<'_>, request: libc::Ioctl, argument: RawFd) -> io::Result<()> {
    // SAFETY: these three requests take a number, touch no memory of ours, and the borrow keeps the
    // descriptor open.
    let result = unsafe { libc::ioctl(event.as_raw_fd(), request, argument) };
    done(result)
}

/// Changes how many events make a sample, from the next sample on.
pub(super) fn set_period(event: BorrowedFd<'_>, period: u64) -> io::Result<()> {
    // SAFETY: the kernel reads one 64-bit number from the address of `period`, which lives until the
    // call returns; the borrow keeps the descriptor open.
    let result = unsafe { libc::ioctl(event.as_raw_fd(), IOCTL_PERIOD, &raw const period) };
    done(result)
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// What reading an event gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) enabled_ns: u64,
    pub(crate) running_ns: u64,
    pub(crate) id: u64,
    /// None if the kernel does not count them.
    pub(crate) lost: Option<u64>,
}

/// Reads an event that was opened with this `read_format`.
pub(super) fn counts(event: BorrowedFd<'_>, read_format: u64) -> io::Result<Counts> {
    let mut bytes = [0; 40];
    let length = nix::unistd::read(event.as_fd(), &mut bytes)?;
    parse_counts(&bytes[..length], read_format)
        .ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))
}

/// The order is the kernel's (`perf_read_one`): the value, then those asked for.
fn parse_counts(mut bytes: &[u8], read_format: u64) -> Option<Counts> {
    let mut next = |wanted: u64| {
        if read_format & wanted != wanted {
            return Some(0);
        }
        let (word, rest) = bytes.split_first_chunk()?;
        bytes = rest;
        Some(u64::from_ne_bytes(*word))
    };
    next(0)?;
    Some(Counts {
        enabled_ns: next(READ_ENABLED)?,
        running_ns: next(READ_RUNNING)?,
        id: next(READ_ID)?,
        lost: Some(next(READ_LOST)?).filter(|_| read_format & READ_LOST != 0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_in_the_kernels_order() {
        let bytes: Vec<u8> = [9u64, 1, 2, 3, 4]
            .iter()
            .flat_map(|w| w.to_ne_bytes())
            .collect();
        let all = READ_ENABLED | READ_RUNNING | READ_ID | READ_LOST;
        let counts = |enabled_ns, running_ns, id, lost| {
            Some(Counts {
                enabled_ns,
                running_ns,
                id,
                lost,
            })
        };
        assert_eq!(parse_counts(&bytes, all), counts(1, 2, 3, Some(4)));
        assert_eq!(
            parse_counts(&bytes[..32], all & !READ_LOST),
            counts(1, 2, 3, None)
        );
        assert_eq!(
            parse_counts(&bytes[..24], READ_ENABLED | READ_LOST),
            counts(1, 0, 0, Some(2))
        );
        assert_eq!(parse_counts(&bytes[..39], all), None);
    }
}
