//! The file of a feed: who may write there, and how it is opened without waiting for anybody.

use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, getsockopt, socket};
use nix::unistd::geteuid;

use crate::recording::{RecordingError, VERSION};

/// What a FIFO or socket shall hold: 100,000 samples of ten bytes, a tenth of a second at a million a second. It is
/// also the most that Linux gives a FIFO of an unprivileged process.
const CAPACITY: usize = 1 << 20;

/// What it holds at least, where the kernel gives no more.
const CAPACITY_LEAST: usize = 1 << 16;

/// Why a feed is not read.
#[derive(Debug)]
pub struct FeedError {
    /// Its path.
    pub path: PathBuf,
    /// Why.
    pub why: Unfit,
}

/// What is wrong with a feed.
#[derive(Debug)]
pub enum Unfit {
    /// Nothing is there.
    Missing,
    /// Neither a FIFO nor a Unix socket is there.
    Kind(&'static str),
    /// It belongs to a user who is neither root nor the daemon's.
    Foreign {
        /// Who.
        owner: u32,
    },
    /// Others than its owner may write there.
    Open {
        /// Its permissions.
        mode: u32,
    },
    /// No program listens on the socket.
    Silent,
    /// The kernel refuses.
    Kernel(io::Error),
    /// What came through it is no recording that can be read.
    Content(RecordingError),
    /// Its times are of another clock than the daemon's.
    Clock(String),
}

impl fmt::Display for FeedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot read samples from `{}`: ", self.path.display())?;
        match &self.why {
            Unfit::Missing => f.write_str("nothing is there"),
            Unfit::Kind(kind) => write!(f, "it is {kind}, not a FIFO or a Unix socket"),
            Unfit::Foreign { owner } => write!(
                f,
                "it belongs to user {owner}, who is neither root nor the user that numad runs as"
            ),
            Unfit::Open { mode } => write!(
                f,
                "others than its owner may write there (mode {:04o})",
                mode & 0o7777
            ),
            Unfit::Silent => f.write_str("no program listens on this socket"),
            Unfit::Kernel(error) => write!(f, "{error}"),
            Unfit::Content(error) => write!(f, "{error}"),
            Unfit::Clock(name) => {
                write!(f, "its times are of clock `{name}`, not `CLOCK_MONOTONIC`")
            }
        }
    }
}

impl std::error::Error for FeedError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.why {
            Unfit::Kernel(error) => Some(error),
            Unfit::Content(error) => Some(error),
            _ => None,
        }
    }
}

impl FeedError {
    /// What would help, as one imperative sentence without a full stop.
    #[must_use]
    pub fn remedy(&self) -> String {
        let path = self.path.display();
        match &self.why {
            Unfit::Missing | Unfit::Kind(_) => {
                format!("make a FIFO as root (mkfifo -m 600 {path}), or name another sampling.feed")
            }
            Unfit::Foreign { .. } => format!("chown root {path}"),
            Unfit::Open { .. } => format!("chmod go-w {path}"),
            Unfit::Silent => "start the program that writes samples there".to_owned(),
            Unfit::Kernel(_) => "name another sampling.feed".to_owned(),
            Unfit::Content(_) => {
                format!("have its writer follow docs/recording-format.md, version {VERSION}")
            }
            Unfit::Clock(_) => {
                "have its writer stamp samples with CLOCK_MONOTONIC, and say so".to_owned()
            }
        }
    }
}

/// What is at the path, if it may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Fifo,
    Socket,
}

/// Whether the feed could be opened, by the look of it.
///
/// # Errors
/// When nothing fit is there.
pub fn check(path: &Path) -> Result<(), FeedError> {
    look(path).map(drop).map_err(|why| FeedError {
        path: path.to_owned(),
        why,
    })
}

fn look(path: &Path) -> Result<Kind, Unfit> {
    let found = fs::symlink_metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Unfit::Missing,
        _ => Unfit::Kernel(error),
    })?;
    judge(&found, geteuid().as_raw())
}

/// Whoever may write to a feed decides where threads and memory go, so that must be root or ourselves alone.
fn judge(found: &Metadata, ourselves: u32) -> Result<Kind, Unfit> {
    let kind = found.file_type();
    let fit = if kind.is_fifo() {
        Kind::Fifo
    } else if kind.is_socket() {
        Kind::Socket
    } else {
        return Err(Unfit::Kind(match kind {
            kind if kind.is_dir() => "a directory",
            kind if kind.is_symlink() => "a symbolic link",
            kind if kind.is_file() => "a plain file",
            _ => "a device",
        }));
    };
    trust(found, ourselves).map(|()| fit)
}

fn trust(found: &Metadata, ourselves: u32) -> Result<(), Unfit> {
    if ![0, ourselves].contains(&found.uid()) {
        return Err(Unfit::Foreign { owner: found.uid() });
    }
    // Where there is an access control list, the bits of the group are the most that it gives anybody.
    if found.mode() & 0o022 != 0 {
        return Err(Unfit::Open { mode: found.mode() });
    }
    Ok(())
}

/// Whether root and ourselves are the only ones who may write to a file.
pub(crate) fn is_trusted(found: &Metadata) -> bool {
    trust(found, geteuid().as_raw()).is_ok()
}

/// An open feed. Reading it never waits.
#[derive(Debug)]
pub(super) struct Door {
    file: File,
    /// Bytes that it holds before its writer must wait.
    pub(super) capacity: usize,
    /// Whether a writer who goes is followed by the next through the same descriptor.
    pub(super) stays: bool,
}

impl Door {
    pub(super) fn open(path: &Path) -> Result<Self, Unfit> {
        match look(path)? {
            Kind::Fifo => Self::fifo(path),
            Kind::Socket => Self::socket(path),
        }
    }

    fn fifo(path: &Path) -> Result<Self, Unfit> {
        let flags = OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW | OFlag::O_NOCTTY;
        let file = {
            use std::os::unix::fs::OpenOptionsExt;
            File::options()
                .read(true)
                .custom_flags(flags.bits())
                .open(path)
        };
        let file = file.map_err(Unfit::Kernel)?;
        // It may be another file by now.
        let found = file.metadata().map_err(Unfit::Kernel)?;
        judge(&found, geteuid().as_raw())?;
        let capacity = fcntl(&file, FcntlArg::F_SETPIPE_SZ(CAPACITY_I32))
            .or_else(|_denied| fcntl(&file, FcntlArg::F_GETPIPE_SZ))
            .ok()
            .and_then(|bytes| usize::try_from(bytes).ok());
        Ok(Self {
            file,
            capacity: capacity.unwrap_or(CAPACITY_LEAST),
            stays: true,
        })
    }

    fn socket(path: &Path) -> Result<Self, Unfit> {
        let kernel = |errno: Errno| Unfit::Kernel(errno.into());
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let socket: OwnedFd =
            socket(AddressFamily::Unix, SockType::Stream, flags, None).map_err(kernel)?;
        let address = UnixAddr::new(path).map_err(kernel)?;
        connect(socket.as_raw_fd(), &address).map_err(|errno| match errno {
            Errno::ECONNREFUSED => Unfit::Silent,
            other => kernel(other),
        })?;
        // The file may be root's and the listener not, where somebody else may make files in its folder.
        let peer = getsockopt(&socket, PeerCredentials).map_err(kernel)?;
        if ![0, geteuid().as_raw()].contains(&peer.uid()) {
            return Err(Unfit::Foreign { owner: peer.uid() });
        }
        Ok(Self {
            file: File::from(socket),
            capacity: CAPACITY_LEAST,
            stays: false,
        })
    }

    /// As many bytes as there are, up to what fits; none if there are none yet, 0 if nobody writes.
    pub(super) fn read(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match self.file.read(into) {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// For a call that takes it so.
const CAPACITY_I32: i32 = 1 << 20;
const _: () = assert!(CAPACITY_I32 as usize == CAPACITY);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_write_is_root_or_ourselves() {
        let here = fs::metadata("/").unwrap();
        assert!(matches!(judge(&here, 0), Err(Unfit::Kind("a directory"))));
        let null = fs::metadata("/dev/null").unwrap();
        assert!(matches!(judge(&null, 0), Err(Unfit::Kind("a device"))));
        let error = FeedError {
            path: "/run/x".into(),
            why: Unfit::Open { mode: 0o10_622 },
        };
        assert_eq!(
            error.to_string(),
            "cannot read samples from `/run/x`: others than its owner may write there (mode 0622)"
        );
    }
}
