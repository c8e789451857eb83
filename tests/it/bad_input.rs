//! Every mistake gets one line that names the object and the remedy, and a documented exit code.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use crate::house::{House, Program, binary, privileged};

#[test]
fn without_a_daemon_it_says_how_to_start_one() {
    let house = House::with_settings("");
    let told = house.refused(&["status"], 4);
    assert!(
        told.contains("numad.sock") && told.contains("systemctl start numad"),
        "{told}"
    );
}

#[test]
fn settings_are_checked_without_a_daemon() {
    let house = House::with_settings("[engine]\nintervall_min_ms = 50\n");
    let file = house.folder.join("numad.toml");
    let told = house.refused(&["config", "check", file.to_str().expect("UTF-8")], 3);
    assert!(
        told.contains(":2") && told.contains("`interval_min_ms`"),
        "{told}"
    );
}

#[test]
fn privileged_a_daemon_with_bad_settings_does_not_start() {
    if !privileged() {
        return;
    }
    let house = House::with_settings("[engine]\nbusy_min_percent = 101\n");
    let output = house.daemon_command().output().expect("it runs");
    assert_eq!(output.status.code(), Some(3));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        told.contains("busy_min_percent") && told.contains("100"),
        "{told}"
    );
}

#[test]
fn privileged_a_feed_that_cannot_be_trusted_attaches_nothing() {
    if !privileged() {
        return;
    }
    let feed = std::env::temp_dir().join(format!("numad-it-feed-{}", std::process::id()));
    let settings = format!(
        "[sampling]\nsource = \"feed\"\nfeed = \"{}\"\n",
        feed.display()
    );
    let house = House::serving(&settings);
    let program = Program::start(&["pairs", "--threads", "2"]);
    let attach = ["attach", &program.pid(), "--policy", "none"];
    let told = house.refused(&attach, 4);
    assert!(
        told.contains("nothing is there") && told.contains("mkfifo -m 600"),
        "{told}"
    );
    std::fs::create_dir(&feed).expect("it is free");
    let told = house.refused(&attach, 4);
    std::fs::remove_dir(&feed).expect("it is empty");
    assert!(told.contains("a directory"), "{told}");
}

/// What is typed, the exit code, and what the line must name. `PID` is a program of ours.
const REFUSED: &[(&str, i32, &[&str])] = &[
    ("attach 4194303", 6, &["`4194303`"]),
    ("attach 2", 2, &["`2`", "kernel thread"]),
    ("attach 1", 2, &["`1`"]),
    ("attach PID --policy delok", 6, &["`delok`", "`deloc`"]),
    (
        "attach PID --policy deloc --set refin=true",
        3,
        &["`refin`", "`refine`"],
    ),
    (
        "attach PID --policy deloc --set refine=maybe",
        3,
        &["`refine`", "true or false"],
    ),
    ("attach --cgroup /no/such/group", 6, &["/no/such/group"]),
    ("attach --unit nosuch.service", 6, &["nosuch.service"]),
    ("attach --command nosuchcommand", 6, &["nosuchcommand"]),
    ("attach", 2, &[]),
    ("detach PID", 6, &["PID"]),
    ("explain 4194303", 6, &["4194303"]),
    ("policies show delok", 6, &["`delok`", "`deloc`"]),
];

#[test]
fn privileged_what_cannot_be_attached_is_refused() {
    if !privileged() {
        return;
    }
    let house = House::serving("");
    let program = Program::start(&["pairs", "--threads", "2"]);
    let pid = program.pid();
    for (typed, code, names) in REFUSED {
        let typed = typed.replace("PID", &pid);
        let told = house.refused(&typed.split(' ').collect::<Vec<_>>(), *code);
        for name in *names {
            assert!(
                told.contains(&name.replace("PID", &pid)),
                "`{name}` is missing: {told}"
            );
        }
    }
    house.ok(&["attach", &pid, "--policy", "none"]);
    let told = house.refused(&["attach", &pid, "--policy", "deloc"], 7);
    assert!(told.contains(&pid) && told.contains("attached"), "{told}");
}

/// A number means another process there, and so the daemon would take a stranger.
#[test]
fn privileged_who_counts_processes_otherwise_is_refused() {
    if !privileged() {
        return;
    }
    let house = House::serving("");
    let apart = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc"]);
        command
            .arg(binary("numadctl"))
            .args(house.ctl_arguments(arguments));
        command.output().expect("unshare runs")
    };
    let program = Program::start(&["pairs", "--threads", "2"]);
    let pid = program.pid();
    house.ok(&["attach", &pid, "--policy", "none"]);
    let file = house.folder.join("apart.rec");
    let file = file.to_str().expect("a path in ASCII");
    for typed in [
        &["attach", "1", "--policy", "none"][..],
        &["run", "--", "true"],
        &["record", "1", "-o", file, "--for", "100ms"],
        &["detach", &pid],
    ] {
        let output = apart(typed);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{typed:?}: {told}");
        assert!(told.contains("another PID namespace"), "{told}");
    }
    let output = apart(&["status", "--json"]);
    assert!(output.status.success(), "who only looks may");
}

#[test]
fn privileged_a_second_daemon_is_refused() {
    if !privileged() {
        return;
    }
    let house = House::serving("");
    let output = house.daemon_command().output().expect("it runs");
    assert_eq!(
        output.status.code(),
        Some(7),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    house.ok(&["status"]);
}

#[test]
fn privileged_a_flooded_socket_keeps_serving() {
    if !privileged() {
        return;
    }
    let house = House::serving("");
    let socket = house.folder.join("numad.sock");
    let mut crowd = Vec::new();
    for number in 0..40 {
        let Ok(mut stream) = UnixStream::connect(&socket) else {
            break;
        };
        stream
            .set_write_timeout(Some(Duration::from_secs(5)))
            .expect("a timeout");
        // Half a request, a megabyte in one line, and silence, in turn. Refusals are as good as answers.
        match number % 3 {
            0 => drop(stream.write_all(b"POST /v1/attachments HTTP/1.1\r\nContent-Le")),
            1 => drop(stream.write_all(&vec![b'a'; 1 << 20])),
            _ => {}
        }
        crowd.push(stream);
    }
    for _ in 0..5 {
        house.ok(&["status"]);
    }
    let mut stream = UnixStream::connect(&socket).expect("a connection");
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .expect("a timeout");
    stream
        .write_all(b"GET /v1/status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
