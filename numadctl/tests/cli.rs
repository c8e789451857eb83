//! Every command rightly and wrongly, against a daemon that answers what the test says.

#![cfg(test)]

mod experiment;
mod fake;
mod journal;
mod kept;
mod mistakes;
mod recording;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::process::Stdio;

use control::rows::{
    Attachment, AttachmentDetail, ConfigText, EventRow, Evidence, Finding, Ledger, Matrix,
    PolicyRow, ReloadReport, Status, UndoReport,
};
use control::{ErrorBody, ErrorKind, Failure};
use fake::{Fake, Replies, Reply};
use serde_json::Value;

fn json(row: &impl serde::Serialize) -> Reply {
    Reply::Json(200, serde_json::to_string(row).unwrap())
}

fn program(id: u32, pids: &[u32]) -> Attachment {
    Attachment {
        id,
        pids: pids.to_vec(),
        command: "sol\u{1b}[31mver".to_owned(),
        uid: 0,
        policy: "deloc".to_owned(),
        dry_run: false,
        attached_s: 1.5,
        source: "faults".to_owned(),
        windows: 1,
        window_ms: 500,
        threads: 2,
        tasks: 2,
        samples: 10,
        samples_window: 10,
        lost: 0,
        pages: 1,
        evidence: Evidence::default(),
        ledger: Ledger::default(),
        moving: None,
        distance: None,
        local_share: None,
        counts: None,
        ranks: Vec::new(),
        external: None,
        in_vain: None,
        kernel: None,
        unseen_share: None,
    }
}

fn status(programs: &[Attachment]) -> Status {
    Status {
        version: "0.1.0".to_owned(),
        pid: 99,
        up_s: 200.0,
        machine: "4 nodes".to_owned(),
        nodes: 4,
        source: "faults".to_owned(),
        source_notes: Vec::new(),
        sample_period: 1,
        budget_percent: 1.0,
        used_percent: None,
        cpu_s: 1.0,
        resident_bytes: 1 << 20,
        journal_open: 0,
        attachments: programs.to_vec(),
        rivals: Vec::new(),
        memory: Vec::new(),
        links: Vec::new(),
        power: Vec::new(),
    }
}

fn daemon() -> Replies {
    let programs = vec![program(3, &[4242, 4250]), program(9, &[3])];
    let status = status(&programs);
    let detail = AttachmentDetail {
        attachment: program(3, &[4242]),
        threads: Vec::new(),
        settings: BTreeMap::new(),
    };
    let events = vec![EventRow {
        at_s: 1.0,
        kind: "dropped".to_owned(),
        tid: None,
        text: "does not pay".to_owned(),
    }];
    let undone = UndoReport {
        threads_restored: 2,
        ..UndoReport::default()
    };
    let policy = PolicyRow {
        name: "deloc".to_owned(),
        summary: "Puts together what talks.".to_owned(),
        settings: Vec::new(),
    };
    let finding = Finding {
        level: "ok".to_owned(),
        subject: "kernel".to_owned(),
        text: "6.18".to_owned(),
        remedy: String::new(),
    };
    let settings = ConfigText {
        files: vec!["/a.toml".to_owned()],
        text: "[daemon]\n".to_owned(),
        settings: BTreeMap::new(),
    };
    Replies::from([
        ("GET /v1/status", json(&status)),
        ("GET /v1/attachments", json(&programs)),
        ("POST /v1/attachments", json(&program(3, &[4242]))),
        ("GET /v1/attachments/3", json(&detail)),
        ("GET /v1/attachments/3/events?last=40", json(&events)),
        ("GET /v1/attachments/3/events?last=7", json(&events)),
        (
            "GET /v1/attachments/3/matrix?window=decayed",
            json(&matrix("decayed")),
        ),
        (
            "GET /v1/attachments/3/matrix?window=live",
            json(&matrix("live")),
        ),
        ("DELETE /v1/attachments/3", json(&undone)),
        ("POST /v1/undo", json(&undone)),
        ("POST /v1/reload", json(&ReloadReport::default())),
        ("GET /v1/policies", json(&[policy])),
        ("GET /v1/doctor", json(&[finding])),
        ("GET /v1/config", json(&settings)),
    ])
}

fn matrix(window: &str) -> Matrix {
    Matrix {
        window: window.to_owned(),
        ranks: Vec::new(),
        tids: vec![11, 12],
        nodes: vec![Some(0), None],
        rows: vec![vec![0, 5], vec![5, 0]],
        samples: 10,
        support: vec![vec![0, 5], vec![5, 0]],
        confidence: 0.9,
        partners: Vec::new(),
    }
}

/// What is typed, what must be in the answer, what must have been asked last.
const RIGHT: &[(&str, &str, &str)] = &[
    (
        "attach 4242 4250 --policy deloc --set strict=true --set a=b=c --dry-run",
        "attached process 4242",
        r#"POST /v1/attachments {"target":{"pids":[4242,4250]},"policy":"deloc","set":{"a":"b=c","strict":"true"},"dry_run":true}"#,
    ),
    (
        "attach --cgroup /a.slice",
        "it is a program of user 0\n",
        r#"POST /v1/attachments {"target":{"cgroup":"/a.slice"},"set":{},"dry_run":false}"#,
    ),
    (
        "attach --unit a.service",
        "numadctl explain 4242",
        r#"POST /v1/attachments {"target":{"unit":"a.service"},"set":{},"dry_run":false}"#,
    ),
    (
        "attach --command solver -p none --json",
        "\"pids\":[4242]",
        r#"POST /v1/attachments {"target":{"command":"solver"},"policy":"none","set":{},"dry_run":false}"#,
    ),
    (
        "detach 4242",
        "put back 2 threads",
        "DELETE /v1/attachments/3",
    ),
    (
        "detach id:3 --json",
        "\"threads_restored\":2",
        "DELETE /v1/attachments/3",
    ),
    ("status", "numad 0.1.0", "GET /v1/status"),
    ("status 4250", "numad 0.1.0", "GET /v1/status"),
    ("status --json", "\"windows\":1", "GET /v1/status"),
    (
        "explain 4250",
        "does not pay",
        "GET /v1/attachments/3/events?last=40",
    ),
    (
        "explain 4250 --last 7 --json",
        "\"events\":[",
        "GET /v1/attachments/3/events?last=7",
    ),
    (
        "matrix 4242",
        "decayed: 2 threads",
        "GET /v1/attachments/3/matrix?window=decayed",
    ),
    (
        "matrix id:3 --window live --csv",
        "tid,node,11,12",
        "GET /v1/attachments/3/matrix?window=live",
    ),
    (
        "matrix id:3 --json",
        "\"tids\":[11,12]",
        "GET /v1/attachments/3/matrix?window=decayed",
    ),
    (
        "matrix id:3 --svg -",
        "<svg xmlns",
        "GET /v1/attachments/3/matrix?window=decayed",
    ),
    (
        "undo 4242",
        "put back 2 threads",
        r#"POST /v1/undo {"pid":4242}"#,
    ),
    (
        "undo --all",
        "put back 2 threads",
        r#"POST /v1/undo {"all":true}"#,
    ),
    ("policies", "deloc   Puts together", "GET /v1/policies"),
    ("policies --json", "\"name\":\"deloc\"", "GET /v1/policies"),
    (
        "policies show deloc",
        "it has no settings",
        "GET /v1/policies",
    ),
    (
        "policies show deloc --json",
        "\"as_published\":{\"paper\":\"",
        "GET /v1/policies",
    ),
    (
        "doctor --verbose",
        "ok       kernel: 6.18",
        "GET /v1/doctor",
    ),
    ("doctor --json", "\"level\":\"ok\"", "GET /v1/doctor"),
    (
        "config show",
        "# from /a.toml\n[daemon]\n",
        "GET /v1/config",
    ),
    (
        "config show --json",
        "\"files\":[\"/a.toml\"]",
        "GET /v1/config",
    ),
    ("reload", "nothing is different", "POST /v1/reload {}"),
    ("reload --json", "\"changed\":[]", "POST /v1/reload {}"),
];

#[test]
fn every_command_asks_and_shows() {
    let fake = Fake::answering(daemon());
    for (typed, shown, asked) in RIGHT {
        let told = fake.ok(typed);
        assert!(told.contains(shown), "{typed}: {told}");
        assert!(
            !told.contains('\u{1b}'),
            "{typed}: names cannot steer the terminal"
        );
        assert_eq!(
            fake.asked().last().map(String::as_str),
            Some(*asked),
            "{typed}"
        );
    }
}

/// Every command that needs the daemon.
const NEEDS: &[&str] = &[
    "attach 1",
    "detach 1",
    "status",
    "run -- true",
    "explain 1",
    "matrix 1",
    "undo --all",
    "config show",
    "journal",
    "reload",
];

#[test]
fn without_a_daemon_it_says_how_to_start_one() {
    let absent = Fake::absent();
    let dead = Fake::absent();
    drop(std::os::unix::net::UnixListener::bind(dead.socket()).unwrap());
    for fake in [absent, dead] {
        for typed in NEEDS {
            let told = fake.refused(typed, 4);
            let socket = fake.socket().display().to_string();
            assert!(
                told.contains(&format!("no daemon listens on `{socket}`")),
                "{told}"
            );
            let remedy = if *typed == "undo --all" {
                "numad --undo"
            } else {
                "systemctl start numad"
            };
            assert!(told.contains(remedy), "{typed}: {told}");
        }
    }
}

#[test]
fn what_can_be_told_without_a_daemon_is_told() {
    let fake = Fake::absent();
    let output = fake.run("policies --json");
    assert_eq!(output.status.code(), Some(0));
    serde_json::from_slice::<Vec<PolicyRow>>(&output.stdout).unwrap();
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("no daemon listens")
    );
    let output = fake.run("doctor --json");
    assert_eq!(output.status.code(), Some(4));
    let findings: Vec<Finding> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (findings[0].level.as_str(), findings[0].subject.as_str()),
        ("missing", "daemon")
    );
    assert!(findings[0].remedy.contains("systemctl start numad"));
    for subject in ["kernel", "topology"] {
        assert!(findings.iter().any(|finding| finding.subject == subject));
    }
}

#[test]
fn machines_are_shown_without_a_daemon() {
    let fake = Fake::absent();
    let file = fake.folder().join("t.svg");
    assert!(fake.ok("topo").contains("node"));
    assert!(fake.ok("topo --source hwloc").contains("node"));
    assert!(fake.ok("topo 4x4@10,21").starts_with("4 nodes, 16 cpus"));
    let value: Value = serde_json::from_str(&fake.ok("topo 2x2 --json")).unwrap();
    assert_eq!(value["nodes"].as_array().map(Vec::len), Some(2));
    assert!(fake.ok("topo 2x2 --svg -").starts_with("<svg"));
    assert_eq!(fake.ok(&format!("topo 2x2 --svg {}", file.display())), "");
    assert!(fs::read_to_string(&file).unwrap().starts_with("<svg"));
    let garbage = fake.folder().join("garbage.xml");
    fs::write(&garbage, "no machine").unwrap();
    let garbage = garbage.display().to_string();
    for (typed, code, named) in [
        ("topo 0x4", 2, "0x4"),
        ("topo /no/such/file", 6, "`/no/such/file` does not exist"),
        (&format!("topo {garbage}"), 2, garbage.as_str()),
        (
            &format!("topo --source hwloc {garbage}"),
            2,
            garbage.as_str(),
        ),
        ("topo --source hwloc 4x4", 2, "leave `--source hwloc` out"),
        ("topo --svg - --json", 2, "cannot be used with"),
    ] {
        let told = fake.refused(typed, code);
        assert!(told.contains(named), "{typed}: {told}");
    }
}

#[test]
fn bandwidths_that_nobody_told_are_shown_as_estimates() {
    let fake = Fake::absent();
    let text = fake.ok("topo 2x8@10,20");
    assert!(text.contains("bandwidth, GB/s (estimated)\n"), "{text}");
    assert!(text.contains("latency, ns (estimated)\n"), "{text}");
    let value: Value = serde_json::from_str(&fake.ok("topo 2x8@10,20 --json")).unwrap();
    let remote = &value["bandwidth"][1];
    assert_eq!((&remote["from"], &remote["to"]), (&0.into(), &1.into()));
    assert_eq!(remote["latency_ns"]["value"], 180);
    assert_eq!(remote["read_mbps"]["origin"], "estimated");
    let drawing = fake.ok("topo 2x8@10,20 --svg -");
    assert!(drawing.contains("bandwidth, GB/s (estimated)"), "{drawing}");
}

#[test]
fn a_machine_is_measured_once_and_kept_by_its_fingerprint() {
    let fake = Fake::absent();
    let folder = fake.folder().join("state");
    let typed = format!("characterize --force --directory {}", folder.display());
    let output = fake.run(&format!("{typed} --json"));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        // A container may forbid memory policies, and a small machine may have too little memory.
        let known = ["memory of node", "MiB are needed"];
        assert!(known.iter().any(|word| told.contains(word)), "{told}");
        println!("skipped: {told}");
        return;
    }
    assert!(told.contains("of node"), "progress is told: {told}");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let file = value["file"].as_str().unwrap();
    let measured = topology::Measured::parse(&fs::read(file).unwrap()).unwrap();
    assert_eq!(
        value["fingerprint"],
        measured.fingerprint().to_string().as_str()
    );
    let local = &value["bandwidth"][0];
    for figure in ["read_mbps", "loaded_mbps", "latency_ns"] {
        assert_eq!(local[figure]["origin"], "measured", "{figure}");
        assert!(local[figure]["value"].as_u64() > Some(0), "{figure}");
    }
    // Once is enough.
    let again = fake.ok(&typed);
    assert!(again.contains("`--again` measures anew"), "{again}");
    assert!(again.starts_with("bandwidth, GB/s (measured)\n"), "{again}");
    fs::write(file, "damage").unwrap();
    let told = fake.refused(&typed, 2);
    assert!(
        told.contains("line 1") && told.contains("--again"),
        "{told}"
    );
}

#[test]
fn what_cannot_be_kept_is_not_measured() {
    let fake = Fake::absent();
    let state = fake.folder();
    let deep = state.join("slip/state").display().to_string();
    for (place, remedy) in [
        ("/proc/no/such", "at most the last part is missing"),
        (&deep, "at most the last part is missing"),
        ("/etc/passwd", "no directory; name another `--directory`"),
        ("/dev/null", "no directory; name another `--directory`"),
    ] {
        let output = fake.run(&format!("characterize --force --directory {place}"));
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{place}");
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(told.contains(place) && told.contains(remedy), "{told}");
    }
    assert!(!state.join("slip").exists());
}

#[test]
fn the_socket_can_come_from_the_environment() {
    let fake = Fake::answering(daemon());
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_numadctl"))
        .arg("status")
        .env("NUMAD_SOCKET", fake.socket())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn the_daemons_word_is_passed_on_with_its_code() {
    for kind in ErrorKind::ALL {
        let mut error = Failure::new(kind, "").remedy("do better");
        // As no daemon of ours says it.
        error.message = "`7` is\u{1b}[2J\n wrong".to_owned();
        let body = ErrorBody { error };
        let reply = Reply::Json(kind.http_status(), serde_json::to_string(&body).unwrap());
        let fake = Fake::answering(Replies::from([("GET /v1/status", reply)]));
        let output = fake.run("status");
        assert_eq!(output.status.code(), Some(kind.exit_code().into()));
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(told, "numadctl: `7` is?[2J\nnumadctl:  wrong; do better\n");
    }
}

/// Answers that are none, the exit code, and what the line must say.
#[test]
fn answers_that_are_none_are_told_apart() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n".as_slice();
    let long_line = [b"HTTP/1.1 200 OK\r\nX: ".as_slice(), &vec![b'a'; 2 << 20]].concat();
    for (reply, code, said) in [
        (
            Reply::Json(200, "{}".to_owned()),
            1,
            "does not speak as numad does: missing field",
        ),
        (
            Reply::Json(200, "<html>".to_owned()),
            1,
            "does not speak as numad does",
        ),
        (
            Reply::Json(500, "<html>oh\n</html>".to_owned()),
            1,
            "status 500",
        ),
        (
            Reply::Json(204, String::new()),
            1,
            "does not speak as numad does",
        ),
        (
            Reply::Raw(b"SSH-2.0-OpenSSH\r\n".to_vec()),
            1,
            "does not speak as numad does",
        ),
        (Reply::Raw(long_line), 1, "does not speak as numad does"),
        (
            Reply::Raw(Vec::new()),
            4,
            "ended in the middle of its answer",
        ),
        (
            Reply::Raw(b"HTTP/1.1 200 OK\r\nContent-".to_vec()),
            4,
            "ended in the middle",
        ),
        (
            Reply::Raw([head, b"{\"version\":"].concat()),
            4,
            "ended in the middle of its answer",
        ),
        (Reply::Endless, 1, "larger than 192 MiB"),
    ] {
        let name = format!("{reply:?}").chars().take(60).collect::<String>();
        let fake = Fake::answering(Replies::from([("GET /v1/status", reply)]));
        let output = fake.run("status");
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{name}: {told}");
        assert!(told.contains(said), "{name}: {told}");
        assert!(told.len() < 600, "{name}: {told}");
    }
}

#[test]
fn a_matrix_that_is_not_square_is_refused() {
    let mut bad = matrix("decayed");
    bad.rows.pop();
    let fake = Fake::answering(Replies::from([(
        "GET /v1/attachments/3/matrix?window=decayed",
        json(&bad),
    )]));
    for form in ["", "--csv", "--svg -", "--json"] {
        assert!(
            fake.refused(&format!("matrix id:3 {form}"), 1)
                .contains("not square")
        );
    }
}

#[test]
fn what_could_not_be_undone_is_an_error() {
    let report = UndoReport {
        failed: vec!["thread 5: not permitted".to_owned()],
        ..UndoReport::default()
    };
    let fake = Fake::answering(Replies::from([("POST /v1/undo", json(&report))]));
    let output = fake.run("undo --all");
    assert_eq!(output.status.code(), Some(8));
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .contains("not put back: thread 5: not permitted")
    );
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "numadctl: 1 change could not be undone\n"
    );
}

#[test]
fn run_attaches_itself_and_becomes_the_program() {
    let fake = Fake::answering(daemon());
    let child = fake
        .command()
        .args([
            "run",
            "--policy",
            "deloc",
            "--",
            "sh",
            "-c",
            "echo $$; exit 42",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(42));
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        format!("{pid}\n")
    );
    assert_eq!(
        fake.asked(),
        [format!(
            r#"POST /v1/attachments {{"target":{{"pids":[{pid}]}},"policy":"deloc","set":{{}},"dry_run":false}}"#
        )]
    );
}

#[test]
fn a_program_that_cannot_start_is_detached_again() {
    let fake = Fake::answering(daemon());
    let path = fake.folder().join("broken");
    fs::write(&path, "#!/no/such/interpreter\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&path, mode).unwrap();
    let told = fake.refused(&format!("run -- {}", path.display()), 8);
    assert!(told.contains("cannot start `"), "{told}");
    assert_eq!(
        fake.asked().last().map(String::as_str),
        Some("DELETE /v1/attachments/3")
    );
}

#[test]
fn a_program_that_cannot_be_attached_is_not_started() {
    let body = ErrorBody {
        error: Failure::new(ErrorKind::Busy, "64 programs are attached"),
    };
    let reply = Reply::Json(503, serde_json::to_string(&body).unwrap());
    let fake = Fake::answering(Replies::from([("POST /v1/attachments", reply)]));
    let output = fake.run("run -- echo started");
    assert_eq!(
        (output.status.code(), output.stdout.as_slice()),
        (Some(9), b"".as_slice())
    );
}

#[test]
fn settings_files_are_checked_offline() {
    let fake = Fake::absent();
    let file = fake.folder().join("numad.toml");
    fs::write(&file, "[engine]\nhold_ms = 7\n").unwrap();
    let shown = file.display().to_string();
    assert_eq!(
        fake.ok(&format!("config check {shown}")),
        format!("{shown}: ok\n")
    );
    assert!(
        fake.ok(&format!("config show --offline {shown}"))
            .contains("\nhold_ms = 7\n")
    );
    let json = fake.ok(&format!("config show --offline --json {shown}"));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["settings"]["engine.hold_ms"], "7");
    fs::write(&file, "[engine]\nhold_ns = 7\n[access]\nusers = 3\n").unwrap();
    for command in ["check", "show --offline"] {
        let output = fake.run(&format!("config {command} {shown}"));
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(
            String::from_utf8(output.stderr).unwrap(),
            format!(
                "numadctl: {shown}:2: setting `hold_ns` is not known in `[engine]`; did you mean `hold_ms`?\n\
                 numadctl: {shown}:4: setting `access.users` is `3`, must be one of own, none\n"
            )
        );
    }
}

#[test]
fn watching_ends_after_its_count_or_with_its_reader() {
    let fake = Fake::answering(daemon());
    let told = fake.ok("status --watch --every 1 --count 2 --json");
    assert_eq!(told.lines().count(), 2);
    for line in told.lines() {
        serde_json::from_str::<Value>(line).unwrap();
    }
    let mut child = fake
        .command()
        .args(["status", "--watch", "--every", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 5];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), output.stderr.as_slice()),
        (Some(0), b"".as_slice())
    );
}

#[test]
fn a_full_disk_is_an_error() {
    let fake = Fake::answering(daemon());
    for typed in ["status", "--help"] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let output = fake.command().arg(typed).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(8));
        assert!(
            String::from_utf8(output.stderr)
                .unwrap()
                .contains("cannot write to standard output"),
            "{typed}"
        );
    }
}

#[test]
fn a_drawing_goes_into_its_file() {
    let fake = Fake::answering(daemon());
    let file = fake.folder().join("m.svg");
    assert_eq!(
        fake.ok(&format!("matrix id:3 --svg {}", file.display())),
        ""
    );
    assert!(fs::read_to_string(&file).unwrap().starts_with("<svg"));
}

#[test]
fn every_command_has_an_example() {
    fn check(command: &clap::Command, path: &str) {
        let name = format!("{path} {}", command.get_name());
        let after = command
            .get_after_help()
            .map(ToString::to_string)
            .unwrap_or_default();
        let has_work = command.get_subcommands().count() == 0 || command.get_after_help().is_some();
        assert!(
            has_work && after.contains("EXAMPLE:\n  numadctl"),
            "{name} has no example"
        );
        for below in command.get_subcommands() {
            check(below, &name);
        }
    }
    let command = numadctl::cli::command();
    command.clone().debug_assert();
    check(&command, "");
    let fake = Fake::absent();
    assert!(fake.ok("--help").contains("EXAMPLE:"));
    assert!(fake.ok("config check --help").contains("EXAMPLE:"));
    assert_eq!(
        fake.ok("--version"),
        format!("numadctl {}\n", env!("CARGO_PKG_VERSION"))
    );
}

/// One that ends soon is not looked at again after its attach, and is kept under the name that it
/// had then.
#[test]
fn what_becomes_the_program_has_its_name_already() {
    let fake = Fake::absent();
    let daemon = std::os::unix::net::UnixListener::bind(fake.socket()).unwrap();
    let mut command = fake.command();
    let mut child = command
        .args(["run", "--no-wait", "--", "/bin/true"])
        .spawn()
        .unwrap();
    let _asked = daemon.accept().unwrap();
    let name = fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(name, "true\n");
}

#[test]
fn what_nobody_sampled_shows_nothing() {
    for (samples, tasks, told) in [
        (
            0,
            2,
            "nothing of solver: how its 2 threads share memory is not known.",
        ),
        (
            1,
            1,
            "1 memory access of solver, which shows how its busy thread uses memory.",
        ),
        (
            9,
            2,
            "9 memory accesses of solver, which show how its 2 threads share memory.",
        ),
    ] {
        let detail = AttachmentDetail {
            attachment: Attachment {
                samples,
                tasks,
                threads: 2,
                command: "solver".to_owned(),
                ..program(3, &[4242])
            },
            threads: Vec::new(),
            settings: BTreeMap::new(),
        };
        let mut replies = daemon();
        replies.insert("GET /v1/attachments/3", json(&detail));
        let answer = Fake::answering(replies).ok("explain id:3 --brief");
        let answer = answer.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(answer.contains(told), "{answer}");
    }
}
