//! The door: a root directory, and reading one file under it.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, DirEntry, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use topology::{Pid, Tid};

use crate::error::{Cause, ParseError, Presence, ReadError};

/// Reads a machine, real or laid out in a directory.
#[derive(Clone, Debug)]
pub struct Reader {
    root: PathBuf,
}

impl Reader {
    /// A reader of what is under `root`; `/` for this machine. Reads nothing yet.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The root directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The place of an absolute or relative path under the root.
    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        match path.is_absolute() {
            true => self.root.join(path.strip_prefix("/").unwrap_or(path)),
            false => self.root.join(path),
        }
    }

    /// A file's bytes.
    pub(crate) fn bytes(&self, path: impl AsRef<Path>) -> Result<Presence<Vec<u8>>, ReadError> {
        let path = self.path(path);
        presence(read_bounded(&path)).map_err(|source| failed(path, source))
    }

    /// The first `most` bytes of a file.
    pub(crate) fn head(
        &self,
        path: impl AsRef<Path>,
        most: usize,
    ) -> Result<Presence<Vec<u8>>, ReadError> {
        let path = self.path(path);
        let read = || -> io::Result<Vec<u8>> {
            let mut bytes = Vec::with_capacity(FILE_BYTES_USUAL);
            let most = u64::try_from(most).unwrap_or(u64::MAX);
            File::open(&path)?.take(most).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        presence(read()).map_err(|source| failed(path, source))
    }

    /// The user that a file belongs to.
    pub(crate) fn owner(&self, path: impl AsRef<Path>) -> Result<Presence<u32>, ReadError> {
        let path = self.path(path);
        presence(fs::symlink_metadata(&path).map(|found| found.uid()))
            .map_err(|source| failed(path, source))
    }

    /// A file's bytes, understood.
    pub(crate) fn parsed<T>(
        &self,
        path: impl AsRef<Path>,
        parse: impl FnOnce(&[u8]) -> Result<T, ParseError>,
    ) -> Result<Presence<T>, ReadError> {
        let path = self.path(path);
        let read = read_bounded(&path).map(|bytes| parse(&bytes));
        understood(path, read)
    }

    /// The same of a file that the kernel writes in one go, as it does those of a thread, of a
    /// setting and of a device: a first read that leaves room has all of it, and none is needed to
    /// find the end. Lists with an entry for each of many (`maps`, `mountinfo`) are no such files.
    pub(crate) fn record<T>(
        &self,
        path: impl AsRef<Path>,
        parse: impl FnOnce(&[u8]) -> Result<T, ParseError>,
    ) -> Result<Presence<T>, ReadError> {
        self.record_within::<FILE_BYTES_USUAL, T>(self.path(path), parse)
    }

    /// The same of one that is known to be shorter than so many bytes, and where it is.
    pub(crate) fn record_within<const BYTES: usize, T>(
        &self,
        path: PathBuf,
        parse: impl FnOnce(&[u8]) -> Result<T, ParseError>,
    ) -> Result<Presence<T>, ReadError> {
        let read = read_record::<BYTES, _>(&path, parse);
        understood(path, read)
    }

    /// The place of a thread's file.
    pub(crate) fn of_thread(&self, (pid, tid): (Pid, Tid), file: &str) -> PathBuf {
        let mut path = OsString::with_capacity(self.root.as_os_str().len() + PATH_BYTES_USUAL);
        path.push(&self.root);
        if !path.as_encoded_bytes().ends_with(b"/") {
            path.push("/");
        }
        write!(path, "proc/{pid}/task/{tid}/{file}").expect("memory takes what is written");
        path.into()
    }

    /// A small file's text, lossily decoded, without white space and NUL around it.
    pub(crate) fn text(&self, path: impl AsRef<Path>) -> Result<Presence<String>, ReadError> {
        Ok(self.bytes(path)?.map(|bytes| {
            String::from_utf8_lossy(&bytes)
                .trim_matches(|c: char| c.is_whitespace() || c == '\0')
                .to_owned()
        }))
    }

    /// Names of the entries of a directory that are numbers after `prefix`, ascending.
    ///
    /// At most `most` are kept, the lowest ones.
    pub(crate) fn numbered(
        &self,
        path: impl AsRef<Path>,
        prefix: &str,
        most: usize,
    ) -> Result<Presence<Vec<u32>>, ReadError> {
        let path = self.path(path);
        let list = || {
            let mut numbers: Vec<u32> = numbers_in(&path, prefix)?.collect::<io::Result<_>>()?;
            numbers.sort_unstable();
            numbers.truncate(most);
            Ok(numbers)
        };
        presence(list()).map_err(|source| failed(path, source))
    }

    /// Names of the entries of a directory that are numbers: the first `most` in its own order, so
    /// that a directory with very many is not read to its end.
    pub(crate) fn some_numbered(
        &self,
        path: impl AsRef<Path>,
        most: usize,
    ) -> Result<Presence<Vec<u32>>, ReadError> {
        let path = self.path(path);
        let list = || numbers_in(&path, "")?.take(most).collect();
        presence(list()).map_err(|source| failed(path, source))
    }
}

/// Names of the entries of a directory that are numbers after `prefix`.
fn numbers_in(path: &Path, prefix: &str) -> io::Result<impl Iterator<Item = io::Result<u32>>> {
    let number = move |name: OsString| name.to_str()?.strip_prefix(prefix)?.parse().ok();
    let named = move |entry: io::Result<DirEntry>| {
        let name = entry.map(|entry| entry.file_name());
        name.map(number).transpose()
    };
    Ok(fs::read_dir(path)?.filter_map(named))
}

/// Turns "is not there" into a value. ESRCH is what files of a process say that ended while they were open.
pub(crate) fn presence<T>(result: io::Result<T>) -> io::Result<Presence<T>> {
    match result {
        Ok(value) => Ok(Presence::Here(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Presence::Gone),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(Presence::Gone),
        Err(error) => Err(error),
    }
}

pub(crate) const fn failed(path: PathBuf, source: io::Error) -> ReadError {
    ReadError {
        path,
        cause: Cause::Io(source),
    }
}

fn understood<T>(
    path: PathBuf,
    read: io::Result<Result<T, ParseError>>,
) -> Result<Presence<T>, ReadError> {
    match presence(read) {
        Ok(Presence::Here(Ok(value))) => Ok(Presence::Here(value)),
        Ok(Presence::Here(Err(error))) => Err(ReadError {
            path,
            cause: Cause::Text(error),
        }),
        Ok(Presence::Gone) => Ok(Presence::Gone),
        Err(source) => Err(failed(path, source)),
    }
}

fn read_record<const BYTES: usize, T>(
    path: &Path,
    parse: impl FnOnce(&[u8]) -> T,
) -> io::Result<T> {
    let mut bytes = [0; BYTES];
    let taken = File::open(path)?.read(&mut bytes)?;
    match taken < BYTES {
        true => Ok(parse(&bytes[..taken])),
        // Longer than most.
        false => read_bounded(path).map(|bytes| parse(&bytes)),
    }
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    // With room to begin with: else the library feels its way in five calls to the end of a line of `stat`.
    let mut bytes = Vec::with_capacity(FILE_BYTES_USUAL);
    let taken = File::open(path)?
        .take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)?;
    if u64::try_from(taken).is_ok_and(|taken| taken > FILE_BYTES_MAX) {
        return Err(io::Error::from(io::ErrorKind::FileTooLarge));
    }
    Ok(bytes)
}

/// What the path of a thread's file takes beside the root.
const PATH_BYTES_USUAL: usize = 64;
/// What most files fit into: a `status` has 1.5 KiB.
const FILE_BYTES_USUAL: usize = 4096;
/// The largest file that is read. A `numa_maps` of 65,530 mappings (the kernel's default limit) with
/// long file names is about 13 MB; more than this is taken for damage.
const FILE_BYTES_MAX: u64 = 64 << 20;
