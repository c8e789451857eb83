//! Machines packed into one text each, and how such a text becomes a directory again.
//!
//! The form is described in `crates/topology/examples/pack_tree.rs`: `@DIRECTORY` begins a directory,
//! `NAME=CONTENT` is a file in it, `NAME/` an empty directory, `#` a comment.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory that is gone when the value is.
#[derive(Debug)]
pub struct TempDir(PathBuf);

impl TempDir {
    /// A fresh, empty directory, in memory where there is some: trees have hundreds of small files.
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("numad-tree-{}-{count}", std::process::id());
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() {
            memory.to_path_buf()
        } else {
            std::env::temp_dir()
        };
        let dir = parent.join(name);
        fs::create_dir_all(&dir).expect("a test may make a directory");
        Self(dir)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file and the directories it is in.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write(&self, below: &str, content: impl AsRef<[u8]>) {
        let path = self.0.join(below);
        let parent = path.parent().expect("a file is in a directory");
        fs::create_dir_all(parent).expect("a test may make a directory");
        fs::write(path, content).expect("a test may write a file");
    }
}

impl Default for TempDir {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // What stays behind in the directory for temporary files is no reason to fail.
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Unpacks a packed text into a fresh directory.
///
/// # Panics
/// When the text is not of the form.
#[must_use]
pub fn unpack(text: &str) -> TempDir {
    let root = TempDir::new();
    unpack_into(root.path(), text);
    root
}

/// Unpacks a packed text into a directory.
///
/// # Panics
/// When the text is not of the form, or something cannot be written.
pub fn unpack_into(root: &Path, text: &str) {
    let mut dir = root.to_path_buf();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(below) = line.strip_prefix('@') {
            dir = root.join(below);
            fs::create_dir_all(&dir).expect("a test may make a directory");
        } else if let Some(name) = line.strip_suffix('/') {
            fs::create_dir_all(dir.join(name)).expect("a test may make a directory");
        } else {
            let (name, content) = line
                .split_once('=')
                .expect("a line is a name and a content");
            fs::write(dir.join(name), unescape(content)).expect("a test may write a file");
        }
    }
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next() {
            Some(b'n') => bytes.push(b'\n'),
            Some(b'0') => bytes.push(0),
            Some(b'\\') => bytes.push(b'\\'),
            Some(b'x') => {
                let digits: Vec<u8> = rest.by_ref().take(2).collect();
                let digits = String::from_utf8_lossy(&digits);
                bytes.push(u8::from_str_radix(&digits, 16).expect("two digits"));
            }
            other => panic!("unknown escape {other:?}"),
        }
    }
    bytes
}
