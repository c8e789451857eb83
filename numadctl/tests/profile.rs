//! `numadctl profile`, rightly and wrongly.

#![cfg(test)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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
        fs::write(folder.join("cut.prof"), "E\t0\t1\t35").unwrap();
        let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/pml_monitoring");
        fs::copy(seeds.join("openmpi-4.1.4"), folder.join("prof.0.prof")).unwrap();
        Self(folder)
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
    }
}

#[test]
fn what_is_wrong_is_one_line_with_a_remedy() {
    let folder = Folder::new("wrong");
    for (typed, code, told) in [
        ("profile cut.prof", 2, "line 1: 4 fields"),
        ("profile wrong.csv", 2, "`-1` is no amount"),
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
