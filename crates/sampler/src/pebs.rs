//! The source `pebs`: loads and stores as Intel's processors sample them.
//!
//! Loads that took longer than a threshold, and stores, each an event of its own, both in one ring on
//! each processor. What an event is called and how it is written is read from /sys (see
//! [`crate::pmu`]), so hybrid processors have the events of each kind of core on its processors.

use std::borrow::Cow;

use numad_core::AccessKind;
use topology::{CpuId, CpuSet};

use crate::attr::{self, EventAttr};
use crate::choose::PebsCore;
use crate::decode::Field;
use crate::kernel::KernelSettings;
use crate::live::{Counted, Live};
use crate::memory::{self, Belief, MemoryOptions};
use crate::open::{Kernel, LiveKernel, OpenError, Plan, Refused, Wanted};
use crate::pmu::{DescriptionError, Pmu, Pmus};
use crate::processor::OnProcessors;
use crate::rate::{RateLaw, RateOptions};
use crate::source::{Coverage, Covers, SourceStatus};

/// What is sampled, in messages.
const WHAT: &str = "loads and stores";

/// The source `pebs`. Dropping it closes the events.
#[derive(Debug)]
pub struct Pebs {
    live: Live<Belief>,
    loads: Covers,
    stores: Covers,
    physical_wanted: bool,
}

impl Pebs {
    /// Opens the events of these cores, which [`crate::choose`] found, on their processors.
    ///
    /// # Errors
    /// The first refusal; nothing stays open then.
    pub fn open(
        options: &MemoryOptions,
        cores: &[PebsCore],
        pmus: &Pmus,
    ) -> Result<Self, OpenError> {
        Self::open_with(Box::new(LiveKernel), options, cores, pmus)
    }

    pub(crate) fn open_with(
        kernel: Box<dyn Kernel>,
        options: &MemoryOptions,
        cores: &[PebsCore],
        pmus: &Pmus,
    ) -> Result<Self, OpenError> {
        // The aliases were read from the same place a moment ago.
        let wanted = wanted(options, cores, pmus).map_err(|_gone| OpenError {
            what: WHAT,
            cpu: options.cpus.iter().next().unwrap_or(CpuId(0)),
            refused: Refused::NoSuchEvent,
        })?;
        let settings = KernelSettings::read(&options.root);
        let plan = Plan::new(WHAT, wanted, options.ring_pages, settings);
        let law = RateLaw::new(rates(options.period));
        let machine = (kernel, law);
        let live = Live::open(
            Belief::Full,
            plan,
            Counted::ByHardware,
            machine,
            &options.cpus,
        )?;
        let threshold = cores.iter().all(|core| core.threshold);
        Ok(Self {
            live,
            loads: match (cores.iter().any(|core| core.loads), threshold) {
                (false, _) => Covers::No("this processor has no event for loads"),
                (true, true) => Covers::Partly("those slower than sampling.load_latency_min"),
                (true, false) => Covers::Partly("those slower than the processor's threshold"),
            },
            stores: if cores.iter().any(|core| core.stores) {
                Covers::Yes
            } else {
                Covers::No("this processor has no event for stores")
            },
            physical_wanted: options.physical,
        })
    }

    fn notes(&self) -> Vec<Cow<'static, str>> {
        let mut notes = self.live.notes();
        if self.live.plan().physical_denied() {
            notes.push(
                "physical addresses are denied, so memory that processes share is seen as several; \
                 grant CAP_PERFMON"
                    .into(),
            );
        }
        notes
    }
}

/// The events to open.
///
/// # Errors
/// When a core lacks an event that it was said to have.
pub(crate) fn wanted(
    options: &MemoryOptions,
    cores: &[PebsCore],
    pmus: &Pmus,
) -> Result<Vec<Wanted>, DescriptionError> {
    let mut wanted = Vec::with_capacity(2 * cores.len());
    for core in cores {
        let Some(pmu) = pmus.find(&core.pmu) else {
            continue;
        };
        if core.loads {
            let description = if core.threshold {
                format!("mem-loads,ldlat={}", options.load_latency_min)
            } else {
                "mem-loads".to_owned()
            };
            wanted.push(Wanted {
                attr: sampling(options, core, pmu, &description)?,
                leader: if core.loads_need_leader {
                    Some(leader(pmu)?)
                } else {
                    None
                },
                cpus: core.cpus.clone(),
                kind: AccessKind::Load,
                times: 1,
                low_bit: 1,
            });
        }
        if core.stores {
            wanted.push(Wanted {
                attr: sampling(options, core, pmu, "mem-stores")?,
                leader: None,
                cpus: core.cpus.clone(),
                kind: AccessKind::Store,
                times: STORES_TIMES,
                low_bit: 1,
            });
        }
    }
    // One event of a processor tells of its threads; two would tell everything twice.
    let mut told: Vec<Option<&CpuSet>> = Vec::new();
    let owners: Vec<bool> = wanted
        .iter()
        .map(|event| {
            let first = !told.contains(&event.cpus.as_ref());
            told.push(event.cpus.as_ref());
            first
        })
        .collect();
    for (event, owner) in wanted.iter_mut().zip(owners) {
        if owner {
            event.attr.flags |= attr::FLAG_TASKS | attr::FLAG_NAMES;
        }
    }
    Ok(wanted)
}

fn sampling(
    options: &MemoryOptions,
    core: &PebsCore,
    pmu: &Pmu,
    description: &str,
) -> Result<EventAttr, DescriptionError> {
    let attr = options.attr();
    Ok(EventAttr {
        kind: core.kind,
        config: pmu.encode(description)?.config,
        precise: core.precise_max.unwrap_or(PRECISE_DEFAULT).min(3),
        flags: attr.flags | attr::FLAG_EXCLUDE_KERNEL | attr::FLAG_EXCLUDE_GUEST,
        ..attr
    })
}

/// `mem-loads-aux` counts and does not sample; the hardware needs it beside `mem-loads`, and the
/// kernel wants it to stand first in the group.
fn leader(pmu: &Pmu) -> Result<EventAttr, DescriptionError> {
    Ok(EventAttr {
        kind: pmu.kind,
        config: pmu.encode("mem-loads-aux")?.config,
        read_format: attr::READ_ENABLED | attr::READ_RUNNING | attr::READ_ID,
        flags: attr::FLAG_DISABLED | attr::FLAG_EXCLUDE_KERNEL | attr::FLAG_EXCLUDE_GUEST,
        ..EventAttr::default()
    })
}

const fn rates(period: u64) -> RateOptions {
    RateOptions {
        start: if period == 0 { PERIOD_START } else { period },
        least: PERIOD_MIN,
        most: PERIOD_MAX,
        step: 1,
        fixed: period != 0,
        target_ns: TARGET_NS,
    }
}

impl OnProcessors for Pebs {
    type Reading = Belief;

    fn live(&self) -> &Live<Belief> {
        &self.live
    }

    fn live_mut(&mut self) -> &mut Live<Belief> {
        &mut self.live
    }

    fn status(&self) -> SourceStatus {
        SourceStatus {
            name: "pebs",
            provocation: "loads and stores sampled by the processor",
            coverage: Coverage {
                loads: self.loads,
                stores: self.stores,
                latency: Covers::Partly("of loads"),
                levels: Covers::Partly("of loads; of stores whether the first cache had the line"),
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

/// Precision where the kernel does not tell what the core can: what every core with PEBS can.
const PRECISE_DEFAULT: u8 = 2;

/// Slow loads for each sample to begin with. A core that waits for memory all the time does some
/// ten million a second; this gives 10,000 samples of it.
const PERIOD_START: u64 = 1_009;

/// Fewer would be an interrupt for every few microseconds of waiting.
const PERIOD_MIN: u64 = 101;

const PERIOD_MAX: u64 = 1 << 30;

/// Stores are counted all, loads only if slow, so stores are sampled so much more rarely.
const STORES_TIMES: u64 = 64;

/// What a sample costs the program: microcode, an interrupt and writing the record. An estimate, for
/// no machine with PEBS was at hand; the interrupt alone is about a microsecond on such.
const TARGET_NS: u32 = 1_500;

#[cfg(test)]
mod tests;
