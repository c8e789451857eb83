//! A directory of its own for each test.

use std::fs;
use std::path::{Path, PathBuf};

/// Removed when dropped.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let directory = format!("numad-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(directory);
        fs::create_dir_all(&path).expect("the temporary directory can be written");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}
