//! MPIs that Debian does not have: Open MPI 5, newer MPICH, Intel MPI. The variable `NUMAD_TEST_MPI` names the folders
//! that they are in, separated by `:`, each with `bin/mpiexec`; without it, these tests say that they are skipped.

use std::process::Command;

use crate::house::privileged;
use crate::mpi;
use crate::plan::{Desk, TELL, hosts_hold, run, told};

/// The folders.
fn all() -> Vec<String> {
    let named = std::env::var("NUMAD_TEST_MPI").unwrap_or_default();
    let folders: Vec<String> = named
        .split(':')
        .filter(|it| !it.is_empty())
        .map(str::to_owned)
        .collect();
    if folders.is_empty() {
        println!("skipped: `NUMAD_TEST_MPI` names no folder of an MPI, see CONTRIBUTING.md");
    }
    folders
}

/// What a launcher calls itself.
fn version(folder: &str) -> String {
    let launcher = format!("{folder}/bin/mpiexec");
    let output = Command::new(&launcher).arg("--version").output();
    let output = output.unwrap_or_else(|error| panic!("{launcher}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{folder}: {}", text.lines().take(2).collect::<String>());
    text
}

/// The first folder whose launcher has this in what it calls itself.
pub(crate) fn of(name: &str) -> Option<String> {
    all()
        .into_iter()
        .find(|folder| version(folder).contains(name))
}

/// Whether it is an Open MPI, of Debian's by its name.
pub(crate) fn is_openmpi(mpi: &str) -> bool {
    match mpi.starts_with('/') {
        true => version(mpi).contains("Open MPI"),
        false => mpi == "openmpi",
    }
}

/// Starts two ranks as exported, and gives what they told.
fn exported(desk: &Desk, folder: &str) -> std::process::Output {
    let mut command = Command::new(format!("{folder}/bin/mpiexec"));
    let version = version(folder);
    if version.contains("Open MPI") {
        let file = desk.file("rankfile");
        std::fs::write(&file, desk.exported("openmpi5")).expect("a file");
        command.args(["--map-by", &format!("rankfile:file={}", file.display())]);
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1");
        command.env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    } else if version.contains("Intel") {
        for line in desk.exported("intel").lines() {
            let (name, value) = line
                .trim_start_matches("export ")
                .split_once('=')
                .expect(line);
            command.env(name, value);
        }
    } else {
        let line = desk.exported("hydra");
        let words: Vec<&str> = line.split_whitespace().collect();
        command.args(&words[3..words.len() - 1]);
    }
    command
        .args(["-n", "2", "sh", "-c", TELL])
        .output()
        .expect("it runs")
}

#[test]
fn other_mpis_take_plans() {
    for folder in all() {
        let Some(desk) = Desk::new("wheels", "message") else {
            return;
        };
        assert_eq!(told(&exported(&desk, &folder)), desk.planned(), "{folder}");
        let script = format!(
            "{TELL}; until test -e {}; do sleep 0.1; done",
            desk.file("release").display()
        );
        let launcher = format!("{folder}/bin/mpiexec");
        let command = [launcher.as_str(), "-n", "2", "sh", "-c", &script];
        let (_, err) = run(&desk, &command, |text| text.matches("rank ").count() == 2);
        assert!(err.contains("2 of 2 ranks were where"), "{folder}: {err}");
        if is_openmpi(&folder) {
            let mut command = Command::new(launcher);
            command
                .args(["--prtemca", "plm_ssh_agent"])
                .arg(desk.agent());
            let rankfile = format!("rankfile:file={}", desk.file("rankfile").display());
            command.args(["--map-by", &rankfile]);
            hosts_hold(&desk, "openmpi5", &mut command);
        }
    }
}

#[test]
fn privileged_messages_of_other_mpis_are_counted() {
    for folder in all() {
        if !privileged() {
            return;
        }
        // Ranks of hydra spin: more than two would on two processors.
        let ranks = if is_openmpi(&folder) { 4 } else { 2 };
        mpi::check(&folder, "ring.c", ranks);
        mpi::check_calls(&folder, ranks);
    }
}
