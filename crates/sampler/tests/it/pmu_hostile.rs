//! Event sources that no kernel would show.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use sampler::choose::choose;
use sampler::machine::Facts;
use sampler::pmu::{PMUS_MAX, Pmus};
use sampler::survey::survey;
use testkit::tree::TempDir;

use crate::pmu::machine;

const DEVICES: &str = "sys/bus/event_source/devices";

/// Whatever stands there, it is answered, in lines.
fn look(root: &Path) -> Pmus {
    let facts = Facts::read(root);
    drop(choose(&facts));
    for line in survey(&facts) {
        assert!(
            !line.text.contains('\n') && !line.remedy.contains('\n'),
            "{line:?}"
        );
    }
    for pmu in facts.pmus.iter() {
        for alias in pmu.aliases.keys() {
            if let Err(error) = pmu.encode(alias) {
                assert!(!error.to_string().contains('\n'), "{error}");
            }
        }
    }
    facts.pmus
}

/// One source with these files.
fn source(files: &[(&str, &[u8])]) -> TempDir {
    let tree = TempDir::new();
    for (path, content) in files {
        tree.write(&format!("{DEVICES}/odd/{path}"), content);
    }
    tree
}

#[track_caller]
fn noted(files: &[(&str, &[u8])], present: bool, wanted: &[&str]) {
    let tree = source(files);
    let pmus = look(tree.path());
    assert_eq!(pmus.find("odd").is_some(), present);
    let notes: Vec<String> = pmus.notes().iter().map(ToString::to_string).collect();
    assert_eq!(notes.len(), wanted.len(), "{notes:?}");
    for (note, wanted) in notes.iter().zip(wanted) {
        assert!(note.contains(wanted), "{note} lacks {wanted}");
        assert!(!note.contains('\n'), "{note}");
    }
}

#[test]
fn damage_is_noted_and_left_out() {
    noted(&[("type", b"8\n")], true, &[]);
    noted(
        &[("type", b"8\n"), ("format/x", b"config4:0-63")],
        true,
        &[],
    );
    noted(
        &[("format/x", b"config:0")],
        false,
        &["type` is left out: it is not there"],
    );
    noted(&[("type", b"eight\n")], false, &["`eight` is not a number"]);
    noted(&[("type", b"-1")], false, &["`-1` is not a number"]);
    noted(&[("type", b"4294967296")], false, &["is not a number"]);
    noted(&[("type", b"\xff\xfe\n\n8")], false, &["is not a number"]);
    noted(&[("type", b"")], false, &["`` is not a number"]);
    noted(
        &[("type", b"8"), ("format/x", b"config:64")],
        true,
        &["`config:64` is not a word"],
    );
    noted(
        &[("type", b"8"), ("format/x", b"a\nb")],
        true,
        &["`a\\nb` is not a word"],
    );
    noted(&[("type", b"8"), ("cpumask", b"0-x")], true, &["`0-x`"]);
    noted(
        &[("type", b"8"), ("cpumask", b"0-99999999")],
        true,
        &["beyond the largest"],
    );
    noted(
        &[
            ("type", b"8"),
            ("events/a", b"event=1"),
            ("events/a.scale", b"x"),
        ],
        true,
        &["`x`"],
    );
    noted(
        &[
            ("type", b"8"),
            ("events/a", b"e"),
            ("events/a.scale", b"inf"),
        ],
        true,
        &["`inf`"],
    );
    noted(&[("type", b"8"), ("events/a.unit", b"MiB")], true, &[]);
}

#[test]
fn files_too_large_are_left_out() {
    let large = vec![b'0'; (64 << 10) + 1];
    noted(&[("type", &large)], false, &["type` is left out"]);
    noted(
        &[("type", b"8"), ("events/x", &large)],
        true,
        &["x` is left out"],
    );
}

#[test]
fn what_is_no_file_is_not_opened() {
    let tree = source(&[("type", b"8\n"), ("format/x/y", b"config:0")]);
    let odd = tree.path().join(DEVICES).join("odd");
    nix::unistd::mkfifo(&odd.join("cpumask"), nix::sys::stat::Mode::S_IRUSR).unwrap();
    symlink("loop", odd.join("loop")).unwrap();
    symlink("../odd", odd.join("format/back")).unwrap();
    symlink("nowhere", odd.join("events")).unwrap();
    fs::write(tree.path().join(DEVICES).join("file"), "no directory").unwrap();
    let pmus = look(tree.path());
    let pmu = pmus.find("odd").unwrap();
    assert!(pmu.formats.is_empty() && pmu.aliases.is_empty() && pmu.cpus.is_none());
    // The file among the directories has no `type`; whether that is noted is of no interest.
    assert!(pmus.find("file").is_none());
}

#[test]
fn names_that_are_no_text_are_left_out() {
    let tree = source(&[
        ("type", b"8\n"),
        ("format/a\nb", b"config:0"),
        ("events/a b", b"x=1"),
    ]);
    let devices = tree.path().join(DEVICES);
    fs::create_dir(devices.join(std::ffi::OsStr::from_bytes(b"\xff"))).unwrap();
    let pmus = look(tree.path());
    assert_eq!(pmus.iter().count(), 1);
    assert_eq!(pmus.notes().len(), 3);
}

#[test]
fn there_are_only_so_many_sources() {
    let tree = TempDir::new();
    for number in 0..PMUS_MAX + 3 {
        tree.write(&format!("{DEVICES}/pmu_{number:05}/type"), "8\n");
    }
    let pmus = Pmus::read(tree.path());
    assert_eq!(pmus.iter().count(), PMUS_MAX);
    assert_eq!(pmus.notes().len(), 1);
}

/// Every file below a directory.
fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

#[test]
fn every_file_may_end_anywhere() {
    for name in ["alder-lake", "neoverse-n1"] {
        let tree = machine(name);
        let mut paths = Vec::new();
        files(tree.path(), &mut paths);
        for path in paths {
            let whole = fs::read(&path).unwrap();
            // Contents are read independently of each other; three cuts of each will do.
            for end in [0, whole.len() / 2, whole.len().saturating_sub(2)] {
                fs::write(&path, &whole[..end]).unwrap();
                look(tree.path());
            }
            fs::remove_file(&path).unwrap();
            look(tree.path());
            fs::write(&path, whole).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_in_any_file_are_answered(
        kind in prop::collection::vec(any::<u8>(), 0..20),
        format in prop::collection::vec(any::<u8>(), 0..60),
        alias in prop::collection::vec(any::<u8>(), 0..60),
        cpus in prop::collection::vec(any::<u8>(), 0..60),
        cpuinfo in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let tree = source(&[
            ("type", &kind),
            ("format/x", &format),
            ("events/x", &alias),
            ("cpumask", &cpus),
        ]);
        tree.write(&format!("{DEVICES}/cpu/type"), "4\n");
        tree.write(&format!("{DEVICES}/cpu/events/mem-loads"), &alias);
        tree.write("proc/cpuinfo", &cpuinfo);
        tree.write("proc/self/status", &cpuinfo);
        look(tree.path());
    }
}
