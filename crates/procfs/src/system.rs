//! The machine as a whole: kernel modes and other actors.

use std::fmt;
use std::time::Duration;

use topology::{CpuSet, Pid, StartTicks};

use crate::error::{Cause, ParseError, Presence, ReadError};
use crate::reader::Reader;
use crate::stat::{Stat, TICKS_PER_SECOND, TaskRun};
use crate::status::{list, parse_capabilities};

/// What `kernel.numa_balancing` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BalancingMode {
    /// The kernel was built without it.
    Absent,
    /// Off.
    Off,
    /// The kernel moves pages towards those who use them.
    Balancing,
    /// The kernel moves hot pages up between tiers of memory.
    Tiering,
    /// Both.
    Both,
}

impl BalancingMode {
    /// Whether the kernel moves pages by itself.
    #[must_use]
    pub const fn acts(self) -> bool {
        !matches!(self, Self::Absent | Self::Off)
    }

    /// Whether it balances between nodes, and does not only move memory between fast and slow ones.
    #[must_use]
    pub const fn balances(self) -> bool {
        matches!(self, Self::Balancing | Self::Both)
    }
}

/// State of the extensible scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchedExt {
    /// The kernel was built without it.
    Absent,
    /// There, but no scheduler is loaded.
    Idle,
    /// A scheduler is loaded; its name where the kernel tells.
    Loaded(String),
}

/// Another actor that places threads or memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rival {
    /// A loaded extensible scheduler, by name.
    SchedExt(String),
    /// A daemon, by name.
    Daemon {
        /// Its process.
        pid: Pid,
        /// Its name.
        name: String,
    },
}

impl fmt::Display for Rival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SchedExt(name) => write!(
                f,
                "the extensible scheduler `{name}` is loaded and may stall on narrow affinity masks"
            ),
            Self::Daemon { pid, name } => write!(
                f,
                "`{name}` (process {pid}) runs and may change affinity as well; stop one of the two"
            ),
        }
    }
}

impl Reader {
    /// Whether, and how, the kernel balances NUMA memory by itself.
    ///
    /// # Errors
    /// When the setting exists and cannot be read.
    pub fn numa_balancing(&self) -> Result<BalancingMode, ReadError> {
        let mode = self.number("proc/sys/kernel/numa_balancing")?;
        Ok(match mode {
            Presence::Gone => BalancingMode::Absent,
            Presence::Here(0) => BalancingMode::Off,
            Presence::Here(mode) if mode & 3 == 3 => BalancingMode::Both,
            Presence::Here(mode) if mode & 2 != 0 => BalancingMode::Tiering,
            Presence::Here(_) => BalancingMode::Balancing,
        })
    }

    /// State of the extensible scheduler.
    ///
    /// # Errors
    /// When it exists and cannot be read.
    pub fn sched_ext(&self) -> Result<SchedExt, ReadError> {
        Ok(match self.text("sys/kernel/sched_ext/state")? {
            Presence::Gone => SchedExt::Absent,
            Presence::Here(state) if state == "enabled" || state == "enabling" => {
                let name = self.text("sys/kernel/sched_ext/root/ops")?;
                SchedExt::Loaded(name.here().unwrap_or_default())
            }
            Presence::Here(_) => SchedExt::Idle,
        })
    }

    /// `kernel.perf_event_paranoid`; gone where the kernel has no perf events.
    ///
    /// # Errors
    /// When it exists and cannot be read.
    pub fn perf_event_paranoid(&self) -> Result<Presence<i64>, ReadError> {
        self.number("proc/sys/kernel/perf_event_paranoid")
    }

    /// The number that tells this boot of the machine from every other.
    ///
    /// # Errors
    /// When it cannot be read, or is not there: every Linux has it.
    pub fn boot_id(&self) -> Result<String, ReadError> {
        self.required("proc/sys/kernel/random/boot_id")
    }

    /// Now, on the clock of [`StartTicks`]: a task made after this has at least this start.
    ///
    /// # Errors
    /// When it cannot be read or is no time.
    pub fn now(&self) -> Result<StartTicks, ReadError> {
        const PATH: &str = "proc/uptime";
        let text = self.required(PATH)?;
        ticks(&text)
            .map(StartTicks)
            .ok_or_else(|| self.damaged(PATH, &text, "is not a time in seconds"))
    }

    /// How long, since the start of the machine, some thread waited for a processor; gone where the kernel does not tell.
    ///
    /// # Errors
    /// When it exists and cannot be read.
    pub fn processor_pressure(&self) -> Result<Presence<Duration>, ReadError> {
        self.pressure(std::path::Path::new("proc/pressure/cpu"))
    }

    /// Processors online now; gone where the machine does not tell.
    ///
    /// # Errors
    /// When the list exists and cannot be read or understood.
    pub fn online(&self) -> Result<Presence<CpuSet>, ReadError> {
        self.record("sys/devices/system/cpu/online", |bytes| {
            list(1, bytes, CpuSet::parse_list)
        })
    }

    /// The kernel's release, as in `6.18.0-3-amd64`.
    ///
    /// # Errors
    /// When it exists and cannot be read.
    pub fn release(&self) -> Result<Presence<String>, ReadError> {
        self.text("proc/sys/kernel/osrelease")
    }

    /// The effective capabilities of a process, one bit for each by number.
    ///
    /// # Errors
    /// When they cannot be read or understood.
    pub fn capabilities(&self, pid: Pid) -> Result<Presence<u64>, ReadError> {
        self.parsed(format!("proc/{pid}/status"), parse_capabilities)
    }

    /// Other actors that place threads or memory and are in the way; the kernel's own balancing is not. `own`
    /// is this daemon's process. Reads every process's name, so it is for start-up and for reports, not for
    /// every window.
    ///
    /// # Errors
    /// When the kernel's settings or `/proc` cannot be read.
    pub fn rivals(&self, own: Pid) -> Result<Vec<Rival>, ReadError> {
        let mut rivals = Vec::new();
        if let SchedExt::Loaded(name) = self.sched_ext()? {
            rivals.push(Rival::SchedExt(name));
        }
        for pid in self.pids()?.into_iter().filter(|&pid| pid != own) {
            let stat = self.stat(pid).ok().and_then(Presence::here);
            let rival = stat.filter(|stat| {
                let lives = !stat.kernel_thread && stat.run != TaskRun::Ended;
                lives && DAEMONS.contains(&stat.name.as_str())
            });
            rivals.extend(rival.map(|Stat { name, .. }| Rival::Daemon { pid, name }));
        }
        Ok(rivals)
    }

    fn number(&self, path: &str) -> Result<Presence<i64>, ReadError> {
        self.record(path, |bytes| {
            let text = std::str::from_utf8(bytes).ok();
            let number = text.and_then(|text| text.trim().parse().ok());
            number.ok_or_else(|| ParseError::new(1, bytes, "is not a number"))
        })
    }

    fn required(&self, path: &str) -> Result<String, ReadError> {
        match self.text(path)? {
            Presence::Here(text) => Ok(text),
            Presence::Gone => Err(ReadError {
                path: self.path(path),
                cause: Cause::Io(std::io::ErrorKind::NotFound.into()),
            }),
        }
    }

    pub(crate) fn damaged(
        &self,
        path: impl AsRef<std::path::Path>,
        text: &str,
        reason: &'static str,
    ) -> ReadError {
        ReadError {
            path: self.path(path),
            cause: Cause::Text(ParseError::new(1, text.as_bytes(), reason)),
        }
    }
}

/// The first number of `uptime`, seconds with two digits after the point, in ticks.
fn ticks(uptime: &str) -> Option<u64> {
    const { assert!(TICKS_PER_SECOND == 100, "two digits are ticks") };
    let (seconds, hundredths) = uptime.split_whitespace().next()?.split_once('.')?;
    let whole: u64 = seconds.parse().ok()?;
    let part: u64 = hundredths.get(..2)?.parse().ok()?;
    whole.checked_mul(TICKS_PER_SECOND)?.checked_add(part)
}

/// Daemons that change affinity: Debian's and Red Hat's `numad` of 2012, and `irqbalance`, which moves
/// the interrupts that threads were placed beside.
const DAEMONS: [&str; 2] = ["numad", "irqbalance"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    #[track_caller]
    fn mode(text: &str, expected: BalancingMode) {
        let tree = Tree::new("balancing");
        tree.file("proc/sys/kernel/numa_balancing", text);
        assert_eq!(tree.reader().numa_balancing().unwrap(), expected, "{text}");
    }

    #[test]
    fn balancing_modes_read() {
        mode("0\n", BalancingMode::Off);
        mode("1\n", BalancingMode::Balancing);
        mode("2\n", BalancingMode::Tiering);
        mode("3\n", BalancingMode::Both);
        let absent = Tree::new("no-balancing").reader().numa_balancing().unwrap();
        assert!(absent == BalancingMode::Absent && !absent.acts());
    }

    #[test]
    fn rivals_are_found_and_this_daemon_is_none() {
        let tree = Tree::new("rivals");
        // Which is no rival.
        tree.file("proc/sys/kernel/numa_balancing", "1\n");
        tree.file("sys/kernel/sched_ext/state", "enabled\n");
        tree.file("sys/kernel/sched_ext/root/ops", "scx_lavd\n");
        for (pid, name) in [(3, "numad"), (4, "numad"), (5, "irqbalance")] {
            tree.file(
                &format!("proc/{pid}/task/{pid}/stat"),
                &format!(
                    "{pid} ({name}) S 1 1 1 0 -1 0 0 0 0 0 3 4 0 0 20 0 1 0 9 0 5 0 0 0 0 0 0 0 0 0 \
                     0 0 0 0 0 17 6 0\n"
                ),
            );
        }
        let rivals = tree.reader().rivals(Pid(3)).unwrap();
        let daemon = |pid, name: &str| Rival::Daemon {
            pid: Pid(pid),
            name: name.into(),
        };
        assert_eq!(
            rivals,
            [
                Rival::SchedExt("scx_lavd".into()),
                daemon(4, "numad"),
                daemon(5, "irqbalance"),
            ]
        );
    }

    #[test]
    fn uptime_is_ticks() {
        let tree = Tree::new("uptime");
        tree.file("proc/uptime", "2105.81 3946.69\n");
        assert_eq!(tree.reader().now().unwrap(), StartTicks(210_581));
        for damaged in ["", "x", "5", "5.1", "-5.10", "99999999999999999999.00"] {
            tree.file("proc/uptime", damaged);
            tree.reader().now().unwrap_err();
        }
    }

    #[test]
    fn pressure_is_a_time() {
        let tree = Tree::new("pressure");
        assert_eq!(tree.reader().processor_pressure().unwrap(), Presence::Gone);
        let text =
            "some avg10=97.85 avg60=96.88 avg300=96.89 total=1770140597\nfull avg10=0.00 total=0\n";
        tree.file("proc/pressure/cpu", text);
        let waited = tree.reader().processor_pressure().unwrap().here().unwrap();
        assert_eq!(waited, Duration::from_micros(1_770_140_597));
        for damaged in ["", "some", "some total=x", "full total=1", "some total=-1"] {
            tree.file("proc/pressure/cpu", damaged);
            tree.reader().processor_pressure().unwrap_err();
        }
    }

    #[test]
    fn the_live_machine_reads() {
        let reader = Reader::new("/");
        assert_eq!(reader.boot_id().unwrap().len(), 36);
        let own = Pid(std::process::id());
        let start = reader.start(own, topology::Tid(own.0)).unwrap();
        assert!(start.here().unwrap() <= reader.now().unwrap());
        assert!(reader.stat(own).unwrap().here().unwrap().resident_pages > 0);
        reader.sched_ext().unwrap();
        reader.perf_event_paranoid().unwrap();
        reader.rivals(own).unwrap();
        reader.node_memory().unwrap();
        assert!(!reader.online().unwrap().here().unwrap().is_empty());
        assert!(reader.release().unwrap().here().unwrap().contains('.'));
        assert!(reader.capabilities(own).unwrap().here().is_some());
    }

    #[test]
    fn what_must_be_there_and_is_not_is_an_error() {
        let tree = Tree::new("empty");
        let error = tree.reader().boot_id().unwrap_err();
        assert!(error.to_string().contains("boot_id"), "{error}");
    }
}
