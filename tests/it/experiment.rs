//! Experiments on commands that are started for them, and of two users on one daemon that is killed.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{self, Signal};
use serde_json::Value;

use super::house::{House, Program, SEEING, binary, pid_of, privileged, wait_until};

/// The user that owns nothing on every Linux.
const NOBODY: u32 = 65_534;

/// Slices of a quarter of a second, with numbers that never differ.
const SHORT: [&str; 8] = [
    "ab",
    "--metric",
    "cmd:echo 5",
    "--slice",
    "250ms",
    "--time-constant",
    "25ms",
    "--to-the-end",
];

/// An experiment on a command of the shell.
fn on<'a>(more: &[&'a str], shell: &'a str) -> Vec<&'a str> {
    [
        &SHORT[..],
        &["-n", "6"],
        more,
        &["--", "/bin/sh", "-c", shell],
    ]
    .concat()
}

/// One that nobody waits for the end of.
fn begun(house: &House, words: &[&str]) -> Child {
    Command::new(binary("numadctl"))
        .args([&SHORT[..], &["-n", "400"], words].concat())
        .env("NUMAD_SOCKET", house.folder.join("numad.sock"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("numadctl starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn rows(house: &House) -> Vec<Value> {
    let rows: Value = serde_json::from_str(&house.ok(&["ab", "list", "--json"])).expect("JSON");
    rows.as_array().expect("a list").clone()
}

/// How experiments stand, oldest first.
fn states(house: &House) -> Vec<String> {
    let word = |row: &Value| row["state"].as_str().expect("a state").to_owned();
    rows(house).iter().map(word).collect()
}

fn kept(house: &House, id: &str) -> Value {
    serde_json::from_str(&house.ok(&["ab", "show", id, "--json"])).expect("JSON")
}

fn wait_for_a_slice(house: &House) {
    wait_until("a slice is done", || {
        rows(house)
            .first()
            .is_some_and(|row| row["slices"].as_u64() > Some(0))
    });
}

#[test]
fn privileged_a_command_is_started_and_goes_on_after_its_experiment() {
    if !privileged() {
        return;
    }
    let house = House::serving(SEEING);
    let file = house.folder.join("ab.json").display().to_string();
    // It ends once there is a verdict, and somebody could see that it goes on.
    let shell =
        format!("echo its own; while [ ! -e {file} ]; do sleep 0.05; done; sleep 1; exit 3");
    let output = house.ctl(&on(&["-o", &file], &shell));
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert_eq!(text(&output.stdout), "its own\n");
    assert!(told.contains("auto is the same as linux"), "{told}");
    assert!(told.contains("goes on without numad"), "{told}");
    let experiment: Value =
        serde_json::from_str(&fs::read_to_string(&file).expect("the experiment")).expect("JSON");
    assert_eq!(experiment["ending"], "complete");
    assert_eq!(experiment["subject"][0], "/bin/sh");
    assert!(house.ok(&["status"]).contains("nothing is attached"));
}

#[test]
fn privileged_a_run_says_what_its_policy_did_and_saw() {
    if !privileged() {
        return;
    }
    let house = House::serving(SEEING);
    let file = house.folder.join("runs.json").display().to_string();
    let words = [
        "compare",
        "-n",
        "6",
        "--policies",
        "off,random",
        "--to-the-end",
    ];
    let program = ["--", "/bin/sh", "-c", "sleep 0.1"];
    house.ok(&[&words[..], &["-o", &file], &program].concat());
    let experiment: Value =
        serde_json::from_str(&fs::read_to_string(&file).expect("the experiment")).expect("JSON");
    let slices = experiment["slices"].as_array().expect("a list");
    assert_eq!(slices.len(), 12, "{experiment}");
    for slice in slices {
        let told = slice["moved"]["threads"].is_u64() && slice["moved"]["pages"].is_u64();
        // Nobody has seen the runs under no policy.
        assert_eq!(told, slice["arm"] == 1, "{slice}");
    }
    let sights = experiment["sights"].as_array().expect("a list");
    assert_eq!(sights.len(), 1, "{experiment}");
    assert_eq!(sights[0]["arm"], 1);
    assert!(house.ok(&["status"]).contains("nothing is attached"));
}

#[test]
fn privileged_a_command_that_ends_first_leaves_what_there_is() {
    if !privileged() {
        return;
    }
    let house = House::serving(SEEING);
    let told = house.refused(&on(&[], "exit 0"), 6);
    assert!(told.contains("ended before experiment `1`"), "{told}");
    // Its own exit code goes before ours.
    let output = house.ctl(&on(&[], "exit 3"));
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert_eq!(kept(&house, "2")["ending"], "program_ended");
    // A metric without a number ends the experiment, not the command.
    let flag = house.folder.join("flag").display().to_string();
    let shell = format!("sleep 0.1; touch {flag}");
    let output = house.ctl(&on(&["--metric", "cmd:echo x"], &shell));
    assert_eq!(output.status.code(), Some(10), "{}", text(&output.stderr));
    assert!(Path::new(&flag).exists());
}

#[test]
fn privileged_a_command_that_is_refused_is_not_begun() {
    if !privileged() {
        return;
    }
    let mut house = House::serving(SEEING);
    let flag = house.folder.join("flag").display().to_string();
    let shell = format!("touch {flag}");
    for (more, code, part) in [
        (["--detach", "--seed=1"], 2, "does not go with a command"),
        (["--json", "--seed=1"], 2, "does not go with a command"),
        (["--policies", "linux"], 2, "nothing to be compared with"),
        (
            ["--policies", "linux,exec:/no/such"],
            3,
            "external.programs",
        ),
        (["-o", "/no/such/file"], 6, "cannot write"),
    ] {
        let told = house.refused(&on(&more, &shell), code);
        assert!(told.contains(part), "{told}");
    }
    assert!(states(&house).is_empty());
    house.stop(Signal::SIGTERM);
    house.refused(&on(&[], &shell), 4);
    assert!(!Path::new(&flag).exists());
}

#[test]
fn privileged_a_signal_ends_the_experiment_and_goes_to_the_command() {
    if !privileged() {
        return;
    }
    let house = House::serving(SEEING);
    let shell = "trap 'exit 7' TERM; while :; do sleep 0.05; done";
    let mut numadctl = begun(&house, &["--", "/bin/sh", "-c", shell]);
    wait_for_a_slice(&house);
    signal::kill(pid_of(&numadctl), Signal::SIGTERM).expect("a signal");
    let status = numadctl.wait().expect("its end");
    assert_eq!(status.code(), Some(7));
    assert_eq!(states(&house), ["over"]);
    assert!(house.ok(&["status"]).contains("nothing is attached"));
}

/// Someone who owns nothing, with a program of their own.
struct Somebody {
    sleeper: Child,
    numadctl: std::path::PathBuf,
}

impl Somebody {
    fn new(house: &House) -> Self {
        // Where they can reach it.
        let numadctl = house.folder.join("numadctl");
        fs::copy(binary("numadctl"), &numadctl).expect("a copy");
        let sleeper = Command::new("sleep")
            .arg("3600")
            .current_dir("/")
            .uid(NOBODY)
            .gid(NOBODY)
            .spawn()
            .expect("a program of nobody's");
        Self { sleeper, numadctl }
    }

    fn ctl(&self, house: &House, arguments: &[&str]) -> std::process::Output {
        let mut command = Command::new(&self.numadctl);
        command.args(arguments).uid(NOBODY).gid(NOBODY);
        command.env("NUMAD_SOCKET", house.folder.join("numad.sock"));
        command.current_dir("/").stdin(Stdio::null());
        command.output().expect("numadctl runs")
    }
}

impl Drop for Somebody {
    fn drop(&mut self) {
        drop(self.sleeper.kill());
        drop(self.sleeper.wait());
    }
}

#[test]
fn privileged_two_users_one_queue_and_a_daemon_that_is_killed() {
    if !privileged() {
        return;
    }
    let mut house = House::serving(SEEING);
    let work = Program::start(&["pairs", "--threads", "2"]);
    let masks = work.masks();
    let somebody = Somebody::new(&house);
    let numadctl = begun(&house, &[&work.pid()]);
    wait_for_a_slice(&house);
    let own = somebody.sleeper.id().to_string();
    let output = somebody.ctl(&house, &["ab", &own, "--detach", "--metric", "local"]);
    let told = text(&output.stdout) + &text(&output.stderr);
    assert!(
        told.contains("experiment 2 waits for experiment 1"),
        "{told}"
    );
    // Nobody sees another's.
    let seen = text(&somebody.ctl(&house, &["ab", "list", "--json"]).stdout);
    assert!(
        seen.contains("\"id\":2") && !seen.contains("\"id\":1"),
        "{seen}"
    );
    let stop = somebody.ctl(&house, &["ab", "stop", "1"]);
    assert_eq!(stop.status.code(), Some(5));
    let done = kept(&house, "1")["slices"].as_array().map(Vec::len);
    house.stop(Signal::SIGKILL);
    let output = numadctl.wait_with_output().expect("its end");
    assert_eq!(output.status.code(), Some(4));
    assert!(
        text(&output.stderr)
            .contains("it puts everything back as it stops, or when it starts again")
    );
    house.start();
    assert_eq!(states(&house), ["over", "over"]);
    assert_eq!(work.masks(), masks);
    assert!(house.ok(&["status"]).contains("nothing is attached"));
    let journal = house.ok(&["journal"]);
    assert!(journal.contains("no changes"), "{journal}");
    for id in ["1", "2"] {
        let kept = kept(&house, id);
        assert_eq!(kept["ending"], "interrupted");
        assert_eq!(kept["why"], "the daemon ended in the middle of it");
    }
    let after = kept(&house, "1")["slices"].as_array().map(Vec::len);
    assert!(done > Some(0) && after >= done, "{after:?} of {done:?}");
}
