//! Opening the kernel's events, and saying what is missing when it refuses.
//!
//! Events are opened with the pinned crate `perf-event-open`; its ring, its decoder and its
//! iterators are not used. The ring is mapped on the event's descriptor by [`crate::ring`], which
//! allows a failing size to be halved and records to be read where they lie.

use std::fmt;
use std::io;

use perf_event_open::config::{
    Clock, Cpu, ExtraRecord, Opts, Proc, RecordIdFormat, SampleFormat, SampleOn, StatFormat,
    WakeUp, WakeUpOn,
};
use perf_event_open::count::Counter;
use perf_event_open::event::sw::Software;
use topology::CpuId;

use crate::decode::{Field, Layout, Trailer};
use crate::kernel::KernelSettings;
use crate::ring::{Ring, page_bytes};

/// An event on one processor with its ring.
pub(crate) struct Event {
    pub(crate) cpu: CpuId,
    pub(crate) counter: Counter,
    pub(crate) ring: Ring,
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("cpu", &self.cpu)
            .field("ring", &self.ring)
            .finish_non_exhaustive()
    }
}

/// What every event of a source has in common.
#[derive(Clone, Debug)]
pub(crate) struct EventShape {
    /// Pages of each ring, a power of two; fewer if the kernel does not allow as many.
    pub(crate) ring_pages: usize,
    /// Page faults for each sample.
    pub(crate) period: u64,
    /// Whether the kernel counts lost records for each event (Linux 6.0 and later).
    pub(crate) counts_losses: bool,
}

impl EventShape {
    /// The layout of the events' records.
    pub(crate) fn layout(&self) -> Layout {
        let mut fields = vec![Field::Tid, Field::Time, Field::Addr, Field::Cpu];
        fields.extend(self.asks_for_period().then_some(Field::Period));
        let sample_type = fields.iter().fold(0, |bits, field| bits | field.bit());
        Layout::new(sample_type, Trailer::Present).expect("these fields are known")
    }

    /// Whether samples carry their period. For a software event that carries it the kernel ignores
    /// the period asked for and samples every event (`perf_swevent_event`), so it must not be
    /// asked for together with a period above one.
    const fn asks_for_period(&self) -> bool {
        self.period == 1
    }

    fn options(&self) -> Opts {
        Opts {
            enable: true,
            sample_on: SampleOn::Count(self.period),
            sample_format: SampleFormat {
                data_addr: true,
                period: self.asks_for_period(),
                ..SampleFormat::default()
            },
            record_id_format: RecordIdFormat {
                task: true,
                time: true,
                cpu: true,
                ..RecordIdFormat::default()
            },
            record_id_all: true,
            extra_record: ExtraRecord {
                task: true,
                comm: true,
                ..ExtraRecord::default()
            },
            stat_format: StatFormat {
                time_enabled: true,
                lost_records: self.counts_losses,
                ..StatFormat::default()
            },
            // Zero bytes stand for half of the ring, whatever its size becomes.
            wake_up: WakeUp {
                on: WakeUpOn::Bytes(0),
                ..WakeUp::default()
            },
            // The daemon's clock, so that times compare.
            timer: Some(Clock::Monotonic),
            ..Opts::default()
        }
    }

    /// Opens the page-fault event of one processor for all tasks.
    ///
    /// A kernel too old to count losses per event is noted in `self`, and the event opened without.
    pub(crate) fn open(&mut self, cpu: CpuId, kernel: KernelSettings) -> Result<Event, OpenError> {
        let refused = |error: &io::Error| OpenError::new(cpu, Step::Event, error, kernel);
        let target = (Proc::ALL, Cpu(cpu.0));
        let counter = match Counter::new(Software::PageFault, target, self.options()) {
            Err(error) if self.counts_losses && error.raw_os_error() == Some(libc::EINVAL) => {
                self.counts_losses = false;
                Counter::new(Software::PageFault, target, self.options())
                    .map_err(|error| refused(&error))?
            }
            other => other.map_err(|error| refused(&error))?,
        };
        let ring = self
            .map(&counter)
            .map_err(|error| OpenError::new(cpu, Step::Ring, &error, kernel))?;
        Ok(Event { cpu, counter, ring })
    }

    /// Maps the largest ring that is allowed. A size that was refused is not tried again for the next
    /// processor: the limit is the same there.
    fn map(&mut self, counter: &Counter) -> io::Result<Ring> {
        loop {
            match Ring::map(counter.file(), self.ring_pages) {
                Err(error)
                    if self.ring_pages > 1
                        && matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOMEM)) =>
                {
                    self.ring_pages /= 2;
                }
                other => return other,
            }
        }
    }
}

/// Why an event or its ring could not be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenError {
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
    /// The processor is offline, or there is none of that number.
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
enum Step {
    Event,
    Ring,
}

impl OpenError {
    fn new(cpu: CpuId, step: Step, error: &io::Error, kernel: KernelSettings) -> Self {
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
            (libc::EINVAL | libc::E2BIG, _) => Refused::NotUnderstood,
            (libc::ENOSYS, _) => Refused::NoSystemCall,
            (errno, _) => Refused::Other(errno),
        };
        Self { cpu, refused }
    }

    /// What would help, as one imperative sentence without a full stop; none if nobody can help.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        Some(match self.refused {
            Refused::NotPermitted { .. } => "run numad as root, or grant it CAP_PERFMON, or set \
                 kernel.perf_event_paranoid to 0 or less"
                .to_owned(),
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
                "use Linux 5.8 or later".to_owned()
            }
            Refused::CpuOffline | Refused::Other(_) => return None,
        })
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot sample page faults on cpu `{}`: ", self.cpu)?;
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
            Refused::CpuOffline => f.write_str("the processor is offline"),
            Refused::NoSuchEvent => f.write_str("this kernel has no page-fault event"),
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
        let error = OpenError::new(CpuId(3), step, &io::Error::from_raw_os_error(errno), kernel);
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
        check(
            libc::ENOENT,
            Step::Event,
            "no page-fault event",
            Some("Linux"),
        );
        check(libc::ENOSPC, Step::Event, "no room", Some("perf"));
        check(libc::EINVAL, Step::Event, "not understand", Some("Linux"));
        check(libc::ENOSYS, Step::Event, "no system call", Some("seccomp"));
        check(libc::EIO, Step::Event, "Input/output", None);
    }
}
