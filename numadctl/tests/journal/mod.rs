//! `journal`, through a daemon and from a file.

use std::fs;
use std::path::{Path, PathBuf};

use actuator::journal::rows::{Row, encode, header};
use actuator::{Kind, Origin, ProcessKey};
use control::rows::{JournalMask, JournalReport, JournalRow};
use procfs::Reader;
use topology::{CpuSet, Pid, StartTicks, TaskKey, Tid};

use crate::fake::{Fake, Replies};
use crate::json;

fn daemon() -> Replies {
    let mask = JournalMask {
        had: None,
        got: Some("0-7".to_owned()),
        threads: 2,
    };
    let report = JournalReport {
        directory: "/state".to_owned(),
        processes: vec![JournalRow::new((4242, 5), vec![mask])],
        ..JournalReport::default()
    };
    Replies::from([("GET /v1/journal", json(&report))])
}

#[test]
fn a_daemon_is_asked() {
    let fake = Fake::answering(daemon());
    for (typed, shown) in [
        ("journal", "4242  (ended)"),
        ("journal", "none -> 0-7 (2)"),
        ("journal --json", "\"got\":\"0-7\""),
    ] {
        let told = fake.ok(typed);
        assert!(told.contains(shown), "{typed}: {told}");
        let asked = fake.asked();
        assert!(
            asked.iter().all(|asked| asked == "GET /v1/journal"),
            "{asked:?}"
        );
    }
}

#[test]
fn mistakes_are_one_line_and_a_code() {
    let fake = Fake::absent();
    for (typed, code, named) in [
        ("journal", 4, "`numadctl journal --offline` reads the file"),
        ("journal 1", 2, "unexpected argument"),
        ("journal --state-dir /tmp", 2, "--offline"),
        (
            "journal --offline --state-dir /no/such/folder",
            6,
            "there is no journal `/no/such/folder/journal`",
        ),
        (
            "journal --offline --state-dir /etc/passwd",
            6,
            "there is no journal `/etc/passwd/journal`; name the --state-dir",
        ),
    ] {
        let told = fake.refused(typed, code);
        assert!(told.contains(named), "{typed}: {told}");
    }
}

/// A journal of this boot with one thread of this process, which lives, and of another, which does not.
fn state(directory: &Path, boot: &str) {
    let reader = Reader::new("/");
    let own = Pid(std::process::id());
    let start = reader.process_start(own).unwrap().here().unwrap();
    let mut text = header(boot);
    for (pid, start) in [(own, start), (Pid(u32::MAX), StartTicks(1))] {
        let process = ProcessKey { pid, start };
        let mask = |text| CpuSet::parse_list(text).unwrap();
        let bind = Row::Bind {
            key: TaskKey {
                pid,
                tid: Tid(pid.0),
                start,
            },
            at: start,
            origin: Origin {
                kind: Kind::User,
                mask: mask("1-2"),
            },
            set: mask("0-3"),
        };
        for row in [Row::Process(process), bind] {
            encode(&row, boot, &mut text);
        }
    }
    fs::write(directory.join("journal"), text).unwrap();
}

#[test]
fn a_file_is_read_without_a_daemon() {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("journal");
    fs::create_dir_all(&directory).unwrap();
    let fake = Fake::absent();
    let typed = format!("journal --offline --state-dir {}", directory.display());
    state(&directory, &Reader::new("/").boot_id().unwrap());
    let before = fs::read(directory.join("journal")).unwrap();
    let told = fake.ok(&typed);
    assert!(told.contains("holds changes of 2 processes"), "{told}");
    assert!(
        told.contains("(ended)") && told.contains("1-2 -> 0-3 (1)"),
        "{told}"
    );
    assert_eq!(told.matches("(ended)").count(), 1, "{told}");
    assert_eq!(fs::read(directory.join("journal")).unwrap(), before);
    state(&directory, "another");
    let told = fake.ok(&typed);
    assert!(told.contains("of an earlier boot"), "{told}");
    fs::remove_dir_all(directory).unwrap();
}
