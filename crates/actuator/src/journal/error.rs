//! What can be wrong with a journal.

use std::path::PathBuf;
use std::{fmt, io};

/// Why a journal cannot be opened.
#[derive(Debug)]
pub enum OpenError {
    /// Another daemon has it; its process where that is known.
    InUse(PathBuf, Option<u32>),
    /// It was written by a later version.
    Newer(PathBuf, u32),
    /// A file or directory failed.
    Io(PathBuf, io::Error),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse(path, Some(pid)) => write!(
                f,
                "the journal in `{}` is in use by process {pid}; stop it first",
                path.display()
            ),
            Self::InUse(path, None) => write!(
                f,
                "the journal in `{}` is in use by another numad; stop it first",
                path.display()
            ),
            Self::Newer(path, version) => write!(
                f,
                "the journal `{}` has format {version}, which this numad does not know; run the newer \
                 numad with --undo first",
                path.display()
            ),
            Self::Io(path, _) => write!(f, "cannot open the journal `{}`", path.display()),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(_, source) => Some(source),
            _ => None,
        }
    }
}

/// Why rows were not written; nothing may be changed then.
#[derive(Debug)]
pub struct WriteError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot write the journal `{}`", self.path.display())
    }
}

impl std::error::Error for WriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}
