//! The calls that the journal makes to the file system, as a trait, so that tests have a disk that fails when told to.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{
    DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _, lchown,
};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};

/// Where journals are kept.
pub(crate) trait Disk: fmt::Debug + Send {
    /// Makes a directory for its owner alone, with those above, unless it is there.
    fn make_directory(&mut self, path: &Path) -> io::Result<()>;

    /// Opens a file or directory. A symbolic link in its place is refused, and a pipe is not waited for.
    fn open(&mut self, path: &Path, how: Open) -> io::Result<File>;

    /// Takes the lock of a file, if nobody has it.
    fn lock(&mut self, file: File) -> Result<Flock<File>, Errno>;

    /// The first bytes of a file, and whether there are more than `most`.
    fn read(&mut self, file: &File, most: u64) -> io::Result<(Vec<u8>, bool)>;

    /// Whether what lies at `path` is this open file.
    fn is_at(&mut self, file: &File, path: &Path) -> io::Result<bool>;

    /// Cuts a file there and writes these bytes. When it fails some of them may be written.
    fn write(&mut self, file: &File, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Waits until the disk has what was written.
    fn sync(&mut self, file: &File) -> io::Result<()>;

    /// Gives a file another name, in place of the file that has it.
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;
}

/// How something is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Open {
    /// A file that is there, to read it.
    Read,
    /// A file to write, made for its owner alone where it is not there.
    Write,
    /// A directory, to wait for the disk.
    Directory,
}

/// The file system of this machine.
#[derive(Debug)]
pub(crate) struct FileSystem;

impl Disk for FileSystem {
    fn make_directory(&mut self, path: &Path) -> io::Result<()> {
        let mut builder = DirBuilder::new();
        // Addresses of programs are secrets of their users.
        builder.recursive(true).mode(0o700);
        builder.create(path)?;
        adopt(path);
        Ok(())
    }

    fn open(&mut self, path: &Path, how: Open) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true);
        match how {
            Open::Directory => return options.open(path),
            Open::Read => &mut options,
            Open::Write => options.write(true).create(true).truncate(false).mode(0o600),
        };
        let file = options.custom_flags(OPEN_FLAGS.bits()).open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        if how == Open::Write {
            adopt(path);
        }
        Ok(file)
    }

    fn lock(&mut self, file: File) -> Result<Flock<File>, Errno> {
        Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| errno)
    }

    fn read(&mut self, file: &File, most: u64) -> io::Result<(Vec<u8>, bool)> {
        let mut bytes = Vec::new();
        let length = file.metadata()?.len();
        file.take(most).read_to_end(&mut bytes)?;
        Ok((bytes, length > most))
    }

    fn is_at(&mut self, file: &File, path: &Path) -> io::Result<bool> {
        let (own, found) = (file.metadata()?, fs::symlink_metadata(path)?);
        Ok((own.dev(), own.ino()) == (found.dev(), found.ino()))
    }

    fn write(&mut self, file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
        file.set_len(at)?;
        file.write_all_at(bytes, at)
    }

    fn sync(&mut self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }
}

/// Gives a file of ours to the owner of the directory it is in.
///
/// `numad --undo` may be run by root where the daemon runs as a user of its own, which must be able to
/// open what was written. When it fails the file belongs to who made it, as without this.
fn adopt(path: &Path) {
    let owner = path.parent().and_then(|parent| fs::metadata(parent).ok());
    let own = fs::symlink_metadata(path).ok();
    if let (Some(owner), Some(own)) = (owner, own)
        && owner.uid() != own.uid()
        && own.uid() == nix::unistd::geteuid().as_raw()
        && owner.mode() & 0o022 == 0
    {
        drop(lchown(path, Some(owner.uid()), Some(owner.gid())));
    }
}

const OPEN_FLAGS: OFlag = OFlag::O_NOFOLLOW.union(OFlag::O_NONBLOCK);
