//! Making pages fault that a program touches again: soft-dirty clearing on a budget.
//!
//! Page faults tell who touches a page first, and then nothing more: the page is mapped. Writing `4`
//! to `/proc/PID/clear_refs` takes write permission from the process's page-table entries, so that the
//! next writer of each page faults, is seen, and goes on. Reads are not seen this way.
//!
//! **This is the one thing outside the actuator that touches a process.** It is here because it is
//! sampling. It changes the soft-dirty bits and nothing else: no content, no placement, no
//! permission that the program could notice, and there is nothing to undo. But these bits are one
//! resource for the whole machine: CRIU's incremental dumps, QEMU-less live migration of containers,
//! and some garbage collectors read them, and a dump taken while we clear would miss pages. Whoever
//! uses such a tool on an attached program sets `sampling.provoke = "off"`.
//!
//! A clear costs about 70 instructions per page and a flush of translation caches, and each page
//! written after it one fault, so [`crate::law`] decides when and for whom.
//!
//! Where the kernel is built without `CONFIG_MEM_SOFT_DIRTY`, the write succeeds and does nothing. So
//! support is probed by what it must do: a page just written must be soft-dirty.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use numad_core::Time;
use topology::Pid;

use crate::law::{ClearLaw, ClearOptions};
use crate::ring::page_bytes;

/// What the user wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProvokeMode {
    /// Soft-dirty clearing where the kernel can, else what the kernel does itself.
    #[default]
    Auto,
    /// Soft-dirty clearing, and a word in the status where the kernel cannot.
    SoftDirty,
    /// No clearing.
    Off,
}

/// What makes pages fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provocation {
    /// We clear soft-dirty bits: writes are seen again and again.
    SoftDirty,
    /// The kernel's NUMA balancing unmaps pages now and then: reads and writes are seen.
    KernelHintFaults,
    /// Nothing: first touches, and pages that come back.
    NaturalFaults,
}

impl Provocation {
    /// What it will be, from what is wanted and what there is.
    #[must_use]
    pub const fn choose(mode: ProvokeMode, soft_dirty: bool, numa_balancing: Option<u32>) -> Self {
        match (mode, numa_balancing) {
            (ProvokeMode::Auto | ProvokeMode::SoftDirty, _) if soft_dirty => Self::SoftDirty,
            (_, Some(1..)) => Self::KernelHintFaults,
            _ => Self::NaturalFaults,
        }
    }

    /// In a few words.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::SoftDirty => "soft-dirty clearing",
            Self::KernelHintFaults => "kernel NUMA hint faults",
            Self::NaturalFaults => "natural faults only",
        }
    }
}

/// Whether this kernel keeps soft-dirty bits, found out on a page of our own.
///
/// # Errors
/// When `proc/self/pagemap` below `root` cannot be read, or does not show our page.
pub fn soft_dirty_supported(root: &Path) -> io::Result<bool> {
    let page = page_bytes();
    // Two pages hold one whole page wherever they begin.
    let mut memory = vec![0u8; 2 * page];
    let inside = memory.as_ptr().addr().next_multiple_of(page);
    let index = inside - memory.as_ptr().addr();
    // Written through a black box, or the compiler may never touch the page.
    std::hint::black_box(&mut memory)[index] = 1;
    let mut pagemap = File::open(root.join("proc/self/pagemap"))?;
    let entry = inside / page * size_of::<u64>();
    pagemap.seek(SeekFrom::Start(entry as u64))?;
    let mut bits = [0; size_of::<u64>()];
    pagemap.read_exact(&mut bits)?;
    drop(std::hint::black_box(memory));
    let bits = u64::from_ne_bytes(bits);
    if bits & PAGE_PRESENT == 0 {
        return Err(io::Error::other(
            "a page just written is not shown as present",
        ));
    }
    Ok(bits & PAGE_SOFT_DIRTY != 0)
}

/// What a page fault costs on this machine: the first touch of fresh pages, the shortest of a few times. Some
/// 1,400 ns on a machine of usual speed; in a guest that is emulated a hundred times as much.
#[must_use]
pub fn fault_cost(clock: &Clock) -> Duration {
    let page = page_bytes();
    // All are held until the end: memory that was given back may not be fresh.
    let mut blocks = Vec::with_capacity(TOUCH_ROUNDS);
    let touched = (0..TOUCH_ROUNDS).map(|_| {
        let mut block = vec![0u8; TOUCHED * page];
        let begin = clock();
        for byte in std::hint::black_box(&mut block).iter_mut().step_by(page) {
            *byte = 1;
        }
        let took = clock().since(begin);
        blocks.push(block);
        took
    });
    let shortest = touched.min().unwrap_or_default();
    drop(std::hint::black_box(blocks));
    u32::try_from(TOUCHED).map_or(Duration::ZERO, |count| shortest / count)
}

/// Pages that are touched at a time: so many that the block is memory of its own, and a look at the clock is nothing.
const TOUCHED: usize = 64;
const TOUCH_ROUNDS: usize = 3;

const PAGE_SOFT_DIRTY: u64 = 1 << 55;
const PAGE_PRESENT: u64 = 1 << 63;

/// What clears a process's soft-dirty bits: the live machine, or a stand-in for tests.
pub trait Clear: Send + fmt::Debug {
    /// Prepares for a process; to be called while it is known to be the right one.
    ///
    /// # Errors
    /// When its bits cannot be cleared by us.
    fn watch(&mut self, pid: Pid) -> io::Result<()>;
    /// Forgets a process.
    fn forget(&mut self, pid: Pid);
    /// Resident pages of a process; none if it is gone.
    fn resident_pages(&mut self, pid: Pid) -> Option<u64>;
    /// Clears a process and says how long it took.
    ///
    /// # Errors
    /// `ESRCH` when it is gone, `ETIMEDOUT` when it was given up, or not tried.
    fn clear(&mut self, pid: Pid) -> io::Result<Duration>;
}

/// Tells the time, for durations only.
pub type Clock = Box<dyn Fn() -> Time + Send>;

/// Does something to the memory of a process, and gives it up when it takes too long: a program can
/// keep the lock of its memory map as long as it likes. What was given up may be done later, or
/// never.
pub type Bounded = Arc<dyn Fn(Pid, Box<dyn FnOnce() + Send>) + Send + Sync>;

/// Does it at once, however long it takes.
#[must_use]
pub fn unbounded() -> Bounded {
    Arc::new(|_, job| job())
}

/// Clears on the live machine.
pub struct LiveClear {
    root: PathBuf,
    clock: Clock,
    bounded: Bounded,
    /// Kept open: the descriptor means this very process, even when its number is used again.
    open: BTreeMap<Pid, Arc<File>>,
}

impl LiveClear {
    /// Works on the processes in `proc` below `root`; `clock` measures how long a clear takes.
    #[must_use]
    pub fn new(root: &Path, clock: Clock, bounded: Bounded) -> Self {
        Self {
            root: root.to_owned(),
            clock,
            bounded,
            open: BTreeMap::new(),
        }
    }
}

impl fmt::Debug for LiveClear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveClear")
            .field("root", &self.root)
            .field("processes", &self.open.len())
            .finish_non_exhaustive()
    }
}

impl Clear for LiveClear {
    fn watch(&mut self, pid: Pid) -> io::Result<()> {
        let path = self.root.join(format!("proc/{pid}/clear_refs"));
        let file = File::options().write(true).open(path)?;
        self.open.insert(pid, Arc::new(file));
        Ok(())
    }

    fn forget(&mut self, pid: Pid) {
        self.open.remove(&pid);
    }

    fn resident_pages(&mut self, pid: Pid) -> Option<u64> {
        let text = fs::read_to_string(self.root.join(format!("proc/{pid}/statm"))).ok()?;
        text.split(' ').nth(1)?.parse().ok()
    }

    fn clear(&mut self, pid: Pid) -> io::Result<Duration> {
        let gone = || io::Error::from_raw_os_error(libc::ESRCH);
        let file = Arc::clone(self.open.get(&pid).ok_or_else(gone)?);
        let (tell, told) = channel();
        let start = (self.clock)();
        let write = move || drop(tell.send((&*file).write_all(b"4")));
        (self.bounded)(pid, Box::new(write));
        let given_up = |_| io::Error::from_raw_os_error(libc::ETIMEDOUT);
        told.try_recv().map_err(given_up)??;
        Ok((self.clock)().since(start))
    }
}

/// Clears when the law says so.
#[derive(Debug)]
pub struct Provoker {
    law: ClearLaw,
    clear: Box<dyn Clear>,
    /// Processes that want turns and have none: too many, or not ours to clear, by error number.
    waiting: BTreeMap<Pid, Option<i32>>,
}

impl Provoker {
    /// With nobody to provoke.
    #[must_use]
    pub fn new(options: ClearOptions, clear: Box<dyn Clear>) -> Self {
        Self {
            law: ClearLaw::new(options),
            clear,
            waiting: BTreeMap::new(),
        }
    }

    /// Gives a process turns.
    pub fn add(&mut self, now: Time, pid: Pid) {
        self.waiting.remove(&pid);
        match self.clear.watch(pid) {
            Ok(()) if self.law.add(now, pid) => {}
            Ok(()) => {
                self.clear.forget(pid);
                self.waiting.insert(pid, None);
            }
            Err(error) if is_gone(&error) => {}
            Err(error) => {
                self.waiting.insert(pid, error.raw_os_error());
            }
        }
    }

    /// Gives a process no more turns.
    pub fn remove(&mut self, pid: Pid) {
        self.waiting.remove(&pid);
        self.law.remove(pid);
        self.clear.forget(pid);
    }

    /// Has faults cost more than on a machine of usual speed; never less.
    pub fn faults_cost(&mut self, cost: Duration) {
        self.law.faults_cost(cost);
    }

    /// Takes note that something was worth changing in a process.
    pub fn stirred(&mut self, now: Time, pid: Pid) {
        self.law.stirred(now, pid);
    }

    /// Takes note of faults seen.
    pub fn faulted(&mut self, now: Time, faults: u64) {
        self.law.faulted(now, faults);
    }

    /// Clears one process if it is its turn, and tells before of how many pages that is; says when the next turn is.
    pub fn poll(&mut self, now: Time, before: &mut dyn FnMut(u64)) -> Option<Time> {
        self.let_in(now);
        if let Some(pid) = self.law.due(now) {
            match self.clear.resident_pages(pid) {
                None => self.remove(pid),
                Some(pages) if self.law.admit(now, pid, pages) => {
                    before(pages);
                    self.clear(now, pid, pages);
                }
                Some(_) => {}
            }
        }
        self.law.deadline()
    }

    /// Gives turns to who waits for room, as far as others have left.
    fn let_in(&mut self, now: Time) {
        let room = self.law.room();
        let waits = |(pid, why): (&Pid, &Option<i32>)| why.is_none().then_some(*pid);
        let next: Vec<Pid> = self.waiting.iter().filter_map(waits).take(room).collect();
        next.into_iter().for_each(|pid| self.add(now, pid));
    }

    fn clear(&mut self, now: Time, pid: Pid, pages: u64) {
        match self.clear.clear(pid) {
            Ok(took) => self.law.cleared(now, pid, pages, took),
            Err(error) if error.raw_os_error() == Some(libc::ETIMEDOUT) => {
                self.law.given_up(now, pid);
            }
            Err(error) => {
                self.remove(pid);
                if !is_gone(&error) {
                    self.waiting.insert(pid, error.raw_os_error());
                }
            }
        }
    }

    /// What keeps it from doing more, one sentence each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.law.skipped() > 0 {
            notes.push(format!(
                "{} not provoked because clearing so many pages would hold them longer than \
                 sampling.clear_pause_max_ms allows",
                processes_are(self.law.skipped())
            ));
        }
        if !self.waiting.is_empty() {
            let denied = self.waiting.values().find_map(|why| *why);
            let why = denied.map_or_else(
                || format!("at most {} are at a time", crate::law::PROCESSES_MAX),
                |errno| {
                    format!(
                        "{}; grant CAP_DAC_OVERRIDE",
                        io::Error::from_raw_os_error(errno)
                    )
                },
            );
            let processes_are = processes_are(self.waiting.len());
            notes.push(format!("{processes_are} not provoked: {why}"));
        }
        notes
    }
}

/// `1 process is`, `2 processes are`.
fn processes_are(count: impl fmt::Display) -> String {
    let count = count.to_string();
    let noun = if count == "1" {
        "process is"
    } else {
        "processes are"
    };
    format!("{count} {noun}")
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENOENT))
}

#[cfg(test)]
mod tests;
