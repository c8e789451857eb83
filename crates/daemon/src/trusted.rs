//! Which files and directories the daemon relies on: those that nobody can change but root, numad's own
//! user, and the user that it runs as.
//!
//! What holds for a directory and everything above it holds for the names in it too: nobody else can
//! put a link or another file in their place between a look and an access.

use std::fmt;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use config::{ConfigError, Paths, Problem};
use nix::unistd::{User, getegid, geteuid};

/// The user that the unit runs the daemon as.
const OWN_USER: &str = "numad";

/// Writable for the group, for others; and the bit that keeps what lies in a directory from those whom
/// it does not belong to.
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Entries of the state directory that are looked at; it has a handful.
const ENTRIES_MAX: usize = 4096;

/// Why something is not relied on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distrust {
    /// The file or directory.
    pub path: PathBuf,
    /// What is wrong with it, and what would be right.
    pub why: String,
}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.path.display(), self.why)
    }
}

/// Whose files are relied on.
#[derive(Clone, Debug)]
pub struct Trust {
    uids: Vec<u32>,
    gids: Vec<u32>,
}

impl Trust {
    /// Root, numad's own user if there is one, and the user that we are.
    #[must_use]
    pub fn of_this_process() -> Self {
        let own = User::from_name(OWN_USER).ok().flatten();
        let own_gid = own.as_ref().map(|user| user.gid.as_raw());
        let own_uid = own.map(|user| user.uid.as_raw());
        let uids = [0, geteuid().as_raw()].into_iter().chain(own_uid);
        let gids = [0, getegid().as_raw()].into_iter().chain(own_gid);
        Self {
            uids: uids.collect(),
            gids: gids.collect(),
        }
    }

    /// Checks a file that is there, and every directory on the way to it.
    ///
    /// # Errors
    /// Names what somebody else can change.
    pub fn file(&self, path: &Path) -> Result<(), Distrust> {
        self.way_to(path)?;
        let found = fs::metadata(path).map_err(|error| unreadable(path, &error))?;
        self.leaf(path, &found)
    }

    /// Checks the directory that a file lies in, or will lie in: other users' files may lie beside it
    /// only where they cannot take its place.
    ///
    /// # Errors
    /// As [`Self::file`].
    pub fn place_of(&self, path: &Path) -> Result<(), Distrust> {
        match path.parent() {
            Some(parent) => self.way_to(&parent.join("x")),
            None => Ok(()),
        }
    }

    /// Checks a directory in which everything is ours, with all that lies in it. One that is not there
    /// is as good as the directory that it would be made in.
    ///
    /// # Errors
    /// As [`Self::file`].
    pub fn directory(&self, path: &Path) -> Result<(), Distrust> {
        self.way_to(path)?;
        let found = match fs::symlink_metadata(path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(unreadable(path, &error)),
        };
        self.leaf(path, &found)?;
        if !found.is_dir() {
            return Err(distrust(path, "is no directory"));
        }
        // Another user may be allowed to enter and not to read it; then nothing in it is readable.
        let Ok(entries) = fs::read_dir(path) else {
            return Ok(());
        };
        for entry in entries.take(ENTRIES_MAX).flatten() {
            if let Ok(found) = entry.metadata() {
                self.leaf(&entry.path(), &found)?;
            }
        }
        Ok(())
    }

    /// A file or directory that nobody else may write at all.
    fn leaf(&self, path: &Path, found: &Metadata) -> Result<(), Distrust> {
        self.owner(path, found)?;
        if found.file_type().is_symlink() {
            return Err(distrust(path, "is a link; name what it leads to"));
        }
        if found.mode() & OTHERS_WRITE != 0 {
            return Err(distrust(path, "may be changed by everyone; `chmod o-w` it"));
        }
        self.group(path, found)
    }

    /// Every directory above `path`, by its own name and by what links lead to.
    fn way_to(&self, path: &Path) -> Result<(), Distrust> {
        let absolute = std::path::absolute(path).map_err(|error| unreadable(path, &error))?;
        for above in absolute.ancestors().skip(1) {
            let Ok(real) = fs::canonicalize(above) else {
                // Not there yet: then it is made, where what is above allows it.
                continue;
            };
            for directory in real.ancestors() {
                let found =
                    fs::metadata(directory).map_err(|error| unreadable(directory, &error))?;
                self.owner(directory, &found)?;
                if found.mode() & STICKY != 0 {
                    continue;
                }
                if found.mode() & OTHERS_WRITE != 0 {
                    let why = "may be changed by everyone; use a directory that only root may";
                    return Err(distrust(directory, why));
                }
                self.group(directory, &found)?;
            }
        }
        Ok(())
    }

    fn owner(&self, path: &Path, found: &Metadata) -> Result<(), Distrust> {
        if self.uids.contains(&found.uid()) {
            return Ok(());
        }
        let why = format!(
            "belongs to user {}, who could change it; `chown` it to root",
            found.uid()
        );
        Err(distrust(path, &why))
    }

    fn group(&self, path: &Path, found: &Metadata) -> Result<(), Distrust> {
        if found.mode() & GROUP_WRITES == 0 || self.gids.contains(&found.gid()) {
            return Ok(());
        }
        let why = format!("may be changed by group {}; `chmod g-w` it", found.gid());
        Err(distrust(path, &why))
    }
}

/// Checks the settings file and its drop-ins, those that are there.
///
/// # Errors
/// Names each that somebody else can change.
pub fn settings(paths: &Paths) -> Result<(), ConfigError> {
    let trust = Trust::of_this_process();
    let drop_ins = paths.drop_ins();
    let mut files = vec![paths.file().to_owned()];
    if let Ok(entries) = fs::read_dir(&drop_ins) {
        let entries = entries
            .take(ENTRIES_MAX)
            .flatten()
            .map(|entry| entry.path());
        files.extend(entries.filter(|path| path.extension().is_some_and(|end| end == "toml")));
        files.sort();
    }
    let problems: Vec<Problem> = files
        .iter()
        .filter(|file| fs::metadata(file).is_ok_and(|found| found.is_file()))
        .filter_map(|file| trust.file(file).err())
        .map(|distrust| Problem {
            file: distrust.path,
            line: None,
            text: format!("is not relied on: it {}", distrust.why),
        })
        .collect();
    if problems.is_empty() {
        return Ok(());
    }
    Err(ConfigError { problems, more: 0 })
}

fn distrust(path: &Path, why: &str) -> Distrust {
    Distrust {
        path: path.to_owned(),
        why: why.to_owned(),
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Distrust {
    distrust(path, &format!("cannot be looked at: {error}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::scratch::Scratch;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[track_caller]
    fn refused(found: Result<(), Distrust>, word: &str) {
        let distrust = found.unwrap_err();
        assert!(distrust.to_string().contains(word), "{distrust}");
    }

    #[test]
    fn a_directory_is_relied_on_if_nobody_else_can_change_it() {
        let scratch = Scratch::new("trusted");
        let trust = Trust::of_this_process();
        let state = scratch.path().join("state");
        trust.directory(&state).unwrap();
        fs::create_dir(&state).unwrap();
        fs::write(state.join("journal"), "").unwrap();
        trust.directory(&state).unwrap();
        mode(&state, 0o777);
        refused(trust.directory(&state), "everyone");
        mode(&state, 0o1777);
        refused(trust.directory(&state), "everyone");
        mode(&state, 0o700);
        mode(&state.join("journal"), 0o666);
        refused(
            trust.directory(&state),
            "journal` may be changed by everyone",
        );
        mode(&state.join("journal"), 0o600);
        symlink("/etc/passwd", state.join("link")).unwrap();
        refused(trust.directory(&state), "is a link");
        fs::remove_file(state.join("link")).unwrap();
        let link = scratch.path().join("link");
        symlink(&state, &link).unwrap();
        refused(trust.directory(&link), "is a link");
        mode(scratch.path(), 0o777);
        refused(trust.directory(&state), "only root");
        refused(
            trust.place_of(&scratch.path().join("numad.sock")),
            "only root",
        );
        mode(scratch.path(), 0o1777);
        trust.directory(&state).unwrap();
        trust.place_of(&scratch.path().join("numad.sock")).unwrap();
    }

    #[test]
    fn what_belongs_to_others_is_not_relied_on() {
        let scratch = Scratch::new("trusted-others");
        let trust = Trust {
            uids: vec![4_000_000],
            gids: vec![4_000_000],
        };
        refused(trust.directory(scratch.path()), "belongs to user");
        let file = scratch.path().join("file");
        fs::write(&file, "").unwrap();
        refused(trust.file(&file), "belongs to user");
    }

    #[test]
    fn settings_that_everyone_may_change_are_refused() {
        let scratch = Scratch::new("trusted-settings");
        let file = scratch.path().join("numad.toml");
        let paths = Paths::named(&file);
        settings(&paths).unwrap();
        fs::write(&file, "").unwrap();
        fs::create_dir(paths.drop_ins()).unwrap();
        let drop_in = paths.drop_ins().join("10.toml");
        fs::write(&drop_in, "").unwrap();
        settings(&paths).unwrap();
        for path in [&file, &drop_in] {
            mode(path, 0o666);
            let error = settings(&paths).unwrap_err();
            assert_eq!(error.problems.len(), 1, "{error}");
            assert!(error.to_string().contains("everyone"), "{error}");
            mode(path, 0o644);
        }
        settings(&paths).unwrap();
    }
}
