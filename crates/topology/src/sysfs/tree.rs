//! Bounded reading of small files below a root.

use std::io;
use std::path::{Path, PathBuf};

use crate::load::{LoadError, Reason, read_bounded};
use crate::set::{IdSet, ParseSetError};

/// The mask of 65,536 processors is 18 KiB and `meminfo` is 2; a larger file is none of these.
const FILE_BYTES_MAX: u64 = 256 << 10;

/// A directory that looks like a root.
#[derive(Debug)]
pub(super) struct Tree<'a> {
    root: &'a Path,
}

impl<'a> Tree<'a> {
    pub(super) const fn new(root: &'a Path) -> Self {
        Self { root }
    }

    pub(super) fn path(&self, below: &str) -> PathBuf {
        // Joining nothing would add a slash.
        if below.is_empty() {
            return self.root.to_path_buf();
        }
        self.root.join(below)
    }

    /// The text of a file, without the white space and NUL bytes around it; none if it is not there.
    pub(super) fn text(&self, below: &str) -> Result<Option<String>, LoadError> {
        let path = self.path(below);
        let read = std::fs::metadata(&path).and_then(|found| {
            // Opening a pipe would block for ever.
            if found.is_file() {
                read_bounded(&path, FILE_BYTES_MAX).map(Some)
            } else {
                Ok(None)
            }
        });
        match read {
            Ok(Some(Some(bytes))) => {
                let text = String::from_utf8_lossy(&bytes);
                Ok(Some(text.trim_matches(is_padding).to_owned()))
            }
            Ok(Some(None)) => Err(LoadError {
                file: path,
                reason: Reason::TooLarge {
                    bytes_max: FILE_BYTES_MAX,
                },
            }),
            Ok(None) => Ok(None),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(LoadError::unreadable(&path, &error)),
        }
    }

    /// The number in a file; none if it is not there or is something else.
    pub(super) fn number(&self, below: &str) -> Result<Option<u64>, LoadError> {
        Ok(self.text(below)?.and_then(|text| text.parse().ok()))
    }

    /// The set in a list file; none if it is not there.
    ///
    /// Kernels without a `nohz_full` set print the format of a null pointer, `(null)`.
    pub(super) fn list<T: From<u32> + Into<u32>>(
        &self,
        below: &str,
    ) -> Result<Option<IdSet<T>>, LoadError> {
        let Some(text) = self.text(below)? else {
            return Ok(None);
        };
        let text = if text == "(null)" { "" } else { &text };
        IdSet::parse_list(text)
            .map(Some)
            .map_err(|error| self.no_set(below, &error))
    }

    /// The set in `FILElist`, or in the older mask file `map`; none if neither is there.
    pub(super) fn set<T: From<u32> + Into<u32>>(
        &self,
        list: &str,
        mask: &str,
    ) -> Result<Option<IdSet<T>>, LoadError> {
        if let Some(set) = self.list(list)? {
            return Ok(Some(set));
        }
        let Some(text) = self.text(mask)? else {
            return Ok(None);
        };
        IdSet::parse_mask(&text)
            .map(Some)
            .map_err(|error| self.no_set(mask, &error))
    }

    /// The numbers of the entries of a directory that are named `prefix` and a number, ascending;
    /// none if there is no such directory.
    pub(super) fn numbered(&self, dir: &str, prefix: &str) -> Result<Option<Vec<u32>>, LoadError> {
        let path = self.path(dir);
        let fail = |error: io::Error| LoadError::unreadable(&path, &error);
        let entries = match std::fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(fail(error)),
        };
        let mut numbers = Vec::new();
        for entry in entries {
            let name = entry.map_err(fail)?.file_name();
            let digits = name.to_str().and_then(|name| name.strip_prefix(prefix));
            // `+1` parses as a number too.
            let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
            numbers.extend(digits.and_then(|digits| digits.parse::<u32>().ok()));
        }
        numbers.sort_unstable();
        Ok(Some(numbers))
    }

    /// An error about a file or directory below the root.
    pub(super) fn foreign(&self, below: &str, expected: &'static str, text: String) -> LoadError {
        LoadError {
            file: self.path(below),
            reason: Reason::Foreign { expected, text },
        }
    }

    fn no_set(&self, below: &str, error: &ParseSetError) -> LoadError {
        self.foreign(below, "list of numbers", error.to_string())
    }
}

fn is_padding(c: char) -> bool {
    c.is_whitespace() || c == '\0'
}

/// Not there, or its subject went offline between reading its name and its content.
fn is_gone(error: &io::Error) -> bool {
    /// What the kernel answers for the files of a device that is going away.
    const ENODEV: i32 = 19;
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    ) || error.raw_os_error() == Some(ENODEV)
}
