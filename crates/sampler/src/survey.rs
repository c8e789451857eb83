//! What this machine can and cannot give to sampling and counting, in sentences for people.
//!
//! Pure, like [`choose`](crate::choose): it speaks of what the kernel has announced and of what we may
//! do, and tries nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::choose::{How, IbsUnit, Lack, PebsCore, SourceKind, SpeUnit, Verdict, best, choose};
use crate::machine::{Facts, Vendor};
use crate::pmu::{Pmu, Role, shown};

/// The most notes about damaged event sources that are told.
const NOTES_MAX: usize = 4;
/// The most named events of a kind of source that are told.
const EVENTS_MAX: usize = 6;

/// How well something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// As it should be.
    Ok,
    /// Works in part, or is not there and can be done without.
    Limited,
    /// Nothing works without it.
    Missing,
}

impl Level {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Limited => "limited",
            Self::Missing => "missing",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// How well it stands.
    pub level: Level,
    /// What it is about.
    pub subject: &'static str,
    /// What there is, or what is lacking and why.
    pub text: String,
    /// What would help; empty if nothing is amiss or nobody can help.
    pub remedy: String,
}

/// Everything that can be told from `facts`, in the order of its importance.
#[must_use]
pub fn survey(facts: &Facts) -> Vec<Line> {
    let verdicts = choose(facts);
    let mut lines = vec![addresses(&verdicts)];
    lines.extend(verdicts.iter().filter_map(source));
    lines.extend(others(&verdicts));
    lines.push(cores(facts));
    for kind in [Kind::Controllers, Kind::Homes, Kind::Links, Kind::Energy] {
        lines.push(beside_cores(facts, kind));
    }
    let notes = facts.pmus.notes().iter().take(NOTES_MAX);
    lines.extend(notes.map(|note| line(Level::Limited, "event sources", note.to_string())));
    lines
}

fn addresses(verdicts: &[Verdict]) -> Line {
    const SUBJECT: &str = "address samples";
    let lack = |verdict: &Verdict| verdict.usable.as_ref().err().cloned();
    match best(verdicts).map(|verdict| verdict.source) {
        Some(SourceKind::Faults) => {
            let text = "page faults are the only source that this machine offers: they tell who \
                        touches a page, not how often or how fast";
            line(Level::Limited, SUBJECT, text)
        }
        Some(source) => {
            let text = format!("`{source}` is the best source that this machine offers");
            line(Level::Ok, SUBJECT, text)
        }
        None => match verdicts.last().and_then(lack) {
            Some(lack) => lacking(Level::Missing, SUBJECT, &lack),
            None => line(Level::Missing, SUBJECT, "there is no source"),
        },
    }
}

/// A source of the hardware that belongs to this make of processor.
fn source(verdict: &Verdict) -> Option<Line> {
    let subject = match verdict.source {
        SourceKind::Pebs => "source pebs",
        SourceKind::Ibs => "source ibs",
        SourceKind::Spe => "source spe",
        // It needs nothing that is not told elsewhere.
        SourceKind::Faults => return None,
    };
    match &verdict.usable {
        Ok(how) => Some(line(Level::Ok, subject, described(how))),
        Err(lack) if lack.is_natural() => None,
        Err(lack) => Some(lacking(Level::Limited, subject, lack)),
    }
}

fn others(verdicts: &[Verdict]) -> Option<Line> {
    let named: Vec<String> = verdicts
        .iter()
        .filter_map(|verdict| match &verdict.usable {
            Err(Lack::OtherProcessor { of }) => Some(format!("`{}` ({of})", verdict.source)),
            _ => None,
        })
        .collect();
    (!named.is_empty()).then(|| {
        let text = format!("for other processors: {}", named.join(", "));
        line(Level::Ok, "other sources", text)
    })
}

fn described(how: &How) -> String {
    match how {
        How::Pebs(cores) => cores.iter().map(pebs).collect::<Vec<_>>().join("; "),
        How::Ibs(unit) => ibs(*unit),
        How::Spe(units) => units.iter().map(spe).collect::<Vec<_>>().join("; "),
        How::Faults => "page faults".to_owned(),
    }
}

fn pebs(core: &PebsCore) -> String {
    let loads = match (core.loads, core.threshold) {
        (false, _) => None,
        (true, false) => Some("loads"),
        (true, true) => Some("loads with a threshold of latency"),
    };
    let stores = core.stores.then_some("stores");
    let what: Vec<&str> = loads.into_iter().chain(stores).collect();
    let mut text = format!("{} on `{}`", what.join(" and "), core.pmu);
    if let Some(cpus) = &core.cpus {
        text.push_str(&format!(" (cpus {cpus})"));
    }
    if core.loads_need_leader {
        text.push_str(", loads led by `mem-loads-aux`");
    }
    text
}

fn ibs(unit: IbsUnit) -> String {
    let counted = if unit.counts_operations {
        "operations"
    } else {
        "cycles only"
    };
    let levels = if unit.fine_levels {
        "in full"
    } else {
        "coarsely"
    };
    let kernel = if unit.filters_kernel {
        "by the kernel"
    } else {
        "by numad"
    };
    format!(
        "loads and stores of all cores, counted by {counted}; levels are told {levels}; samples of \
         the kernel's own are left out {kernel}"
    )
}

fn spe(unit: &SpeUnit) -> String {
    let mut text = format!("loads and stores on `{}`", unit.pmu);
    if let Some(cpus) = &unit.cpus {
        text.push_str(&format!(" (cpus {cpus})"));
    }
    if let Some(least) = unit.interval_min {
        text.push_str(&format!(", one of {least} operations at most"));
    }
    text
}

fn cores(facts: &Facts) -> Line {
    const SUBJECT: &str = "core counters";
    let cores: Vec<String> = facts
        .pmus
        .iter()
        .filter(|pmu| matches!(pmu.role(), Role::Core | Role::HybridCore(_)))
        .map(|pmu| {
            let cpus = pmu.cpus.as_ref().map(|cpus| format!("cpus {cpus}"));
            let model = pmu.caps.get("pmu_name").map(|name| shown(name));
            let about: Vec<String> = model.into_iter().chain(cpus).collect();
            if about.is_empty() {
                format!("`{}`", pmu.name)
            } else {
                format!("`{}` ({})", pmu.name, about.join(", "))
            }
        })
        .collect();
    if !cores.is_empty() {
        return line(Level::Ok, SUBJECT, cores.join(", "));
    }
    let lack = if facts.processor.hypervisor {
        Lack::VirtualMachine { counters: false }
    } else if facts.has_events() {
        Lack::NotAnnounced {
            pmu: "cpu",
            remedy: "look in `dmesg` for why the kernel has no counters",
        }
    } else {
        Lack::NoEvents
    };
    lacking(Level::Limited, SUBJECT, &lack)
}

/// What is counted beside the cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Controllers,
    Homes,
    Links,
    Energy,
}

impl Kind {
    const fn role(self) -> Role {
        match self {
            Self::Controllers => Role::MemoryController,
            Self::Homes => Role::CacheHome,
            Self::Links => Role::Link,
            Self::Energy => Role::Energy,
        }
    }

    const fn subject(self) -> &'static str {
        match self {
            Self::Controllers => "memory controllers",
            Self::Homes => "shared caches",
            Self::Links => "links",
            Self::Energy => "energy",
        }
    }
}

fn beside_cores(facts: &Facts, kind: Kind) -> Line {
    let groups = groups(facts, kind.role());
    if !groups.is_empty() {
        return line(Level::Ok, kind.subject(), groups.join("; "));
    }
    if facts.processor.hypervisor {
        return Line {
            remedy: "run numad on the host".to_owned(),
            ..line(
                Level::Limited,
                kind.subject(),
                "a virtual machine is not given their counters",
            )
        };
    }
    if kind == Kind::Links && one_package(facts) {
        return line(Level::Ok, kind.subject(), "one package, so there are none");
    }
    let (text, remedy) = absent(facts, kind);
    Line {
        remedy: remedy.to_owned(),
        ..line(Level::Limited, kind.subject(), text)
    }
}

/// Sources of a role, those that differ only in their number together.
fn groups(facts: &Facts, role: Role) -> Vec<String> {
    let mut groups: BTreeMap<&str, Vec<&Pmu>> = BTreeMap::new();
    for pmu in facts.pmus.of(role) {
        groups.entry(stem(&pmu.name)).or_default().push(pmu);
    }
    groups
        .into_iter()
        .map(|(stem, pmus)| {
            let events: BTreeSet<&str> = pmus
                .iter()
                .flat_map(|pmu| pmu.aliases.keys())
                .map(String::as_str)
                .collect();
            let named = if events.is_empty() {
                "no named events".to_owned()
            } else {
                let shown: Vec<&str> = events.iter().copied().take(EVENTS_MAX).collect();
                let more = if events.len() > EVENTS_MAX {
                    ", ..."
                } else {
                    ""
                };
                format!("{}{more}", shown.join(", "))
            };
            match pmus.as_slice() {
                [only] => format!("`{}` ({named})", only.name),
                several => format!("{} of `{stem}` ({named})", several.len()),
            }
        })
        .collect()
}

/// `uncore_imc_3` is one of `uncore_imc`, `arm_dmc620_10008c000` one of `arm_dmc620`.
fn stem(name: &str) -> &str {
    match name.rsplit_once('_') {
        Some((stem, number))
            if number
                .bytes()
                .next()
                .is_some_and(|byte| byte.is_ascii_digit())
                && number.bytes().all(|byte| byte.is_ascii_hexdigit()) =>
        {
            stem
        }
        _ => name,
    }
}

/// The energy counters are opened on one processor of each package.
fn one_package(facts: &Facts) -> bool {
    let mut power = facts.pmus.of(Role::Energy);
    power.any(|pmu| pmu.cpus.as_ref().is_some_and(|cpus| cpus.len() == 1))
}

/// Why the kernel may have announced none of a kind, and what would help.
fn absent(facts: &Facts, kind: Kind) -> (&'static str, &'static str) {
    const NONE: &str = "the kernel has announced none";
    match (facts.processor.vendor, kind) {
        (Vendor::Intel, Kind::Energy) => (NONE, "modprobe rapl"),
        (Vendor::Amd, Kind::Energy) => (NONE, "modprobe rapl, on Linux 5.8 or later"),
        (Vendor::Intel, _) => (
            NONE,
            "modprobe intel_uncore, or use a kernel that knows this processor",
        ),
        (Vendor::Amd, Kind::Controllers) if !counts_channels(facts) => (
            "this processor has no counters there; `amd_df` counts what crosses its fabric",
            "",
        ),
        (Vendor::Amd, Kind::Controllers) => (NONE, "modprobe amd-uncore, on Linux 6.8 or later"),
        (Vendor::Amd, _) => (NONE, "modprobe amd-uncore"),
        (Vendor::Arm, Kind::Controllers) => (
            NONE,
            "load the driver of this machine's controllers, such as arm_dmc620_pmu or \
             hisi_uncore_ddrc_pmu",
        ),
        (Vendor::Arm, Kind::Homes | Kind::Links) => (
            NONE,
            "load the driver of this machine's interconnect, such as arm-cmn or hisi_uncore_l3c_pmu",
        ),
        (Vendor::Arm, Kind::Energy) | (Vendor::Other, _) => (NONE, ""),
    }
}

/// Zen 4 (family 0x19 from model 0x10 on, without the client models of Zen 3) and later.
fn counts_channels(facts: &Facts) -> bool {
    let Some(family) = facts.processor.family else {
        return true;
    };
    let model = facts.processor.model.unwrap_or(0);
    match family {
        0..=0x18 => false,
        0x19 => matches!(model, 0x10..=0x1f | 0x60..=0xaf),
        _ => true,
    }
}

fn line(level: Level, subject: &'static str, text: impl Into<String>) -> Line {
    Line {
        level,
        subject,
        text: text.into(),
        remedy: String::new(),
    }
}

fn lacking(level: Level, subject: &'static str, lack: &Lack) -> Line {
    Line {
        remedy: lack.remedy().unwrap_or_default(),
        ..line(level, subject, lack.to_string())
    }
}
