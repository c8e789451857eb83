//! The units as systemd's own tools judge them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The units, and the exposure above which each is too open; systemd calls 0 safe and 10 wide open.
const UNITS: [(&str, f64); 2] = [("numad.service", 3.0), ("numad-characterize.service", 1.5)];

fn unit(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../systemd")
        .join(name)
}

fn available() -> bool {
    let found = Command::new("systemd-analyze")
        .arg("--version")
        .output()
        .is_ok();
    if !found {
        println!("skipped: there is no systemd-analyze here");
    }
    found
}

#[test]
fn the_units_are_valid() {
    if !available() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("numad-unit-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let copies = UNITS.map(|(name, _)| {
        // The binary need not be installed: a copy of the unit names one that exists.
        let text = fs::read_to_string(unit(name))
            .expect("the unit")
            .replace("/usr/bin/numadctl", "/bin/true");
        let text = text.replace("/usr/bin/numad", "/bin/true");
        // Its manual page and group are not installed either.
        let text: String = text
            .lines()
            .filter(|line| !line.starts_with("Documentation=man:"))
            .map(|line| format!("{line}\n"))
            .collect();
        let copy = folder.join(name);
        fs::write(&copy, text).expect("a copy");
        copy
    });
    let output = Command::new("systemd-analyze")
        .arg("verify")
        .args(copies)
        .output()
        .expect("it runs");
    let told = String::from_utf8_lossy(&output.stderr);
    let about_us: Vec<&str> = told.lines().filter(|line| line.contains("numad")).collect();
    fs::remove_dir_all(&folder).expect("the folder goes");
    assert!(output.status.success() && about_us.is_empty(), "{told}");
}

#[test]
fn the_units_have_least_privilege() {
    if !available() {
        return;
    }
    for (name, exposure_max) in UNITS {
        let output = Command::new("systemd-analyze")
            .args(["security", "--offline=true", "--no-pager"])
            .arg(unit(name))
            .output()
            .expect("it runs");
        let told = String::from_utf8_lossy(&output.stdout);
        let verdict = told
            .lines()
            .find(|line| line.contains("Overall exposure level"));
        let Some(verdict) = verdict else {
            println!(
                "skipped: this systemd-analyze judges no files: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            return;
        };
        let level: f64 = verdict
            .split(": ")
            .nth(1)
            .and_then(|rest| rest.split_whitespace().next())
            .and_then(|number| number.parse().ok())
            .expect("a number");
        assert!(level <= exposure_max, "{name}: {verdict}");
    }
}
