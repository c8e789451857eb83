//! Numbered files in a directory of the state directory, each of one user: what is kept of experiments and attachments
//! after their end. Bounded in number and size.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::subordinate::Subordinates;

/// How a file's name ends; before it are its number and its user, as in `12-1000.jsonl`.
const SUFFIX: &str = ".jsonl";

/// See the module. No name in the directory but of this kind is read or removed.
#[derive(Debug)]
pub struct Shelf {
    directory: PathBuf,
    files: BTreeMap<u32, Kept>,
    last: u32,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    uid: u32,
    bytes: u64,
}

/// How much a shelf holds.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Files.
    pub files: usize,
    /// Bytes of all of them.
    pub bytes: u64,
}

impl Room {
    /// What the settings give.
    #[must_use]
    pub const fn of(config: &config::Config) -> Self {
        Self {
            files: config.daemon.kept_max,
            bytes: config.daemon.kept_bytes_max,
        }
    }
}

impl Shelf {
    /// Opens a directory, makes it if it is not there.
    ///
    /// # Errors
    /// When it cannot be made or read.
    pub fn open(directory: PathBuf) -> io::Result<Self> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)?;
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            if let Some((id, uid)) = entry.file_name().to_str().and_then(numbers) {
                let bytes = entry.metadata()?.len();
                files.insert(id, Kept { uid, bytes });
            }
        }
        let last = files.last_key_value().map_or(0, |(id, _)| *id);
        Ok(Self {
            directory,
            files,
            last,
        })
    }

    /// The highest number that was ever given.
    #[must_use]
    pub const fn last(&self) -> u32 {
        self.last
    }

    /// Whose file has this number.
    #[must_use]
    pub fn owner(&self, id: u32) -> Option<u32> {
        self.files.get(&id).map(|kept| kept.uid)
    }

    /// Numbers and users of all files.
    pub fn files(&self) -> impl DoubleEndedIterator<Item = (u32, u32)> {
        self.files.iter().map(|(&id, kept)| (id, kept.uid))
    }

    /// Where the file of this number is, if there is one.
    #[must_use]
    pub fn path(&self, id: u32) -> Option<PathBuf> {
        self.owner(id).map(|uid| path(&self.directory, id, uid))
    }

    /// Makes a file of this number, which must be above all there are, with a first text.
    ///
    /// # Errors
    /// When it cannot be written; it is not there then.
    pub fn create(&mut self, id: u32, uid: u32, text: &str) -> io::Result<()> {
        let path = path(&self.directory, id, uid);
        let mut file = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        if let Err(error) = file.write_all(text.as_bytes()) {
            // A part of it would be taken for all of it.
            drop(fs::remove_file(&path));
            return Err(error);
        }
        let bytes = text.len() as u64;
        self.files.insert(id, Kept { uid, bytes });
        self.last = self.last.max(id);
        Ok(())
    }

    /// Adds to a file; what is behind its last line is cut off first.
    ///
    /// # Errors
    /// When it is not there or cannot be written.
    pub fn append(&mut self, id: u32, text: &str) -> io::Result<()> {
        let kept = self.files.get_mut(&id).ok_or(io::ErrorKind::NotFound)?;
        let mut file = File::options()
            .append(true)
            .open(path(&self.directory, id, kept.uid))?;
        if let Err(error) = file.write_all(text.as_bytes()) {
            // On a full disk half a line may be there; the next one must not follow it.
            drop(file.set_len(kept.bytes));
            return Err(error);
        }
        kept.bytes += text.len() as u64;
        Ok(())
    }

    /// Cuts a file behind this many bytes.
    ///
    /// # Errors
    /// When it is not there or cannot be written.
    pub fn cut(&mut self, id: u32, bytes: u64) -> io::Result<()> {
        let kept = self.files.get_mut(&id).ok_or(io::ErrorKind::NotFound)?;
        let file = File::options()
            .write(true)
            .open(path(&self.directory, id, kept.uid))?;
        file.set_len(bytes)?;
        kept.bytes = bytes;
        Ok(())
    }

    /// Removes files until they fit: of the user who has most of what is too much, files or bytes,
    /// the oldest, those aside that are `used`. Files of subordinate users count to the one that
    /// pays. Gives their numbers.
    pub fn fit(
        &mut self,
        room: Room,
        subordinates: &Subordinates,
        used: impl Fn(u32) -> bool,
    ) -> Vec<u32> {
        let mut removed = Vec::new();
        loop {
            let bytes: u64 = self.files.values().map(|kept| kept.bytes).sum();
            let too_many = self.files.len() > room.files;
            if !too_many && bytes <= room.bytes {
                return removed;
            }
            let mut of_users: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
            for (&id, kept) in self.files.iter().filter(|(id, _)| !used(**id)) {
                let payer = subordinates.payer(kept.uid);
                let (much, _oldest) = of_users.entry(payer).or_insert((0, id));
                *much += if too_many { 1 } else { kept.bytes };
            }
            let most = of_users.into_iter().max_by_key(|(_, (much, _))| *much);
            let Some((_, (_, id))) = most else {
                return removed;
            };
            // One that is gone already is as good; one that stays is not counted any more.
            drop(self.path(id).map(fs::remove_file));
            self.files.remove(&id);
            removed.push(id);
        }
    }
}

fn path(directory: &Path, id: u32, uid: u32) -> PathBuf {
    directory.join(format!("{id}-{uid}{SUFFIX}"))
}

/// Number and user of a file name, as we write them.
fn numbers(name: &str) -> Option<(u32, u32)> {
    let (id, uid) = name.strip_suffix(SUFFIX)?.split_once('-')?;
    let numbers = (id.parse().ok()?, uid.parse().ok()?);
    (name == format!("{}-{}{SUFFIX}", numbers.0, numbers.1)).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    const ROOM: Room = Room {
        files: 4,
        bytes: 100,
    };

    fn ids(shelf: &Shelf) -> Vec<u32> {
        shelf.files().map(|(id, _)| id).collect()
    }

    #[test]
    fn it_is_there_again_after_a_start() {
        let scratch = Scratch::new("shelf");
        let directory = scratch.path().join("kept");
        let mut shelf = Shelf::open(directory.clone()).unwrap();
        shelf.create(3, 1000, "one\n").unwrap();
        shelf.append(3, "two\n").unwrap();
        shelf.create(3, 1000, "").unwrap_err();
        shelf.append(4, "").unwrap_err();
        fs::write(directory.join("note.txt"), "mine").unwrap();
        fs::write(directory.join("+4-0.jsonl"), "mine").unwrap();
        let shelf = Shelf::open(directory).unwrap();
        assert_eq!((ids(&shelf), shelf.last()), (vec![3], 3));
        assert_eq!(shelf.owner(3), Some(1000));
        let path = shelf.path(3).unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), "one\ntwo\n");
    }

    #[test]
    fn who_has_most_makes_room() {
        let scratch = Scratch::new("shelf-room");
        let mut shelf = Shelf::open(scratch.path().join("kept")).unwrap();
        for (id, uid) in [(1, 8), (2, 7), (3, 7), (4, 7), (5, 7)] {
            shelf.create(id, uid, "ten bytes\n").unwrap();
        }
        let nobody = Subordinates::default();
        assert_eq!(shelf.fit(ROOM, &nobody, |id| id == 2), [3]);
        // Who has many small files does not pay for another's large one.
        shelf.append(1, &"x".repeat(80)).unwrap();
        assert_eq!(shelf.fit(ROOM, &nobody, |_| false), [1]);
        assert_eq!(ids(&shelf), [2, 4, 5]);
        // What is used stays, whatever the room.
        let none = Room { files: 0, bytes: 0 };
        assert_eq!(shelf.fit(none, &nobody, |id| id == 5), [2, 4]);
        assert_eq!(shelf.last(), 5);
    }

    /// Each has one file, and the user to whom they belong has most.
    #[test]
    fn subordinate_users_make_room_for_their_owner() {
        let scratch = Scratch::new("shelf-subordinates");
        let mut shelf = Shelf::open(scratch.path().join("kept")).unwrap();
        for (id, uid) in [(1, 8), (2, 8), (3, 100_001), (4, 100_002), (5, 100_003)] {
            shelf.create(id, uid, "ten bytes\n").unwrap();
        }
        let subordinates = Subordinates::parse("7:100000:65536");
        assert_eq!(shelf.fit(ROOM, &subordinates, |_| false), [3]);
        assert!(!shelf.directory.join("3-100001.jsonl").exists());
    }
}
