//! `numadctl mpi env`, rightly and wrongly.

#![cfg(test)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// What it says where the library is named so.
fn env(library: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_numadctl"));
    command
        .args(["--socket", "/nowhere/s", "mpi", "env"])
        .env_remove("LD_PRELOAD")
        .env("NUMAD_MPI_SHIM", library);
    command.output().unwrap()
}

/// The linker ends a name at a space or colon, and goes on without the library.
#[test]
fn a_library_that_the_linker_cannot_load_is_refused() {
    let folder = std::env::temp_dir().join(format!("numadctl-mpi-{}", std::process::id()));
    fs::create_dir_all(folder.join("a b")).unwrap();
    let file = |name: &str| {
        let path = folder.join(name);
        fs::write(&path, "").unwrap();
        path
    };
    let output = env(&file("it's.so"));
    let name = folder.display().to_string();
    let lines = format!(
        "export LD_PRELOAD='{name}/it'\\''s.so'\nexport NUMAD_MPI_SOCKET='/nowhere/s.mpi'\n"
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout), lines, "{output:?}");
    for name in ["a:b.so", "a b/c.so"] {
        let output = env(&file(name));
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(told.contains("has a space or a colon"), "{told}");
    }
    assert_eq!(env(&folder.join("nothing")).status.code(), Some(6));
    assert_eq!(env(Path::new("it's.so")).status.code(), Some(6));
    fs::remove_dir_all(folder).unwrap();
}
