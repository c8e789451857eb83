//! `doctor`: the daemon's findings or, without one, what can be told from here.

use std::fs;
use std::path::Path;

use control::rows::Finding;
use control::{ErrorKind, Failure};
use sampler::machine::Facts;
use sampler::survey::survey;

use crate::cli::Doctor;
use crate::client::{CallError, Client};
use crate::output::Output;
use crate::{render, second_reader, terminal};

pub(super) fn doctor(
    client: &Client,
    arguments: Doctor,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let mut findings = match client.get::<Vec<Finding>>("/v1/doctor") {
        Ok(findings) => findings,
        Err(CallError::Down(failure)) => {
            let mut findings = vec![finding(
                "missing",
                "daemon",
                failure.message,
                &failure.remedy,
            )];
            findings.extend(from_here(Path::new("/")));
            findings
        }
        Err(CallError::Failed(failure)) => return Err(failure),
    };
    findings.push(readers_agree());
    findings.extend(other_numad(Path::new("/")));
    if arguments.plain.json {
        out.json(&findings)?;
    } else {
        let width = terminal::prose();
        out.text(&render::doctor::text(&findings, arguments.verbose, width))?;
    }
    let missing = findings
        .iter()
        .filter(|finding| finding.level == "missing")
        .count();
    if missing == 0 {
        return Ok(());
    }
    let things = if missing == 1 {
        "thing is"
    } else {
        "things are"
    };
    Err(Failure::new(
        ErrorKind::Prerequisite,
        format!("{missing} {things} missing"),
    )
    .remedy("do what stands behind each `->`"))
}

/// What anyone may read below `root`; the daemon itself finds out more.
fn from_here(root: &Path) -> Vec<Finding> {
    let mut findings = vec![kernel(root), nodes(root), events(root), balancing(root)];
    findings.extend(extensible_scheduler(root));
    findings.extend(hardware(root));
    findings.push(settings());
    findings
}

/// The program of the same name that distributions package. Its settings file tells of it: ours has
/// another name.
fn other_numad(root: &Path) -> Option<Finding> {
    root.join("etc/numad.conf").exists().then(|| {
        finding(
            "limited",
            "other numad",
            "the distribution's package `numad` is installed, another program with the same name, \
             service and manual page"
                .to_owned(),
            "remove it (`apt remove numad` or `dnf remove numad`); only one of the two may place a program",
        )
    })
}

/// What the processor and the kernel offer to the daemon, which may listen to whole processors
/// whatever this user may: see [`events`].
fn hardware(root: &Path) -> Vec<Finding> {
    let facts = Facts {
        privileged: true,
        ..Facts::read(root)
    };
    survey(&facts)
        .into_iter()
        .map(|line| finding(line.level.name(), line.subject, line.text, &line.remedy))
        .collect()
}

fn kernel(root: &Path) -> Finding {
    match word(root, "proc/sys/kernel/osrelease") {
        Some(release) => finding("ok", "kernel", release, ""),
        None => finding(
            "limited",
            "kernel",
            "its release cannot be read".to_owned(),
            "mount /proc",
        ),
    }
}

fn nodes(root: &Path) -> Finding {
    let list = word(root, "sys/devices/system/node/online");
    let count = list
        .as_deref()
        .and_then(|list| topology::NodeSet::parse_list(list).ok())
        .map_or(1, |nodes| nodes.len());
    if count > 1 {
        return finding("ok", "memory nodes", format!("{count} nodes"), "");
    }
    finding(
        "limited",
        "memory nodes",
        "one node: sampling and mapping work, there is nowhere to move".to_owned(),
        "",
    )
}

/// `perf_event_paranoid` binds users; the daemon runs with the capability that overrules it.
fn events(root: &Path) -> Finding {
    match word(root, "proc/sys/kernel/perf_event_paranoid") {
        Some(level) => finding(
            "ok",
            "perf events",
            format!(
                "the kernel has them (perf_event_paranoid is {level}; the daemon needs CAP_PERFMON or root)"
            ),
            "",
        ),
        None => finding(
            "missing",
            "perf events",
            "this kernel has none, so there are no samples".to_owned(),
            "run a kernel with CONFIG_PERF_EVENTS",
        ),
    }
}

fn balancing(root: &Path) -> Finding {
    let subject = "kernel NUMA balancing";
    match word(root, "proc/sys/kernel/numa_balancing").as_deref() {
        None => finding("ok", subject, "not in this kernel".to_owned(), ""),
        Some("0") => finding(
            "ok",
            subject,
            "off; with it reads are seen as well, and what one thread alone uses comes home by itself: see `engine.balancing`".to_owned(),
            "",
        ),
        Some(_) => finding(
            "ok",
            subject,
            "on; it and numad complement each other: what one thread alone uses is left to it".to_owned(),
            "",
        ),
    }
}

fn extensible_scheduler(root: &Path) -> Option<Finding> {
    let state = word(root, "sys/kernel/sched_ext/state")?;
    (state == "enabled").then(|| {
        finding(
            "limited",
            "sched_ext",
            "a loaded scheduler places threads, and may stall on narrow masks".to_owned(),
            "set `engine.bind` to `node`",
        )
    })
}

/// The daemon reads /sys itself and links no C library; here is the place to ask a second reader.
fn readers_agree() -> Finding {
    let subject = "topology";
    let report = "send the output of `numadctl topo --json` to numad's authors";
    let first = match topology::load("this") {
        Ok(first) => first,
        Err(error) => return finding("limited", subject, error.to_string(), report),
    };
    let second = match second_reader::this_machine() {
        None => return finding("ok", subject, first.summary(), ""),
        Some(Ok(second)) => second,
        Some(Err(error)) => return finding("limited", subject, error, report),
    };
    if online_nodes(&first) == online_nodes(&second) {
        let text = format!("{}; hwloc agrees", first.summary());
        return finding("ok", subject, text, "");
    }
    let (ours, theirs) = (first.summary(), second.summary());
    finding(
        "limited",
        subject,
        format!("numad reads {ours}, hwloc reads {theirs}"),
        "send the output of `numadctl topo --json` and `numadctl topo --json --source hwloc` to \
         numad's authors",
    )
}

/// Nodes with the processors that run now; hwloc tells of no others.
fn online_nodes(topology: &topology::Topology) -> Vec<(topology::NodeId, topology::CpuSet, u64)> {
    let online = topology.online();
    let nodes = topology.nodes().iter();
    nodes
        .map(|node| (node.id, node.cpus.intersection(&online), node.memory_bytes))
        .collect()
}

fn settings() -> Finding {
    match config::load(&config::Paths::default()) {
        Ok(loaded) if loaded.files.is_empty() => {
            finding("ok", "settings", "no files, all defaults".to_owned(), "")
        }
        Ok(loaded) => {
            let files: Vec<String> = loaded
                .files
                .iter()
                .map(|file| file.display().to_string())
                .collect();
            finding("ok", "settings", files.join(", "), "")
        }
        Err(error) => {
            let count = error.problems.len().saturating_add(error.more);
            let count = u64::try_from(count).unwrap_or(u64::MAX);
            let first = error
                .problems
                .first()
                .map(ToString::to_string)
                .unwrap_or_default();
            finding(
                "missing",
                "settings",
                format!(
                    "wrong in {}, the first: {first}",
                    render::units::count(count, "place")
                ),
                "`numadctl config check` lists them; the daemon does not start with wrong settings",
            )
        }
    }
}

fn finding(level: &str, subject: &str, text: String, remedy: &str) -> Finding {
    Finding {
        level: level.to_owned(),
        subject: subject.to_owned(),
        text,
        remedy: remedy.to_owned(),
    }
}

/// A small file of one line; none when it is not there or is no text.
fn word(root: &Path, path: &str) -> Option<String> {
    let text = fs::read_to_string(root.join(path)).ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root with these files, and what is found there, as `level subject: text`.
    #[track_caller]
    fn found(name: &str, files: &[(&str, &str)], wanted: &[&str]) {
        let root =
            std::env::temp_dir().join(format!("numadctl-doctor-{}-{name}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let findings = from_here(&root);
        drop(fs::remove_dir_all(&root));
        let lines: Vec<String> = findings
            .iter()
            .filter(|finding| finding.subject != "settings")
            .map(|finding| format!("{} {}: {}", finding.level, finding.subject, finding.text))
            .collect();
        assert_eq!(lines.len(), wanted.len(), "{lines:?}");
        for (line, wanted) in lines.iter().zip(wanted) {
            assert!(line.starts_with(wanted), "{line} is not {wanted}");
        }
    }

    #[test]
    fn the_other_numad_is_known_by_its_settings_file() {
        let root = std::env::temp_dir().join(format!("numadctl-other-{}", std::process::id()));
        fs::create_dir_all(root.join("etc")).unwrap();
        let before = other_numad(&root);
        fs::write(root.join("etc/numad.conf"), "").unwrap();
        let after = other_numad(&root);
        drop(fs::remove_dir_all(&root));
        assert_eq!(before, None);
        assert_eq!(after.unwrap().level, "limited");
    }

    #[test]
    fn a_machine_is_looked_over_from_outside() {
        found(
            "rich",
            &[
                ("proc/sys/kernel/osrelease", "6.18.0\n"),
                ("sys/devices/system/node/online", "0-3\n"),
                ("proc/sys/kernel/perf_event_paranoid", "2\n"),
                ("proc/sys/kernel/numa_balancing", "1\n"),
                ("sys/kernel/sched_ext/state", "enabled\n"),
            ],
            &[
                "ok kernel: 6.18.0",
                "ok memory nodes: 4 nodes",
                "ok perf events: the kernel has them (perf_event_paranoid is 2",
                "ok kernel NUMA balancing: on; it and numad",
                "limited sched_ext: a loaded scheduler",
                "limited address samples: page faults are the only source",
                "ok other sources: for other processors: `pebs` (Intel), `ibs` (AMD), `spe` (Arm)",
                "limited core counters: the kernel has announced no `cpu`",
                "limited memory controllers: the kernel has announced none",
                "limited shared caches: the kernel has announced none",
                "limited links: the kernel has announced none",
                "limited energy: the kernel has announced none",
            ],
        );
        found(
            "bare",
            &[],
            &[
                "limited kernel: its release cannot be read",
                "limited memory nodes: one node",
                "missing perf events: this kernel has none",
                "ok kernel NUMA balancing: not in this kernel",
                "missing address samples: this kernel has no perf events",
                "ok other sources: for other processors",
                "limited core counters: this kernel has no perf events",
                "limited memory controllers: the kernel has announced none",
                "limited shared caches: the kernel has announced none",
                "limited links: the kernel has announced none",
                "limited energy: the kernel has announced none",
            ],
        );
    }
}
