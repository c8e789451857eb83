//! What people see of settings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use control::rows::{ConfigText, ReloadReport};
use numadctl::render::settings;

#[test]
fn settings_are_shown_with_their_files() {
    let text = ConfigText {
        files: vec!["/a.toml".to_owned()],
        text: "[daemon]".to_owned(),
        settings: BTreeMap::new(),
    };
    assert_eq!(settings::shown(&text), "# from /a.toml\n[daemon]\n");
    let none = ConfigText {
        files: Vec::new(),
        ..text
    };
    assert_eq!(
        settings::shown(&none),
        "# no settings file; all defaults\n[daemon]\n"
    );
    assert_eq!(
        settings::checked(Path::new("/x"), &[PathBuf::from("/x")]),
        "/x: ok\n"
    );
    assert!(
        settings::checked(Path::new("/x"), &[]).starts_with("`/x` and its drop-ins are absent")
    );
    let report = ReloadReport {
        changed: vec!["a: 1 -> 2".to_owned()],
        at_restart: vec!["b: 3 -> 4".to_owned()],
    };
    assert_eq!(
        settings::reloaded(&report),
        "a: 1 -> 2\nb: 3 -> 4 (takes effect at the next start)\n"
    );
    assert_eq!(
        settings::reloaded(&ReloadReport::default()),
        "nothing is different\n"
    );
}

#[test]
fn a_pipe_is_no_settings_file() {
    let pipe = std::env::temp_dir().join(format!("numadctl-settings-{}", std::process::id()));
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR).unwrap();
    // Nobody ever writes to it.
    let output = Command::new("timeout")
        .args(["10", env!("CARGO_BIN_EXE_numadctl"), "config", "check"])
        .arg(&pipe)
        .output()
        .unwrap();
    std::fs::remove_file(&pipe).unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains("is no regular file"), "{told}");
}
