//! `/proc/PID/stat` and `/proc/PID/task/TID/stat`.

use std::time::Duration;

use topology::{CpuId, Pid, StartTicks};

use crate::error::ParseError;

/// What the kernel tells of a process or thread in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its number: a process in `/proc/PID/stat`, a thread in `/proc/PID/task/TID/stat`.
    pub id: u32,
    /// Its name, lossily decoded; may hold any character, spaces and brackets included.
    pub name: String,
    /// What it does.
    pub run: TaskRun,
    /// The process that made its process; 0 for those that have none.
    pub parent: Pid,
    /// Whether it is a thread of the kernel.
    pub kernel_thread: bool,
    /// Whether it is a thread that is not its process's first, as the kernel says by giving it no signal for a parent.
    pub mere_thread: bool,
    /// Processor time used so far, user and system together, in steps of 1 / [`TICKS_PER_SECOND`].
    pub cpu_time: Duration,
    /// When it began.
    pub start: StartTicks,
    /// Memory that is mapped, resident or not; 0 for a thread that has ended.
    pub mapped_bytes: u64,
    /// Resident memory in pages.
    pub resident_pages: u64,
    /// The processor it ran on last.
    pub cpu: CpuId,
}

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskRun {
    /// On a processor or ready for one.
    Running,
    /// Waits, interruptibly or as an idle kernel thread.
    Sleeping,
    /// Waits for a device.
    Waiting,
    /// Stopped by a signal or a debugger.
    Stopped,
    /// Ended, but not yet collected by its parent. It counts as gone.
    Ended,
}

/// Reads the line.
///
/// # Errors
/// Names the field that is missing or no number.
pub fn parse(bytes: &[u8]) -> Result<Stat, ParseError> {
    let damaged = |reason| ParseError::new(1, bytes, reason);
    // A name may itself hold brackets, so that only the last one ends it.
    let open = bytes.iter().position(|&byte| byte == b'(');
    let close = bytes.iter().rposition(|&byte| byte == b')');
    let (Some(open), Some(close)) = (open, close) else {
        return Err(damaged("has no name in brackets"));
    };
    if open > close {
        return Err(damaged("has its brackets the wrong way round"));
    }
    let mut fields: Fields<'_> = [b""; PROCESSOR + 1 - FIRST_AFTER_NAME];
    let present = bytes[close + 1..]
        .trim_ascii()
        .split(|&byte| byte == b' ')
        .filter(|field| !field.is_empty());
    for (slot, field) in fields.iter_mut().zip(present) {
        *slot = field;
    }
    let id = number(bytes[..open].trim_ascii())?;
    let run = task_run(fields[0])?;
    let ticks = field(&fields, UTIME)?.saturating_add(field(&fields, STIME)?);
    Ok(Stat {
        id: narrow(id)?,
        name: String::from_utf8_lossy(&bytes[open + 1..close]).into_owned(),
        run,
        parent: Pid(narrow(field(&fields, PARENT)?)?),
        kernel_thread: field(&fields, FLAGS)? & PF_KTHREAD != 0,
        mere_thread: fields[EXIT_SIGNAL - FIRST_AFTER_NAME] == b"-1",
        cpu_time: ticks_to_time(ticks),
        start: StartTicks(field(&fields, START)?),
        mapped_bytes: field(&fields, MAPPED)?,
        // A kernel thread's count may be printed as -1 in damaged accounting; nothing depends on it.
        resident_pages: field(&fields, RESIDENT).unwrap_or(0),
        cpu: CpuId(narrow(field(&fields, PROCESSOR)?)?),
    })
}

/// How long ago something began, on the clock of starts.
#[must_use]
pub fn age(began: StartTicks, now: StartTicks) -> Duration {
    ticks_to_time(now.0.saturating_sub(began.0))
}

/// Ticks as a duration.
fn ticks_to_time(ticks: u64) -> Duration {
    Duration::from_millis(ticks.saturating_mul(1000 / TICKS_PER_SECOND))
}

fn task_run(field: &[u8]) -> Result<TaskRun, ParseError> {
    Ok(match field {
        b"R" => TaskRun::Running,
        b"S" | b"I" | b"P" => TaskRun::Sleeping,
        b"D" | b"K" | b"W" => TaskRun::Waiting,
        b"T" | b"t" => TaskRun::Stopped,
        b"Z" | b"X" | b"x" => TaskRun::Ended,
        other => return Err(ParseError::new(1, other, "is not a state of a task")),
    })
}

/// The fields from the state to the last that is needed, empty where the line ends before. Lines are read for every
/// thread at every window, so there is no list of them on the heap.
type Fields<'a> = [&'a [u8]; PROCESSOR + 1 - FIRST_AFTER_NAME];

fn field(fields: &Fields<'_>, manual: usize) -> Result<u64, ParseError> {
    match fields[manual - FIRST_AFTER_NAME] {
        b"" => Err(ParseError::new(1, b"", "ends before the last field needed")),
        field => number(field),
    }
}

pub(crate) fn number(field: &[u8]) -> Result<u64, ParseError> {
    let number = field.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| byte - b'0')?;
        number.checked_mul(10)?.checked_add(digit.into())
    });
    let number = number.filter(|_| !field.is_empty());
    number.ok_or_else(|| ParseError::new(1, field, "is not a number"))
}

fn narrow(number: u64) -> Result<u32, ParseError> {
    u32::try_from(number)
        .map_err(|_too_large| ParseError::new(1, number.to_string().as_bytes(), "is too large"))
}

/// `USER_HZ`: the unit of times in `stat`. 100 on every architecture that has memory nodes (x86, arm64,
/// powerpc, s390, riscv, loongarch); the kernel converts from its own tick rate.
pub const TICKS_PER_SECOND: u64 = 100;

/// Flag of a kernel thread in field 9 (`include/linux/sched.h`).
const PF_KTHREAD: u64 = 0x0020_0000;

// Numbers of fields as in proc_pid_stat(5), where the state is the third.
const FIRST_AFTER_NAME: usize = 3;
const PARENT: usize = 4;
const FLAGS: usize = 9;
const UTIME: usize = 14;
const STIME: usize = 15;
const START: usize = 22;
const MAPPED: usize = 23;
const RESIDENT: usize = 24;
const EXIT_SIGNAL: usize = 38;
const PROCESSOR: usize = 39;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REAL: &[u8] = include_bytes!("../fixtures/dash.stat");

    #[test]
    fn a_real_line_reads() {
        let stat = parse(REAL).unwrap();
        assert_eq!((stat.id, stat.name.as_str()), (22931, "sh"));
        assert_eq!(stat.run, TaskRun::Sleeping);
        assert_eq!(stat.parent, Pid(22927));
        assert!(!stat.kernel_thread);
        assert_eq!(stat.cpu_time, Duration::from_millis(0));
        assert_eq!(stat.start, StartTicks(242_978));
        assert_eq!((stat.mapped_bytes, stat.resident_pages), (2_654_208, 399));
        assert_eq!(stat.cpu, CpuId(1));
    }

    #[track_caller]
    fn name(written: &[u8], read: &str) {
        let mut line = b"7 (".to_vec();
        line.extend_from_slice(written);
        line.extend_from_slice(&REAL[REAL.iter().position(|&b| b == b')').unwrap()..]);
        assert_eq!(parse(&line).unwrap().name, read);
    }

    #[test]
    fn names_may_hold_anything() {
        name(b"Web Content", "Web Content");
        name(b"a) S 1 (b", "a) S 1 (b");
        name(b"", "");
        name(b"caf\xe9", "caf\u{fffd}");
        name(b"new\nline", "new\nline");
    }

    #[test]
    fn kernel_threads_are_told_by_their_flag() {
        let stat = parse(include_bytes!("../fixtures/kthreadd.stat")).unwrap();
        assert!(stat.kernel_thread && stat.parent == Pid(0));
    }

    #[test]
    fn a_cut_line_is_an_error_until_the_last_field_needed_is_there() {
        let mut blanks = REAL.iter().enumerate().filter(|&(_, &byte)| byte == b' ');
        let (end, _) = blanks.nth(PROCESSOR - 1).unwrap();
        let begin = REAL[..end].iter().rposition(|&byte| byte == b' ').unwrap();
        for length in 0..=begin {
            parse(&REAL[..length]).unwrap_err();
        }
        parse(&REAL[..end]).unwrap();
    }

    #[test]
    fn damage_is_named() {
        for (text, part) in [
            ("x (a) S 1", "x"),
            ("1 )a( S", "1 )a( S"),
            ("1 (a) Q 1", "Q"),
            ("1 (a) S -1 0", ""),
            ("99999999999 (a) S 1", ""),
        ] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(error.part.contains(part), "{text}: {error}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn never_panics(bytes: Vec<u8>) {
            drop(parse(&bytes));
        }

        #[test]
        fn never_panics_when_bits_flip(at in 0..REAL.len(), bit in 0..8u8) {
            let mut bytes = REAL.to_vec();
            bytes[at] ^= 1 << bit;
            drop(parse(&bytes));
        }
    }
}
