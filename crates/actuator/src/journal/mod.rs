//! What things were before we changed them, on disk before each change.
//!
//! One file of text lines, appended to; [`rows`] is the format, docs/journal-format.md its description.
//! There are no marks for what is undone: an undo ends in the file being written anew without it,
//! and until then doing it again changes nothing. A second change of the same thread or page never
//! replaces its original.

mod contents;
mod disk;
mod error;
mod homes;
mod records;
pub mod rows;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::Flock;

pub use contents::{Contents, MaskChange, OfObject, OfProcess};
pub(crate) use disk::{Disk, FileSystem, Open};
pub use error::{OpenError, WriteError};
pub(crate) use homes::Home;
pub use homes::PageRun;
pub(crate) use records::{Records, ThreadRecord, UNKNOWN, every, page_rows};
pub use rows::Switch;
use rows::{Foreign, Row};

/// The open journal of this boot. One process holds it at a time.
#[derive(Debug)]
pub struct Journal {
    disk: Box<dyn Disk>,
    directory: PathBuf,
    boot: String,
    limits: JournalLimits,
    file: File,
    length: u64,
    /// Whether the file begins with a header of this boot.
    headed: bool,
    records: Records,
    found: Found,
    /// None in a directory that cannot be written, if no daemon ever used it.
    lock: Option<Flock<File>>,
    /// Why nothing can be written, by error number, where that is so.
    unwritable: Option<i32>,
}

/// How large a journal may become and how far its rows are pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalLimits {
    /// Most bytes of the file. A change that would exceed it is refused.
    pub bytes_max: u64,
    /// Most runs of pages that are moved and not undone; pages side by side that were on one node, and moved at once,
    /// are one run. Each takes about 50 bytes of memory, and up to 31 of the file.
    pub runs_max: usize,
    /// How far a row is pushed before its change is made.
    pub durability: Durability,
}

impl Default for JournalLimits {
    fn default() -> Self {
        Self {
            bytes_max: 64 << 20,
            runs_max: 1 << 20,
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
    /// Whether the file is of another boot of the machine, with which all that it could undo has ended.
    pub stale: bool,
    /// Damaged lines, such as one that was cut by a crash. Their changes were never made, or were
    /// lost to damage of the disk.
    pub damaged: u64,
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
        Self::open_on(Box::new(FileSystem), directory, boot, limits)
    }

    pub(crate) fn open_on(
        mut disk: Box<dyn Disk>,
        directory: &Path,
        boot: &str,
        limits: JournalLimits,
    ) -> Result<Self, OpenError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| OpenError::Io(path, source)
        };
        disk.make_directory(directory).map_err(failed(directory))?;
        let lock = lock(&mut *disk, directory, Open::Write)?;
        let path = directory.join(FILE);
        let (bytes, too_long) = read_existing(&mut *disk, &path, limits).map_err(failed(&path))?;
        let aside = directory.join(ASIDE);
        let mut set_aside = || {
            let renamed = disk.rename(&path, &aside).map_err(failed(&path));
            renamed.map(|()| Some(aside.clone()))
        };
        let mut found = Found::default();
        let mut records = Records::default();
        let (mut clean, mut headed) = (false, false);
        match rows::decode(&bytes, boot) {
            Err(Foreign::Newer(version)) => return Err(OpenError::Newer(path, version)),
            Ok(decoded) if decoded.headed || !decoded.rows.is_empty() || decoded.damaged == 0 => {
                headed = decoded.headed;
                clean = headed && !decoded.older && decoded.damaged == 0 && !too_long;
                found.damaged = decoded.damaged;
                decoded.rows.into_iter().for_each(|row| records.fold(row));
                if too_long {
                    found.set_aside = set_aside()?;
                    headed = false;
                }
            }
            Err(Foreign::OtherBoot) | Ok(_) => {
                found.set_aside = set_aside()?;
            }
        }
        let file = disk.open(&path, Open::Write).map_err(failed(&path))?;
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let mut journal = Self {
            disk,
            directory: directory.to_owned(),
            boot: boot.to_owned(),
            limits,
            file,
            length,
            headed,
            records,
            found,
            lock: Some(lock),
            unwritable: None,
        };
        if !clean {
            journal.mend(&bytes).map_err(failed(&path))?;
        }
        Ok(journal)
    }

    /// As [`Self::open`], for an undo that must not fail for want of a directory that can be written: there the rows are
    /// read, and nothing is recorded or forgotten on disk.
    ///
    /// # Errors
    /// See [`OpenError`]; that of writing when there is nothing to read either.
    pub fn open_for_undo(
        directory: &Path,
        boot: &str,
        limits: JournalLimits,
    ) -> Result<Self, OpenError> {
        match Self::open(directory, boot, limits) {
            Err(OpenError::Io(path, error)) if is_unwritable(&error) => {
                let number = error.raw_os_error().unwrap_or(libc::EROFS);
                let disk = Box::new(FileSystem);
                match Self::open_unwritable(disk, directory, boot, limits, number) {
                    Err(OpenError::Io(..)) => Err(OpenError::Io(path, error)),
                    opened => opened,
                }
            }
            opened => opened,
        }
    }

    fn open_unwritable(
        mut disk: Box<dyn Disk>,
        directory: &Path,
        boot: &str,
        limits: JournalLimits,
        why: i32,
    ) -> Result<Self, OpenError> {
        let lock = match lock(&mut *disk, directory, Open::Read) {
            Ok(lock) => Some(lock),
            Err(OpenError::Io(_, error)) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let (file, bytes, records, found) = read_only(&mut *disk, directory, boot, limits)?;
        Ok(Self {
            disk,
            directory: directory.to_owned(),
            boot: boot.to_owned(),
            limits,
            file,
            length: bytes,
            headed: false,
            records,
            found,
            lock,
            unwritable: Some(why),
        })
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
        self.disk.write(&self.file, self.length, &[])
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

    /// What is changed and not undone.
    #[must_use]
    pub fn contents(&self) -> Contents {
        Contents::of(&self.records)
    }

    pub(crate) const fn records(&self) -> &Records {
        &self.records
    }

    /// For forgetting what is undone; [`Self::rewrite`] follows.
    pub(crate) const fn records_mut(&mut self) -> &mut Records {
        &mut self.records
    }

    /// Whether so many more runs of pages may be recorded.
    pub(crate) fn has_room_for(&self, runs: usize) -> bool {
        self.records.page_runs().saturating_add(runs) <= self.limits.runs_max
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
        if let Some(number) = self.unwritable {
            return Err(io::Error::from_raw_os_error(number));
        }
        match self.disk.is_at(&self.file, &self.directory.join(FILE)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(io::Error::other("another file is in its place")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.disk.make_directory(&self.directory)?;
                let place = self.directory.join(LOCK);
                let mut held = |lock| self.disk.is_at(lock, &place).unwrap_or(false);
                if !self.lock.as_deref().is_some_and(&mut held) {
                    let taken = lock(&mut *self.disk, &self.directory, Open::Write);
                    let taken = taken.map_err(|error| io::Error::other(error.to_string()))?;
                    self.lock = Some(taken);
                }
                self.write_anew()
            }
            Err(error) => Err(error),
        }
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        // An earlier append may have failed half way; what it left must not stay in front of this.
        self.disk.write(&self.file, self.length, bytes)?;
        match self.limits.durability {
            Durability::Kernel => Ok(()),
            Durability::Disk => self.disk.sync(&self.file),
        }
    }

    /// Writes the file anew with what is open alone. When this fails the old file is still there.
    pub(crate) fn rewrite(&mut self) -> Result<(), WriteError> {
        let (new, path) = (self.directory.join(NEW), self.directory.join(FILE));
        self.take_place().map_err(|source| WriteError {
            path: path.clone(),
            source,
        })?;
        if self.headed && self.records.is_empty() {
            // Needs no room on the disk.
            self.length = u64::try_from(rows::header(&self.boot).len()).unwrap_or(u64::MAX);
            return self
                .disk
                .write(&self.file, self.length, &[])
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
        let file = self.disk.open(&new, Open::Write)?;
        self.disk.write(&file, 0, text.as_bytes())?;
        let pushed = self.limits.durability == Durability::Disk;
        if pushed {
            self.disk.sync(&file)?;
        }
        self.disk.rename(&new, &self.directory.join(FILE))?;
        self.file = file;
        self.headed = true;
        self.length = u64::try_from(text.len()).unwrap_or(u64::MAX);
        if pushed {
            let directory = self.disk.open(&self.directory, Open::Directory)?;
            self.disk.sync(&directory)?;
        }
        Ok(())
    }
}

/// Takes the lock that keeps two daemons from sharing one journal. The kernel releases it when we die.
fn lock(disk: &mut dyn Disk, directory: &Path, how: Open) -> Result<Flock<File>, OpenError> {
    let path = directory.join(LOCK);
    let failed = |source| OpenError::Io(path.clone(), source);
    let file = disk.open(&path, how).map_err(failed)?;
    match disk.lock(file) {
        Ok(lock) => {
            // Only who holds it would be unknown; a full disk must not stop an undo.
            drop(disk.write(&lock, 0, std::process::id().to_string().as_bytes()));
            Ok(lock)
        }
        Err(Errno::EWOULDBLOCK) => {
            let holder = disk
                .open(&path, Open::Read)
                .and_then(|file| disk.read(&file, HOLDER_BYTES));
            let holder = holder
                .ok()
                .and_then(|(text, _)| String::from_utf8(text).ok());
            let holder = holder.and_then(|text| text.trim().parse().ok());
            Err(OpenError::InUse(directory.to_owned(), holder))
        }
        Err(errno) => Err(failed(errno.into())),
    }
}

/// What is in a file, and whether there is more than was read: that was never written by us.
fn read_existing(
    disk: &mut dyn Disk,
    path: &Path,
    limits: JournalLimits,
) -> io::Result<(Vec<u8>, bool)> {
    match disk.open(path, Open::Read) {
        Ok(file) => disk.read(&file, limits.bytes_max.saturating_mul(2)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((Vec::new(), false)),
        Err(error) => Err(error),
    }
}

/// What the journal in a directory holds, without holding or changing it: for those who only look.
///
/// # Errors
/// See [`OpenError`]; a journal of another boot holds nothing, and [`Found::stale`] says so.
pub fn read(
    directory: &Path,
    boot: &str,
    limits: JournalLimits,
) -> Result<(Contents, Found), OpenError> {
    let (_, _, records, found) = read_only(&mut FileSystem, directory, boot, limits)?;
    Ok((Contents::of(&records), found))
}

/// The file of a journal, how long it is, and what is in it.
fn read_only(
    disk: &mut dyn Disk,
    directory: &Path,
    boot: &str,
    limits: JournalLimits,
) -> Result<(File, u64, Records, Found), OpenError> {
    let path = directory.join(FILE);
    let failed = |source| OpenError::Io(path.clone(), source);
    let file = disk.open(&path, Open::Read).map_err(failed)?;
    let most = limits.bytes_max.saturating_mul(2);
    let (bytes, _) = disk.read(&file, most).map_err(failed)?;
    let (mut records, mut found) = (Records::default(), Found::default());
    match rows::decode(&bytes, boot) {
        Err(Foreign::Newer(version)) => return Err(OpenError::Newer(path, version)),
        Err(Foreign::OtherBoot) => found.stale = true,
        Ok(decoded) => {
            found.damaged = decoded.damaged;
            decoded.rows.into_iter().for_each(|row| records.fold(row));
        }
    }
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    Ok((file, length, records, found))
}

/// Whether an error says that the directory takes nothing.
fn is_unwritable(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    let kinds = [
        ReadOnlyFilesystem,
        PermissionDenied,
        StorageFull,
        QuotaExceeded,
    ];
    kinds.contains(&error.kind())
}

const FILE: &str = "journal";
const NEW: &str = "journal.new";
const ASIDE: &str = "journal.set-aside";
const LOCK: &str = "lock";
/// More than the number of a process has.
const HOLDER_BYTES: u64 = 32;
/// Below this a file is never worth writing anew while it is in use.
const REWRITE_BYTES: u64 = 4 << 20;
/// A row's length at which a file twice as long as needed is written anew: rows of threads have about
/// 60 bytes, a page about 14.
const ROW_BYTES: u64 = 128;

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::os::unix::fs::{MetadataExt as _, lchown};

    use super::*;
    use crate::affinity::{Kind, Origin};
    use crate::fake::{scratch, set};
    use topology::{Pid, StartTicks, TaskKey, Tid};

    const LIMITS: JournalLimits = JournalLimits {
        bytes_max: 10_000,
        runs_max: 100,
        durability: Durability::Disk,
    };

    fn bind(tid: u32) -> Row {
        Row::Bind {
            key: TaskKey {
                pid: Pid(7),
                tid: Tid(tid),
                start: StartTicks(1),
            },
            at: StartTicks(9),
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
        let newer = "numad-journal 3 boot";
        let line = format!("{:08x} {newer}\n", rows::checksum("", newer));
        fs::write(directory.join(FILE), &line).unwrap();
        assert_eq!(open(&directory).found(), &Found::default());
        fs::write(directory.join(FILE), line + "and more\n").unwrap();
        let error = Journal::open(&directory, "boot", LIMITS).unwrap_err();
        assert!(matches!(error, OpenError::Newer(_, 3)), "{error}");
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn of_a_file_that_is_far_too_long_the_beginning_is_read() {
        let directory = scratch("journal");
        let mut journal = open(&directory);
        journal.record(vec![bind(1)]).unwrap();
        drop(journal);
        let file = OpenOptions::new()
            .write(true)
            .open(directory.join(FILE))
            .unwrap();
        // Sparse: it takes no room.
        file.set_len(1 << 40).unwrap();
        let journal = open(&directory);
        let aside = journal.found().set_aside.clone().unwrap();
        assert_eq!(fs::metadata(aside).unwrap().len(), 1 << 40);
        drop(journal);
        let journal = open(&directory);
        assert_eq!((journal.open_rows(), journal.found().damaged), (1, 0));
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
        let unknown = rows::ProcessKey {
            pid: Pid(7),
            start: UNKNOWN,
        };
        let Row::Bind { key, .. } = bind(1) else {
            unreachable!();
        };
        journal
            .records_mut()
            .forget_threads(unknown, [key].into_iter());
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
    fn what_it_holds_is_told_without_holding_it() {
        let directory = scratch("journal");
        let mut journal = open(&directory);
        let process = |pid| rows::ProcessKey {
            pid: Pid(pid),
            start: StartTicks(3),
        };
        let Row::Bind { key, .. } = bind(2) else {
            unreachable!();
        };
        let set = every();
        let parked = Row::Again {
            key,
            at: StartTicks(11),
            set,
        };
        let pages = Row::Pages {
            owner: rows::Owner::Process(Pid(7), StartTicks(3)),
            node: topology::NodeId(1),
            runs: vec![PageRun {
                first: 4096,
                step: 4096,
                count: 2,
            }],
        };
        let mine = [
            Row::Process(process(7)),
            bind(1),
            bind(2),
            bind(3),
            parked,
            pages,
        ];
        let mine = mine.into_iter().chain([Row::Process(process(8))]);
        journal.record(mine.collect()).unwrap();
        let (contents, found) = read(&directory, "boot", LIMITS).unwrap();
        assert_eq!(
            (&contents, &found),
            (&journal.contents(), &Found::default())
        );
        let told: Vec<_> = contents
            .processes
            .iter()
            .map(|of| {
                let masks = of.masks.iter().map(|change| {
                    let got = change.got.as_ref().map(ToString::to_string);
                    (change.had_list(), got, change.threads)
                });
                let since = of.since.map(|since| since.0);
                (of.process.pid.0, masks.collect::<Vec<_>>(), of.pages, since)
            })
            .collect();
        let had = || Some("0-3".to_owned());
        let masks = vec![(had(), Some("0".to_owned()), 2), (had(), None, 1)];
        assert_eq!(told, [(7, masks, 2, Some(9)), (8, vec![], 0, None)]);
        let (other, found) = read(&directory, "later", LIMITS).unwrap();
        assert!(other == Contents::default() && found.stale);
        read(&directory.join("none"), "boot", LIMITS).unwrap_err();
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_read_and_held() {
        let directory = scratch("journal");
        let mut journal = open(&directory);
        journal.record(vec![bind(1)]).unwrap();
        let unwritable = || {
            let disk = Box::new(FileSystem);
            Journal::open_unwritable(disk, &directory, "boot", LIMITS, libc::EROFS)
        };
        assert!(matches!(unwritable(), Err(OpenError::InUse(..))));
        drop(journal);
        let mut journal = unwritable().unwrap();
        assert!(matches!(
            Journal::open(&directory, "boot", LIMITS),
            Err(OpenError::InUse(..))
        ));
        let whole = fs::read(directory.join(FILE)).unwrap();
        let error = journal.record(vec![bind(2)]).unwrap_err();
        assert_eq!(error.source.raw_os_error(), Some(libc::EROFS));
        journal.records_mut().forget_all_threads(rows::ProcessKey {
            pid: Pid(7),
            start: UNKNOWN,
        });
        assert_eq!(journal.open_rows(), 0);
        journal.rewrite().unwrap_err();
        assert_eq!(fs::read(directory.join(FILE)).unwrap(), whole);
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
