//! Scenarios that nobody chose.
//!
//! Whatever is looked at while an engine is made comes to fit it. So machine, program, memory,
//! source of samples and what goes wrong are drawn here from all that there are, and one number
//! names each scenario for ever.

use std::fmt;

use crate::conditions::{Conditions, Source, Touch};
use crate::fault::{Fault, Faults};
use crate::matrix::ROWS;
use crate::random::Random;
use crate::scenario::{Bandwidth, Scenario};

/// From one node of several caches to sixteen nodes of two cores, and such as no machine is alike
/// in.
const MACHINES: [&str; 11] = [
    "2x4@10,20",
    "2x16@10,21",
    "4x4@10,21",
    "8x2@10,22",
    "16x2@10,22",
    "3x5@10,17",
    "6x3@10,21",
    "4x16@10,21",
    "2x8:4@10,32",
    "1x16:4@10",
    "4x8:4@10,12,20,22;12,10,22,24;20,22,10,12;22,24,12,10",
];

const SIZES: [&str; 4] = ["512K", "2M", "8M", "32M"];
const THREADS: [usize; 6] = [3, 5, 7, 12, 24, 40];
const SAMPLES: [u32; 3] = [1000, 5000, 20_000];
const FAULTS: [Fault; 2] = [Fault::Offline, Fault::Clock];

/// Draws are independent of all others that a seed is used for.
const PURPOSE: u64 = 77;

/// The scenario with this number of all that a seed names, under a policy.
pub(crate) fn scenario(seed: u64, number: u64, policy: &str, seconds: u32) -> Scenario {
    let mut random = Random::new(seed, PURPOSE.wrapping_add(number << 8));
    let random = &mut random;
    let workload = match random.chance(0.5) {
        true => ROWS[random.below(ROWS.len())].name.to_owned(),
        false => format!("made:{}", 400 + random.below(600)),
    };
    // Who samples accesses counts instructions as well.
    let counters = random.chance(0.6);
    let source = if counters {
        Source::Period
    } else {
        Source::Faults
    };
    let conditions = Conditions {
        memory: one_of(&SIZES, random).parse().expect("a test parses all"),
        huge: random.chance(0.15),
        touch: one_of(&[Touch::Own, Touch::Own, Touch::One, Touch::All], random),
        sparse: random.chance(0.2),
        staggered: random.chance(0.25),
        wander: random.chance(0.25),
        source,
        samples_per_s: random.chance(0.3).then(|| one_of(&SAMPLES, random)),
    };
    Scenario {
        topology: one_of(&MACHINES, random).to_owned(),
        workload: workload.parse().expect("a test parses all"),
        threads: random.chance(0.3).then(|| one_of(&THREADS, random)),
        seconds,
        policy: policy.to_owned(),
        settings: Vec::new(),
        seed: 1 + random.below(9) as u64,
        conditions,
        faults: match random.chance(0.1) {
            true => Faults::NONE.with(one_of(&FAULTS, random)),
            false => Faults::NONE,
        },
        counters,
        bandwidth: match random.chance(0.4) {
            true => Bandwidth::Unknown,
            false => Bandwidth::Measured,
        },
        balancing: random.chance(0.25),
        ..Scenario::default()
    }
}

fn one_of<T: Copy>(all: &[T], random: &mut Random) -> T {
    all[random.below(all.len())]
}

/// A scenario as the command that runs it.
pub(crate) struct Line<'a>(pub(crate) &'a Scenario);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let it = self.0;
        write!(
            f,
            "numad-sim --topology '{}' --workload {} --policy {} --seconds {} --seed {}{}",
            it.topology, it.workload, it.policy, it.seconds, it.seed, it.conditions
        )?;
        if let Some(threads) = it.threads {
            write!(f, " --threads {threads}")?;
        }
        if it.bandwidth == Bandwidth::Unknown {
            f.write_str(" --bandwidth unknown")?;
        }
        if !it.faults.is_none() {
            write!(f, " --fault {}", it.faults.names())?;
        }
        for (flag, given) in [("counters", it.counters), ("balancing", it.balancing)] {
            if given {
                write!(f, " --{flag}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::conditions::Size;
    use crate::workload::Workload;

    #[test]
    fn a_seed_and_a_number_name_one_scenario_that_can_be_run() {
        let mut lines = BTreeSet::new();
        for number in 0..200 {
            let drawn = scenario(4, number, "auto", 20);
            assert_eq!(drawn, scenario(4, number, "auto", 20));
            topology::load(&drawn.topology).unwrap();
            lines.insert(Line(&drawn).to_string());
        }
        assert!(lines.len() > 195, "{}", lines.len());
        for row in ROWS {
            row.name.parse::<Workload>().unwrap();
        }
        for text in SIZES {
            text.parse::<Size>().unwrap();
        }
    }
}
