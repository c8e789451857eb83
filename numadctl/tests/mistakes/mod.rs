//! What people type wrong, and what they are told.

use super::fake::Fake;

/// What is typed, the exit code, what the line must name.
const WRONG: &[(&str, i32, &str)] = &[
    ("attach", 2, "see `numadctl attach --help`"),
    (
        "attach 0",
        2,
        "expected the number of a process; `--command NAME` finds it by name; see `numadctl attach --help`",
    ),
    (
        "attach solver",
        2,
        "expected the number of a process; `--command NAME`",
    ),
    ("attach -1", 2, "unexpected argument '-1' found; see"),
    (
        "undo solver",
        2,
        "expected the number of a process; see `numadctl undo --help`",
    ),
    ("doctor solver", 2, "expected the number of a process; see"),
    (
        "run ./solver",
        2,
        "unexpected argument './solver' found; put `--` before the command; see `numadctl run --help`",
    ),
    (
        "config check --json",
        2,
        "'--json' found; see `numadctl config check --help`",
    ),
    ("export 3 --format foo", 2, "see `numadctl export --help`"),
    (
        "status --watch --every 0.5",
        2,
        "expected a whole number; see",
    ),
    (
        "status --watch --every 0",
        2,
        "0 is not from 1 to 3600; see",
    ),
    ("status --watch --count 0", 2, "0 is not from 1 on; see"),
    ("attach 1 --cgroup /a", 2, "cannot be used with"),
    ("attach 1 --set strict", 2, "expected KEY=VALUE"),
    (
        "attach 1 --set a=1 --set a=2",
        2,
        "setting `a` is given twice",
    ),
    ("atach 1", 2, "attach"),
    (
        "detach 77",
        6,
        "`77` is neither an attachment nor a process of one; `numadctl status` lists",
    ),
    ("detach id:77", 6, "there is no such thing; look elsewhere"),
    ("detach pid:9", 6, "process `9` is not attached"),
    ("status pid:9", 6, "process `9` is not attached"),
    (
        "detach 3",
        2,
        "`3` is an attachment and also a process of attachment 9; write `id:3` or `pid:3`",
    ),
    ("detach node:3", 2, "`pid:NUMBER`"),
    ("status --count 3", 2, "--watch"),
    ("explain 77", 6, "`77`"),
    ("explain 4242 --last 0", 2, "--last"),
    ("matrix 77", 6, "`77`"),
    ("matrix 4242 --csv --json", 2, "cannot be used with"),
    ("matrix 4242 --window now", 2, "decayed"),
    (
        "matrix 4242 --svg /no/such/folder/m.svg",
        6,
        "cannot write `/no/such/folder/m.svg`",
    ),
    ("run --policy deloc", 2, "numadctl run --help"),
    ("run -- /no/such/program", 6, "`/no/such/program`"),
    (
        "run -- no-such-program-anywhere",
        6,
        "`no-such-program-anywhere`",
    ),
    (
        "run -- /etc/passwd",
        5,
        "`/etc/passwd` is no file that can be started",
    ),
    ("undo", 2, "numadctl undo --help"),
    ("undo 1 --all", 2, "cannot be used with"),
    (
        "policies show delok",
        6,
        "there is no policy `delok`; did you mean `deloc`?",
    ),
    ("config", 2, ""),
    (
        "config check /no/such/file.toml",
        6,
        "there is no file `/no/such/file.toml`",
    ),
    ("config show file.toml", 2, "--offline"),
    (
        "attach 4242 --set a=1 --set a=2",
        2,
        "setting `a` is given twice; give it once",
    ),
    (
        "replay x.rec --policy deloc --set a=1 --set a=2",
        2,
        "setting `a` is given twice",
    ),
    (
        "compare --policies off,deloc --set deloc.refine=true --set deloc.refine=false -- true",
        2,
        "setting `deloc.refine` is given twice",
    ),
    (
        "ab 4242 --policies linux,deloc --set deloc.refine=true --set deloc.refine=false",
        2,
        "setting `deloc.refine` is given twice",
    ),
];

#[test]
fn every_mistake_is_one_line_and_a_code() {
    let fake = Fake::answering(super::daemon());
    for (typed, code, named) in WRONG.iter().filter(|(typed, _, _)| *typed != "config") {
        let told = fake.refused(typed, *code);
        assert!(told.contains(named), "{typed}: {told}");
    }
    assert_eq!(fake.run("config").status.code(), Some(2));
    assert!(
        fake.asked().iter().all(|asked| !asked.starts_with("POST")),
        "nothing was changed"
    );
}

#[test]
fn files_that_are_not_there_are_told_with_what_to_do() {
    let fake = Fake::absent();
    for typed in [
        "replay /no/such/file --policy none",
        "import /no/such/file -o /tmp/never.rec",
        "report /no/such/file",
        "compare --continue /no/such/file",
        "plan /no/such/file -o /tmp/never.plan",
        "profile /no/such/file",
    ] {
        let told = fake.refused(typed, 6);
        let expected =
            "cannot read `/no/such/file`: no such file or directory; name a file that is there";
        assert!(told.contains(expected), "{typed}: {told}");
    }
}

#[test]
fn several_recordings_are_not_read_together() {
    let fake = Fake::absent();
    let recording = fake.folder().join("a.rec");
    std::fs::write(&recording, b"NUMADREC\xff\xfe").unwrap();
    let shown = recording.display();
    let told = fake.refused(&format!("profile {shown} {shown}"), 2);
    assert!(told.contains("one recording or matrix at a time"), "{told}");
}

#[test]
fn settings_files_that_may_not_be_read_are_no_files_that_are_missing() {
    use std::os::unix::fs::PermissionsExt;
    let fake = Fake::absent();
    let file = fake.folder().join("closed.toml");
    std::fs::write(&file, "").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o000)).unwrap();
    // Root may read all.
    if std::fs::File::open(&file).is_err() {
        let told = fake.refused(&format!("config check {}", file.display()), 5);
        assert!(told.contains("you may not read"), "{told}");
    }
}

#[test]
fn what_is_read_is_not_replaced() {
    let fake = Fake::absent();
    let file = fake.folder().join("a.json");
    let same = fake.folder().join("same.json");
    std::fs::write(&file, "hours of work").unwrap();
    std::fs::hard_link(&file, &same).unwrap();
    for line in [
        "report FILE -o FILE",
        "report FILE -o SAME",
        "profile FILE -o FILE",
        "plan FILE -o FILE",
        "replay FILE --policy deloc --svg FILE",
        "topo FILE --svg FILE",
        "import FILE --force -o FILE",
    ] {
        let line = line.replace("FILE", file.to_str().unwrap());
        let told = fake.refused(&line.replace("SAME", same.to_str().unwrap()), 7);
        assert!(
            told.contains("is the file that is read; name another file"),
            "{told}"
        );
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "hours of work");
    }
    // Before the program is run, not after it.
    let flag = fake.folder().join("flag");
    let line = format!("profile -o /no/such/x.html -- touch {}", flag.display());
    assert!(fake.refused(&line, 6).contains("cannot write"));
    assert!(!flag.exists());
}
