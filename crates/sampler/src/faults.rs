//! The source `faults`: the kernel's page-fault event on every processor.
//!
//! Needs no hardware counters. A sample is a page fault: thread, address, processor, time; not whether
//! it was a read or a write. Faults happen at a page's first touch and when something provokes them
//! again (see [`crate::provoke`]).

use std::borrow::Cow;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::Duration;

use numad_core::{AccessKind, Record, ServedBy, Time};
use topology::{CpuSet, Pid};

use crate::attr::{self, EventAttr};
use crate::decode::{Body, Field, SampleView};
use crate::kernel::KernelSettings;
use crate::law::ClearOptions;
use crate::live::{Access, Counted, Live, Reading, Unusable};
use crate::open::{LiveKernel, OpenError, Plan, Wanted};
use crate::provoke::{
    Bounded, Clock, LiveClear, Provocation, ProvokeMode, Provoker, fault_cost,
    soft_dirty_supported, unbounded,
};
use crate::rate::{RateChange, RateLaw, RateOptions};
use crate::source::{
    AttachRefused, Coverage, Covers, Drained, Losses, RateStatus, Source, SourceStatus, Spending,
};

/// Pages of each processor's ring by default: 256 KiB of 4 KiB pages, which hold some 6,000 faults, a
/// tenth of a second of the worst that one processor does; within the 516 KiB that the kernel
/// lets any user lock.
pub const RING_PAGES_DEFAULT: usize = 64;

/// What a sampled fault costs the program that faults, in nanoseconds: bench `fault_overhead`, 20,000
/// faults a second sampled one by one, lost 1.06 % +- 0.64 % by processor time, 530 ns each.
const TARGET_NS: u32 = 550;

/// What [`fault_cost`] says of the machine where that was measured. Where a fault costs more, so does a sample.
const FAULT_THERE: Duration = Duration::from_nanos(1_400);

/// Longest period: a program that faults a million times a second is still seen once a second.
const PERIOD_MAX: u64 = 1_000_000;

/// How the source is opened.
pub struct FaultOptions {
    /// Processors to listen on.
    pub cpus: CpuSet,
    /// Pages of each ring, a power of two; halved until the kernel allows it.
    pub ring_pages: usize,
    /// Page faults for each sample; 0 to follow the budget.
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
    /// Gives up clears that take too long.
    pub bounded: Bounded,
}

impl FaultOptions {
    /// The defaults, for a live machine.
    #[must_use]
    pub fn new(cpus: CpuSet, clock: Clock) -> Self {
        Self {
            cpus,
            ring_pages: RING_PAGES_DEFAULT,
            period: 0,
            root: PathBuf::from("/"),
            provoke: ProvokeMode::Auto,
            clear: ClearOptions::default(),
            clock,
            bounded: unbounded(),
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
    live: Live<FaultReading>,
    provocation: Provocation,
    mode: ProvokeMode,
    provoker: Provoker,
    /// Faults that samples stand for since the provoker was last told.
    faults_untold: u64,
    brought: Brought,
    /// Samples that are enough between two clears, and for how many faults each stands then.
    enough: u64,
    period: u64,
    /// Why it is not known whether there are soft-dirty bits.
    probe_error: Option<String>,
}

/// How many faults clears bring: one for each page that is written, but for all of a huge page one.
#[derive(Debug, Default)]
struct Brought {
    /// Since the last clear.
    now: u64,
    /// The most that one brought, a clear before counting a part; none before there was one.
    most: Option<u64>,
}

impl Brought {
    /// How many faults a clear of so many pages will bring at most.
    fn expected(&mut self, pages: u64) -> u64 {
        let now = std::mem::take(&mut self.now);
        let most = self.most.map(|most| now.max(most / FORGOTTEN));
        self.most = Some(most.unwrap_or(pages));
        // More may be written than lately.
        most.map_or(pages, |most| pages.min(most.saturating_mul(2)))
    }
}

/// What a clear brought counts so much less with each one after it. Of 256 MiB in huge pages all
/// faults are sampled from the third clear on; by halves it would be the seventh. A program that
/// writes all its memory again is sampled so many times more than is needed, once.
const FORGOTTEN: u64 = 8;

/// For how many faults each sample is to stand after so many since the last clear, if that is twice
/// as many as now or more: a clear brings more than was expected, or a program starts.
fn thinned(faults: u64, enough: u64, period: u64) -> Option<u64> {
    let needed = faults / enough;
    (needed >= 2 * period).then_some(needed)
}

/// A page fault says where and who, and nothing else.
#[derive(Clone, Copy, Debug)]
struct FaultReading;

impl Reading for FaultReading {
    #[inline]
    fn access<B: Body>(
        &self,
        view: &SampleView<'_, B>,
        _kind: AccessKind,
    ) -> Result<Access, Unusable> {
        Ok(Access {
            address: view.number(Field::Addr).ok_or(Unusable::NotAnAccess)?,
            physical: 0,
            kind: AccessKind::Unknown,
            served: ServedBy::Unknown,
            weight: 0,
        })
    }
}

/// The page-fault event as it is asked for.
///
/// Samples do not carry their period: for a software event that does, the kernel ignores the period
/// asked for and samples every event (`perf_swevent_event`).
#[must_use]
pub fn fault_attr() -> EventAttr {
    EventAttr {
        kind: attr::KIND_SOFTWARE,
        config: [attr::SOFTWARE_PAGE_FAULTS, 0, 0, 0],
        period: 1,
        sample_type: attr::fields(&[Field::Tid, Field::Time, Field::Addr, Field::Cpu]),
        read_format: attr::READ_ENABLED | attr::READ_RUNNING | attr::READ_LOST,
        flags: attr::FLAG_DISABLED
            | attr::FLAG_TASKS
            | attr::FLAG_NAMES
            | attr::FLAG_TRAILERS
            | attr::FLAG_WATERMARK,
        precise: 0,
        // The daemon's clock, so that times compare.
        clock: Some(libc::CLOCK_MONOTONIC),
    }
}

/// What a sample costs in nanoseconds where a page fault costs so much; never less than was measured once.
fn sample_cost(fault: Duration) -> u32 {
    let times = fault.as_nanos().max(FAULT_THERE.as_nanos());
    let cost = u128::from(TARGET_NS) * times / FAULT_THERE.as_nanos();
    u32::try_from(cost).unwrap_or(u32::MAX)
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
        let fault = fault_cost(&options.clock);
        let wanted = Wanted {
            attr: fault_attr(),
            leader: None,
            cpus: None,
            kind: AccessKind::Unknown,
            times: 1,
            low_bit: 0,
        };
        let plan = Plan::new("page faults", vec![wanted], options.ring_pages, kernel);
        let law = RateLaw::new(RateOptions {
            start: options.period.max(1),
            least: 1,
            most: PERIOD_MAX.max(options.period),
            step: 1,
            fixed: options.period != 0,
            target_ns: sample_cost(fault),
        });
        let machine = (Box::new(LiveKernel) as _, law);
        let live = Live::open(
            FaultReading,
            plan,
            Counted::BySoftware,
            machine,
            &options.cpus,
        )?;
        let clear = LiveClear::new(&options.root, options.clock, options.bounded);
        let mut provoker = Provoker::new(options.clear, Box::new(clear));
        provoker.faults_cost(fault);
        Ok(Self {
            live,
            provocation: Provocation::choose(options.provoke, soft_dirty, kernel.numa_balancing),
            mode: options.provoke,
            provoker,
            faults_untold: 0,
            brought: Brought::default(),
            enough: u64::MAX,
            period: 1,
            probe_error: probed.err().map(|error| error.to_string()),
        })
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
        notes.extend(self.live.notes());
        notes
    }
}

impl Source for Faults {
    fn attach(&mut self, pid: Pid) -> Result<(), AttachRefused> {
        self.live.attach(pid)
    }

    fn detach(&mut self, pid: Pid) {
        self.live.detach(pid);
        self.provoker.remove(pid);
    }

    fn drain(&mut self, out: &mut dyn FnMut(&Record)) -> Drained {
        let gave = self.live.drain(out);
        let faults = gave.samples.saturating_mul(self.live.rate().period);
        self.faults_untold = self.faults_untold.saturating_add(faults);
        let all = self.brought.now.saturating_add(self.faults_untold);
        if self.provocation == Provocation::SoftDirty
            && let Some(period) = thinned(all, self.enough, self.period)
        {
            self.period = period;
            self.live.enough(period);
        }
        gave.drained
    }

    fn losses(&self) -> Losses {
        self.live.losses()
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
            cpus: self.live.cpus(),
            ring_bytes: self.live.ring_bytes(),
        }
    }

    fn counts_accesses(&self) -> bool {
        false
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.live.wait_fd())
    }

    fn provoke(&mut self, now: Time, enough: u32) -> Option<Time> {
        let joined = self.live.take_joined();
        if self.provocation != Provocation::SoftDirty {
            return None;
        }
        for pid in joined {
            self.provoker.add(now, pid);
        }
        self.enough = u64::from(enough.max(1));
        let faults = std::mem::take(&mut self.faults_untold);
        self.provoker.faulted(now, faults);
        self.brought.now = self.brought.now.saturating_add(faults);
        let Self {
            provoker,
            live,
            brought,
            ..
        } = self;
        let (enough, period) = (self.enough, &mut self.period);
        provoker.poll(now, &mut |pages| {
            *period = (brought.expected(pages) / enough).max(1);
            live.enough(*period);
        })
    }

    fn stirred(&mut self, now: Time, pid: Pid) {
        self.provoker.stirred(now, pid);
    }

    fn refresh(&mut self, online: &CpuSet) -> Vec<OpenError> {
        self.live.refresh(online)
    }

    fn regulate(&mut self, now: Time, spending: &Spending) -> Option<RateChange> {
        self.live.regulate(now, spending)
    }

    fn rate(&self) -> Option<RateStatus> {
        Some(self.live.rate())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_gives_a_few_times_what_is_enough() {
        let (mut samples, mut period) = (0, 1);
        for faults in (1_000..=1_000_000).step_by(1_000) {
            samples += 1_000 / period;
            period = thinned(faults, 2_000, period).unwrap_or(period);
        }
        // 2,000 with each doubling, of which there are nine.
        assert!((12_000..24_000).contains(&samples), "{samples}");
        assert_eq!(thinned(3_999, 2_000, 1), None, "less than twice too many");
    }

    #[test]
    fn what_clears_bring_is_learned_of_those_before() {
        let mut brought = Brought::default();
        let mut next = |faults: u64| {
            brought.now += faults;
            brought.expected(65_536)
        };
        // Small pages that are all written, then huge ones, of which there are 128, and small ones
        // again.
        let small = [0, 65_536, 65_536].map(&mut next);
        assert_eq!(small, [65_536; 3]);
        let huge = [128; 12].map(&mut next);
        assert_eq!(huge[..4], [16_384, 2_048, 256, 256]);
        assert_eq!(huge[11], 256);
        assert_eq!(next(65_536), 65_536);
    }
}
