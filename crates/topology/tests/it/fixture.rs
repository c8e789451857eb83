//! Where the real machines are, and how a packed one becomes a directory again.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use topology::Topology;

/// A file below `tests/fixtures/topology`.
pub(crate) fn path(below: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures/topology")
        .join(below)
}

/// The names of all files in one of its directories.
pub(crate) fn names(dir: &str) -> Vec<String> {
    let entries = std::fs::read_dir(path(dir)).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A directory that is gone when the value is.
pub(crate) struct TempDir(pub(crate) PathBuf);

impl TempDir {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("topology-test-{}-{count}", std::process::id());
        // Thousands of small files: memory, where there is some, saves seconds.
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() {
            memory.to_path_buf()
        } else {
            std::env::temp_dir()
        };
        let dir = parent.join(name);
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    /// Writes a file and the directories it is in.
    pub(crate) fn write(&self, below: &str, content: impl AsRef<[u8]>) {
        let path = self.0.join(below);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn make_dir(&self, below: &str) {
        std::fs::create_dir_all(self.0.join(below)).unwrap();
    }

    pub(crate) fn read(&self) -> Result<Topology, topology::LoadError> {
        topology::load(self.0.to_str().unwrap())
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // What stays behind in the directory for temporary files is no reason to fail.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Unpacks `trees/NAME.tree`; the form is described in `examples/pack_tree.rs`.
pub(crate) fn unpack(name: &str) -> TempDir {
    let text = std::fs::read_to_string(path(&format!("trees/{name}.tree"))).unwrap();
    let root = TempDir::new();
    testkit::tree::unpack_into(&root.0, &text);
    root
}

/// The original that a tree was packed from, unpacked; none where `../shared` is absent.
pub(crate) fn original(name: &str) -> Option<TempDir> {
    let tarball = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/fixtures/sysfs")
        .join(format!("{name}.tar.bz2"));
    if !tarball.exists() {
        println!("skipped: no {}", tarball.display());
        return None;
    }
    let root = TempDir::new();
    let status = std::process::Command::new("tar")
        .args(["--strip-components=1", "-xjf"])
        .arg(&tarball)
        .arg("-C")
        .arg(&root.0)
        .status()
        .unwrap();
    assert!(status.success(), "{}", tarball.display());
    Some(root)
}
