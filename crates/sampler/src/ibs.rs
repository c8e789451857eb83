//! The source `ibs`: operations as AMD's processors sample them.
//!
//! Every so-many-th dispatched operation is followed to its end. Those that were loads or stores tell
//! address, latency and level. Counting dispatched operations, not cycles, keeps slow operations from
//! being sampled more often than they happen; sampling misses alone (`l3missonly`) is not used,
//! because it skews the period. Samples are doubted, see [`crate::data_source::is_consistent`] and
//! [`crate::Source::set_mappings`].

use std::borrow::Cow;

use numad_core::AccessKind;
use topology::CpuId;

use crate::attr::{self, EventAttr};
use crate::choose::IbsUnit;
use crate::decode::Field;
use crate::kernel::KernelSettings;
use crate::live::{Counted, Live};
use crate::memory::{self, Belief, MemoryOptions};
use crate::open::{Kernel, LiveKernel, OpenError, Plan, Refused, Wanted};
use crate::pmu::{DescriptionError, Pmus, Role};
use crate::processor::OnProcessors;
use crate::rate::{RateLaw, RateOptions};
use crate::source::{Coverage, Covers, SourceStatus};

/// What is sampled, in messages.
const WHAT: &str = "operations";

/// The source `ibs`. Dropping it closes the events.
#[derive(Debug)]
pub struct Ibs {
    live: Live<Belief>,
    unit: IbsUnit,
    physical_wanted: bool,
}

impl Ibs {
    /// Opens the event of this unit, which [`crate::choose`] found, on every given processor.
    ///
    /// # Errors
    /// The first refusal; nothing stays open then.
    pub fn open(options: &MemoryOptions, unit: IbsUnit, pmus: &Pmus) -> Result<Self, OpenError> {
        Self::open_with(Box::new(LiveKernel), options, unit, pmus)
    }

    pub(crate) fn open_with(
        kernel: Box<dyn Kernel>,
        options: &MemoryOptions,
        unit: IbsUnit,
        pmus: &Pmus,
    ) -> Result<Self, OpenError> {
        let none = OpenError {
            what: WHAT,
            cpu: options.cpus.iter().next().unwrap_or(CpuId(0)),
            refused: Refused::NoSuchEvent,
        };
        // The terms were read from the same place a moment ago.
        let Ok(Some(wanted)) = wanted(options, unit, pmus) else {
            return Err(none);
        };
        let settings = KernelSettings::read(&options.root);
        let plan = Plan::new(WHAT, vec![wanted], options.ring_pages, settings);
        let machine = (kernel, RateLaw::new(rates(options.period)));
        let live = Live::open(
            Belief::Checked,
            plan,
            Counted::ByHardware,
            machine,
            &options.cpus,
        )?;
        Ok(Self {
            live,
            unit,
            physical_wanted: options.physical,
        })
    }

    fn notes(&self) -> Vec<Cow<'static, str>> {
        let mut notes = self.live.notes();
        if !self.unit.counts_operations {
            notes.push(
                "this processor counts cycles alone, so slow operations are sampled more often than \
                 they happen"
                    .into(),
            );
        }
        if !self.unit.filters_kernel {
            notes.push(
                "samples of the kernel are taken and dropped; Linux 6.14 and later leave them out"
                    .into(),
            );
        }
        if self.live.plan().physical_denied() {
            notes.push("physical addresses are denied; grant CAP_PERFMON".into());
        }
        notes
    }
}

/// The event to open; none if its device is gone.
///
/// # Errors
/// When the unit lacks a term that it was said to have.
pub(crate) fn wanted(
    options: &MemoryOptions,
    unit: IbsUnit,
    pmus: &Pmus,
) -> Result<Option<Wanted>, DescriptionError> {
    let Some(pmu) = pmus.of(Role::IbsOp).next() else {
        return Ok(None);
    };
    let description = match (unit.counts_operations, unit.filters_kernel) {
        (true, true) => "cnt_ctl=1,swfilt=1",
        (true, false) => "cnt_ctl=1",
        (false, true) => "swfilt=1",
        (false, false) => "",
    };
    let attr = options.attr();
    // Without the filter the kernel refuses every event that leaves anything out.
    let excluded = if unit.filters_kernel {
        attr::FLAG_EXCLUDE_KERNEL
    } else {
        0
    };
    let attr = EventAttr {
        kind: unit.kind,
        config: pmu.encode(description)?.config,
        flags: attr.flags | attr::FLAG_TASKS | attr::FLAG_NAMES | excluded,
        ..attr
    };
    Ok(Some(Wanted {
        // Whose code it was is in the address of the instruction.
        attr: attr.with(Field::Ip, !unit.filters_kernel),
        leader: None,
        cpus: None,
        kind: AccessKind::Unknown,
        times: 1,
        low_bit: 0,
    }))
}

const fn rates(period: u64) -> RateOptions {
    RateOptions {
        start: if period == 0 { PERIOD_START } else { period },
        least: PERIOD_MIN,
        most: PERIOD_MAX,
        step: PERIOD_STEP,
        fixed: period != 0,
        target_ns: TARGET_NS,
    }
}

impl OnProcessors for Ibs {
    type Reading = Belief;

    fn live(&self) -> &Live<Belief> {
        &self.live
    }

    fn live_mut(&mut self) -> &mut Live<Belief> {
        &mut self.live
    }

    fn status(&self) -> SourceStatus {
        let fine = self.unit.fine_levels;
        SourceStatus {
            name: "ibs",
            provocation: "operations sampled by the processor",
            coverage: Coverage {
                loads: Covers::Yes,
                stores: Covers::Yes,
                latency: Covers::Partly("of loads that missed the first cache"),
                levels: if fine {
                    Covers::Partly("of loads")
                } else {
                    Covers::Partly("of loads; caches of other packages are not told apart")
                },
                physical: memory::physical(
                    self.live.plan().carries(Field::PhysAddr),
                    self.physical_wanted,
                ),
            },
            notes: self.notes(),
            cpus: self.live.cpus(),
            ring_bytes: self.live.ring_bytes(),
        }
    }
}

/// Operations for each sample to begin with: a core that does eight thousand million a second gives
/// 7,600 samples.
const PERIOD_START: u64 = 1 << 20;

/// Fewer would be an interrupt every few microseconds.
const PERIOD_MIN: u64 = 1 << 14;

/// The hardware counts to 2^27; the kernel counts on from there.
const PERIOD_MAX: u64 = 1 << 32;

/// The lowest four bits of the hardware's count are zero, and the kernel refuses others.
const PERIOD_STEP: u64 = 16;

/// What a sample costs the program: a non-maskable interrupt that reads a dozen registers. An
/// estimate, for no machine with IBS was at hand.
const TARGET_NS: u32 = 2_000;

#[cfg(test)]
mod tests;
