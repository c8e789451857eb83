//! Recordings on this kernel: two programs at once, ends of all kinds.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;

use nix::sys::signal::{self, Signal};
use numad_core::Record;
use sampler::recording::{Ending, Entry, Header, Survey, read};
use serde_json::Value;

use crate::house::{EVERY_FAULT, House, Program, pid_of, privileged, wait_until};

/// A program that touches its memory anew without a pause.
fn restless(seed: &str) -> Program {
    Program::start(&[
        "pairs",
        "--threads",
        "4",
        "--release-rounds",
        "1",
        "--seed",
        seed,
    ])
}

fn entries(path: &Path) -> (Header, Vec<Entry>, Ending) {
    let bytes = std::fs::read(path).expect("the recording is there");
    read(&bytes).expect("it is a recording")
}

/// A `record` that runs, and has begun.
fn recording(house: &House, program: &Program, file: &Path) -> Child {
    let mut child = std::process::Command::new(crate::house::binary("numadctl"))
        .arg("--socket")
        .arg(house.folder.join("numad.sock"))
        .args(["record", &program.pid(), "-o"])
        .arg(file)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("numadctl starts");
    let mut told = BufReader::new(child.stderr.take().expect("its error stream"));
    let mut line = String::new();
    told.read_line(&mut line).expect("a line");
    assert!(line.contains("recording until"), "{line}");
    // Left open for the rest of what it says.
    thread::spawn(move || drop(std::io::copy(&mut told, &mut std::io::stderr())));
    child
}

/// Waits until the daemon has this many samples of each recording.
fn wait_for_samples(house: &House, count: u64) {
    let socket = house.folder.join("numad.sock");
    wait_until("samples are recorded", || {
        rows(&socket).is_some_and(|rows| {
            !rows.is_empty()
                && rows
                    .iter()
                    .all(|row| row["samples"].as_u64().unwrap_or(0) > count)
        })
    });
}

/// The recordings being made, as the daemon tells them over its socket.
fn rows(socket: &Path) -> Option<Vec<Value>> {
    use std::io::{Read, Write};
    let mut stream = std::os::unix::net::UnixStream::connect(socket).ok()?;
    stream
        .write_all(b"GET /v1/recordings HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    serde_json::from_str(body).ok()
}

#[test]
fn privileged_two_programs_are_recorded_each_for_itself() {
    if !privileged() {
        return;
    }
    let house = House::serving(EVERY_FAULT);
    let programs = [restless("1"), restless("2")];
    let files: Vec<PathBuf> = (0..2)
        .map(|number| house.folder.join(format!("{number}.rec")))
        .collect();
    // One of them under a policy, which is none of the recording's business.
    house.ok(&["attach", &programs[0].pid(), "--policy", "none"]);
    let mut children: Vec<Child> = programs
        .iter()
        .zip(&files)
        .map(|(program, file)| recording(&house, program, file))
        .collect();
    wait_for_samples(&house, 100);
    for child in &children {
        signal::kill(pid_of(child), Signal::SIGINT).expect("it takes the signal");
    }
    for child in &mut children {
        let status = child.wait().expect("it ends");
        assert_eq!(status.code(), Some(0));
    }
    for (program, file) in programs.iter().zip(&files) {
        let (header, entries, ending) = entries(file);
        assert_eq!(ending, Ending::Complete);
        assert!(header.source.starts_with("faults ("), "{}", header.source);
        let machine = topology::load_text(&header.topology, "recorded").expect("a machine");
        let this = topology::load("this").expect("a machine");
        assert_eq!(machine.fingerprint(), this.fingerprint());
        let mut samples = 0;
        for entry in entries {
            if let Entry::Record(Record::Sample(sample)) = entry {
                assert_eq!(sample.pid.to_string(), program.pid());
                samples += 1;
            }
        }
        assert!(samples > 100, "{samples} samples");
    }
    let status: Value =
        serde_json::from_str(&house.ok(&["status", "--json"])).expect("status is JSON");
    assert_eq!(status["attachments"][0]["policy"], "none");
    house.ok(&["detach", &programs[0].pid()]);
}

#[test]
fn privileged_a_recording_has_its_length_and_tells_what_it_holds() {
    if !privileged() {
        return;
    }
    let house = House::serving(EVERY_FAULT);
    let program = restless("3");
    let file = house.folder.join("a.rec");
    let name = file.to_str().expect("a path in UTF-8");
    let pid = program.pid();
    let told = house.ok(&["record", &pid, "-o", name, "--for", "1s", "--json"]);
    let told: Value = serde_json::from_str(&told).expect("JSON");
    let survey = Survey::of(std::fs::File::open(&file).expect("it is there")).expect("it is one");
    assert_eq!(told["samples"].as_u64(), Some(survey.samples));
    assert_eq!(told["complete"], true);
    // Its own threads are named before anything is seen of them.
    assert!(survey.threads.len() >= 5, "{:?}", survey.threads);
    let told = house.refused(&["record", &pid, "-o", name, "--for", "1s"], 7);
    assert!(told.contains("is there already"), "{told}");
    let other = house.folder.join("b.rec");
    let other = other.to_str().expect("a path in UTF-8");
    house.refused(&["record", "1", "-o", other, "--for", "1s"], 2);
    house.refused(&["record", "4194305", "-o", other, "--for", "1s"], 6);
    house.refused(&["record", &pid, "-o", "/no/such/place/a.rec"], 6);
    assert!(!Path::new(other).exists());
}

#[test]
fn privileged_a_replay_on_another_machine_finds_who_shares() {
    if !privileged() {
        return;
    }
    let house = House::serving(EVERY_FAULT);
    let program = restless("5");
    let file = house.folder.join("a.rec");
    let file = file.to_str().expect("a path in UTF-8");
    house.ok(&["record", &program.pid(), "-o", file, "--for", "3s"]);
    let words = [
        "replay",
        file,
        "--policy",
        "deloc",
        "--machine",
        "2x2@10,21",
    ];
    let told = house.ok(&[&words[..], &["--window", "500", "--json"]].concat());
    let report: Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!(report["other_machine"], true);
    let node = |tid: u32| {
        let placement = report["placement"].as_array().expect("a list");
        let row = placement.iter().find(|row| row["tid"] == tid);
        row.expect("the thread is there")["node"].clone()
    };
    for pair in &program.partners {
        assert_eq!(node(pair[0]), node(pair[1]), "{told}");
    }
    let again = house.ok(&[&words[..], &["--window", "500", "--json"]].concat());
    assert_eq!(told, again);
}

#[test]
fn privileged_a_daemon_that_is_killed_leaves_what_there_was() {
    if !privileged() {
        return;
    }
    let mut house = House::serving(EVERY_FAULT);
    let program = restless("4");
    let file = house.folder.join("a.rec");
    let mut child = recording(&house, &program, &file);
    wait_for_samples(&house, 100);
    // Something is given out every second.
    wait_until("something is written", || {
        let parts = std::fs::read_dir(&house.folder).expect("the folder");
        parts.filter_map(Result::ok).any(|entry| {
            let size = entry.metadata().map_or(0, |metadata| metadata.len());
            entry.file_name().to_string_lossy().ends_with(".part") && size > 4096
        })
    });
    house.stop(Signal::SIGKILL);
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(4));
    let (_, entries, ending) = entries(&file);
    assert!(matches!(ending, Ending::CutOff { .. }));
    assert!(!entries.is_empty());
}
