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
#[cfg(test)]
mod tests;

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
    /// Why the file could not be written anew, so that it may list what is undone, or end in half a
    /// line. A row that is appended to that would get a wrong original when it is read again, or be
    /// lost.
    outdated: Option<io::ErrorKind>,
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
    /// are one run. Each takes about 50 bytes of memory, and up to 31 of the file. One user has at
    /// most half of them, all users three quarters.
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
            outdated: None,
            records,
            found,
            lock: Some(lock),
            unwritable: None,
        };
        if !clean {
            // Where the disk is too full for that, what is in the file can still be undone.
            drop(journal.rewrite());
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
            outdated: None,
            records,
            found,
            lock,
            unwritable: Some(why),
        })
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

    /// Whether the file could not be written anew: it may list what is undone. Nothing is recorded
    /// until it could; [`crate::Live::prune`] tries again.
    #[must_use]
    pub const fn is_outdated(&self) -> bool {
        self.outdated.is_some()
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

    /// Whether so many more runs of pages may be recorded for whoever pays; none for admins. One
    /// user has half of the room, and all users leave a quarter of it.
    pub(crate) fn has_room_for(&self, payer: Option<u32>, runs: usize) -> bool {
        let (records, most) = (&self.records, self.limits.runs_max);
        let fits = |there: usize, most: usize| there.saturating_add(runs) <= most;
        let fits_user = |payer| {
            fits(records.page_runs_of_users(|other| other == payer), most / 2)
                && fits(records.page_runs_of_users(|_| true), most - most / 4)
        };
        fits(records.page_runs(), most) && payer.is_none_or(fits_user)
    }

    /// Whether the file has to be written anew, or has grown so far beyond what is open that it
    /// pays.
    pub(crate) fn wants_rewrite(&self) -> bool {
        self.is_outdated()
            || self.length > REWRITE_BYTES.max(self.records.open_rows().saturating_mul(ROW_BYTES))
    }

    /// Writes rows, then takes them for true. When this fails nothing is taken and the file holds, as
    /// before, whole rows alone.
    pub(crate) fn record(&mut self, rows: Vec<Row>) -> Result<(), WriteError> {
        // To try it again for each change would write all rows each time, on a disk that is full.
        if let Some(why) = self.outdated {
            return Err(WriteError {
                path: self.directory.join(FILE),
                source: why.into(),
            });
        }
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

    /// Writes rows that make others void. Where that fails the others are void all the same, and
    /// nothing more is recorded before the file is written anew.
    pub(crate) fn void(&mut self, rows: Vec<Row>) -> Result<(), WriteError> {
        let written = self.record(rows.clone());
        if let Err(error) = &written {
            self.outdated = Some(error.source.kind());
            rows.into_iter().for_each(|row| self.records.fold(row));
        }
        written
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
        let written = self.try_rewrite();
        self.outdated = written.as_ref().err().map(|error| error.source.kind());
        written
    }

    fn try_rewrite(&mut self) -> Result<(), WriteError> {
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
