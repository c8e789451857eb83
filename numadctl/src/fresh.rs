//! A file that is there whole or not at all: written under another name beside it, renamed at the end.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use control::{ErrorKind, Failure};

/// A file in the making, readable by its owner only. Dropped without [`Self::keep`], it is removed.
#[derive(Debug)]
pub(crate) struct Fresh {
    path: PathBuf,
    /// Where it is written; none once it was renamed.
    part: Option<PathBuf>,
    file: File,
    bytes: u64,
    /// Whether it may take the place of a file of that name.
    replaces: bool,
}

impl Fresh {
    /// Begins a file.
    ///
    /// # Errors
    /// When there is such a file already, or none can be made there.
    pub(crate) fn begin(path: &Path) -> Result<Self, Failure> {
        // A link that leads nowhere is something as well.
        if path.file_name().is_some() && path.symlink_metadata().is_ok() {
            return Err(there_already(path));
        }
        Self::beside(path, false)
    }

    /// Begins a file that takes the place of one of that name, if there is one, in one step.
    ///
    /// # Errors
    /// When something else than a file has that name, or no file can be made there.
    pub(crate) fn replacing(path: &Path) -> Result<Self, Failure> {
        if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
            let text = format!("`{}` is no ordinary file", path.display());
            return Err(Failure::new(ErrorKind::Conflict, text).remedy("name another file"));
        }
        Self::beside(path, true)
    }

    fn beside(path: &Path, replaces: bool) -> Result<Self, Failure> {
        let Some(name) = path.file_name() else {
            let text = format!("`{}` is no name of a file", path.display());
            return Err(Failure::new(ErrorKind::Usage, text).remedy("name a new file"));
        };
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.part", std::process::id()));
        let part = path.with_file_name(hidden);
        let file = File::options()
            .write(true)
            .read(true)
            .create_new(true)
            .mode(0o600)
            .open(&part)
            .map_err(|error| cannot_write(path, &error))?;
        Ok(Self {
            path: path.to_owned(),
            part: Some(part),
            file,
            bytes: 0,
            replaces,
        })
    }

    /// The name it will have.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes written so far.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What was written so far, from the beginning.
    pub(crate) fn read_back(&self) -> Result<File, Failure> {
        let part = self.part.as_deref().unwrap_or(&self.path);
        File::open(part).map_err(|error| {
            let text = format!("cannot read `{}`: {error}", part.display());
            Failure::new(ErrorKind::Kernel, text)
        })
    }

    /// Writes it to the disk and gives it its name.
    ///
    /// # Errors
    /// When the disk does not take it, or something has taken its name meanwhile; then it is kept under
    /// another name, which the error says.
    pub(crate) fn keep(mut self) -> Result<(), Failure> {
        self.file
            .sync_all()
            .map_err(|error| cannot_write(&self.path, &error))?;
        let Some(part) = &self.part else {
            return Ok(());
        };
        if self.replaces {
            std::fs::rename(part, &self.path).map_err(|error| cannot_write(&self.path, &error))?;
            self.part = None;
            return Ok(());
        }
        // A link, unlike a rename, replaces nothing. Not every file system has links.
        match std::fs::hard_link(part, &self.path) {
            Ok(()) => drop(std::fs::remove_file(part)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(kept_beside(part, &self.path));
            }
            Err(_no_links) => {
                std::fs::rename(part, &self.path)
                    .map_err(|error| cannot_write(&self.path, &error))?;
            }
        }
        self.part = None;
        Ok(())
    }
}

/// Gives what was written the next free name like the one that was taken meanwhile.
fn kept_beside(part: &Path, taken: &Path) -> Failure {
    let free = (1..=NAMES_TRIED_MAX).find_map(|number| {
        let mut name = taken.as_os_str().to_owned();
        name.push(format!(".{number}"));
        let name = PathBuf::from(name);
        std::fs::hard_link(part, &name).is_ok().then_some(name)
    });
    match free {
        Some(free) => {
            let text = format!(
                "`{}` was made by someone else meanwhile; what was written is kept as `{}`",
                taken.display(),
                free.display()
            );
            Failure::new(ErrorKind::Conflict, text).remedy("rename it")
        }
        None => there_already(taken),
    }
}

/// Names that are tried instead of one that was taken.
const NAMES_TRIED_MAX: u32 = 100;

impl Write for Fresh {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.bytes += u64::try_from(count).unwrap_or(u64::MAX);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if let Some(part) = self.part.take() {
            // It may be gone already; nothing hangs on it.
            drop(std::fs::remove_file(part));
        }
    }
}

/// Refuses to put something in the place of the file that it is made of.
///
/// # Errors
/// When both names are of one file.
pub(crate) fn must_not_replace(made_of: &Path, output: &Path) -> Result<(), Failure> {
    let which = |path: &Path| path.metadata().ok().map(|it| (it.dev(), it.ino()));
    let replaced = which(made_of).filter(|read| which(output) == Some(*read));
    replaced.map_or(Ok(()), |_| {
        let text = format!("`{}` is the file that is read", output.display());
        Err(Failure::new(ErrorKind::Conflict, text).remedy("name another file"))
    })
}

/// Why a file cannot be read, with what to do about it.
pub(crate) fn cannot_read(path: &Path, error: &io::Error) -> Failure {
    let (kind, remedy) = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            (ErrorKind::NotFound, "name a file that is there")
        }
        io::ErrorKind::PermissionDenied => (
            ErrorKind::NotPermitted,
            "ask as its owner or root, or name a file that you may read",
        ),
        io::ErrorKind::IsADirectory => (ErrorKind::Usage, "name a file in it"),
        _ => (ErrorKind::Kernel, "name another file"),
    };
    let text = format!("cannot read `{}`: {}", path.display(), why(error));
    Failure::new(kind, text).remedy(remedy)
}

/// The system's words without its number.
pub(crate) fn why(error: &io::Error) -> String {
    let text = error.to_string().to_lowercase();
    text.split(" (os error")
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// Why a file cannot be written, with what to do about it.
pub(crate) fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    let (kind, remedy) = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            (ErrorKind::NotFound, "make its directory first")
        }
        io::ErrorKind::PermissionDenied => (ErrorKind::NotPermitted, "name a place of your own"),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            (ErrorKind::Kernel, "make room, or name another place")
        }
        _ => (ErrorKind::Kernel, "name another place"),
    };
    let text = format!("cannot write `{}`: {}", path.display(), why(error));
    Failure::new(kind, text).remedy(remedy)
}

fn there_already(path: &Path) -> Failure {
    Failure::new(
        ErrorKind::Conflict,
        format!("`{}` is there already", path.display()),
    )
    .remedy("remove it, or name another file")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("numadctl-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect()
    }

    #[test]
    fn it_appears_whole_and_for_its_owner_alone() {
        let folder = folder("fresh");
        let path = folder.join("a.rec");
        let mut fresh = Fresh::begin(&path).unwrap();
        fresh.write_all(b"text").unwrap();
        assert!(!path.exists());
        assert_eq!((fresh.bytes(), fresh.path()), (4, path.as_path()));
        assert_eq!(
            io::read_to_string(fresh.read_back().unwrap()).unwrap(),
            "text"
        );
        fresh.keep().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(names(&folder), ["a.rec"]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn nothing_is_replaced_and_nothing_stays_behind() {
        let folder = folder("fresh-there");
        let path = folder.join("a.rec");
        drop(Fresh::begin(&path).unwrap());
        assert_eq!(names(&folder), [""; 0]);
        let mut fresh = Fresh::begin(&path).unwrap();
        fs::write(&path, "mine").unwrap();
        fresh.write_all(b"hours of work").unwrap();
        let failure = fresh.keep().unwrap_err();
        assert_eq!(failure.kind, ErrorKind::Conflict);
        assert!(failure.message.contains("a.rec.1"), "{failure}");
        let kept = folder.join("a.rec.1");
        assert_eq!(fs::read_to_string(&kept).unwrap(), "hours of work");
        fs::remove_file(kept).unwrap();
        assert_eq!(Fresh::begin(&path).unwrap_err().kind, ErrorKind::Conflict);
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
        assert_eq!(names(&folder), ["a.rec"]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn places_that_are_none_are_named() {
        for (path, kind) in [
            ("/no/such/place/a.rec", ErrorKind::NotFound),
            ("/etc/passwd/a.rec", ErrorKind::NotFound),
            ("/", ErrorKind::Usage),
            ("..", ErrorKind::Usage),
            ("/etc", ErrorKind::Conflict),
        ] {
            let failure = Fresh::begin(Path::new(path)).unwrap_err();
            assert_eq!(failure.kind, kind, "{failure}");
            assert!(failure.message.contains(path), "{failure}");
        }
        let full = cannot_write(Path::new("a"), &io::Error::from_raw_os_error(28));
        assert_eq!(
            full.to_string(),
            "cannot write `a`: no space left on device; make room, or name another place"
        );
    }
}
