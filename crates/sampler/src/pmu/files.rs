//! Bounded reading of the small files of event sources. What vanishes is not there; what is there and
//! cannot be read becomes a note.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::Notes;

/// The kernel writes at most a page into such a file, and no page is larger than this.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// How much of a name or text a note repeats.
const SHOWN_CHARS: usize = 80;

/// A directory, there or not.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
}

/// What is in a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Its text, without the white space and NUL bytes around it.
    Text(String),
    /// It is not there.
    Absent,
}

impl Directory {
    pub(super) const fn new(path: PathBuf) -> Self {
        Self { path }
    }

    pub(super) fn below(&self, name: &str) -> Self {
        Self::new(self.path.join(name))
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(super) fn is_there(&self) -> bool {
        self.path.exists()
    }

    /// Names of the entries, sorted; the lowest `most`. Names that are no plain text are left out.
    pub(super) fn names(&self, most: usize, notes: &mut Notes) -> Vec<String> {
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) => {
                if !is_gone(&error) {
                    notes.add(self.path.clone(), error.to_string());
                }
                return Vec::new();
            }
        };
        let mut names = Vec::new();
        for entry in entries {
            match entry.map(|entry| entry.file_name().into_string()) {
                Ok(Ok(name)) if is_plain(&name) => names.push(name),
                Ok(_) => notes.add(
                    self.path.clone(),
                    "it holds a name that is no text".to_owned(),
                ),
                Err(error) => {
                    notes.add(self.path.clone(), error.to_string());
                    break;
                }
            }
        }
        names.sort_unstable();
        if names.len() > most {
            let text = format!("it holds {} entries, only {most} are taken", names.len());
            notes.add(self.path.clone(), text);
            names.truncate(most);
        }
        names
    }

    /// The text of every file in it, by name; at most `most`.
    pub(super) fn texts(&self, most: usize, notes: &mut Notes) -> BTreeMap<String, String> {
        let mut texts = BTreeMap::new();
        for name in self.names(most, notes) {
            if let Some(Found::Text(text)) = self.text(&name, notes) {
                texts.insert(name, text);
            }
        }
        texts
    }

    /// The text of a file; none, and a note, if it is there and cannot be read.
    pub(super) fn text(&self, name: &str, notes: &mut Notes) -> Option<Found> {
        let path = self.path(name);
        match read(&path) {
            Ok(Some(text)) => Some(Found::Text(text)),
            Ok(None) => Some(Found::Absent),
            Err(error) if is_gone(&error) => Some(Found::Absent),
            Err(error) => {
                notes.add(path, error.to_string());
                None
            }
        }
    }
}

/// None if it is no file.
fn read(path: &Path) -> io::Result<Option<String>> {
    // Opening a pipe would block for ever.
    if !fs::metadata(path)?.is_file() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    let taken = File::open(path)?
        .take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)?;
    if u64::try_from(taken).is_ok_and(|taken| taken > FILE_BYTES_MAX) {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let text = String::from_utf8_lossy(&bytes);
    Ok(Some(
        text.trim_matches(|c: char| c.is_whitespace() || c == '\0')
            .to_owned(),
    ))
}

/// Not there, or its subject went away between reading its name and its content.
fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    ) || matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO))
}

/// Names go into messages and files.
fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A part of a foreign text as it may stand in a one-line message.
pub(crate) fn shown(text: &str) -> String {
    text.escape_debug().take(SHOWN_CHARS).collect()
}
