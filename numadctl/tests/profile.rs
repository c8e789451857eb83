//! `numadctl profile`, rightly and wrongly.

#![cfg(test)]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A folder of one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("numadctl-profile-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let printed = "tid,node,7,9,samples:7,samples:9\n7,0,0,5,0,1\n9,,5,0,1,0\n";
        fs::write(folder.join("matrix.csv"), printed).unwrap();
        fs::write(folder.join("wrong.csv"), "0,-1\n1,0\n").unwrap();
        fs::write(folder.join("crooked.csv"), "\n0,1\n\n1\n").unwrap();
        fs::write(folder.join("cut.prof"), "E\t0\t1\t35").unwrap();
        fs::write(folder.join("empty.prof"), "\n").unwrap();
        let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/pml_monitoring");
        fs::copy(seeds.join("openmpi-4.1.4"), folder.join("prof.0.prof")).unwrap();
        Self(folder)
    }

    /// An mpirun that calls itself Open MPI, leaves what a rank sent, and then does this. What is temporary goes into
    /// the folder `tmp`.
    fn mpirun(&self, then: &str) -> Command {
        let path = self.0.join("mpirun");
        let script = format!(
            "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'mpirun (Open MPI) 4.1.4'; exit; fi\n\
             cp prof.0.prof \"$OMPI_MCA_pml_monitoring_filename.0.prof\"\necho of the program\n{then}\n"
        );
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        fs::create_dir_all(self.0.join("tmp")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_numadctl"));
        command
            .current_dir(&self.0)
            .env("TMPDIR", self.0.join("tmp"));
        command.stdin(Stdio::null());
        command
    }

    fn left_behind(&self) -> usize {
        fs::read_dir(self.0.join("tmp")).unwrap().count()
    }

    /// Exit code, answer, complaint.
    fn run(&self, arguments: &str) -> (i32, String, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_numadctl"))
            .current_dir(&self.0)
            .args(arguments.split(' '))
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            output.status.code().unwrap(),
            text(output.stdout),
            text(output.stderr),
        )
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn pages_load_nothing_and_tell_what_they_show() {
    let folder = Folder::new("page");
    for file in ["prof.0.prof", "matrix.csv"] {
        let (code, page, told) = folder.run(&format!("profile {file} -o -"));
        assert_eq!(code, 0, "{told}");
        for way_out in ["http:", "https:", "src=", "href", "<script"] {
            assert!(!page.contains(way_out), "{way_out}");
        }
        assert_eq!(page.matches("<svg").count(), page.matches("<desc>").count());
        let (code, text, told) = folder.run(&format!("profile {file}"));
        assert_eq!(code, 0, "{told}");
        for (shown, unknown) in [(&page, "; unknown: "), (&text, " is unknown: ")] {
            assert!(shown.contains("CommR and DramR are not known"), "{shown}");
            assert_eq!(shown.matches(unknown).count(), 4, "{shown}");
        }
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
    }
}

#[test]
fn a_matrix_keeps_its_first_row_and_its_head() {
    let folder = Folder::new("matrix");
    let texts = [
        "\u{feff}0,5\n6,0\n",
        "Elbe,Inn,Isar\nInn,0,5\nIsar,6,0\n",
        "# ranks,0,1\n0,0,5\n1,6,0\n",
        "Inn,0,1\n0,0,5\n1,6,0\n",
    ];
    for text in texts {
        fs::write(folder.0.join("some.csv"), text).unwrap();
        let (code, answer, told) = folder.run("profile some.csv --json");
        assert!(
            code == 0 && answer.contains("\"comm_bytes\":22"),
            "{text}: {answer} {told}"
        );
        let (code, answer, told) = folder.run("plan some.csv --machine 2x2 -o -");
        assert!(
            code == 0 && answer.contains("\"places\""),
            "{text}: {answer} {told}"
        );
    }
}

#[test]
fn a_monitoring_file_cut_between_lines_is_refused() {
    let folder = Folder::new("cut");
    let whole = fs::read_to_string(folder.0.join("prof.0.prof")).unwrap();
    let cut: String = whole.split_inclusive('\n').take(3).collect();
    fs::write(folder.0.join("prof.0.prof"), cut).unwrap();
    for typed in ["profile prof.0.prof", "plan prof.0.prof -o -"] {
        let (code, out, complaint) = folder.run(typed);
        assert!(
            code == 2 && out.is_empty(),
            "{typed}: {code} {out} {complaint}"
        );
        assert!(
            complaint.contains("line 3: the file ends before `# OSC`"),
            "{complaint}"
        );
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
    }
}

#[test]
fn what_is_wrong_is_one_line_with_a_remedy() {
    let folder = Folder::new("wrong");
    for (typed, code, told) in [
        ("profile cut.prof", 2, "line 1: 4 fields"),
        ("profile wrong.csv", 2, "`-1` is no amount"),
        (
            "profile crooked.csv",
            2,
            "line 4: 1 cells in a matrix of 2 rows",
        ),
        ("profile empty.prof", 2, "the file is empty"),
        ("profile nothing.prof", 6, "no such file"),
    ] {
        let (found, out, complaint) = folder.run(typed);
        assert!(
            found == code && out.is_empty(),
            "{typed}: {found} {out} {complaint}"
        );
        assert!(complaint.contains(told), "{typed}: {complaint}");
        assert_eq!(complaint.lines().count(), 1, "{typed}: {complaint}");
    }
}

#[test]
fn the_output_of_the_program_is_no_part_of_the_profile() {
    let folder = Folder::new("output");
    for (flags, ours) in [
        (&["--json"][..], true),
        (&["-o", "-"], true),
        (&[], true),
        (&["-o", "page.html"], false),
    ] {
        let mut command = folder.mpirun("exit 3");
        let output = command
            .arg("profile")
            .args(flags)
            .args(["--", "./mpirun"])
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (answer, errors) = (text(output.stdout), text(output.stderr));
        assert_eq!(output.status.code(), Some(3), "{flags:?}: {errors}");
        match ours {
            true => {
                assert!(
                    !answer.contains("of the program") && answer.contains("mpirun"),
                    "{flags:?}: {answer}"
                );
                assert_eq!(errors, "of the program\n", "{flags:?}");
            }
            false => assert_eq!((answer.as_str(), errors.as_str()), ("of the program\n", "")),
        }
        if flags == ["--json"] {
            let profile: serde_json::Value = serde_json::from_str(&answer).unwrap();
            assert_eq!(profile["numad_profile"], 1);
        }
        assert_eq!(folder.left_behind(), 0, "{flags:?}");
    }
}

#[test]
fn signals_reach_the_program_and_leave_no_folder_behind() {
    let folder = Folder::new("signals");
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        // Of this process itself, so that no child of the script outlives it.
        let mut command = folder.mpirun("exec sleep 60");
        let mut child = command
            .args(["profile", "--json", "--", "./mpirun"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        errors.read_line(&mut line).unwrap();
        assert_eq!(
            (line.as_str(), folder.left_behind()),
            ("of the program\n", 1)
        );
        kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
        let status = child.wait().unwrap();
        // What its ranks left until then is shown; the code tells how it ended.
        assert_eq!(status.code(), Some(128 + signal as i32), "{signal}");
        assert_eq!(folder.left_behind(), 0, "{signal}");
    }
}

#[test]
fn a_kept_profile_has_its_class_by_what_is_asked() {
    let folder = Folder::new("kept");
    let kept = r#"{"numad_profile": 1, "made_by": "x", "source": "x", "level": "page", "tasks": ["a", "b"],
        "length_s": 2.0, "metrics": {"comm_bytes": 8, "comm_ratio": 0.4, "concurrency": 1.0, "dram_ratio": null,
        "locality": 0.1, "changes": 3}, "thresholds": {"comm_min": 0.02, "dram_min": 0.02, "changes_max": 2,
        "samples_min": 256, "events_min": 8}, "samples": 160, "class": null, "groups": [{"from_s": 0.0, "to_s": 1.0,
        "pairs": [{"low": 0, "high": 1, "bytes": 8, "events": 32}]}], "moments": [], "notes": []}"#;
    fs::write(folder.0.join("kept.json"), kept).unwrap();
    // What is not given is as in the file.
    for (flags, class) in [
        ("", "Class: unknown. too few samples to tell: 160"),
        (" --samples-min 1", "Class: dynamic."),
        (" --samples-min 1 --changes-max 3", "Class: static."),
        (
            " --samples-min 1 --events-min 17",
            "Class: unknown. mapping can help",
        ),
    ] {
        let (code, answer, told) = folder.run(&format!("profile kept.json{flags}"));
        assert_eq!((code, told.as_str()), (0, ""));
        assert!(answer.contains(class), "{flags}: {answer}");
    }
}
