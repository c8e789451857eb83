//! The source `spe`: operations as Arm's Statistical Profiling Extension samples them.
//!
//! The processor writes what it saw of each sampled operation as a row of [`packet`]s, which make a
//! [`record`], into memory beside the ring: loads and stores, with the address, the latency, what
//! answered, and when on its own timer. It does not say whose they were, unless the kernel keeps the
//! thread in a register for it. So beside each profiling event runs one that does nothing but tell in
//! the ring who runs; both use the kernel's own clock of events, to which the timer
//! converts exactly, and times leave here on the daemon's clock.

pub(crate) mod clock;
pub mod packet;
pub mod record;
pub(crate) mod timeline;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use numad_core::{AccessKind, Lifecycle, Record, Sample, Time};
use topology::{CpuId, CpuSet};

use crate::attr::{self, EventAttr};
use crate::choose::SpeUnit;
use crate::decode::{Body, Field, SampleView};
use crate::kernel::KernelSettings;
use crate::live::{Access, Counted, Live, Reading, Unusable};
use crate::memory::MemoryOptions;
use crate::open::{Kernel, LiveKernel, OpenError, Plan, Refused, Wanted};
use crate::pmu::{DescriptionError, Pmu, Pmus};
use crate::processor::OnProcessors;
use crate::provoke::Clock;
use crate::rate::{RateLaw, RateOptions};
use crate::ring::page_bytes;
use crate::source::{Coverage, Covers, Drained, SourceStatus};

use self::clock::Shift;
use self::record::{Maker, SpeRecord};

/// What is sampled, in messages.
const WHAT: &str = "loads and stores";

/// The source `spe`. Dropping it closes the events.
pub struct Spe {
    live: Live<SpeReading>,
    physical: Covers,
    /// Why some processors say less about what answered.
    unknown_makers: usize,
    clock: Clock,
    shift: Shift,
    /// Records that came before the distance of the clocks was known.
    early: Vec<Record>,
}

impl fmt::Debug for Spe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spe")
            .field("live", &self.live)
            .field("physical", &self.physical)
            .field("shift", &self.shift)
            .finish_non_exhaustive()
    }
}

/// What is known about the processors whose records are read.
#[derive(Debug)]
pub(crate) struct SpeReading {
    /// Of those whose numbers are known.
    makers: BTreeMap<CpuId, Maker>,
    trusts_context: bool,
}

impl Reading for SpeReading {
    /// The profiling event writes no samples into its ring.
    fn access<B: Body>(
        &self,
        _view: &SampleView<'_, B>,
        _kind: AccessKind,
    ) -> Result<Access, Unusable> {
        Err(Unusable::NotAnAccess)
    }

    #[inline]
    fn trace_access(&self, record: &SpeRecord, cpu: CpuId) -> Result<Access, Unusable> {
        let kind = record.access().ok_or(Unusable::NotAnAccess)?;
        // An operation that was given up before it had an address.
        let address = record.data_address().filter(|address| *address != 0);
        let address = address.ok_or(Unusable::NotAnAccess)?;
        if record.exception_level().is_some_and(|level| level != 0) {
            return Err(Unusable::Kernel);
        }
        Ok(Access {
            address,
            physical: record.physical_address().unwrap_or_default(),
            kind,
            served: record.served(self.makers.get(&cpu).copied()),
            weight: record.total_cycles.into(),
        })
    }

    fn trusts_context(&self) -> bool {
        self.trusts_context
    }
}

impl Spe {
    /// Opens the events of these units, which [`crate::choose`] found, on their processors. `clock` tells
    /// the time in the same terms as the `now` that the source is given.
    ///
    /// # Errors
    /// The first refusal; nothing stays open then.
    pub fn open(
        options: &MemoryOptions,
        units: &[SpeUnit],
        pmus: &Pmus,
        clock: Clock,
    ) -> Result<Self, OpenError> {
        Self::open_with(|| Box::new(LiveKernel), options, units, pmus, clock)
    }

    pub(crate) fn open_with(
        kernel: impl Fn() -> Box<dyn Kernel>,
        options: &MemoryOptions,
        units: &[SpeUnit],
        pmus: &Pmus,
        clock: Clock,
    ) -> Result<Self, OpenError> {
        let physical = options.physical && units.iter().all(|unit| unit.physical);
        let live = match Self::listen(kernel(), options, units, pmus, physical) {
            Err(OpenError {
                refused: Refused::NotPermitted { .. },
                ..
            }) if physical => {
                let live = Self::listen(kernel(), options, units, pmus, false)?;
                return Ok(Self::of(live, Covers::No("not permitted"), clock));
            }
            other => other?,
        };
        let physical = match (physical, options.physical) {
            (true, _) => Covers::Yes,
            (false, true) => Covers::No("the kernel's driver does not offer them"),
            (false, false) => Covers::No("switched off by sampling.physical_addresses"),
        };
        Ok(Self::of(live, physical, clock))
    }

    fn of(
        (live, unknown_makers): (Live<SpeReading>, usize),
        physical: Covers,
        clock: Clock,
    ) -> Self {
        Self {
            live,
            physical,
            unknown_makers,
            clock,
            shift: Shift::default(),
            early: Vec::new(),
        }
    }

    fn listen(
        kernel: Box<dyn Kernel>,
        options: &MemoryOptions,
        units: &[SpeUnit],
        pmus: &Pmus,
        physical: bool,
    ) -> Result<(Live<SpeReading>, usize), OpenError> {
        let none = OpenError {
            what: WHAT,
            cpu: options.cpus.iter().next().unwrap_or(CpuId(0)),
            refused: Refused::NoSuchEvent,
        };
        // The terms were read from the same place a moment ago.
        let Ok(wanted) = wanted(units, pmus, physical) else {
            return Err(none);
        };
        if wanted.is_empty() {
            return Err(none);
        }
        let settings = KernelSettings::read(&options.root);
        let trace_pages = TRACE_BYTES / page_bytes();
        let plan = Plan::new(WHAT, wanted, options.ring_pages, settings).with_trace(trace_pages);
        let reading = SpeReading {
            makers: makers(&options.root, &options.cpus),
            trusts_context: in_first_name_space(&options.root),
        };
        let unknown = options.cpus.len() - reading.makers.len();
        let machine = (kernel, RateLaw::new(rates(options.period, units)));
        let live = Live::open(reading, plan, Counted::ByHardware, machine, &options.cpus)?;
        Ok((live, unknown))
    }

    fn notes(&self) -> Vec<Cow<'static, str>> {
        let mut notes = self.live.notes();
        if self.unknown_makers > 0 {
            notes.push(
                format!(
                    "{} processors are of a make whose numbers for what answered are not known; of \
                     these only the caches that hit are told",
                    self.unknown_makers
                )
                .into(),
            );
        }
        if matches!(self.physical, Covers::No("not permitted")) {
            notes.push(
                "physical addresses are denied, so memory that processes share is seen as several; \
                 grant CAP_PERFMON"
                    .into(),
            );
        }
        notes
    }
}

/// The events to open: for each unit the profiling of loads and stores of programs, which owns ring and
/// trace, and for all one that tells who runs and who comes and goes.
///
/// There is no threshold of latency: the hardware holds stores to it as well, and most of them are
/// done long before, for nobody waits for them.
///
/// # Errors
/// When a unit lacks a term that it was said to have.
pub(crate) fn wanted(
    units: &[SpeUnit],
    pmus: &Pmus,
    physical: bool,
) -> Result<Vec<Wanted>, DescriptionError> {
    let mut wanted = Vec::with_capacity(units.len() + 1);
    let mut cpus = Some(CpuSet::default());
    for unit in units {
        let Some(pmu) = pmus.find(&unit.pmu) else {
            continue;
        };
        let theirs = unit.cpus.as_ref();
        cpus = cpus.zip(theirs).map(|(all, theirs)| all.union(theirs));
        wanted.push(want(profiling(unit, pmu, physical)?, unit.cpus.clone()));
    }
    if !wanted.is_empty() {
        wanted.push(want(telling(), cpus));
    }
    Ok(wanted)
}

const fn want(attr: EventAttr, cpus: Option<CpuSet>) -> Wanted {
    Wanted {
        attr,
        leader: None,
        cpus,
        kind: AccessKind::Unknown,
        times: 1,
        low_bit: 0,
    }
}

/// What both events ask for. The same clock, the kernel's own, or they could not share a ring.
fn common() -> EventAttr {
    EventAttr {
        period: 1,
        sample_type: attr::fields(&[Field::Tid, Field::Time, Field::Cpu]),
        read_format: attr::READ_ENABLED | attr::READ_RUNNING | attr::READ_ID | attr::READ_LOST,
        flags: attr::FLAG_DISABLED
            | attr::FLAG_EXCLUDE_KERNEL
            | attr::FLAG_TRAILERS
            | attr::FLAG_WATERMARK,
        ..EventAttr::default()
    }
}

fn profiling(unit: &SpeUnit, pmu: &Pmu, physical: bool) -> Result<EventAttr, DescriptionError> {
    // A loop whose length divides the interval would show the same operation every time.
    let jitter = if pmu.has_term("jitter") {
        ",jitter=1"
    } else {
        ""
    };
    let physical = if physical { ",pa_enable=1" } else { "" };
    let terms = format!("ts_enable=1,load_filter=1,store_filter=1{jitter}{physical}");
    Ok(EventAttr {
        kind: unit.kind,
        config: pmu.encode(&terms)?.config,
        ..common()
    })
}

fn telling() -> EventAttr {
    let common = common();
    EventAttr {
        kind: attr::KIND_SOFTWARE,
        config: [attr::SOFTWARE_DUMMY, 0, 0, 0],
        flags: common.flags | attr::FLAG_TASKS | attr::FLAG_NAMES | attr::FLAG_SWITCHES,
        ..common
    }
}

fn rates(period: u64, units: &[SpeUnit]) -> RateOptions {
    let recommended = units.iter().filter_map(|unit| unit.interval_min).max();
    RateOptions {
        start: if period == 0 { PERIOD_START } else { period },
        least: recommended.unwrap_or(PERIOD_MIN).max(PERIOD_STEP),
        most: PERIOD_MAX,
        step: PERIOD_STEP,
        fixed: period != 0,
        target_ns: TARGET_NS,
    }
}

/// Whose numbers the processors use, of those that are known.
fn makers(root: &Path, cpus: &CpuSet) -> BTreeMap<CpuId, Maker> {
    let maker = |cpu: CpuId| {
        let path = format!("sys/devices/system/cpu/cpu{cpu}/regs/identification/midr_el1");
        let text = fs::read_to_string(root.join(path)).ok()?;
        let digits = text.trim().strip_prefix("0x")?;
        Maker::of(u64::from_str_radix(digits, 16).ok()?)
    };
    let known = cpus.iter().filter_map(|cpu| Some((cpu, maker(cpu)?)));
    known.collect()
}

/// Whether we see processes by the numbers that the kernel writes into registers.
fn in_first_name_space(root: &Path) -> bool {
    fs::read_link(root.join("proc/self/ns/pid"))
        .is_ok_and(|target| target.as_os_str() == FIRST_NAME_SPACE)
}

/// A record on another clock.
fn shifted(record: &Record, by: u64) -> Record {
    let at = |time: Time| Time(time.0.wrapping_add(by));
    match record {
        Record::Sample(sample) => Record::Sample(Sample {
            time: at(sample.time),
            ..*sample
        }),
        Record::Lifecycle(change) => {
            let mut change = change.clone();
            let (Lifecycle::Fork { time, .. }
            | Lifecycle::Exit { time, .. }
            | Lifecycle::Renamed { time, .. }) = &mut change;
            *time = at(*time);
            Record::Lifecycle(change)
        }
        Record::Lost(count) => Record::Lost(*count),
        Record::Sent(sent) => Record::Sent(*sent),
    }
}

const fn time_of(record: &Record) -> Option<u64> {
    match record {
        Record::Sample(sample) => Some(sample.time.0),
        Record::Lifecycle(
            Lifecycle::Fork { time, .. }
            | Lifecycle::Exit { time, .. }
            | Lifecycle::Renamed { time, .. },
        ) => Some(time.0),
        Record::Lost(_) | Record::Sent(_) => None,
    }
}

impl OnProcessors for Spe {
    type Reading = SpeReading;

    fn live(&self) -> &Live<SpeReading> {
        &self.live
    }

    fn live_mut(&mut self) -> &mut Live<SpeReading> {
        &mut self.live
    }

    fn status(&self) -> SourceStatus {
        SourceStatus {
            name: "spe",
            provocation: "loads and stores sampled by the processor",
            coverage: Coverage {
                loads: Covers::Yes,
                stores: Covers::Yes,
                latency: Covers::Yes,
                levels: if self.unknown_makers == 0 {
                    Covers::Partly("of loads; of stores the caches that hit")
                } else {
                    Covers::Partly("the caches that hit; this make's numbers are not known")
                },
                physical: self.physical,
            },
            notes: self.notes(),
            cpus: self.live.cpus(),
            ring_bytes: self
                .live
                .plan()
                .trace_bytes()
                .unwrap_or_else(|| self.live.ring_bytes()),
        }
    }

    fn read(&mut self, out: &mut dyn FnMut(&Record)) -> Drained {
        let known = self.shift.known();
        let early = &mut self.early;
        let mut youngest = None;
        let gave = self.live.drain(&mut |record| {
            youngest = youngest.max(time_of(record));
            match known {
                Some(by) => out(&shifted(record, by)),
                None => early.push(record.clone()),
            }
        });
        if let Some(youngest) = youngest {
            self.shift.learn((self.clock)(), youngest);
        }
        if let Some(by) = self.shift.known() {
            let early = std::mem::take(&mut self.early);
            early.iter().for_each(|record| out(&shifted(record, by)));
        }
        gave.drained
    }
}

/// Bytes of the trace of each processor. The kernel hands over half of it at a time, some 500 samples:
/// a twentieth of a second of a busy processor, and not so few that the interrupt for it matters.
const TRACE_BYTES: usize = 64 * 1024;

/// Operations for each sample to begin with: a busy core does some two thousand million a second, of
/// which less than half reach memory; this gives 7,000 samples of them.
const PERIOD_START: u64 = 1 << 17;

/// Where the processor recommends none.
const PERIOD_MIN: u64 = 4096;

/// The hardware counts in so many.
const PERIOD_STEP: u64 = 256;

/// The largest of which the hardware has the bits.
const PERIOD_MAX: u64 = 0xffff_ff00;

/// What a sample costs the program: writing 64 bytes beside it, and its part of an interrupt for 500.
/// An estimate, for no machine with SPE was at hand.
const TARGET_NS: u32 = 50;

/// The name space of processes that the kernel begins with (`PROC_PID_INIT_INO`).
const FIRST_NAME_SPACE: &str = "pid:[4026531836]";

#[cfg(test)]
mod tests;
