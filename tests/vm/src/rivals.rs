//! Who places by means that not every kernel has: cache-aware scheduling, DAMON's schemes, schedulers of sched_ext.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::compare::Contestant;
use crate::guest::{self, Counted, Run, last};
use crate::kit::Kit;
use crate::machine::Machine;

/// What a contestant needs of the guest: a command of its shell that succeeds where it is there, and what is missing
/// where it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    test: &'static str,
    missing: &'static str,
}

const CACHES: Need = Need {
    test: "[ -e $llc_balancing ]",
    missing: "this kernel has no cache-aware scheduling (CONFIG_SCHED_CACHE); NUMAD_VM_KERNEL=7.2 has",
};
const DAMON: Need = Need {
    test: "damon_spreads",
    missing: "this kernel's DAMON migrates no pages of a process to several nodes (dests); NUMAD_VM_KERNEL=7.2 does",
};

const SCX: Need = Need {
    test: "scx_can",
    missing: "there is no scx_rusty in the kit (scripts/vm-scx builds it), or this kernel does not load it; \
              /opt/scx/scx_rusty in a guest says why",
};

/// Those that take part where the kernel has what they need: name, need, what is done before the program starts, and
/// when it runs.
pub(crate) const RIVALS: [(&str, Need, &str, &str); 5] = [
    (
        "autonuma+caches",
        CACHES,
        "autonuma 1\necho 1 >$llc_balancing || fail caches",
        "",
    ),
    (
        "autonuma-caches",
        CACHES,
        "autonuma 1\necho 0 >$llc_balancing || fail caches",
        "",
    ),
    ("damon", DAMON, "autonuma 0", "damon_spread $program"),
    (
        "damon+autonuma",
        DAMON,
        "autonuma 1",
        "damon_spread $program",
    ),
    ("scx_rusty", SCX, "autonuma 1\nscx_start", ""),
];

/// Those that this kernel and this kit can run; says who is left out and why.
pub(crate) fn present(
    kit: &Kit,
    (machine, image): (&Machine, &Path),
    contestants: &[Contestant],
    say: &mut dyn FnMut(&str),
) -> Result<Vec<Contestant>> {
    let script = probe(contestants);
    let missing = if script.is_empty() {
        Vec::new()
    } else {
        asked(kit, (machine, image), &script)?
    };
    let (here, lacking): (Vec<_>, Vec<_>) = contestants
        .iter()
        .cloned()
        .partition(|one| !missing.contains(&one.name));
    for one in &lacking {
        let why = one.need.map_or("", |need| need.missing);
        say(&format!("skipped {}: {why}", one.name));
    }
    if here.is_empty() {
        bail!("nobody is left to compare; name others with --only");
    }
    Ok(here)
}

/// A script that says who has not what it needs; empty if nobody needs anything.
fn probe(contestants: &[Contestant]) -> String {
    let tests: String = contestants
        .iter()
        .filter_map(|one| {
            let need = one.need?;
            Some(format!("{} || echo '@lacks {}'\n", need.test, one.name))
        })
        .collect();
    if tests.is_empty() {
        return tests;
    }
    format!(". /lib/scenario.sh\n{tests}exit 0\n")
}

/// Who says in the guest that it lacks something.
fn asked(kit: &Kit, (machine, image): (&Machine, &Path), script: &str) -> Result<Vec<String>> {
    let ran = guest::run(
        kit,
        &Run {
            machine,
            image,
            script,
            truth: Counted::Nothing,
            profile: false,
            limit: Duration::from_secs(60),
        },
    )
    .context("cannot ask the guest's kernel what it has")?;
    if ran.code != Some(0) {
        bail!(
            "cannot ask the guest's kernel what it has:\n{}\n{}",
            last(&ran.output, 20),
            ran.qemu
        );
    }
    let names = ran.output.lines();
    let names = names.filter_map(|line| line.strip_prefix("@lacks "));
    Ok(names.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{contestants, wanted};

    #[test]
    fn only_those_who_need_something_are_asked_for() {
        let all = contestants(&["deloc".to_owned()], &[]).unwrap();
        let names = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            wanted(all.clone(), &names).unwrap()
        };
        assert_eq!(probe(&names(&["nothing", "autonuma"])), "");
        let script = probe(&names(&["nothing", "damon"]));
        assert!(
            script.contains("\ndamon_spreads || echo '@lacks damon'\n"),
            "{script}"
        );
        assert!(!script.contains("nothing"), "{script}");
    }
}
