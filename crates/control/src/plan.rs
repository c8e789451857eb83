//! The file of a plan: where each rank or thread of the next run goes.
//!
//! docs/plans.md describes the fields for people.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::error::{ErrorKind, Failure};

/// Version of the format that this program writes.
pub const FORMAT: u32 = 1;

/// Most bytes of a file: 65,536 places of 128 processors stay below.
pub const BYTES_MAX: usize = 64 << 20;

/// Highest number of a node, core or processor: those of a topology end there too, by an assertion.
pub const ID_MAX: u32 = 65_535;

/// A plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Version of the format, [`FORMAT`].
    pub format: u32,
    /// The program that wrote it, with its version.
    pub made_by: String,
    /// The policy that it is of.
    pub policy: String,
    /// What is placed.
    pub level: Level,
    /// The machines that places are on.
    pub machines: Vec<Machine>,
    /// The place of each rank or thread, by its number.
    pub places: Vec<Place>,
    /// What all pairs say times the distance of their nodes, when filled core by core.
    pub cost_before: u64,
    /// The same, as planned.
    pub cost_after: u64,
}

/// What is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Ranks of an MPI job: processes that send messages.
    Message,
    /// Threads of one program.
    Thread,
}

impl Level {
    /// One of them, for people.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Message => "rank",
            Self::Thread => "thread",
        }
    }
}

/// A machine of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// As `--machine` named it; of an XML file without folder and ending.
    pub name: String,
    /// Its hardware in one number, 16 hexadecimal digits.
    pub fingerprint: String,
    /// How many memory nodes it has.
    pub nodes: u32,
    /// How many cores are online.
    pub cores: u32,
    /// How many processors are online.
    pub cpus: u32,
}

/// Where one rank or thread goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Position of the machine in the plan's list.
    pub machine: u32,
    /// Memory node, as the kernel numbers it.
    pub node: u32,
    /// Core, as hwloc numbers it.
    pub core: u32,
    /// Processors of the core, as the kernel numbers them.
    pub cpus: Vec<u32>,
}

/// Reads a plan. Takes any bytes.
///
/// # Errors
/// When it is none, one of a later version, or one that contradicts itself.
pub fn read(bytes: &[u8]) -> Result<Plan, Failure> {
    if bytes.len() > BYTES_MAX {
        return Err(no_plan("it is too large"));
    }
    let value: serde_json::Value =
        serde_json::from_slice(bytes).map_err(|error| no_plan(&error.to_string()))?;
    match value.get("format").and_then(serde_json::Value::as_u64) {
        None => return Err(no_plan("it has no `format`")),
        Some(format) if format > u64::from(FORMAT) => {
            let text = format!("the file has format {format}, this program reads {FORMAT}");
            return Err(Failure::new(ErrorKind::Usage, text)
                .remedy("use the version of numadctl that wrote it, or a later one"));
        }
        Some(0) => return Err(no_plan("there is no format 0")),
        Some(_) => {}
    }
    let plan: Plan = serde_json::from_value(value).map_err(|error| no_plan(&error.to_string()))?;
    check(&plan).map_err(|text| no_plan(&text))?;
    Ok(plan)
}

fn no_plan(what: &str) -> Failure {
    let what: String = what
        .chars()
        .filter(|it| !it.is_control())
        .take(200)
        .collect();
    Failure::new(ErrorKind::Usage, format!("the file is no plan: {what}"))
        .remedy("make one with `numadctl plan PROFILE -o FILE`")
}

fn check(plan: &Plan) -> Result<(), String> {
    if plan.machines.is_empty() || plan.places.is_empty() {
        return Err("it has no machine or no place".to_owned());
    }
    let mut taken = BTreeSet::new();
    for (number, place) in plan.places.iter().enumerate() {
        let word = plan.level.word();
        let machine = usize::try_from(place.machine).ok();
        let machine = machine.and_then(|position| plan.machines.get(position));
        let Some(machine) = machine else {
            return Err(format!("{word} {number} is on a machine that is not in it"));
        };
        if place.core >= machine.cores {
            return Err(format!(
                "{word} {number} is on a core that its machine lacks"
            ));
        }
        if !taken.insert((place.machine, place.core)) {
            return Err(format!("{word} {number} is on a core that another has"));
        }
        if place.node > ID_MAX || place.core > ID_MAX {
            return Err(format!(
                "{word} {number} is on a node or core above {ID_MAX}"
            ));
        }
        let ascending = place.cpus.windows(2).all(|pair| pair[0] < pair[1]);
        if place.cpus.is_empty() || !ascending || place.cpus.iter().any(|&it| it > ID_MAX) {
            return Err(format!("{word} {number} has no proper list of processors"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let place = |core: u32| Place {
            machine: 0,
            node: 0,
            core,
            cpus: vec![core],
        };
        Plan {
            format: FORMAT,
            made_by: "numadctl 0".to_owned(),
            policy: "deloc".to_owned(),
            level: Level::Message,
            machines: vec![Machine {
                name: "this".to_owned(),
                fingerprint: "0123456789abcdef".to_owned(),
                nodes: 1,
                cores: 2,
                cpus: 2,
            }],
            places: vec![place(1), place(0)],
            cost_before: 10,
            cost_after: 10,
        }
    }

    #[track_caller]
    fn refused(change: impl Fn(&mut Plan), part: &str) {
        let mut plan = plan();
        change(&mut plan);
        let failure = read(&serde_json::to_vec(&plan).unwrap()).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::Usage);
        assert!(failure.to_string().contains(part), "{failure}");
    }

    #[test]
    fn what_is_written_is_read() {
        let text = serde_json::to_vec(&plan()).unwrap();
        assert_eq!(read(&text).unwrap(), plan());
    }

    #[test]
    fn a_plan_that_is_cut_anywhere_is_refused_on_one_line() {
        let text = serde_json::to_vec(&plan()).unwrap();
        for length in 0..text.len() {
            let failure = read(&text[..length]).unwrap_err();
            assert!(failure.message.contains("no plan"), "{failure}");
            assert!(!failure.message.contains('\n'));
        }
    }

    #[test]
    fn contradictions_are_refused() {
        refused(|plan| plan.format = 2, "format 2");
        refused(|plan| plan.format = 0, "format 0");
        refused(|plan| plan.machines.clear(), "no machine");
        refused(|plan| plan.places[1].machine = 1, "rank 1 is on a machine");
        refused(
            |plan| plan.places[0].core = 2,
            "core that its machine lacks",
        );
        refused(|plan| plan.places[0].core = 0, "another has");
        refused(|plan| plan.places[0].cpus.clear(), "list of processors");
        refused(
            |plan| plan.places[0].cpus = vec![3, 3],
            "list of processors",
        );
        refused(
            |plan| plan.places[0].cpus = vec![65_536],
            "list of processors",
        );
        refused(|plan| plan.places[1].node = 65_536, "above 65535");
        refused(
            |plan| (plan.machines[0].cores, plan.places[1].core) = (70_000, 65_536),
            "above 65535",
        );
    }
}
