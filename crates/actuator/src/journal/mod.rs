//! What things were before we changed them, on disk before each change.
//!
//! One file of text lines, appended to; [`rows`] is the format, docs/journal-format.md its description.
//! There are no marks for what is undone: an undo ends in the file being written anew without it,
//! and until then doing it again changes nothing. A second change of the same thread or page never
//! replaces its original.

mod records;
pub mod rows;

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _, lchown,
};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg, OFlag};

pub(crate) use records::{Home, Records, ThreadRecord, page_rows};
use rows::{Foreign, Row};

/// The open journal of this boot. One process holds it at a time.
#[derive(Debug)]
pub struct Journal {
    directory: PathBuf,
    boot: String,
    limits: JournalLimits,
    file: File,
    length: u64,
    /// Whether the file begins with a header of this boot.
    headed: bool,
    records: Records,
    found: Found,
    lock: Flock<File>,
}

/// How large a journal may become and how far its rows are pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalLimits {
    /// Most bytes of the file. A change that would exceed it is refused.
    pub bytes_max: u64,
    /// Most pages that are moved and not undone. Each takes about 20 bytes of memory.
    pub pages_max: usize,
    /// How far a row is pushed before its change is made.
    pub durability: Durability,
}

impl Default for JournalLimits {
    fn default() -> Self {
        Self {
            bytes_max: 64 << 20,
            pages_max: 1 << 20,
            durability: Durability::Disk,
        }
    }
}

/// How far a row is pushed before its change is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// To the kernel: survives our death by any signal. A crash of the machine ends every program
    /// that could be put back, so this is enough for correctness, and costs no write to the disk.
    Kernel,
    /// To the disk: also tells at once when the disk cannot take it.
    Disk,
}

/// What was found when a journal was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// A file that was not for this boot, or not readable at all, and what it is called now.
    pub set_aside: Option<PathBuf>,
    /// Damaged lines, such as one that was cut by a crash. Their changes were never made, or were
    /// lost to damage of the disk.
    pub damaged: u64,
}

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

impl Journal {
    /// Opens the journal in a directory, which is made if it is not there, for this boot of the machine.
    ///
    /// What an earlier run left behind is in it; [`crate::Live::undo`] puts it back. A file of
    /// another boot is set aside: everything it could undo ended with that boot.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(directory: &Path, boot: &str, limits: JournalLimits) -> Result<Self, OpenError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| OpenError::Io(path, source)
        };
        make(directory).map_err(failed(directory))?;
        let lock = lock(directory)?;
        let path = directory.join(FILE);
        let bytes = read_existing(&path).map_err(failed(&path))?;
        let mut found = Found::default();
        let mut records = Records::default();
        let (mut clean, mut headed) = (false, false);
        match rows::decode(&bytes, boot) {
            Err(Foreign::Newer(version)) => return Err(OpenError::Newer(path, version)),
            Ok(decoded) if decoded.headed || !decoded.rows.is_empty() || bytes.is_empty() => {
                headed = decoded.headed;
                clean = headed && decoded.damaged == 0;
                found.damaged = decoded.damaged;
                decoded.rows.into_iter().for_each(|row| records.fold(row));
            }
            Err(Foreign::OtherBoot) | Ok(_) => {
                let aside = directory.join(ASIDE);
                fs::rename(&path, &aside).map_err(failed(&path))?;
                found.set_aside = Some(aside);
            }
        }
        let file = open_file(&path).map_err(failed(&path))?;
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let mut journal = Self {
            directory: directory.to_owned(),
            boot: boot.to_owned(),
            limits,
            file,
            length,
            headed,
            records,
            found,
            lock,
        };
        if !clean {
            journal.mend(&bytes).map_err(failed(&path))?;
        }
        Ok(journal)
    }

    /// Sees to it that a cut last line does not run into the next row. Where the disk is too full to
    /// write the file anew, whole lines are kept as they are: what is in them can still be undone.
    fn mend(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.rewrite().is_ok() {
            return Ok(());
        }
        let kept = bytes.iter().rposition(|&byte| byte == b'\n');
        let kept = kept.map_or(0, |at| at + 1);
        self.length = u64::try_from(kept).unwrap_or(u64::MAX);
        self.file.set_len(self.length)
    }

    /// What was found when it was opened.
    #[must_use]
    pub const fn found(&self) -> &Found {
        &self.found
    }

    /// How many threads and pages are changed and not undone.
    #[must_use]
    pub fn open_rows(&self) -> u64 {
        self.records.open_rows()
    }

    pub(crate) const fn records(&self) -> &Records {
        &self.records
    }

    /// For forgetting what is undone; [`Self::rewrite`] follows.
    pub(crate) const fn records_mut(&mut self) -> &mut Records {
        &mut self.records
    }

    /// Whether more pages may be recorded.
    pub(crate) fn has_room_for(&self, pages: usize) -> bool {
        self.records.page_count().saturating_add(pages) <= self.limits.pages_max
    }

    /// Whether the file has grown so far beyond what is open that writing it anew pays.
    pub(crate) fn wants_rewrite(&self) -> bool {
        self.length > REWRITE_BYTES.max(self.records.open_rows().saturating_mul(ROW_BYTES))
    }

    /// Writes rows, then takes them for true. When this fails nothing is taken and the file holds, as
    /// before, whole rows alone.
    pub(crate) fn record(&mut self, rows: Vec<Row>) -> Result<(), WriteError> {
        let mut text = String::new();
        for row in &rows {
            rows::encode(row, &self.boot, &mut text);
        }
        let added = u64::try_from(text.len()).unwrap_or(u64::MAX);
        let too_long = self.length.saturating_add(added) > self.limits.bytes_max;
        let written = if too_long {
            Err(io::ErrorKind::StorageFull.into())
        } else {
            self.take_place()
                .and_then(|()| self.append(text.as_bytes()))
        };
        written.map_err(|source| WriteError {
            path: self.directory.join(FILE),
            source,
        })?;
        self.length = self.length.saturating_add(added);
        rows.into_iter().for_each(|row| self.records.fold(row));
        Ok(())
    }

    /// Sees to it that the file is where the next start looks for it. One that was removed while we
    /// ran would take rows for ever and lose them all with us; it is written anew, its directory and
    /// lock with it. What someone else put in its place is left alone, and nothing is recorded.
    fn take_place(&mut self) -> io::Result<()> {
        match same_file(&self.file, &self.directory.join(FILE)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(io::Error::other("another file is in its place")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make(&self.directory)?;
                if !same_file(&self.lock, &self.directory.join(LOCK)).unwrap_or(false) {
                    let taken = lock(&self.directory);
                    self.lock = taken.map_err(|error| io::Error::other(error.to_string()))?;
                }
                self.write_anew()
            }
            Err(error) => Err(error),
        }
    }

    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        // An earlier append may have failed half way; what it left must not stay in front of this.
        self.file.set_len(self.length)?;
        self.file.write_all_at(bytes, self.length)?;
        self.push(&self.file)
    }

    fn push(&self, file: &File) -> io::Result<()> {
        match self.limits.durability {
            Durability::Kernel => Ok(()),
            Durability::Disk => file.sync_data(),
        }
    }

    /// Writes the file anew with what is open alone. When this fails the old file is still there.
    pub(crate) fn rewrite(&mut self) -> Result<(), WriteError> {
        let (new, path) = (self.directory.join(NEW), self.directory.join(FILE));
        self.take_place().map_err(|source| WriteError {
            path: path.clone(),
            source,
        })?;
        if self.headed && self.records.open_rows() == 0 {
            // Needs no room on the disk.
            self.length = u64::try_from(rows::header(&self.boot).len()).unwrap_or(u64::MAX);
            return self
                .file
                .set_len(self.length)
                .map_err(|source| WriteError { path, source });
        }
        self.write_anew()
            .map_err(|source| WriteError { path: new, source })
    }

    fn write_anew(&mut self) -> io::Result<()> {
        let new = self.directory.join(NEW);
        let mut text = rows::header(&self.boot);
        for row in self.records.rows() {
            rows::encode(&row, &self.boot, &mut text);
        }
        let mut file = open_file(&new)?;
        file.set_len(0)?;
        file.write_all(text.as_bytes())?;
        self.push(&file)?;
        fs::rename(&new, self.directory.join(FILE))?;
        self.push(&File::open(&self.directory)?)?;
        self.file = file;
        self.headed = true;
        self.length = u64::try_from(text.len()).unwrap_or(u64::MAX);
        Ok(())
    }
}

/// Makes the directory if it is not there.
fn make(directory: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    // Addresses of programs are secrets of their users.
    builder.recursive(true).mode(0o700);
    builder.create(directory)?;
    adopt(directory, directory.parent());
    Ok(())
}

/// Whether what lies at `path` is this open file.
fn same_file(file: &File, path: &Path) -> io::Result<bool> {
    let (own, found) = (file.metadata()?, fs::symlink_metadata(path)?);
    Ok((own.dev(), own.ino()) == (found.dev(), found.ino()))
}

/// Takes the lock that keeps two daemons from sharing one journal. The kernel releases it when we die.
fn lock(directory: &Path) -> Result<Flock<File>, OpenError> {
    let path = directory.join(LOCK);
    let file = open_file(&path).map_err(|source| OpenError::Io(path.clone(), source))?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => {
            let written = lock.set_len(0).and_then(|()| {
                let text = std::process::id().to_string();
                lock.write_all_at(text.as_bytes(), 0)
            });
            // Only who holds it would be unknown; a full disk must not stop an undo.
            drop(written);
            Ok(lock)
        }
        Err((_, nix::errno::Errno::EWOULDBLOCK)) => {
            let holder = fs::read_to_string(&path).ok();
            let holder = holder.and_then(|text| text.trim().parse().ok());
            Err(OpenError::InUse(directory.to_owned(), holder))
        }
        Err((_, errno)) => Err(OpenError::Io(path, errno.into())),
    }
}

/// Opens or makes a file of ours. A symbolic link in its place is refused.
fn open_file(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(OPEN_FLAGS.bits())
        .open(path)?;
    must_be_regular(&file)?;
    adopt(path, path.parent());
    Ok(file)
}

/// Gives a file of ours to the owner of the directory it is in.
///
/// `numad --undo` may be run by root where the daemon runs as a user of its own, which must be able to
/// open what was written. When it fails the file belongs to who made it, as without this.
fn adopt(path: &Path, parent: Option<&Path>) {
    let owner = parent.and_then(|parent| fs::metadata(parent).ok());
    let own = fs::symlink_metadata(path).ok();
    if let (Some(owner), Some(own)) = (owner, own)
        && owner.uid() != own.uid()
        && own.uid() == nix::unistd::geteuid().as_raw()
        && owner.mode() & 0o022 == 0
    {
        drop(lchown(path, Some(owner.uid()), Some(owner.gid())));
    }
}

fn read_existing(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match open_existing(path) {
        Ok(file) => {
            // What is beyond was never written by us.
            file.take(READ_BYTES_MAX).read_to_end(&mut bytes)?;
            Ok(bytes)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(bytes),
        Err(error) => Err(error),
    }
}

fn open_existing(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OPEN_FLAGS.bits())
        .open(path)?;
    must_be_regular(&file)?;
    Ok(file)
}

fn must_be_regular(file: &File) -> io::Result<()> {
    match file.metadata()?.is_file() {
        true => Ok(()),
        false => Err(io::Error::other("it is no regular file")),
    }
}

/// A symbolic link is refused, and a pipe in its place is not waited for.
const OPEN_FLAGS: OFlag = OFlag::O_NOFOLLOW.union(OFlag::O_NONBLOCK);

const FILE: &str = "journal";
const NEW: &str = "journal.new";
const ASIDE: &str = "journal.set-aside";
const LOCK: &str = "lock";
/// Far above any [`JournalLimits::bytes_max`] that makes sense.
const READ_BYTES_MAX: u64 = 1 << 30;
/// Below this a file is never worth writing anew while it is in use.
const REWRITE_BYTES: u64 = 4 << 20;
/// A row's length at which a file twice as long as needed is written anew: rows of threads have about
/// 60 bytes, a page about 14.
const ROW_BYTES: u64 = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affinity::{Kind, Origin};
    use crate::census::Moment;
    use crate::fake::{scratch, set};
    use topology::{Pid, StartTicks, TaskKey, Tid};

    const LIMITS: JournalLimits = JournalLimits {
        bytes_max: 10_000,
        pages_max: 100,
        durability: Durability::Disk,
    };

    fn bind(tid: u32) -> Row {
        Row::Bind {
            key: TaskKey {
                pid: Pid(7),
                tid: Tid(tid),
                start: StartTicks(1),
            },
            at: Moment {
                ticks: StartTicks(9),
                newest: Tid(60),
            },
            origin: Origin {
                kind: Kind::User,
                mask: set("0-3"),
            },
            set: set("0"),
        }
    }

    fn open(directory: &Path) -> Journal {
        Journal::open(directory, "boot", LIMITS).unwrap()
    }

    #[test]
    fn rows_are_there_at_the_next_start() {
        let directory = scratch("journal");
        let mut journal = open(&directory.join("made/here"));
        journal.record(vec![bind(1), bind(2)]).unwrap();
        drop(journal);
        let journal = open(&directory.join("made/here"));
        assert_eq!(journal.open_rows(), 2);
        assert_eq!(journal.found(), &Found::default());
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn two_daemons_never_share_one() {
        let directory = scratch("journal");
        let first = open(&directory);
        let error = Journal::open(&directory, "boot", LIMITS).unwrap_err();
        let own = std::process::id().to_string();
        assert!(error.to_string().contains(&own), "{error}");
        drop(first);
        drop(open(&directory));
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn another_boot_s_is_set_aside_and_a_newer_one_is_refused() {
        let directory = scratch("journal");
        let mut journal = open(&directory);
        journal.record(vec![bind(1)]).unwrap();
        drop(journal);
        let journal = Journal::open(&directory, "later", LIMITS).unwrap();
        assert_eq!(journal.open_rows(), 0);
        let aside = journal.found().set_aside.clone().unwrap();
        assert!(fs::read_to_string(aside).unwrap().contains("boot"));
        drop(journal);
        fs::write(directory.join(FILE), "not a journal").unwrap();
        assert!(open(&directory).found().set_aside.is_some());
        let newer = "numad-journal 2 boot";
        let line = format!("{:08x} {newer}\n", rows::checksum("", newer));
        fs::write(directory.join(FILE), line).unwrap();
        let error = Journal::open(&directory, "boot", LIMITS).unwrap_err();
        assert!(matches!(error, OpenError::Newer(_, 2)), "{error}");
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_torn_tail_does_not_run_into_the_next_row() {
        let directory = scratch("journal");
        let mut journal = open(&directory);
        journal.record(vec![bind(1), bind(2)]).unwrap();
        drop(journal);
        let text = fs::read(directory.join(FILE)).unwrap();
        fs::write(directory.join(FILE), &text[..text.len() - 5]).unwrap();
        let mut journal = open(&directory);
        assert_eq!((journal.open_rows(), journal.found().damaged), (1, 1));
        journal.record(vec![bind(3)]).unwrap();
        drop(journal);
        let journal = open(&directory);
        assert_eq!((journal.open_rows(), journal.found().damaged), (2, 0));
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_damaged_header_costs_no_row() {
        let directory = scratch("journal");
        let mut journal = open(&directory);
        journal.record(vec![bind(1)]).unwrap();
        drop(journal);
        let mut text = fs::read(directory.join(FILE)).unwrap();
        text[12] ^= 1;
        fs::write(directory.join(FILE), text).unwrap();
        let journal = open(&directory);
        assert_eq!((journal.open_rows(), journal.found().damaged), (1, 1));
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn what_does_not_fit_is_refused_and_leaves_nothing() {
        let directory = scratch("journal");
        let mut journal = open(&directory);
        let rows: Vec<Row> = (0..300).map(bind).collect();
        let error = journal.record(rows).unwrap_err();
        assert!(error.to_string().contains("journal"));
        assert_eq!(journal.open_rows(), 0);
        journal.record(vec![bind(1)]).unwrap();
        drop(journal);
        assert_eq!(open(&directory).open_rows(), 1);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_journal_that_was_removed_is_made_again() {
        let directory = scratch("journal");
        let place = directory.join("state");
        let mut journal = open(&place);
        journal.record(vec![bind(1)]).unwrap();
        fs::remove_dir_all(&place).unwrap();
        journal.record(vec![bind(2)]).unwrap();
        let error = Journal::open(&place, "boot", LIMITS).unwrap_err();
        assert!(matches!(error, OpenError::InUse(..)), "{error}");
        fs::remove_file(place.join(FILE)).unwrap();
        journal.records_mut().forget_thread(match bind(1) {
            Row::Bind { key, .. } => key,
            _ => unreachable!(),
        });
        journal.rewrite().unwrap();
        drop(journal);
        assert_eq!(open(&place).open_rows(), 1);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn nothing_is_recorded_while_it_cannot_be_found_again() {
        let directory = scratch("journal");
        let place = directory.join("state");
        let mut journal = open(&place);
        fs::rename(&place, directory.join("away")).unwrap();
        fs::write(&place, "in the way").unwrap();
        journal.record(vec![bind(1)]).unwrap_err();
        journal.rewrite().unwrap_err();
        fs::remove_file(&place).unwrap();
        // Another daemon began in the same place meanwhile.
        let mut other = open(&place);
        other.record(vec![bind(2)]).unwrap();
        journal.record(vec![bind(1)]).unwrap_err();
        journal.rewrite().unwrap_err();
        assert_eq!((journal.open_rows(), other.open_rows()), (0, 1));
        other.record(vec![bind(3)]).unwrap();
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_pipe_in_its_place_is_not_waited_for() {
        let directory = scratch("journal");
        let mode = nix::sys::stat::Mode::S_IRWXU;
        nix::unistd::mkfifo(&directory.join(FILE), mode).unwrap();
        let error = Journal::open(&directory, "boot", LIMITS).unwrap_err();
        assert!(matches!(error, OpenError::Io(..)), "{error}");
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn privileged_root_leaves_files_to_the_daemon_s_user() {
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: needs root");
            return;
        }
        let directory = scratch("journal");
        lchown(&directory, Some(12_345), Some(12_345)).unwrap();
        drop(open(&directory.join("journal")));
        for path in ["journal", "journal/journal", "journal/lock"] {
            assert_eq!(
                fs::metadata(directory.join(path)).unwrap().uid(),
                12_345,
                "{path}"
            );
        }
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_link_in_its_place_is_refused_and_files_are_ours_alone() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let directory = scratch("journal");
        drop(open(&directory.join("own")));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&directory.join("own")), 0o700);
        assert_eq!(mode(&directory.join("own").join(FILE)), 0o600);
        fs::create_dir(directory.join("link")).unwrap();
        symlink("/etc/passwd", directory.join("link").join(FILE)).unwrap();
        let error = Journal::open(&directory.join("link"), "boot", LIMITS).unwrap_err();
        assert!(matches!(error, OpenError::Io(..)), "{error}");
        fs::remove_dir_all(directory).unwrap();
    }
}
