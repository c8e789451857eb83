//! Why events cannot be opened, and what would help.

use std::fmt;
use std::io;

use topology::CpuId;

use crate::kernel::{KernelSettings, permission_remedy};
use crate::ring::page_bytes;

/// Why an event or its ring could not be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenError {
    /// What was to be seen, in a few words in the plural.
    pub what: &'static str,
    /// On which processor.
    pub cpu: CpuId,
    /// Why.
    pub refused: Refused,
}

/// What the kernel lacks or denies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// We may not listen to whole processors.
    NotPermitted {
        /// `kernel.perf_event_paranoid`, if it could be read.
        paranoid: Option<i32>,
    },
    /// We may not lock even one page of ring memory.
    RingNotPermitted {
        /// `kernel.perf_event_mlock_kb`, if it could be read.
        mlock_kb: Option<u64>,
    },
    /// This process has as many open files as it may have.
    TooManyFiles,
    /// The machine has as many open files as it may have.
    TooManyFilesOnMachine,
    /// No memory for the event or its ring.
    NoMemory,
    /// The processor is offline, or there is none of that number; of an event of the hardware, its
    /// driver may be gone.
    CpuOffline,
    /// The kernel has no such event.
    NoSuchEvent,
    /// The hardware or a limit of the kernel has no room for another event.
    Exhausted,
    /// The kernel does not understand what was asked for.
    NotUnderstood,
    /// The system call does not exist: the kernel was built without it, or a filter hides it.
    NoSystemCall,
    /// Anything else, by error number.
    Other(i32),
}

/// What was being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Event,
    Ring,
}

impl OpenError {
    pub(crate) fn new(
        what: &'static str,
        cpu: CpuId,
        step: Step,
        error: &io::Error,
        kernel: KernelSettings,
    ) -> Self {
        let refused = match (error.raw_os_error().unwrap_or(0), step) {
            (libc::EACCES | libc::EPERM, Step::Event) => Refused::NotPermitted {
                paranoid: kernel.perf_event_paranoid,
            },
            (libc::EACCES | libc::EPERM, Step::Ring) => Refused::RingNotPermitted {
                mlock_kb: kernel.perf_event_mlock_kb,
            },
            (libc::EMFILE, _) => Refused::TooManyFiles,
            (libc::ENFILE, _) => Refused::TooManyFilesOnMachine,
            (libc::ENOMEM, _) => Refused::NoMemory,
            (libc::ENODEV | libc::ENXIO, _) => Refused::CpuOffline,
            (libc::ENOENT | libc::EOPNOTSUPP, _) => Refused::NoSuchEvent,
            (libc::ENOSPC | libc::EBUSY, _) => Refused::Exhausted,
            // The kernel also answers EINVAL for a processor beyond the largest possible one.
            (libc::EINVAL | libc::E2BIG | libc::ENODATA, _) => Refused::NotUnderstood,
            (libc::ENOSYS, _) => Refused::NoSystemCall,
            (errno, _) => Refused::Other(errno),
        };
        Self { what, cpu, refused }
    }

    /// What would help, as one imperative sentence without a full stop; none if nobody can help.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        Some(match self.refused {
            Refused::NotPermitted { paranoid } => permission_remedy(paranoid).to_owned(),
            Refused::RingNotPermitted { .. } => format!(
                "grant CAP_IPC_LOCK, or set kernel.perf_event_mlock_kb to at least {}, or raise the \
                 limit of locked memory (LimitMEMLOCK=)",
                page_bytes() * 2 / 1024
            ),
            Refused::TooManyFiles => {
                "raise the limit of open files (LimitNOFILE=) to the number of processors and 100 more"
                    .to_owned()
            }
            Refused::TooManyFilesOnMachine => "raise fs.file-max".to_owned(),
            Refused::NoMemory => "set sampling.ring_pages lower".to_owned(),
            Refused::Exhausted => "end other programs that use perf events".to_owned(),
            Refused::NoSystemCall => {
                "allow perf_event_open in the seccomp filter, or use a kernel with CONFIG_PERF_EVENTS"
                    .to_owned()
            }
            Refused::NoSuchEvent | Refused::NotUnderstood => {
                "use Linux 5.8 or later, or set sampling.source to faults".to_owned()
            }
            Refused::CpuOffline | Refused::Other(_) => return None,
        })
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot sample {} on cpu `{}`: ", self.what, self.cpu)?;
        match self.refused {
            Refused::NotPermitted {
                paranoid: Some(level),
            } => write!(f, "not permitted (kernel.perf_event_paranoid is {level})"),
            Refused::NotPermitted { paranoid: None } => f.write_str("not permitted"),
            Refused::RingNotPermitted {
                mlock_kb: Some(limit),
            } => write!(
                f,
                "no ring memory may be locked (kernel.perf_event_mlock_kb is {limit})"
            ),
            Refused::RingNotPermitted { mlock_kb: None } => {
                f.write_str("no ring memory may be locked")
            }
            Refused::TooManyFiles => f.write_str("too many open files"),
            Refused::TooManyFilesOnMachine => f.write_str("too many open files on this machine"),
            Refused::NoMemory => f.write_str("no memory"),
            Refused::CpuOffline => {
                f.write_str("the processor is offline, or the driver of the event is gone")
            }
            Refused::NoSuchEvent => f.write_str("this machine has no such event"),
            Refused::Exhausted => f.write_str("no room for another event"),
            Refused::NotUnderstood => f.write_str("the kernel does not understand the event"),
            Refused::NoSystemCall => f.write_str("there is no system call perf_event_open"),
            Refused::Other(errno) => {
                write!(f, "{}", io::Error::from_raw_os_error(errno))
            }
        }
    }
}

impl std::error::Error for OpenError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(errno: i32, step: Step, text: &str, remedy: Option<&str>) {
        let kernel = KernelSettings {
            perf_event_paranoid: Some(2),
            perf_event_mlock_kb: Some(516),
            numa_balancing: None,
        };
        let cause = io::Error::from_raw_os_error(errno);
        let error = OpenError::new("page faults", CpuId(3), step, &cause, kernel);
        let shown = error.to_string();
        assert!(shown.starts_with("cannot sample page faults on cpu `3`: "));
        assert!(shown.contains(text), "{shown}");
        assert!(!shown.contains('\n') && !shown.ends_with('.'));
        match remedy {
            Some(part) => assert!(error.remedy().unwrap().contains(part)),
            None => assert_eq!(error.remedy(), None),
        }
    }

    #[test]
    fn every_refusal_says_what_would_help() {
        check(
            libc::EACCES,
            Step::Event,
            "perf_event_paranoid is 2",
            Some("CAP_PERFMON"),
        );
        check(
            libc::EPERM,
            Step::Event,
            "not permitted",
            Some("CAP_PERFMON"),
        );
        check(
            libc::EPERM,
            Step::Ring,
            "perf_event_mlock_kb is 516",
            Some("CAP_IPC_LOCK"),
        );
        check(
            libc::EMFILE,
            Step::Event,
            "too many open files",
            Some("LimitNOFILE"),
        );
        check(
            libc::ENFILE,
            Step::Event,
            "on this machine",
            Some("fs.file-max"),
        );
        check(libc::ENOMEM, Step::Ring, "no memory", Some("ring_pages"));
        check(libc::ENODEV, Step::Event, "offline", None);
        check(libc::ENOENT, Step::Event, "no such event", Some("Linux"));
        check(libc::ENOSPC, Step::Event, "no room", Some("perf"));
        check(libc::EINVAL, Step::Event, "not understand", Some("Linux"));
        check(libc::ENOSYS, Step::Event, "no system call", Some("seccomp"));
        check(libc::EIO, Step::Event, "Input/output", None);
    }
}
