//! One front door for every source of a machine, and what can be wrong with it.

use std::fmt;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::machine::{Contradiction, Topology};
use crate::{synthetic, sysfs, xml};

/// Reads the machine that `spec` names: `this` for the one we run on, a short text such as
/// `4x16@10,21` (see [`synthetic`]), the path of an hwloc XML file, or the path of a directory that
/// looks like a root.
///
/// A text of nothing but digits and `x@,;+` is taken for the short form even if a file has that
/// name; write `./4x16` for the file.
///
/// # Errors
/// Names the file, or the text, and what is wrong with it.
pub fn load(spec: &str) -> Result<Topology, LoadError> {
    if spec == "this" {
        return sysfs::read(Path::new("/"));
    }
    if synthetic::looks_like(spec) {
        return synthetic::parse(spec).map_err(|contradiction| LoadError {
            file: spec.into(),
            reason: Reason::Text(contradiction),
        });
    }
    let path = Path::new(spec);
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => sysfs::read(path),
        Ok(_) => xml::read(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(LoadError {
            file: path.into(),
            reason: Reason::Unknown,
        }),
        Err(error) => Err(LoadError::unreadable(path, &error)),
    }
}

/// Reads the text of a machine: the short form, or hwloc's XML. Never a file.
///
/// # Errors
/// Says what is wrong with it, and calls it `name`.
pub fn load_text(text: &str, name: &str) -> Result<Topology, LoadError> {
    let fail = |reason| LoadError {
        file: name.into(),
        reason,
    };
    if synthetic::looks_like(text) {
        return synthetic::parse(text).map_err(|contradiction| fail(Reason::Text(contradiction)));
    }
    xml::parse(text).map_err(fail)
}

/// Why a machine could not be loaded. Prints as one line that names the file and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// The file, directory or text at fault.
    pub file: PathBuf,
    /// What is wrong with it.
    pub reason: Reason,
}

/// What is wrong with a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is neither a known word, nor a short text, nor an existing path.
    Unknown,
    /// A file that must be there is not.
    Missing,
    /// The system refuses to read it; carries its words.
    Unreadable(String),
    /// It is larger than any machine's description.
    TooLarge {
        /// The most that is read.
        bytes_max: u64,
    },
    /// It is something else.
    Foreign {
        /// What it should have been, as in `hwloc topology`.
        expected: &'static str,
        /// What gave it away.
        text: String,
    },
    /// It ends in the middle.
    CutShort(String),
    /// It is what it should be, and cannot be true.
    Contradiction(Contradiction),
    /// The short form is wrong.
    Text(Contradiction),
}

impl LoadError {
    pub(crate) fn unreadable(path: &Path, error: &io::Error) -> Self {
        let reason = match error.kind() {
            io::ErrorKind::NotFound => Reason::Missing,
            // The number in brackets helps nobody.
            _ => Reason::Unreadable(
                error
                    .to_string()
                    .split(" (os error")
                    .next()
                    .unwrap_or_default()
                    .to_lowercase(),
            ),
        };
        Self {
            file: path.into(),
            reason,
        }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe(&mut OneLine(f))
    }
}

impl LoadError {
    fn describe(&self, f: &mut impl fmt::Write) -> fmt::Result {
        let file = self.file.display();
        match &self.reason {
            Reason::Unknown => write!(
                f,
                "`{file}` does not exist: expected `this`, a text such as `4x16@10,21`, an hwloc \
                 XML file or a directory that holds `sys`"
            ),
            Reason::Missing => write!(f, "`{file}` does not exist"),
            Reason::Unreadable(words) => write!(f, "cannot read `{file}`: {words}"),
            Reason::TooLarge { bytes_max } => {
                write!(
                    f,
                    "`{file}` is larger than the {bytes_max} bytes that are read"
                )
            }
            Reason::Foreign { expected, text } => write!(f, "`{file}` is no {expected}: {text}"),
            Reason::CutShort(text) => write!(f, "`{file}` is cut short: {text}"),
            Reason::Contradiction(text) => write!(f, "`{file}` contradicts itself: {text}"),
            Reason::Text(text) => write!(f, "`{file}` describes no machine: {text}"),
        }
    }
}

impl std::error::Error for LoadError {}

/// Shows what would break the line or command the terminal as an escape: both the name of a file
/// and what stands in it may hold such.
struct OneLine<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl fmt::Write for OneLine<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.chars() {
            if letter.is_control() {
                write!(self.0, "{}", letter.escape_debug())?;
            } else {
                self.0.write_char(letter)?;
            }
        }
        Ok(())
    }
}

/// Reads a whole file; none when it has more than `bytes_max` bytes.
pub(crate) fn read_bounded(path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let file = std::fs::File::open(path)?;
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)?;
    let fits = u64::try_from(bytes.len()).is_ok_and(|length| length <= bytes_max);
    Ok(fits.then_some(bytes))
}
