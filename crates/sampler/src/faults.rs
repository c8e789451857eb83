//! The source `faults`: the kernel's page-fault event on every processor.
//!
//! Needs no hardware counters. A sample is a page fault: thread, address, processor, time; not whether
//! it was a read or a write. Faults happen at a page's first touch and when something provokes them
//! again (see [`crate::provoke`]).

use std::borrow::Cow;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use numad_core::{AccessKind, Lifecycle, Record, Sample, ServedBy, Time};
use topology::{CpuId, CpuSet, Pid, Tid};

use crate::decode::{Body, Decoded, Field, Layout, SampleView, TaskRecord, Visitor, stream};
use crate::filter::{self, Filter};
use crate::kernel::KernelSettings;
use crate::law::ClearOptions;
use crate::open::{Event, EventShape, OpenError, Refused};
use crate::provoke::{Clock, LiveClear, Provocation, ProvokeMode, Provoker, soft_dirty_supported};
use crate::ring::page_bytes;
use crate::source::{AttachRefused, Coverage, Covers, Drained, Losses, Source, SourceStatus};

/// Pages of each processor's ring by default: 256 KiB of 4 KiB pages, which hold some 5,000 faults, a
/// tenth of a second of the worst that one processor does; within the 516 KiB that the kernel
/// lets any user lock.
pub const RING_PAGES_DEFAULT: usize = 64;

/// How the source is opened.
pub struct FaultOptions {
    /// Processors to listen on.
    pub cpus: CpuSet,
    /// Pages of each ring, a power of two; halved until the kernel allows it.
    pub ring_pages: usize,
    /// Page faults for each sample; at least 1.
    pub period: u64,
    /// Where `/proc` is found: `/` on a live machine.
    pub root: PathBuf,
    /// What makes pages fault.
    pub provoke: ProvokeMode,
    /// Limits of that.
    pub clear: ClearOptions,
    /// Tells the time, in the same terms as the `now` that the source is given; used only to measure
    /// how long a clear takes.
    pub clock: Clock,
}

impl FaultOptions {
    /// The defaults, for a live machine.
    #[must_use]
    pub fn new(cpus: CpuSet, clock: Clock) -> Self {
        Self {
            cpus,
            ring_pages: RING_PAGES_DEFAULT,
            period: 1,
            root: PathBuf::from("/"),
            provoke: ProvokeMode::Auto,
            clear: ClearOptions::default(),
            clock,
        }
    }
}

impl fmt::Debug for FaultOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultOptions")
            .field("cpus", &self.cpus)
            .field("ring_pages", &self.ring_pages)
            .field("period", &self.period)
            .field("root", &self.root)
            .field("provoke", &self.provoke)
            .field("clear", &self.clear)
            .finish_non_exhaustive()
    }
}

/// The source `faults`. Dropping it closes the events.
#[derive(Debug)]
pub struct Faults {
    shape: EventShape,
    layout: Layout,
    kernel: KernelSettings,
    /// Sorted by processor; one that is retiring may stand beside its successor.
    listeners: Vec<Listener>,
    /// Becomes readable when any ring is half full.
    poll: Epoll,
    filter: Filter,
    losses: Losses,
    provocation: Provocation,
    mode: ProvokeMode,
    provoker: Provoker,
    /// Processes that were attached or detached since the provoker was last told.
    joined: Vec<Pid>,
    /// Samples delivered since the provoker was last told.
    faults_untold: u64,
    /// Where the next search for dead events begins.
    next_check: usize,
    /// New processes and their parents, as found in the rings; kept to allocate once.
    children: Children,
    /// Why it is not known whether there are soft-dirty bits.
    probe_error: Option<String>,
}

/// One processor's event.
#[derive(Debug)]
struct Listener {
    event: Event,
    /// Losses told by records in the ring, and in total handed on.
    lost_in_ring: u64,
    lost_handed_on: u64,
    /// Read once more, then closed.
    retiring: bool,
    /// Whether anything came since the last refresh.
    heard: bool,
    /// The event's own running time at the last check.
    enabled_ns: Option<u64>,
}

impl Faults {
    /// Opens the event on every given processor. Processors that are offline by now are left out.
    ///
    /// # Errors
    /// The first refusal; nothing stays open then.
    pub fn open(options: FaultOptions) -> Result<Self, OpenError> {
        let kernel = KernelSettings::read(&options.root);
        let probed = match options.provoke {
            ProvokeMode::Off => Ok(false),
            ProvokeMode::Auto | ProvokeMode::SoftDirty => soft_dirty_supported(&options.root),
        };
        let soft_dirty = matches!(probed, Ok(true));
        let shape = EventShape {
            ring_pages: options.ring_pages.max(1).next_power_of_two(),
            period: options.period.max(1),
            counts_losses: true,
        };
        let poll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)
            .map_err(|errno| no_poll(CpuId(0), errno))?;
        let clear = LiveClear::new(&options.root, options.clock);
        let mut source = Self {
            layout: shape.layout(),
            shape,
            kernel,
            listeners: Vec::with_capacity(options.cpus.len()),
            poll,
            filter: Filter::new(),
            losses: Losses::default(),
            provocation: Provocation::choose(options.provoke, soft_dirty, kernel.numa_balancing),
            mode: options.provoke,
            provoker: Provoker::new(options.clear, Box::new(clear)),
            joined: Vec::new(),
            faults_untold: 0,
            next_check: 0,
            children: Children::default(),
            probe_error: probed.err().map(|error| error.to_string()),
        };
        match source.listen(&options.cpus).into_iter().next() {
            Some(refused) => Err(refused),
            None => Ok(source),
        }
    }

    /// Opens the event on processors that have none. Gives up at the first refusal that the next
    /// processor would meet too.
    fn listen(&mut self, cpus: &CpuSet) -> Vec<OpenError> {
        let mut refusals = Vec::new();
        for cpu in cpus.iter() {
            let heard = |listener: &Listener| listener.event.cpu == cpu && !listener.retiring;
            if self.listeners.iter().any(heard) {
                continue;
            }
            match self.listen_on(cpu) {
                Ok(()) => {}
                Err(error) if error.refused == Refused::CpuOffline => {}
                Err(error) => {
                    refusals.push(error);
                    break;
                }
            }
        }
        self.listeners.sort_by_key(|listener| listener.event.cpu);
        refusals
    }

    fn listen_on(&mut self, cpu: CpuId) -> Result<(), OpenError> {
        let event = self.shape.open(cpu, self.kernel)?;
        // Edge-triggered: an event whose processor went away hangs up for ever, and must not wake us for ever.
        let interest = EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, u64::from(cpu.0));
        self.poll
            .add(event.counter.file().as_fd(), interest)
            .map_err(|errno| no_poll(cpu, errno))?;
        self.listeners.push(Listener {
            event,
            lost_in_ring: 0,
            lost_handed_on: 0,
            retiring: false,
            heard: false,
            enabled_ns: None,
        });
        Ok(())
    }

    /// Retires events that their processor has left behind: it went offline and came back, and the
    /// kernel does not start them again.
    ///
    /// Asking an event for its running time interrupts its processor, so only silent ones are asked,
    /// and only [`CHECKS_MAX`] at a time, in turn.
    fn retire_dead(&mut self) {
        let count = self.listeners.len();
        let mut checks = 0;
        for step in 0..count {
            let at = (self.next_check + step) % count;
            let listener = &mut self.listeners[at];
            if std::mem::take(&mut listener.heard) || listener.retiring {
                continue;
            }
            if checks == CHECKS_MAX {
                self.next_check = at;
                return;
            }
            checks += 1;
            let enabled = listener.event.counter.stat().ok();
            let enabled = enabled.and_then(|stat| stat.time_enabled);
            listener.retiring = enabled.is_none() || enabled == listener.enabled_ns;
            listener.enabled_ns = enabled;
        }
    }

    fn notes(&self) -> Vec<Cow<'static, str>> {
        let mut notes: Vec<Cow<'static, str>> = Vec::new();
        match (self.provocation, self.mode) {
            (Provocation::SoftDirty, _) => {}
            (Provocation::KernelHintFaults, _) => notes.push(
                "the kernel's NUMA balancing is on and moves pages too; processes with a memory policy \
                 get no hint faults"
                    .into(),
            ),
            (Provocation::NaturalFaults, ProvokeMode::Off) => {
                notes.push("provocation is off; set sampling.provoke to auto to see more".into());
            }
            (Provocation::NaturalFaults, _) if self.probe_error.is_some() => notes.push(
                format!(
                    "pages are seen at their first touch only: support for soft-dirty bits cannot be \
                     probed ({}); let numad read /proc/self/pagemap",
                    self.probe_error.as_deref().unwrap_or_default()
                )
                .into(),
            ),
            (Provocation::NaturalFaults, _) => notes.push(
                "pages are seen at their first touch only: this kernel is built without \
                 CONFIG_MEM_SOFT_DIRTY and kernel.numa_balancing is off; use a kernel with the former, \
                 or set the latter to 1 and let the kernel move pages too"
                    .into(),
            ),
        }
        notes.extend(self.provoker.notes().into_iter().map(Cow::Owned));
        if self.losses.unfollowed > 0 {
            notes.push(
                format!(
                    "{} processes made by attached ones are not followed: the limit is {}",
                    self.losses.unfollowed,
                    filter::PROCESSES_MAX
                )
                .into(),
            );
        }
        notes
    }
}

impl Source for Faults {
    fn attach(&mut self, pid: Pid) -> Result<(), AttachRefused> {
        if !self.filter.add(pid) {
            return Err(AttachRefused {
                pid,
                limit: filter::PROCESSES_MAX,
            });
        }
        self.joined.push(pid);
        Ok(())
    }

    fn detach(&mut self, pid: Pid) {
        let gone = self.filter.remove(pid);
        self.joined.retain(|joined| !gone.contains(joined));
        gone.into_iter().for_each(|pid| self.provoker.remove(pid));
    }

    fn drain(&mut self, out: &mut dyn FnMut(&Record)) -> Drained {
        // Takes note of what made the descriptor readable; everything is read anyway.
        let mut events = [EpollEvent::empty(); 64];
        let polled = self.poll.wait(&mut events, EpollTimeout::ZERO);
        debug_assert!(polled.is_ok() || polled == Err(Errno::EINTR));
        self.children.forget();
        if !self.filter.is_empty() {
            self.children.gather(&mut self.listeners, &self.layout);
        }
        let announced = self.children.adopt(&mut self.filter, &mut self.joined, out);
        let mut delivery = Delivery {
            filter: &mut self.filter,
            joined: &mut self.joined,
            losses: &mut self.losses,
            announced: &self.children.announced,
            out,
            cpu: CpuId(0),
            period: self.shape.period,
            records: 0,
            samples: 0,
            lost_in_ring: 0,
            lost_handed_on: 0,
        };
        let mut fill_permille = 0;
        for listener in &mut self.listeners {
            let fill = listener.drain(&self.layout, &mut delivery);
            fill_permille = fill_permille.max(fill);
        }
        let (records, samples) = (delivery.records, delivery.samples);
        self.listeners.retain(|listener| !listener.retiring);
        self.faults_untold = self.faults_untold.saturating_add(samples);
        for gone in self.filter.sweep() {
            self.provoker.remove(gone);
        }
        self.losses.unfollowed = self.filter.unfollowed();
        Drained {
            records: records + announced,
            fill_permille,
            ended: false,
            mark: None,
        }
    }

    fn losses(&self) -> Losses {
        self.losses
    }

    fn describe(&self) -> SourceStatus {
        let seen = match self.provocation {
            Provocation::SoftDirty => [
                Covers::Partly("the first touch of a page"),
                Covers::Partly("the first write to a page after each clear"),
            ],
            Provocation::KernelHintFaults => [Covers::Partly("when the kernel unmaps a page"); 2],
            Provocation::NaturalFaults => [Covers::Partly("the first touch of a page"); 2],
        };
        SourceStatus {
            name: "faults",
            provocation: self.provocation.describe(),
            coverage: Coverage {
                loads: seen[0],
                stores: seen[1],
                latency: Covers::No("a fault takes the same time wherever the page is"),
                levels: Covers::No("a fault is answered by no cache"),
                physical: Covers::No("the page-fault event carries virtual addresses"),
            },
            notes: self.notes(),
            cpus: self.listeners.len(),
            ring_bytes: self.shape.ring_pages * page_bytes(),
        }
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.poll.0.as_fd())
    }

    fn provoke(&mut self, now: Time) -> Option<Time> {
        if self.provocation != Provocation::SoftDirty {
            self.joined.clear();
            return None;
        }
        for pid in self.joined.drain(..) {
            self.provoker.add(now, pid);
        }
        let faults = std::mem::take(&mut self.faults_untold);
        self.provoker.faulted(now, faults);
        self.provoker.poll(now)
    }

    fn refresh(&mut self, online: &CpuSet) -> Vec<OpenError> {
        for listener in &mut self.listeners {
            listener.retiring |= !online.contains(listener.event.cpu);
        }
        self.retire_dead();
        self.listen(online)
    }
}

impl Listener {
    /// Delivers what the ring holds; says how full it was, in per mille.
    fn drain(&mut self, layout: &Layout, delivery: &mut Delivery<'_>) -> u16 {
        let unread = self.event.ring.unread();
        let length = unread.length();
        if length == 0 && !unread.is_overrun() {
            return 0;
        }
        self.heard = true;
        delivery.cpu = self.event.cpu;
        delivery.lost_in_ring = self.lost_in_ring;
        delivery.lost_handed_on = self.lost_handed_on;
        let (first, second) = unread.pieces();
        if unread.is_overrun() || stream(layout, first, second, delivery).is_err() {
            delivery.losses.damaged += 1;
        }
        unread.take();
        let size = self.event.ring.data_bytes();
        // A ring with less room than that may have refused a record since. The ring will say so only when
        // something else comes, so the event is asked.
        if size - length < ROOM_MIN
            && let Some(lost) = self
                .event
                .counter
                .stat()
                .ok()
                .and_then(|stat| stat.lost_records)
        {
            delivery.lost_in_total(lost);
        }
        self.lost_in_ring = delivery.lost_in_ring;
        self.lost_handed_on = delivery.lost_handed_on;
        u16::try_from(length * 1000 / size).unwrap_or(1000)
    }
}

/// New processes, as their forks tell.
#[derive(Clone, Debug, Default)]
struct Children {
    forks: Vec<TaskRecord>,
    /// Those handed on ahead of the rings, ascending.
    announced: Vec<u32>,
}

impl Visitor for Children {
    #[inline]
    fn record<B: Body>(&mut self, record: &Decoded<'_, B>) {
        if let Decoded::Fork(task) = record
            && task.pid != task.parent_pid
            && self.forks.len() < CHILDREN_MAX
        {
            self.forks.push(*task);
        }
    }
}

impl Children {
    fn forget(&mut self) {
        self.forks.clear();
        self.announced.clear();
    }

    /// Takes note of the forks that lie in the rings, which stay unread.
    fn gather(&mut self, listeners: &mut [Listener], layout: &Layout) {
        for listener in listeners {
            let unread = listener.event.ring.unread();
            let (first, second) = unread.pieces();
            // Damage is counted when the ring is delivered.
            stream(layout, first, second, self).unwrap_or(());
        }
    }

    /// Follows those whose parents are followed, and theirs, and tells of them before any ring is
    /// delivered; gives how many. Rings are delivered one after the other, and what a new process did
    /// on the first, its own children included, would otherwise be nobody's, for its fork lies in the
    /// last. Its first touches come only once.
    fn adopt(
        &mut self,
        filter: &mut Filter,
        joined: &mut Vec<Pid>,
        out: &mut dyn FnMut(&Record),
    ) -> u64 {
        for _generation in 0..GENERATIONS_MAX {
            let before = self.announced.len();
            for task in &self.forks {
                if joined.len() < filter::PROCESSES_MAX && filter.adopt(task.pid, task.parent_pid) {
                    joined.push(Pid(task.pid));
                    self.announced.push(task.pid);
                    out(&fork(task));
                }
            }
            if self.announced.len() == before {
                break;
            }
        }
        self.announced.sort_unstable();
        u64::try_from(self.announced.len()).unwrap_or(u64::MAX)
    }
}

fn fork(task: &TaskRecord) -> Record {
    Record::Lifecycle(Lifecycle::Fork {
        time: Time(task.time),
        pid: Pid(task.pid),
        tid: Tid(task.tid),
        parent: Pid(task.parent_pid),
    })
}

/// Takes decoded records of one ring after the other and hands on those that matter.
struct Delivery<'a> {
    filter: &'a mut Filter,
    joined: &'a mut Vec<Pid>,
    losses: &'a mut Losses,
    /// New processes that were told of already.
    announced: &'a [u32],
    out: &'a mut dyn FnMut(&Record),
    /// Whose ring is being read.
    cpu: CpuId,
    period: u64,
    records: u64,
    samples: u64,
    lost_in_ring: u64,
    lost_handed_on: u64,
}

impl Visitor for Delivery<'_> {
    #[inline]
    fn record<B: Body>(&mut self, record: &Decoded<'_, B>) {
        match record {
            Decoded::Sample(view) => {
                if let Some(sample) = self.sample(view) {
                    self.samples += 1;
                    self.hand_on(&Record::Sample(sample));
                }
            }
            Decoded::Fork(task) => {
                let known = self.filter.len();
                if self.filter.forked(task.pid, task.parent_pid) {
                    if self.filter.len() > known && self.joined.len() < filter::PROCESSES_MAX {
                        self.joined.push(Pid(task.pid));
                    }
                    let new = task.pid != task.parent_pid;
                    if !(new && self.announced.binary_search(&task.pid).is_ok()) {
                        self.hand_on(&fork(task));
                    }
                }
            }
            Decoded::Exit(task) => {
                if self.filter.exited(task.pid) {
                    self.hand_on(&Record::Lifecycle(Lifecycle::Exit {
                        time: Time(task.time),
                        pid: Pid(task.pid),
                        tid: Tid(task.tid),
                    }));
                }
            }
            Decoded::Named(named) => {
                if self.filter.passes(named.pid) {
                    self.hand_on(&Record::Lifecycle(Lifecycle::Renamed {
                        time: Time(named.time.unwrap_or_default()),
                        pid: Pid(named.pid),
                        tid: Tid(named.tid),
                        name: String::from_utf8_lossy(named.name()).into_owned(),
                        exec: named.exec,
                    }));
                }
            }
            Decoded::Lost(count) => {
                self.lost_in_ring = self.lost_in_ring.saturating_add(*count);
                self.lost_in_total(self.lost_in_ring);
            }
            Decoded::LostSamples(count) => self.lost(*count),
            Decoded::Throttle => self.losses.throttled += 1,
            Decoded::Unthrottle | Decoded::Skipped(_) => {}
        }
    }
}

impl Delivery<'_> {
    #[inline]
    fn sample<B: Body>(&mut self, view: &SampleView<'_, B>) -> Option<Sample> {
        let (pid, tid) = view.pid_tid()?;
        if !self.filter.passes(pid) {
            return None;
        }
        let address = view
            .number(Field::Addr)
            .filter(|address| is_user(*address))?;
        Some(Sample {
            time: Time(view.number(Field::Time)?),
            pid: Pid(pid),
            tid: Tid(tid),
            address,
            physical: 0,
            cpu: view.cpu().map_or(self.cpu, CpuId),
            kind: AccessKind::Unknown,
            served: ServedBy::Unknown,
            weight: 0,
            period: view.number(Field::Period).unwrap_or(self.period).max(1),
        })
    }

    fn hand_on(&mut self, record: &Record) {
        self.records += 1;
        (self.out)(record);
    }

    /// Hands on what was lost beyond what has been handed on. Two counts tell of the same losses: records
    /// in the ring, and the event's own, which is sooner at the end of a stream.
    fn lost_in_total(&mut self, total: u64) {
        let fresh = total.saturating_sub(self.lost_handed_on);
        if fresh > 0 {
            self.lost_handed_on = total;
            self.lost(fresh);
        }
    }

    fn lost(&mut self, count: u64) {
        self.losses.lost = self.losses.lost.saturating_add(count);
        self.hand_on(&Record::Lost(count));
    }
}

/// Whether an address can belong to a program. On the 64-bit kernels with one address space for both,
/// the kernel's half has the highest bit set.
const fn is_user(address: u64) -> bool {
    address >> 63 == 0
}

fn no_poll(cpu: CpuId, errno: Errno) -> OpenError {
    let refused = match errno {
        Errno::EMFILE => Refused::TooManyFiles,
        Errno::ENFILE => Refused::TooManyFilesOnMachine,
        Errno::ENOMEM => Refused::NoMemory,
        Errno::ENOSPC => Refused::Exhausted,
        other => Refused::Other(other as i32),
    };
    OpenError { cpu, refused }
}

/// Room in a ring with which any of our records fits: a loss record and the longest other, twice over.
const ROOM_MIN: usize = 256;

/// New processes looked at in one drain; more are followed when their fork is delivered.
const CHILDREN_MAX: usize = 4096;

/// Generations of new processes found in one drain, where each lies in a ring before its parent's.
const GENERATIONS_MAX: usize = 8;

/// Events asked for their running time in one refresh.
const CHECKS_MAX: usize = 16;

#[cfg(test)]
mod tests;
