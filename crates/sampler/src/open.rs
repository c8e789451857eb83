//! Opening the kernel's events, and saying what is missing when it refuses.
//!
//! A source says what it wants as `Wanted` events; `Plan` opens them on a processor, all into
//! one ring. The pinned crate `perf-event-open` opens those that it can express. It cannot ask for
//! the id of the event in front of each sample, which events that share a ring need, so those are
//! opened by `sys` from the same [`EventAttr`]. The crate's ring, its decoder and its iterators are
//! not used: [`crate::ring`] maps the descriptor, which allows a failing size to be halved and
//! records to be read where they lie.

mod error;
#[expect(
    unsafe_code,
    reason = "system calls that no crate of ours makes; nothing else here is unsafe"
)]
mod sys;

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use numad_core::AccessKind;
use perf_event_open::config::{
    Clock, Cpu, ExtraRecord, Opts, Proc, RecordIdFormat, SampleFormat, SampleOn, StatFormat,
    WakeUp, WakeUpOn,
};
use perf_event_open::count::Counter;
use perf_event_open::event::sw::Software;
use topology::{CpuId, CpuSet};

use crate::attr::{self, EventAttr};
use crate::decode::{Field, Layout, Trailer};
use crate::kernel::KernelSettings;
use crate::ring::{Ring, page_bytes};

pub(crate) use error::Step;
pub use error::{OpenError, Refused};
pub(crate) use sys::Counts;

/// What is said to an open event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order<'a> {
    Enable,
    Disable,
    /// So many events for each sample from now on.
    Period(u64),
    /// Write into the ring of this event.
    OutputTo(BorrowedFd<'a>),
}

/// The kernel, as far as events go; tests have their own.
pub(crate) trait Kernel: Send + fmt::Debug {
    /// Opens an event on one processor for all tasks, in the group of `leader` if there is one.
    fn open(
        &mut self,
        attr: &EventAttr,
        cpu: CpuId,
        leader: Option<BorrowedFd<'_>>,
    ) -> io::Result<OwnedFd>;

    /// Says something to an open event.
    fn order(&self, event: BorrowedFd<'_>, order: Order<'_>) -> io::Result<()>;

    /// Reads an event that was opened with this `read_format`. Interrupts its processor.
    fn counts(&self, event: BorrowedFd<'_>, read_format: u64) -> io::Result<Counts>;

    /// Has `poll` become readable when the ring that belongs to an event is half full.
    fn watch(&self, poll: &Epoll, event: BorrowedFd<'_>, cpu: CpuId) -> Result<(), Errno> {
        // Edge-triggered: an event whose processor went away hangs up for ever, and must not wake us for ever.
        let interest = EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, u64::from(cpu.0));
        poll.add(event, interest)
    }
}

/// The running kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LiveKernel;

impl Kernel for LiveKernel {
    fn open(
        &mut self,
        attr: &EventAttr,
        cpu: CpuId,
        leader: Option<BorrowedFd<'_>>,
    ) -> io::Result<OwnedFd> {
        match (leader, for_the_crate(attr)) {
            (None, Some(options)) => {
                let counter = Counter::new(Software::PageFault, (Proc::ALL, Cpu(cpu.0)), options)?;
                counter.file().as_fd().try_clone_to_owned()
            }
            _ => sys::open(attr, cpu, leader),
        }
    }

    fn order(&self, event: BorrowedFd<'_>, order: Order<'_>) -> io::Result<()> {
        match order {
            Order::Enable => sys::enable(event),
            Order::Disable => sys::disable(event),
            Order::Period(period) => sys::set_period(event, period),
            Order::OutputTo(owner) => sys::set_output(event, owner),
        }
    }

    fn counts(&self, event: BorrowedFd<'_>, read_format: u64) -> io::Result<Counts> {
        sys::counts(event, read_format)
    }
}

/// The options that make `perf-event-open` ask for the very same; none if it cannot.
fn for_the_crate(attr: &EventAttr) -> Option<Opts> {
    let fields = attr::fields(&[Field::Tid, Field::Time, Field::Addr, Field::Cpu]);
    let flags = attr::FLAG_DISABLED
        | attr::FLAG_TASKS
        | attr::FLAG_NAMES
        | attr::FLAG_TRAILERS
        | attr::FLAG_WATERMARK;
    let expressible = EventAttr {
        kind: attr::KIND_SOFTWARE,
        config: [attr::SOFTWARE_PAGE_FAULTS, 0, 0, 0],
        period: attr.period,
        sample_type: fields,
        read_format: attr.read_format,
        flags,
        precise: 0,
        clock: Some(libc::CLOCK_MONOTONIC),
    };
    if *attr != expressible {
        return None;
    }
    Some(Opts {
        enable: false,
        sample_on: SampleOn::Count(attr.period),
        sample_format: SampleFormat {
            data_addr: true,
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
            id: attr.read_format & attr::READ_ID != 0,
            time_enabled: attr.read_format & attr::READ_ENABLED != 0,
            time_running: attr.read_format & attr::READ_RUNNING != 0,
            lost_records: attr.read_format & attr::READ_LOST != 0,
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
    })
}

/// An event that a source wants on each processor that has it.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) attr: EventAttr,
    /// An event that must lead its group, and only counts.
    pub(crate) leader: Option<EventAttr>,
    /// Processors that have it; none for all.
    pub(crate) cpus: Option<CpuSet>,
    /// What kind of access its samples are, where the samples do not say.
    pub(crate) kind: AccessKind,
    /// How many times more events make a sample of it than the law of rates says.
    pub(crate) times: u64,
    /// Set in every period. With 1 periods are odd, so that a loop with an even number of accesses
    /// does not show the same one every time.
    pub(crate) low_bit: u64,
}

/// What a source wants on every processor: events that share a ring.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// What is to be seen, in a few words in the plural.
    pub(crate) what: &'static str,
    /// All with the same fields in their samples. The first that a processor has owns the ring.
    pub(crate) wanted: Vec<Wanted>,
    /// Pages of each ring, a power of two; fewer if the kernel does not allow as many.
    pub(crate) ring_pages: usize,
    pub(crate) settings: KernelSettings,
    /// Set when the first event is open: from then on fields stay as they are.
    settled: bool,
    /// Set when physical addresses were asked for and denied.
    physical_denied: bool,
    /// Pages of the trace that the first event of each processor has beside its ring; fewer if the
    /// kernel does not allow as many.
    trace_pages: Option<usize>,
}

/// Events of one processor with the ring that they write into.
#[derive(Debug)]
pub(crate) struct CpuEvents {
    pub(crate) cpu: CpuId,
    /// At least one; the first owns the ring.
    pub(crate) members: Vec<Member>,
    /// Kept open because their groups need them.
    leaders: Vec<OwnedFd>,
    pub(crate) ring: Ring,
    pub(crate) ring_pages: usize,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) file: OwnedFd,
    /// Which of the plan's events it is.
    wanted: usize,
    /// As it stands in its samples, if the source asks for that.
    pub(crate) id: u64,
    pub(crate) kind: AccessKind,
    read_format: u64,
}

impl Member {
    pub(crate) fn counts(&self, kernel: &dyn Kernel) -> io::Result<Counts> {
        kernel.counts(self.file.as_fd(), self.read_format)
    }
}

impl CpuEvents {
    /// The descriptor that becomes readable when the ring is half full.
    pub(crate) fn waiter(&self) -> BorrowedFd<'_> {
        self.members[0].file.as_fd()
    }

    /// Has all run, leaders first.
    pub(crate) fn enable(&self, kernel: &dyn Kernel) -> io::Result<()> {
        self.all()
            .try_for_each(|event| kernel.order(event, Order::Enable))
    }

    /// Has none run any more.
    pub(crate) fn disable(&self, kernel: &dyn Kernel) -> io::Result<()> {
        self.all()
            .try_for_each(|event| kernel.order(event, Order::Disable))
    }

    fn all(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let members = self.members.iter().map(|member| member.file.as_fd());
        self.leaders.iter().map(AsFd::as_fd).chain(members)
    }

    /// Has each sample as rarely as the plan says.
    pub(crate) fn follow(&self, kernel: &dyn Kernel, plan: &Plan) -> io::Result<()> {
        self.members.iter().try_for_each(|member| {
            let period = plan.wanted[member.wanted].attr.period;
            kernel.order(member.file.as_fd(), Order::Period(period))
        })
    }
}

impl Plan {
    pub(crate) fn new(
        what: &'static str,
        wanted: Vec<Wanted>,
        ring_pages: usize,
        settings: KernelSettings,
    ) -> Self {
        Self {
            what,
            wanted,
            ring_pages: ring_pages.max(1).next_power_of_two(),
            settings,
            settled: false,
            physical_denied: false,
            trace_pages: None,
        }
    }

    /// The same of events whose hardware writes a trace of its own; at least two pages, or the driver
    /// refuses.
    pub(crate) const fn with_trace(mut self, pages: usize) -> Self {
        self.trace_pages = Some(if pages < 2 { 2 } else { pages }.next_power_of_two());
        self
    }

    /// Bytes of the trace of each processor.
    pub(crate) fn trace_bytes(&self) -> Option<usize> {
        self.trace_pages.map(|pages| pages * page_bytes())
    }

    /// The layout of the records in every ring. To be asked when something is open.
    pub(crate) fn layout(&self) -> Layout {
        let fields = self
            .wanted
            .first()
            .map_or(0, |first| first.attr.sample_type);
        Layout::new(fields, Trailer::Present).expect("sources ask for fields that can be read")
    }

    /// Whether samples carry a field, as far as is known.
    pub(crate) fn carries(&self, field: Field) -> bool {
        self.wanted.iter().any(|wanted| wanted.attr.carries(field))
    }

    /// Whether physical addresses were wanted and denied.
    pub(crate) const fn physical_denied(&self) -> bool {
        self.physical_denied
    }

    /// How many events make a sample, from the next event that is opened on.
    pub(crate) fn set_period(&mut self, period: u64) {
        for wanted in &mut self.wanted {
            wanted.attr.period = period.saturating_mul(wanted.times) | wanted.low_bit;
        }
    }

    /// Opens what a processor has, with a ring of this many pages or, if the kernel does not allow
    /// that, fewer. None if the processor has no such event. Nothing runs until it is told to.
    ///
    /// What an older kernel does not know, or denies, and can be done without, is left out from then on.
    pub(crate) fn open(
        &mut self,
        kernel: &mut dyn Kernel,
        cpu: CpuId,
        ring_pages: usize,
    ) -> Result<Option<CpuEvents>, OpenError> {
        let settings = self.settings;
        let what = self.what;
        let refused = |step, error: &io::Error| OpenError::new(what, cpu, step, error, settings);
        let mut members: Vec<Member> = Vec::with_capacity(self.wanted.len());
        let mut leaders = Vec::new();
        for at in 0..self.wanted.len() {
            if self.wanted[at]
                .cpus
                .as_ref()
                .is_some_and(|cpus| !cpus.contains(cpu))
            {
                continue;
            }
            let (leader, file) = self
                .open_one(kernel, cpu, at)
                .map_err(|error| refused(Step::Event, &error))?;
            leaders.extend(leader);
            members.push(Member {
                file,
                wanted: at,
                id: 0,
                kind: self.wanted[at].kind,
                read_format: self.wanted[at].attr.read_format,
            });
        }
        if members.is_empty() {
            return Ok(None);
        }
        let (ring, ring_pages) = map(&members[0].file, ring_pages)
            .and_then(|(ring, pages)| Ok((self.map_trace(&members[0].file, ring)?, pages)))
            .map_err(|error| refused(Step::Ring, &error))?;
        self.ring_pages = self.ring_pages.min(ring_pages.max(1));
        let (owner, others) = members.split_at(1);
        for other in others {
            let order = Order::OutputTo(owner[0].file.as_fd());
            kernel
                .order(other.file.as_fd(), order)
                .map_err(|error| refused(Step::Event, &error))?;
        }
        if members.len() > 1 {
            for member in &mut members {
                let counts = member.counts(kernel);
                member.id = counts.map_err(|error| refused(Step::Event, &error))?.id;
            }
        }
        Ok(Some(CpuEvents {
            cpu,
            members,
            leaders,
            ring,
            ring_pages,
        }))
    }

    /// Maps the largest trace of up to so many pages that is allowed. A size that was refused is not tried
    /// again for the next processor: the limit is the same there.
    fn map_trace(&mut self, file: &OwnedFd, mut ring: Ring) -> io::Result<Ring> {
        while let Some(pages) = self.trace_pages {
            match ring.map_trace(file, pages) {
                Err(error)
                    if pages > 2
                        && matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOMEM)) =>
                {
                    self.trace_pages = Some(pages / 2);
                }
                other => return other.map(|()| ring),
            }
        }
        Ok(ring)
    }

    /// Opens one event and its leader, if it has one.
    fn open_one(
        &mut self,
        kernel: &mut dyn Kernel,
        cpu: CpuId,
        at: usize,
    ) -> io::Result<(Option<OwnedFd>, OwnedFd)> {
        let leader = match &self.wanted[at].leader {
            Some(leader) => Some(kernel.open(leader, cpu, None)?),
            None => None,
        };
        loop {
            let group = leader.as_ref().map(AsFd::as_fd);
            match kernel.open(&self.wanted[at].attr, cpu, group) {
                Ok(file) => {
                    self.settled = true;
                    return Ok((leader, file));
                }
                Err(error) if self.reduce(at, error.raw_os_error().unwrap_or(0)) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Asks for less, if something can be left out that may be why this was refused.
    fn reduce(&mut self, at: usize, errno: i32) -> bool {
        let attr = &mut self.wanted[at].attr;
        // x86 says so of an event that it cannot sample this precisely; perf steps down as well.
        if errno == libc::EOPNOTSUPP && attr.precise > 1 {
            attr.precise -= 1;
            return true;
        }
        if self.settled {
            return false;
        }
        let attr = *attr;
        match errno {
            // Linux 6.0.
            libc::EINVAL if attr.read_format & attr::READ_LOST != 0 => {
                self.each(|attr| attr.read_format &= !attr::READ_LOST);
            }
            // Linux 5.12.
            libc::EINVAL if attr.carries(Field::WeightStruct) => self.each(|attr| {
                *attr = attr
                    .with(Field::WeightStruct, false)
                    .with(Field::Weight, true);
            }),
            libc::EACCES | libc::EPERM if attr.carries(Field::PhysAddr) => {
                self.physical_denied = true;
                self.each(|attr| *attr = attr.with(Field::PhysAddr, false));
            }
            _ => return false,
        }
        true
    }

    fn each(&mut self, change: impl Fn(&mut EventAttr)) {
        self.wanted
            .iter_mut()
            .for_each(|wanted| change(&mut wanted.attr));
    }
}

/// Maps the largest ring of up to so many pages that is allowed.
fn map(file: &OwnedFd, mut pages: usize) -> io::Result<(Ring, usize)> {
    loop {
        match Ring::map(file, pages) {
            Err(error)
                if pages > 1
                    && matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOMEM)) =>
            {
                pages /= 2;
            }
            other => return other.map(|ring| (ring, pages)),
        }
    }
}

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod privileged;
#[cfg(test)]
mod tests;
