//! What this machine can and cannot give, one by one, each with what to do about it.

use config::Config;
use control::rows::Finding;
use procfs::{BalancingMode, Presence, Reader, SchedExt};
use sampler::machine::Facts;
use sampler::survey::survey;
use topology::{Pid, Tid, Topology};

use super::look::told;
use crate::steward::finding;

/// Oldest kernel that everything was made for: `CAP_PERFMON` came with it.
const KERNEL_LEAST: (u32, u32) = (5, 8);

/// Capabilities that are used, by number, and for what.
const CAPABILITIES: [(u32, &str, &str); 4] = [
    (
        23,
        "CAP_SYS_NICE",
        "changing the affinity and moving the pages of other users' programs",
    ),
    (19, "CAP_SYS_PTRACE", "asking where other users' pages are"),
    (38, "CAP_PERFMON", "sampling page faults of all processors"),
    (
        1,
        "CAP_DAC_OVERRIDE",
        "soft-dirty clearing of other users' programs",
    ),
];

/// `CAP_SYS_ADMIN` stands for `CAP_PERFMON` on every kernel.
const CAP_SYS_ADMIN: u32 = 21;

/// Everything that can be looked up without trying it.
pub(super) fn all(reader: &Reader, topology: &Topology, config: &Config) -> Vec<Finding> {
    let mut found = vec![
        kernel(reader),
        nodes(topology),
        balancing(reader),
        sched_ext(reader),
        cpusets(reader),
    ];
    found.extend(capabilities(reader));
    found.extend(rivals(reader));
    found.extend(hardware(reader));
    found.extend(
        topology
            .notes()
            .iter()
            .map(|note| finding("limited", "machine description", note.to_string(), "")),
    );
    if !config.engine.move_threads || !config.engine.move_pages {
        let text = format!(
            "threads are {}moved and pages are {}moved",
            if config.engine.move_threads {
                ""
            } else {
                "not "
            },
            if config.engine.move_pages { "" } else { "not " }
        );
        let remedy = "see `engine.move_threads` and `engine.move_pages`";
        found.push(finding("limited", "settings", text, remedy));
    }
    found
}

fn kernel(reader: &Reader) -> Finding {
    const SUBJECT: &str = "kernel";
    let release = match reader.release() {
        Ok(Presence::Here(release)) => release,
        Ok(Presence::Gone) => return finding("limited", SUBJECT, "its version is not told", ""),
        Err(error) => return finding("limited", SUBJECT, told(&error), ""),
    };
    let text = format!("Linux {release}");
    if version(&release).is_some_and(|version| version >= KERNEL_LEAST) {
        return finding("ok", SUBJECT, text, "");
    }
    let (major, minor) = KERNEL_LEAST;
    finding(
        "limited",
        SUBJECT,
        text,
        &format!("numad is made for Linux {major}.{minor} and later"),
    )
}

/// Major and minor number of a release such as `6.18.0-3-amd64`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|character: char| !character.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn nodes(topology: &Topology) -> Finding {
    const SUBJECT: &str = "memory nodes";
    let summary = topology.summary();
    if topology.nodes().len() > 1 {
        return finding("ok", SUBJECT, summary, "");
    }
    let text = format!(
        "{summary}: programs can be attached, sampled and shown, but there is only one place for \
         threads and pages"
    );
    finding("limited", SUBJECT, text, "")
}

fn balancing(reader: &Reader) -> Finding {
    const SUBJECT: &str = "NUMA balancing";
    match reader.numa_balancing() {
        Ok(BalancingMode::Absent) => finding("ok", SUBJECT, "not in this kernel", ""),
        Ok(BalancingMode::Off) => finding(
            "ok",
            SUBJECT,
            "off; with it reads are seen as well, and what one thread alone uses comes home by itself: see `engine.balancing`",
            "",
        ),
        Ok(mode) if mode.balances() => finding(
            "ok",
            SUBJECT,
            "on; it and numad complement each other: what one thread alone uses is left to it",
            "",
        ),
        Ok(_) => finding(
            "ok",
            SUBJECT,
            "on between tiers of memory alone; see `engine.balancing`",
            "",
        ),
        Err(error) => finding("limited", SUBJECT, told(&error), ""),
    }
}

fn sched_ext(reader: &Reader) -> Finding {
    const SUBJECT: &str = "extensible scheduler";
    match reader.sched_ext() {
        Ok(SchedExt::Absent) => finding("ok", SUBJECT, "not in this kernel", ""),
        Ok(SchedExt::Idle) => finding("ok", SUBJECT, "none is loaded", ""),
        Ok(SchedExt::Loaded(name)) => finding(
            "limited",
            SUBJECT,
            format!("`{name}` is loaded and may stall on affinity masks"),
            "unload it, or set `engine.move_threads = false`",
        ),
        Err(error) => finding("limited", SUBJECT, told(&error), ""),
    }
}

fn cpusets(reader: &Reader) -> Finding {
    const SUBJECT: &str = "cpusets";
    let own = std::process::id();
    match reader.cpuset(&mut Vec::new(), Pid(own), Tid(own)) {
        Ok(_) => finding(
            "ok",
            SUBJECT,
            "the limits of control groups can be read",
            "",
        ),
        Err(error) => finding(
            "limited",
            SUBJECT,
            told(&error),
            "mount the cgroup file system; until then the kernel's own refusals are all we know",
        ),
    }
}

fn capabilities(reader: &Reader) -> Vec<Finding> {
    let held = match reader.capabilities(Pid(std::process::id())) {
        Ok(Presence::Here(held)) => held,
        Ok(Presence::Gone) => return Vec::new(),
        Err(error) => return vec![finding("limited", "capabilities", told(&error), "")],
    };
    CAPABILITIES
        .iter()
        .map(|&(bit, name, purpose)| {
            let stands_in = name == "CAP_PERFMON" && holds(held, CAP_SYS_ADMIN);
            if holds(held, bit) || stands_in {
                return finding("ok", name, format!("held, for {purpose}"), "");
            }
            finding(
                "missing",
                name,
                format!("needed for {purpose}"),
                "start numad from its unit, or as root",
            )
        })
        .collect()
}

const fn holds(held: u64, bit: u32) -> bool {
    held & (1 << bit) != 0
}

fn rivals(reader: &Reader) -> Vec<Finding> {
    let found = reader.rivals(Pid(std::process::id())).unwrap_or_default();
    let others = found
        .iter()
        .filter(|rival| matches!(rival, procfs::Rival::Daemon { .. }));
    others
        .map(|rival| finding("limited", "rival", rival.to_string(), ""))
        .collect()
}

/// What the processor and the kernel offer to sample and count with.
fn hardware(reader: &Reader) -> Vec<Finding> {
    survey(&Facts::read(reader.root()))
        .into_iter()
        .map(|line| finding(line.level.name(), line.subject, line.text, &line.remedy))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(release: &str, expected: Option<(u32, u32)>) {
        assert_eq!(version(release), expected);
    }

    #[test]
    fn releases_are_read() {
        check("6.18.0-3-amd64", Some((6, 18)));
        check("5.10.0", Some((5, 10)));
        check("6.1", Some((6, 1)));
        check("six", None);
        check("", None);
    }

    #[test]
    fn this_machine_is_looked_through() {
        let topology = topology::synthetic::parse("1x2").unwrap();
        let found = all(&Reader::new("/"), &topology, &Config::default());
        let of = |subject: &str| found.iter().find(|finding| finding.subject == subject);
        assert_eq!(of("kernel").unwrap().level, "ok");
        assert!(of("memory nodes").unwrap().text.contains("only one place"));
        assert!(of("CAP_SYS_NICE").is_some());
        for subject in [
            "address samples",
            "core counters",
            "memory controllers",
            "links",
            "energy",
        ] {
            assert!(of(subject).is_some(), "{subject}");
        }
        assert!(
            found
                .iter()
                .all(|finding| ["ok", "limited", "missing"].contains(&finding.level.as_str()))
        );
    }
}
