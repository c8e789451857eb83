//! Opening counters, and saying what is in the way when the kernel refuses.

use std::fmt;
use std::io::{self, Read};

use perf_event_open::config::{Cpu, Inherit, Opts, Priv, Proc, StatFormat};
use perf_event_open::event::dp::DynamicPmu;
use topology::{CpuId, Tid};

use super::reading::{READING_BYTES, Reading};
use crate::kernel::{KernelSettings, permission_remedy};

/// An event as `perf_event_attr` names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCode {
    /// `type`: a fixed one, or what `/sys/bus/event_source/devices/NAME/type` says.
    pub pmu: u32,
    /// `config`.
    pub config: u64,
    /// `config1`.
    pub config1: u64,
    /// `config2`.
    pub config2: u64,
}

/// `PERF_TYPE_HARDWARE` and `PERF_TYPE_SOFTWARE` of the kernel's interface.
const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;

/// Where the number of a core's PMU goes in a general hardware event (`PERF_PMU_TYPE_SHIFT`), for
/// machines with two kinds of cores.
const PMU_SHIFT: u32 = 32;

impl EventCode {
    /// Processor time in nanoseconds.
    pub const TASK_CLOCK: Self = Self::software(1);
    /// Page faults.
    pub const PAGE_FAULTS: Self = Self::software(2);
    /// Times a thread gave up its processor or had to.
    pub const CONTEXT_SWITCHES: Self = Self::software(3);

    const fn software(config: u64) -> Self {
        Self {
            pmu: SOFTWARE,
            config,
            config1: 0,
            config2: 0,
        }
    }

    /// Cycles that the processor spent on a task; `core` names the PMU of one kind of core on a machine
    /// that has two, and is 0 elsewhere.
    #[must_use]
    pub const fn cycles(core: u32) -> Self {
        Self::hardware(0, core)
    }

    /// Instructions finished; `core` as for [`Self::cycles`].
    #[must_use]
    pub const fn instructions(core: u32) -> Self {
        Self::hardware(1, core)
    }

    const fn hardware(event: u64, core: u32) -> Self {
        Self {
            pmu: HARDWARE,
            config: event | (core as u64) << PMU_SHIFT,
            config1: 0,
            config2: 0,
        }
    }
}

/// Whose events are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    /// A thread and everything it makes from now on.
    Task(Tid),
    /// Everyone, as seen from this processor.
    Machine(CpuId),
}

/// What to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterSpec {
    /// The event.
    pub event: EventCode,
    /// Whose.
    pub whom: Whom,
    /// Leave out what the kernel and a hypervisor do on behalf of a task.
    pub user_only: bool,
}

/// A counter that is open and counting; dropping it ends that.
pub trait Counter: Send + fmt::Debug {
    /// What it says now.
    ///
    /// # Errors
    /// When the kernel cannot tell: the counter failed, or its driver is gone.
    fn read(&mut self) -> io::Result<Reading>;
}

/// Opens counters. The kernel does; tests have their own.
pub trait CounterOpener: Send + fmt::Debug {
    /// Opens one, counting from now on.
    ///
    /// # Errors
    /// What is in the way. Nothing stays open then.
    fn open(&mut self, spec: &CounterSpec) -> Result<Box<dyn Counter>, CounterRefused>;
}

/// The kernel.
#[derive(Clone, Copy, Debug)]
pub struct KernelCounters {
    kernel: KernelSettings,
}

impl KernelCounters {
    /// Opens counters of this machine; the settings only explain refusals.
    #[must_use]
    pub const fn new(kernel: KernelSettings) -> Self {
        Self { kernel }
    }
}

impl CounterOpener for KernelCounters {
    fn open(&mut self, spec: &CounterSpec) -> Result<Box<dyn Counter>, CounterRefused> {
        let EventCode {
            pmu,
            config,
            config1,
            config2,
        } = spec.event;
        let event = DynamicPmu {
            ty: pmu,
            config,
            config1,
            config2,
            config3: 0,
        };
        let options = options(spec);
        let opened = match spec.whom {
            Whom::Task(tid) => KernelCounter::new(event, (Proc(tid.0), Cpu::ALL), &options),
            Whom::Machine(cpu) => KernelCounter::new(event, (Proc::ALL, Cpu(cpu.0)), &options),
        };
        match opened {
            Ok(counter) => Ok(Box::new(counter)),
            Err(error) => Err(CounterRefused::of(&error, self.kernel)),
        }
    }
}

fn options(spec: &CounterSpec) -> Opts {
    Opts {
        enable: true,
        exclude: Priv {
            kernel: spec.user_only,
            hv: spec.user_only,
            ..Priv::default()
        },
        inherit: match spec.whom {
            Whom::Task(_) => Some(Inherit::NewChild),
            Whom::Machine(_) => None,
        },
        stat_format: StatFormat {
            time_enabled: true,
            time_running: true,
            ..StatFormat::default()
        },
        ..Opts::default()
    }
}

/// Read by hand: the crate's own reading copies through a buffer of its own, and trusts its length.
struct KernelCounter(perf_event_open::count::Counter);

impl KernelCounter {
    fn new(
        event: DynamicPmu,
        target: impl Into<perf_event_open::config::Target>,
        options: &Opts,
    ) -> io::Result<Self> {
        perf_event_open::count::Counter::new(event, target, options).map(Self)
    }
}

impl fmt::Debug for KernelCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KernelCounter").field(self.0.file()).finish()
    }
}

impl Counter for KernelCounter {
    fn read(&mut self) -> io::Result<Reading> {
        let mut bytes = [0; READING_BYTES];
        let length = self.0.file().read(&mut bytes)?;
        let read = bytes.get(..length).and_then(Reading::parse);
        read.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

/// Why a counter cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterRefused {
    /// There is no hardware for it here.
    NoHardware,
    /// We may not.
    NotPermitted {
        /// `kernel.perf_event_paranoid`, if it could be read.
        paranoid: Option<i32>,
    },
    /// This process has as many open files as it may have.
    TooManyFiles,
    /// The machine has as many open files as it may have.
    TooManyFilesOnMachine,
    /// Someone else holds the hardware.
    Busy,
    /// The hardware has fewer counters than are wanted.
    Exhausted,
    /// No memory.
    NoMemory,
    /// The thread has ended.
    Gone,
    /// The kernel does not understand the event.
    NotUnderstood,
    /// There is no system call for it.
    NoSystemCall,
    /// More descriptors than we allow ourselves.
    OverLimit {
        /// How many were wanted.
        wanted: usize,
        /// How many were left.
        left: usize,
    },
    /// The counter was open and failed.
    Failed,
    /// The file that another program should keep up to date cannot be used.
    NoFeed {
        /// Why.
        why: &'static str,
    },
    /// Anything else, by error number.
    Other(i32),
}

impl CounterRefused {
    fn of(error: &io::Error, kernel: KernelSettings) -> Self {
        match error.raw_os_error().unwrap_or(0) {
            libc::EACCES | libc::EPERM => Self::NotPermitted {
                paranoid: kernel.perf_event_paranoid,
            },
            libc::EMFILE => Self::TooManyFiles,
            libc::ENFILE => Self::TooManyFilesOnMachine,
            libc::EBUSY => Self::Busy,
            libc::ENOSPC => Self::Exhausted,
            libc::ENOMEM => Self::NoMemory,
            libc::ESRCH => Self::Gone,
            libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV | libc::ENXIO => Self::NoHardware,
            libc::EINVAL | libc::E2BIG => Self::NotUnderstood,
            libc::ENOSYS => Self::NoSystemCall,
            errno => Self::Other(errno),
        }
    }

    /// What would help, as one imperative sentence without a full stop; none if nobody can help.
    #[must_use]
    pub const fn remedy(self) -> Option<&'static str> {
        Some(match self {
            Self::NoHardware => {
                "nothing to do on hardware without it; for a virtual machine let its host pass the \
                 counters (QEMU: -cpu host,pmu=on)"
            }
            Self::NotPermitted { paranoid } => permission_remedy(paranoid),
            Self::TooManyFiles => "raise the limit of open files (LimitNOFILE=)",
            Self::TooManyFilesOnMachine => "raise fs.file-max",
            Self::Busy => {
                "end other programs that use the counters, or set kernel.nmi_watchdog to 0, which holds one"
            }
            Self::Exhausted => "end other programs that use the counters",
            Self::NotUnderstood => "use a kernel that knows this machine",
            Self::NoSystemCall => {
                "allow perf_event_open in the seccomp filter, or use a kernel with CONFIG_PERF_EVENTS"
            }
            Self::OverLimit { .. } => "attach fewer programs, or smaller ones, at a time",
            Self::Failed => "attach again",
            Self::NoFeed { .. } => {
                "start the program that keeps `sampling.counters_feed` up to date, as root, and attach again"
            }
            Self::NoMemory | Self::Gone | Self::Other(_) => return None,
        })
    }

    /// Whether trying another event of the same kind is in vain.
    pub(super) const fn is_general(self) -> bool {
        matches!(
            self,
            Self::NotPermitted { .. }
                | Self::TooManyFiles
                | Self::TooManyFilesOnMachine
                | Self::NoMemory
                | Self::NoSystemCall
        )
    }
}

impl fmt::Display for CounterRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHardware => f.write_str("this machine, or the virtual machine it is, has none"),
            Self::NotPermitted {
                paranoid: Some(level),
            } => write!(f, "not permitted (kernel.perf_event_paranoid is {level})"),
            Self::NotPermitted { paranoid: None } => f.write_str("not permitted"),
            Self::TooManyFiles => f.write_str("too many open files"),
            Self::TooManyFilesOnMachine => f.write_str("too many open files on this machine"),
            Self::Busy => f.write_str("someone else holds the counters"),
            Self::Exhausted => f.write_str("no counter is free"),
            Self::NoMemory => f.write_str("no memory"),
            Self::Gone => f.write_str("gone"),
            Self::NotUnderstood => f.write_str("the kernel does not understand the event"),
            Self::NoSystemCall => f.write_str("there is no system call perf_event_open"),
            Self::OverLimit { wanted, left } => write!(
                f,
                "{wanted} descriptors would be needed and {left} are left of those for counters"
            ),
            Self::Failed => f.write_str("the counter failed and was closed"),
            Self::NoFeed { why } => write!(f, "`sampling.counters_feed` cannot be used: {why}"),
            Self::Other(errno) => write!(f, "{}", io::Error::from_raw_os_error(*errno)),
        }
    }
}

impl std::error::Error for CounterRefused {}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(errno: i32, text: &str, remedy: Option<&str>) {
        let kernel = KernelSettings {
            perf_event_paranoid: Some(2),
            ..KernelSettings::default()
        };
        let refused = CounterRefused::of(&io::Error::from_raw_os_error(errno), kernel);
        let shown = refused.to_string();
        assert!(shown.contains(text), "{shown}");
        assert!(!shown.contains('\n') && !shown.ends_with('.'));
        match remedy {
            Some(part) => assert!(refused.remedy().unwrap().contains(part), "{refused:?}"),
            None => assert_eq!(refused.remedy(), None),
        }
    }

    #[test]
    fn every_refusal_says_what_would_help() {
        check(libc::ENOENT, "has none", Some("virtual machine"));
        check(libc::EOPNOTSUPP, "has none", Some("virtual machine"));
        check(libc::EACCES, "paranoid is 2", Some("CAP_PERFMON"));
        check(libc::EMFILE, "too many open files", Some("LimitNOFILE"));
        check(libc::ENFILE, "on this machine", Some("file-max"));
        check(libc::EBUSY, "someone else", Some("nmi_watchdog"));
        check(libc::ENOSPC, "no counter is free", Some("other programs"));
        check(libc::ENOMEM, "no memory", None);
        check(libc::ESRCH, "gone", None);
        check(libc::EINVAL, "not understand", Some("kernel"));
        check(libc::ENOSYS, "no system call", Some("seccomp"));
        check(libc::EIO, "Input/output", None);
    }

    #[test]
    fn general_events_name_the_kind_of_core_in_their_upper_half() {
        assert_eq!(EventCode::cycles(0).config, 0);
        assert_eq!(EventCode::instructions(0).config, 1);
        assert_eq!(EventCode::cycles(10).config, 0xa_0000_0000);
        assert_eq!(EventCode::instructions(4).config, 0x4_0000_0001);
        assert_eq!(EventCode::cycles(10).pmu, 0);
    }
}
