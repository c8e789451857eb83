//! Which sources of samples this machine can feed, and why it cannot feed the others.
//!
//! Pure: [`choose`] judges [`Facts`] and tries nothing. A source that is usable by its verdict may still
//! be refused by the kernel when it is opened; then the refusal counts.

use std::fmt;

use topology::CpuSet;

use crate::kernel::permission_remedy;
use crate::machine::{Facts, Vendor};
use crate::pmu::{Pmu, Role};

/// Where memory addresses can come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceKind {
    /// Intel's precise event-based sampling.
    Pebs,
    /// AMD's instruction-based sampling.
    Ibs,
    /// Arm's statistical profiling extension.
    Spe,
    /// Page faults.
    Faults,
}

impl SourceKind {
    /// All, best first.
    pub const ALL: [Self; 4] = [Self::Pebs, Self::Ibs, Self::Spe, Self::Faults];

    /// Its name in settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pebs => "pebs",
            Self::Ibs => "ibs",
            Self::Spe => "spe",
            Self::Faults => "faults",
        }
    }
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a source can do here.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The source.
    pub source: SourceKind,
    /// How it is to be used, or what it lacks.
    pub usable: Result<How, Lack>,
}

/// What a source is to be opened with.
#[derive(Clone, Debug, PartialEq)]
pub enum How {
    /// The cores that sample, at least one.
    Pebs(Vec<PebsCore>),
    /// IBS of all cores.
    Ibs(IbsUnit),
    /// The units that profile, at least one; a machine with several kinds of cores has several.
    Spe(Vec<SpeUnit>),
    /// The page-fault event, which needs nothing.
    Faults,
}

/// A kind of core that samples loads, stores or both.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts of a core, each read off a file"
)]
pub struct PebsCore {
    /// Its event source.
    pub pmu: String,
    /// What stands in an event's `type`.
    pub kind: u32,
    /// Its processors; none where there is one kind of core.
    pub cpus: Option<CpuSet>,
    /// Whether it has the event `mem-loads`.
    pub loads: bool,
    /// Whether it has the event `mem-stores`.
    pub stores: bool,
    /// Whether `mem-loads-aux` must lead the group of `mem-loads` (Sapphire Rapids, P cores of Alder
    /// Lake): without it the kernel refuses the load event.
    pub loads_need_leader: bool,
    /// Whether loads may have a threshold of latency, the term `ldlat`.
    pub threshold: bool,
    /// The highest level of precision, where the kernel tells.
    pub precise_max: Option<u8>,
}

/// AMD's sampling of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts of a device, each read off a file"
)]
pub struct IbsUnit {
    /// What stands in an event's `type`.
    pub kind: u32,
    /// Whether it can count operations (`cnt_ctl`), not cycles only: with cycles slow operations are
    /// sampled more often than they happen.
    pub counts_operations: bool,
    /// Whether the kernel can leave out its own samples (`swfilt`, Linux 6.14). Where it cannot, an
    /// event that excludes the kernel is refused, and our decoder must leave them out.
    pub filters_kernel: bool,
    /// Whether only misses of the last cache can be sampled (`l3missonly`, Zen 4). The hardware then
    /// starts the period anew after each operation that it passes over, so periods are no measure of
    /// how often something happens.
    pub misses_only: bool,
    /// Whether there is a threshold of latency (`ldlat`, Zen 5 with Linux 6.15).
    pub threshold: bool,
    /// Whether the level that answered is told in full (Zen 4 and later), not coarsely.
    pub fine_levels: bool,
}

/// A unit of Arm's statistical profiling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpeUnit {
    /// Its event source.
    pub pmu: String,
    /// What stands in an event's `type`.
    pub kind: u32,
    /// Its processors; all where the kernel does not tell.
    pub cpus: Option<CpuSet>,
    /// The smallest interval that its makers recommend, in operations.
    pub interval_min: Option<u64>,
    /// Whether it counts instructions as the architecture defines them, not as the core splits them.
    pub architectural: bool,
    /// Whether physical addresses can be asked for (`pa_enable`).
    pub physical: bool,
}

/// What a source lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lack {
    /// The processor is of another make; nothing is amiss.
    OtherProcessor {
        /// Whose processors have it.
        of: &'static str,
    },
    /// The virtual machine is not given it, and could be.
    VirtualMachine {
        /// Whether it is given plain counters.
        counters: bool,
    },
    /// This is a virtual machine, and no hypervisor passes it on.
    NotVirtualised,
    /// The kernel is older than the support for it.
    KernelTooOld {
        /// The first version that will do.
        needs: (u32, u32),
        /// The version that runs.
        has: Option<(u32, u32)>,
    },
    /// The kernel counts on this processor, but does not know it.
    UnknownModel {
        /// The core's event source.
        pmu: String,
    },
    /// The device is there, its driver is not.
    ModuleMissing {
        /// The module.
        module: &'static str,
    },
    /// The kernel has announced no such device.
    NotAnnounced {
        /// The event source that is missing.
        pmu: &'static str,
        /// What would bring it.
        remedy: &'static str,
    },
    /// The core has no event for loads or stores.
    NoMemoryEvent {
        /// The core's event source.
        pmu: String,
    },
    /// The core cannot sample precisely, so samples would have no addresses.
    NotPrecise {
        /// The core's event source.
        pmu: String,
    },
    /// The kernel has no perf events.
    NoEvents,
    /// We may not listen to whole processors.
    NotPermitted {
        /// `kernel.perf_event_paranoid`, if it could be read.
        paranoid: Option<i32>,
    },
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherProcessor { of } => write!(f, "only processors of {of} have it"),
            Self::VirtualMachine { counters: true } => f.write_str(
                "this virtual machine is given counters, but not the sampling of addresses",
            ),
            Self::VirtualMachine { counters: false } => {
                f.write_str("this virtual machine is given no hardware counters")
            }
            Self::NotVirtualised => f.write_str("no virtual machine is given it"),
            Self::KernelTooOld {
                needs: (major, minor),
                has,
            } => {
                write!(f, "it needs Linux {major}.{minor}")?;
                match has {
                    Some((major, minor)) => write!(f, ", this is {major}.{minor}"),
                    None => Ok(()),
                }
            }
            Self::UnknownModel { pmu } => write!(
                f,
                "the kernel is older than this processor: it knows only the general counters of `{pmu}`"
            ),
            Self::ModuleMissing { module } => {
                write!(
                    f,
                    "the processor has it, but module `{module}` is not loaded"
                )
            }
            Self::NotAnnounced { pmu, .. } => write!(f, "the kernel has announced no `{pmu}`"),
            Self::NoMemoryEvent { pmu } => {
                write!(f, "`{pmu}` has no event `mem-loads` or `mem-stores`")
            }
            Self::NotPrecise { pmu } => write!(f, "`{pmu}` cannot sample precisely"),
            Self::NoEvents => f.write_str("this kernel has no perf events"),
            Self::NotPermitted {
                paranoid: Some(level),
            } => write!(f, "not permitted (kernel.perf_event_paranoid is {level})"),
            Self::NotPermitted { paranoid: None } => f.write_str("not permitted"),
        }
    }
}

impl Lack {
    /// What would help, as one imperative sentence without a full stop; none if nobody can help.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        Some(match self {
            Self::OtherProcessor { .. } => return None,
            Self::VirtualMachine { counters: false } => {
                "run numad on the host, or give the machine counters (QEMU: `-cpu host,pmu=on`)"
                    .to_owned()
            }
            Self::VirtualMachine { counters: true } => {
                "run numad on the host: few hypervisors pass the sampling of addresses on"
                    .to_owned()
            }
            Self::NotVirtualised => "run numad on the host".to_owned(),
            Self::KernelTooOld {
                needs: (major, minor),
                ..
            } => format!("use Linux {major}.{minor} or later"),
            Self::UnknownModel { .. } => "use a newer kernel".to_owned(),
            Self::ModuleMissing { module } => format!("modprobe {module}"),
            Self::NotAnnounced { remedy, .. } => (*remedy).to_owned(),
            Self::NoMemoryEvent { .. } => "use a newer kernel, if the processor is new".to_owned(),
            Self::NotPrecise { .. } => {
                "look in `dmesg` for why PEBS is off; some need newer microcode".to_owned()
            }
            Self::NoEvents => "run a kernel with CONFIG_PERF_EVENTS".to_owned(),
            Self::NotPermitted { paranoid } => permission_remedy(*paranoid).to_owned(),
        })
    }

    /// Whether nothing is amiss: the source is for other machines.
    #[must_use]
    pub const fn is_natural(&self) -> bool {
        matches!(self, Self::OtherProcessor { .. })
    }
}

/// What each source can do here, in order of preference; all four, usable or not.
#[must_use]
pub fn choose(facts: &Facts) -> Vec<Verdict> {
    SourceKind::ALL
        .into_iter()
        .map(|source| {
            let found = match source {
                SourceKind::Pebs => pebs(facts).map(How::Pebs),
                SourceKind::Ibs => ibs(facts).map(How::Ibs),
                SourceKind::Spe => spe(facts).map(How::Spe),
                SourceKind::Faults => Ok(How::Faults),
            };
            // What the machine lacks weighs more than what we may do.
            let usable = found.and_then(|how| allowed(facts).map(|()| how));
            Verdict { source, usable }
        })
        .collect()
}

/// The best source that is usable.
#[must_use]
pub fn best(verdicts: &[Verdict]) -> Option<&Verdict> {
    verdicts.iter().find(|verdict| verdict.usable.is_ok())
}

fn allowed(facts: &Facts) -> Result<(), Lack> {
    if !facts.has_events() {
        return Err(Lack::NoEvents);
    }
    if facts.permitted() {
        return Ok(());
    }
    Err(Lack::NotPermitted {
        paranoid: facts.kernel.perf_event_paranoid,
    })
}

fn pebs(facts: &Facts) -> Result<Vec<PebsCore>, Lack> {
    if facts.processor.vendor != Vendor::Intel {
        return Err(Lack::OtherProcessor { of: "Intel" });
    }
    let cores: Vec<&Pmu> = facts
        .pmus
        .iter()
        .filter(|pmu| matches!(pmu.role(), Role::Core | Role::HybridCore(_)))
        .collect();
    let Some(first) = cores.first() else {
        if facts.processor.hypervisor {
            return Err(Lack::VirtualMachine { counters: false });
        }
        return Err(Lack::NotAnnounced {
            pmu: "cpu",
            remedy: "look in `dmesg` for why the kernel has no counters; use a newer kernel if it \
                     does not know the processor",
        });
    };
    let pmu = || first.name.clone();
    let sampling: Vec<PebsCore> = cores
        .iter()
        .map(|core| pebs_core(core))
        .filter(|core| core.loads || core.stores)
        .collect();
    if sampling.is_empty() {
        // The kernel hides the events where the processor, real or made up, has no PEBS.
        if facts.processor.hypervisor {
            return Err(Lack::VirtualMachine { counters: true });
        }
        let name = first.caps.get("pmu_name").map_or("", String::as_str);
        if name.starts_with("generic_arch") {
            return Err(Lack::UnknownModel { pmu: pmu() });
        }
        if first.cap("max_precise") == Some(0) {
            return Err(Lack::NotPrecise { pmu: pmu() });
        }
        return Err(Lack::NoMemoryEvent { pmu: pmu() });
    }
    let precise: Vec<PebsCore> = sampling
        .into_iter()
        .filter(|core| core.precise_max != Some(0))
        .collect();
    if precise.is_empty() {
        return Err(Lack::NotPrecise { pmu: pmu() });
    }
    Ok(precise)
}

fn pebs_core(pmu: &Pmu) -> PebsCore {
    // An alias that its own source cannot encode is none.
    let has = |name| pmu.aliases.contains_key(name) && pmu.encode(name).is_ok();
    PebsCore {
        pmu: pmu.name.clone(),
        kind: pmu.kind,
        cpus: pmu.cpus.clone(),
        loads: has("mem-loads"),
        stores: has("mem-stores"),
        loads_need_leader: has("mem-loads") && has("mem-loads-aux"),
        threshold: pmu.has_term("ldlat"),
        precise_max: pmu
            .cap("max_precise")
            .and_then(|level| u8::try_from(level).ok()),
    }
}

/// The kernel put addresses and levels of IBS into samples with this version; before it they were
/// raw registers.
const IBS_KERNEL_LEAST: (u32, u32) = (6, 1);
/// The first family with IBS.
const IBS_FAMILY_LEAST: u32 = 0x10;

fn ibs(facts: &Facts) -> Result<IbsUnit, Lack> {
    let of = "AMD";
    if facts.processor.vendor != Vendor::Amd {
        return Err(Lack::OtherProcessor { of });
    }
    let Some(pmu) = facts.pmus.of(Role::IbsOp).next() else {
        if facts.processor.hypervisor {
            return Err(Lack::NotVirtualised);
        }
        if facts
            .processor
            .family
            .is_some_and(|family| family < IBS_FAMILY_LEAST)
        {
            return Err(Lack::OtherProcessor { of });
        }
        return Err(Lack::NotAnnounced {
            pmu: "ibs_op",
            remedy: "switch IBS on in the firmware's settings",
        });
    };
    if facts
        .release
        .is_some_and(|release| release < IBS_KERNEL_LEAST)
    {
        return Err(Lack::KernelTooOld {
            needs: IBS_KERNEL_LEAST,
            has: facts.release,
        });
    }
    Ok(IbsUnit {
        kind: pmu.kind,
        counts_operations: pmu.has_term("cnt_ctl"),
        filters_kernel: pmu.has_term("swfilt"),
        misses_only: pmu.has_term("l3missonly"),
        threshold: pmu.has_term("ldlat"),
        fine_levels: pmu.cap("zen4_ibs_extensions") == Some(1),
    })
}

fn spe(facts: &Facts) -> Result<Vec<SpeUnit>, Lack> {
    if facts.processor.vendor != Vendor::Arm {
        return Err(Lack::OtherProcessor { of: "Arm" });
    }
    let units: Vec<SpeUnit> = facts.pmus.of(Role::Spe).map(spe_unit).collect();
    if !units.is_empty() {
        return Ok(units);
    }
    if facts.spe_announced {
        return Err(Lack::ModuleMissing {
            module: "arm_spe_pmu",
        });
    }
    if facts.processor.hypervisor {
        return Err(Lack::NotVirtualised);
    }
    Err(Lack::NotAnnounced {
        pmu: "arm_spe_0",
        remedy: "check that the processor has SPE, that the firmware tells of it, and that the kernel \
                 has CONFIG_ARM_SPE_PMU",
    })
}

fn spe_unit(pmu: &Pmu) -> SpeUnit {
    SpeUnit {
        pmu: pmu.name.clone(),
        kind: pmu.kind,
        cpus: pmu.cpus.clone(),
        interval_min: pmu.cap("min_interval"),
        architectural: pmu.cap("arch_inst") == Some(1),
        physical: pmu.has_term("pa_enable"),
    }
}
