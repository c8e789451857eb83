//! Which files are read, and reading them.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::FILE_DEFAULT;
use crate::error::{ConfigError, Problem, Problems};
use crate::read::Reader;
use crate::schema;
use crate::typed::Config;

/// Largest settings file; one with every setting and its help has under 16 KiB.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Most drop-in files.
const DROP_INS_MAX: usize = 256;

/// A settings file and its drop-ins: `*.toml` in the directory of the file's name with `.d` after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    file: PathBuf,
    wish: Wish,
}

/// What was named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    /// Nothing: all may be absent.
    Default,
    /// A file, which must be there.
    File,
    /// A directory, in which `numad.toml` may be absent where it has drop-ins.
    Directory,
}

/// Settings, and the files they came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The settings.
    pub config: Config,
    /// Files that were read, in order; none when there are none and all is at its default.
    pub files: Vec<PathBuf>,
}

impl Default for Paths {
    /// [`FILE_DEFAULT`], which may be absent.
    fn default() -> Self {
        Self {
            file: PathBuf::from(FILE_DEFAULT),
            wish: Wish::Default,
        }
    }
}

impl Paths {
    /// What someone named: a file, which must exist, or a directory, in which `numad.toml` may be
    /// absent.
    #[must_use]
    pub fn named(path: &Path) -> Self {
        if path.is_dir() {
            return Self {
                file: path.join("numad.toml"),
                wish: Wish::Directory,
            };
        }
        Self {
            file: path.to_owned(),
            wish: Wish::File,
        }
    }

    /// The settings file.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The directory of drop-ins.
    #[must_use]
    pub fn drop_ins(&self) -> PathBuf {
        let mut name = self.file.clone().into_os_string();
        name.push(".d");
        PathBuf::from(name)
    }

    /// Whether nothing is there of what someone named: who mistypes a name does not want all defaults.
    #[must_use]
    pub fn are_absent(&self) -> bool {
        let found = fs::metadata(&self.file);
        let missing = matches!(found, Err(error) if error.kind() == ErrorKind::NotFound);
        missing
            && match self.wish {
                Wish::Default => false,
                Wish::File => true,
                Wish::Directory => drop_ins(&self.drop_ins()).is_ok_and(|files| files.is_empty()),
            }
    }
}

/// Reads and checks settings: the file, then its drop-ins by name; later ones win, setting by
/// setting. Absent files leave everything at its default, unless they were named.
///
/// # Errors
/// Every problem of every file, each with file and line.
pub fn load(paths: &Paths) -> Result<Loaded, ConfigError> {
    let mut problems = Problems::default();
    let mut texts: Vec<(PathBuf, String)> = Vec::new();
    let mut take =
        |path: PathBuf, absent_is_fine: bool, problems: &mut Problems| match read_text(&path) {
            Ok(text) => texts.push((path, text)),
            Err(error) if absent_is_fine && error.kind() == ErrorKind::NotFound => {}
            Err(error) => problems.add(Problem::new(
                path,
                None,
                &format!("cannot be read: {error}"),
            )),
        };
    take(paths.file.clone(), !paths.are_absent(), &mut problems);
    match drop_ins(&paths.drop_ins()) {
        Ok(files) => files
            .into_iter()
            .for_each(|path| take(path, true, &mut problems)),
        Err(problem) => problems.add(problem),
    }
    let mut reader = Reader::new(schema::policies());
    reader.problems = problems;
    for (path, text) in &texts {
        reader.read(path, text);
    }
    let config = reader.finish()?;
    let files = texts.into_iter().map(|(path, _)| path).collect();
    Ok(Loaded { config, files })
}

/// Reads settings from the bytes of one file. Total; made for fuzzing and for tests.
///
/// # Errors
/// As [`load()`]; the file is called `settings`.
pub fn check_bytes(bytes: &[u8]) -> Result<Config, ConfigError> {
    let path = Path::new("settings");
    let mut reader = Reader::new(schema::policies());
    match decode(bytes.to_vec()) {
        Ok(text) => reader.read(path, &text),
        Err(error) => reader.problems.add(Problem::new(
            path,
            None,
            &format!("cannot be read: {error}"),
        )),
    }
    reader.finish()
}

fn read_text(path: &Path) -> io::Result<String> {
    // Before it is opened: opening a pipe waits for a writer, and a reload with it.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("is no regular file"));
    }
    let file = File::open(path)?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    decode(bytes)
}

fn decode(bytes: Vec<u8>) -> io::Result<String> {
    if u64::try_from(bytes.len()).is_ok_and(|length| length > FILE_BYTES_MAX) {
        return Err(io::Error::other(format!(
            "is larger than {} KiB, which no settings file is",
            FILE_BYTES_MAX >> 10
        )));
    }
    String::from_utf8(bytes).map_err(|error| {
        let line = 1 + error.as_bytes()[..error.utf8_error().valid_up_to()]
            .iter()
            .filter(|&&byte| byte == b'\n')
            .count();
        io::Error::other(format!("is no UTF-8 text (line {line})"))
    })
}

/// Drop-ins by name; hidden files and other endings are passed over, as editors leave them behind.
fn drop_ins(directory: &Path) -> Result<Vec<PathBuf>, Problem> {
    let problem =
        |error: io::Error| Problem::new(directory, None, &format!("cannot be read: {error}"));
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(problem(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(problem)?.path();
        let hidden = path
            .file_name()
            .is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden && path.extension() == Some(OsStr::new("toml")) {
            files.push(path);
        }
        if files.len() > DROP_INS_MAX {
            let text = format!("has more than {DROP_INS_MAX} drop-ins");
            return Err(Problem::new(directory, None, &text));
        }
    }
    files.sort();
    Ok(files)
}
