//! What is to be simulated, as typed or as named in a table.

use std::fmt;
use std::str::FromStr;

use topology::CpuSet;

use crate::conditions::Conditions;
use crate::fault::{Fault, Faults};
use crate::workload::Workload;

/// Everything that decides a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The machine, as [`topology::load()`] reads it.
    pub topology: String,
    /// What runs on it.
    pub workload: Workload,
    /// How many threads; none means one per usable processor.
    pub threads: Option<usize>,
    /// How long, in simulated seconds.
    pub seconds: u32,
    /// Name of the policy.
    pub policy: String,
    /// Settings of the policy, as typed.
    pub settings: Vec<(String, String)>,
    /// All randomness comes from here.
    pub seed: u64,
    /// How much memory programs have, and how it is touched and sampled.
    pub conditions: Conditions,
    /// What goes wrong.
    pub faults: Faults,
    /// Processors that the programs' cgroup allows; empty means all.
    pub cgroup_cpus: CpuSet,
    /// Whether the machine counts instructions, cycles and the bandwidth of memory.
    pub counters: bool,
    /// What is known of the machine's bandwidth.
    pub bandwidth: Bandwidth,
    /// The kernel balances beside the policy.
    pub balancing: bool,
}

/// What the engine knows of the bandwidth of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bandwidth {
    /// Everything, as where `numadctl characterize` was run: what the simulated machine really has.
    Measured,
    /// Nothing but what its description says, as on most machines and in every guest.
    Unknown,
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Measured => "measured",
            Self::Unknown => "unknown",
        })
    }
}

impl FromStr for Bandwidth {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "measured" => Ok(Self::Measured),
            "unknown" => Ok(Self::Unknown),
            _ => Err(format!("bandwidth `{text}`: must be measured or unknown")),
        }
    }
}

impl Default for Scenario {
    /// Shuffled pairs on four nodes under `deloc`, when nothing goes wrong.
    fn default() -> Self {
        SCENARIOS[0].scenario("deloc", 1)
    }
}

/// Most threads of a run: what the product promises to cope with.
pub const THREADS_MAX: usize = 10_000;

/// Most memory of a run: what the addresses of a program can hold with room between its pieces.
pub const MEMORY_MAX: u64 = 64 << 40;

/// Longest run in simulated seconds.
pub const SECONDS_MAX: u32 = 3600;

/// A scenario that has a name. Tests and the jury use them; so can people.
#[derive(Clone, Copy, Debug)]
pub struct NamedScenario {
    /// The name.
    pub name: &'static str,
    /// What it is about.
    pub about: &'static str,
    /// The machine.
    pub topology: &'static str,
    /// What runs on it.
    pub workload: Workload,
    /// How many threads.
    pub threads: usize,
    /// How long.
    pub seconds: u32,
    /// What goes wrong.
    pub faults: &'static [Fault],
}

impl NamedScenario {
    /// The scenario under a policy at its defaults.
    #[must_use]
    pub fn scenario(&self, policy: &str, seed: u64) -> Scenario {
        let faults = self.faults.iter();
        Scenario {
            topology: self.topology.to_owned(),
            workload: self.workload,
            threads: Some(self.threads),
            seconds: self.seconds,
            policy: policy.to_owned(),
            settings: Vec::new(),
            seed,
            conditions: Conditions::default(),
            faults: faults.fold(Faults::NONE, |all, &fault| all.with(fault)),
            cgroup_cpus: CpuSet::new(),
            counters: false,
            bandwidth: Bandwidth::Measured,
            balancing: false,
        }
    }
}

/// Every named scenario. A bug that was found becomes a line here.
pub const SCENARIOS: &[NamedScenario] = &[
    NamedScenario {
        name: "shuffled-pairs",
        about: "threads share in pairs that the scheduler has torn apart",
        topology: "4x4@10,21",
        workload: Workload::Pairs,
        threads: 16,
        seconds: 10,
        faults: &[],
    },
    NamedScenario {
        name: "one-toucher",
        about: "one thread touched all memory first, so that one controller serves everyone",
        topology: "4x4@10,21",
        workload: Workload::Slices,
        threads: 16,
        seconds: 10,
        faults: &[],
    },
    NamedScenario {
        name: "quads",
        about: "groups of four, a node for each",
        topology: "4x4@10,21",
        workload: Workload::Groups(4),
        threads: 16,
        seconds: 10,
        faults: &[],
    },
    NamedScenario {
        name: "octets",
        about: "groups of eight, a node for each",
        topology: "2x8@10,21",
        workload: Workload::Groups(8),
        threads: 16,
        seconds: 10,
        faults: &[],
    },
    NamedScenario {
        name: "everyone",
        about: "all share with all: nothing can be gained, and something lost",
        topology: "4x4@10,21",
        workload: Workload::AllShared,
        threads: 16,
        seconds: 10,
        faults: &[],
    },
    NamedScenario {
        name: "partners-change",
        about: "pairs that change every four seconds",
        topology: "4x4@10,21",
        workload: Workload::Phases(4),
        threads: 16,
        seconds: 16,
        faults: &[],
    },
    NamedScenario {
        name: "hog-beside",
        about: "a second program takes the bandwidth of one node",
        topology: "4x4@10,21",
        workload: Workload::Hog,
        threads: 16,
        seconds: 10,
        faults: &[],
    },
    NamedScenario {
        name: "wide",
        about: "pairs on sixteen nodes",
        topology: "16x8@10,32",
        workload: Workload::Pairs,
        threads: 128,
        seconds: 5,
        faults: &[],
    },
    NamedScenario {
        name: "rough-day",
        about: "pairs while everything goes wrong that can",
        topology: "4x4@10,21",
        workload: Workload::Pairs,
        threads: 16,
        seconds: 10,
        faults: &Fault::ALL,
    },
];

/// The scenario of this name.
///
/// # Errors
/// Says which there are.
pub fn named(name: &str) -> Result<&'static NamedScenario, UnknownScenario> {
    SCENARIOS
        .iter()
        .find(|scenario| scenario.name == name)
        .ok_or_else(|| UnknownScenario(name.to_owned()))
}

/// There is no scenario of this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownScenario(pub String);

impl fmt::Display for UnknownScenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
        write!(
            f,
            "there is no scenario `{}`; there are {}",
            self.0,
            names.join(", ")
        )
    }
}

impl std::error::Error for UnknownScenario {}
