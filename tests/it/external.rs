//! A policy that is a program of its own: docs/examples/partners.py, as the documents show it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::Value;

use super::house::{House, Program, privileged, wait_until, wait_while};

/// The user that owns nothing on every Linux.
const NOBODY: u32 = 65_534;

/// Whether that user can run Python; says so if not.
fn python() -> bool {
    let mut command = Command::new("/usr/bin/env");
    command.args(["python3", "-c", ""]).env_clear().uid(NOBODY);
    command.env("PATH", "/usr/bin:/bin").current_dir("/");
    let there = command.status().is_ok_and(|status| status.success());
    if !there {
        println!("skipped: there is no python3 that `nobody` can run");
    }
    there
}

/// A daemon that may run the programs of a directory of its own, and that directory.
fn house() -> (House, PathBuf) {
    let mut house = House::with_settings("");
    let programs = house.folder.join("programs");
    fs::create_dir(&programs).expect("a directory of programs");
    let settings = format!(
        "{}[external]\nprograms = \"{}\"\nuser = \"nobody\"\nanswer_ms = 60000\n",
        super::house::SEEING,
        programs.display()
    );
    fs::write(house.folder.join("numad.toml"), settings).expect("settings for the test");
    house.start();
    (house, programs)
}

fn program(programs: &Path, name: &str, text: &str) -> String {
    let path = programs.join(name);
    fs::write(&path, text).expect("a program");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
    format!("exec:{}", path.display())
}

fn example(programs: &Path) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples/partners.py");
    let text = fs::read_to_string(source).expect("the example");
    program(programs, "partners.py", &text)
}

/// What status shows of the first policy.
fn external(house: &House) -> Value {
    let text = house.ok(&["status", "--json"]);
    let status: Value = serde_json::from_str(&text).expect("status is JSON");
    status["attachments"][0]["external"].clone()
}

fn wait_for_answers(house: &House) {
    wait_while("it answered", || {
        let row = external(house);
        let status = || format!("{row}\n{}", house.ok(&["status"]));
        (row["answered"].as_u64() <= Some(2)).then(status)
    });
}

/// The state of each process that this program runs in.
fn processes(policy: &str) -> Vec<String> {
    let path = policy.strip_prefix("exec:").expect("an external policy");
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    entries
        .filter(|entry| {
            let line = fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
            line.split('\0').any(|word| word == path)
        })
        .filter_map(|entry| fs::read_to_string(entry.path().join("status")).ok())
        .collect()
}

#[test]
fn privileged_an_external_policy_is_asked_and_has_no_rights() {
    if !privileged() || !python() {
        return;
    }
    let (house, programs) = house();
    let policy = example(&programs);
    assert!(house.ok(&["policies"]).contains(&policy));
    house.ok(&["policies", "show", &policy]);
    let work = Program::start(&["pairs", "--threads", "4"]);
    house.ok(&["attach", &work.pid(), "--policy", &policy]);
    wait_for_answers(&house);
    let running = processes(&policy);
    assert!(!running.is_empty());
    for status in &running {
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_default()
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(field("Uid:"), "65534 65534 65534 65534");
        assert_eq!(field("Groups:"), "");
        assert_eq!(field("NoNewPrivs:"), "1");
        for set in ["CapPrm:", "CapEff:", "CapAmb:"] {
            assert_eq!(field(set), "0000000000000000", "{set}");
        }
    }
    let row = external(&house);
    assert_eq!(row["state"], "at work as partners", "{row}");
    assert_eq!(row["crashes"], 0, "{row}");
    assert!(
        house
            .ok(&["explain", &work.pid()])
            .contains("at work as partners")
    );
    house.ok(&["detach", &work.pid()]);
    wait_until("its processes are gone", || processes(&policy).is_empty());
}

#[test]
fn privileged_an_external_policy_is_an_arm_of_an_experiment() {
    if !privileged() || !python() {
        return;
    }
    let (house, programs) = house();
    let policy = example(&programs);
    let work = Program::start(&["pairs", "--threads", "2"]);
    let file = house.folder.join("ab.json");
    let policies = format!("linux,{policy}");
    house.ok(&[
        "ab",
        &work.pid(),
        "--policies",
        &policies,
        "--metric",
        "cmd:echo 5",
        "--slice",
        "250ms",
        "--time-constant",
        "25ms",
        "-n",
        "6",
        "--to-the-end",
        "--seed",
        "3",
        "-o",
        &file.display().to_string(),
    ]);
    let text = fs::read_to_string(&file).expect("the experiment");
    let experiment: Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(experiment["ending"], "complete");
    assert_eq!(experiment["arms"][1]["policy"], policy.as_str());
    assert_eq!(experiment["slices"].as_array().map(Vec::len), Some(12));
    assert_eq!(experiment["results"][0]["verdict"], "same");
    wait_until("its processes are gone", || processes(&policy).is_empty());
}

/// The capabilities that the unit and its drop-in give, as setpriv takes them.
fn rights() -> String {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../systemd");
    let mut rights = "-all".to_owned();
    for file in ["numad.service", "numad.service.d/external-policies.conf"] {
        let text = fs::read_to_string(unit.join(file)).expect("the unit");
        for line in text.lines() {
            let words = line.strip_prefix("AmbientCapabilities=").unwrap_or("");
            for word in words.split_whitespace() {
                let name = word.strip_prefix("CAP_").expect("a capability");
                rights += &format!(",+{}", name.to_lowercase());
            }
        }
    }
    rights
}

/// A daemon that is no root has to become root on its way to the other user, or the program would keep its capabilities.
#[test]
fn privileged_the_rights_of_the_drop_in_are_enough_and_do_not_reach_the_program() {
    /// As the unit's user: no root, and owner of its folders alone.
    const DAEMON: u32 = 900;
    if !privileged() || !python() {
        return;
    }
    let (mut house, programs) = house();
    house.stop(Signal::SIGTERM);
    for folder in ["", "state"] {
        let folder = house.folder.join(folder);
        fs::create_dir_all(&folder).expect("a folder");
        std::os::unix::fs::chown(&folder, Some(DAEMON), Some(DAEMON)).expect("an owner");
    }
    // Where that user can reach it.
    let numad = house.folder.join("numad");
    fs::copy(super::house::binary("numad"), &numad).expect("a copy");
    let rights = rights();
    let mut command = Command::new("setpriv");
    let user = DAEMON.to_string();
    command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]);
    command.args(["--no-new-privs", "--bounding-set", &rights]);
    command.args(["--inh-caps", &rights, "--ambient-caps", &rights]);
    command.arg(&numad).args(house.daemon_command().get_args());
    house.start_as(command);
    let policy = example(&programs);
    let work = Program::start(&["pairs", "--threads", "4"]);
    house.ok(&["attach", &work.pid(), "--policy", &policy]);
    wait_for_answers(&house);
    let running = processes(&policy);
    assert!(!running.is_empty());
    for status in running {
        for line in [
            "Uid:\t65534\t65534\t65534\t65534",
            "CapPrm:\t0000000000000000",
        ] {
            assert!(status.contains(line), "{line}: {status}");
        }
        assert!(status.contains("CapEff:\t0000000000000000"), "{status}");
    }
    house.ok(&["detach", &work.pid()]);
    wait_until("its processes are gone", || processes(&policy).is_empty());
}

#[test]
fn privileged_a_policy_that_fails_leaves_the_program_alone() {
    if !privileged() {
        return;
    }
    let (house, programs) = house();
    let policy = program(&programs, "fails", "#!/bin/sh\nexit 3\n");
    let work = Program::start(&["pairs", "--threads", "2"]);
    let masks = work.masks();
    house.ok(&["attach", &work.pid(), "--policy", &policy]);
    wait_until("it failed", || {
        external(&house)["crashes"].as_u64() > Some(0)
    });
    assert_eq!(external(&house)["last_fault"], "it ended with exit code 3");
    wait_until("it is told", || {
        house
            .ok(&["explain", &work.pid()])
            .contains("ended with exit code 3")
    });
    assert_eq!(work.masks(), masks);
}

#[test]
fn privileged_only_what_the_settings_allow_may_be_a_policy() {
    if !privileged() {
        return;
    }
    let (house, programs) = house();
    let work = Program::start(&["pairs", "--threads", "2"]);
    let refused =
        |policy: &str, code| house.refused(&["attach", &work.pid(), "--policy", policy], code);
    assert!(refused("exec:/bin/sh", 5).contains("is not in"));
    assert!(refused("exec:partners.py", 2).contains("no absolute path"));
    let gone = format!("exec:{}/gone", programs.display());
    assert!(refused(&gone, 6).contains("there is no program"));
    let policy = program(&programs, "open", "#!/bin/sh\n");
    fs::set_permissions(programs.join("open"), fs::Permissions::from_mode(0o777)).expect("a mode");
    assert!(refused(&policy, 5).contains("may be changed by everyone"));
    let plain = House::serving("");
    let off = plain.refused(&["attach", &work.pid(), "--policy", "exec:/bin/sh"], 3);
    assert!(off.contains("external.programs"), "{off}");
}
