//! The socket file: made, taken over when stale, removed.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use control::{ErrorKind, Failure};
use nix::fcntl::OFlag;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, connect, listen, socket,
};
use nix::sys::stat::Mode;

use crate::peer::Access;
use crate::trusted::Trust;

/// Connections that wait to be accepted; the kernel cuts it to what it allows (`net.core.somaxconn`).
/// A client that does not wait is turned away by the kernel when these are used up. While users connect too fast, everyone
/// but admins waits until all before are turned away: half a second.
const WAITING_MAX: i32 = 2048;

/// Whom a socket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Whoever may ask.
    Everyone,
    /// Root and the admin group: nobody else can connect, so nobody else can crowd it.
    Admins,
}

/// A listening socket that takes its file with it.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    audience: Audience,
    /// The file itself, whatever its name leads to by now.
    file: OwnedFd,
    inode: (u64, u64),
}

impl Socket {
    /// Listens at `path`, with the permissions that `access` asks for.
    ///
    /// A socket file that nobody listens on any more is taken over.
    ///
    /// # Errors
    /// When someone listens there, something else lies there, or the kernel refuses.
    pub fn listen(
        path: &Path,
        audience: Audience,
        access: &Access,
    ) -> Result<(Self, UnixListener), Failure> {
        make_room(path)?;
        let listener = UnixListener::bind(path).map_err(|error| refused(path, &error))?;
        let (file, inode) = listener
            .set_nonblocking(true)
            .and_then(|()| Ok(listen(&listener, Backlog::new(WAITING_MAX)?)?))
            .and_then(|()| held(path))
            .map_err(|error| refused(path, &error))?;
        let socket = Self {
            path: path.to_owned(),
            audience,
            file,
            inode,
        };
        // Bound with the process's own umask, so never wider than this makes it, but for a umask of
        // zero; and then the peers' credentials still decide.
        socket.open_to(access)?;
        Ok((socket, listener))
    }

    /// Refuses a path where a daemon listens, and touches nothing.
    ///
    /// # Errors
    /// When someone listens there. Whatever else keeps one from listening is found by
    /// [`Self::listen`].
    pub fn must_be_free(path: &Path) -> Result<(), Failure> {
        match is_listened_on(path) {
            Ok(true) => Err(taken(path)),
            Ok(false) | Err(_) => Ok(()),
        }
    }

    /// Gives the file the permissions that `access` asks for.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn open_to(&self, access: &Access) -> Result<(), Failure> {
        let (mode, group) = match self.audience {
            Audience::Everyone => access.socket_mode(),
            Audience::Admins => access.admin_mode(),
        };
        // A descriptor without rights is not changed itself; this name leads to what it holds.
        let held = PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()));
        if group.is_some() {
            nix::unistd::chown(&held, None, group)
                .map_err(|errno| refused(&self.path, &io::Error::from(errno)))?;
        }
        fs::set_permissions(&held, fs::Permissions::from_mode(mode))
            .map_err(|error| refused(&self.path, &error))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Removes the file, unless another daemon has put its own there.
impl Drop for Socket {
    fn drop(&mut self) {
        let found = fs::symlink_metadata(&self.path);
        if found.is_ok_and(|found| (found.dev(), found.ino()) == self.inode) {
            // Left behind it is merely stale, and the next start takes it over.
            drop(fs::remove_file(&self.path));
        }
    }
}

/// The socket file at `path`, held without following a link, and its device and number.
fn held(path: &Path) -> io::Result<(OwnedFd, (u64, u64))> {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let file = nix::fcntl::open(path, flags, Mode::empty())?;
    // Follows no further than to what is held.
    let found = fs::metadata(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    if !found.file_type().is_socket() || found.uid() != nix::unistd::geteuid().as_raw() {
        return Err(io::Error::other("another file has taken its place"));
    }
    Ok((file, (found.dev(), found.ino())))
}

/// Makes the directory, and takes away a stale socket. The directory must be one where nobody else can
/// put another file in the socket's place.
fn make_room(path: &Path) -> Result<(), Failure> {
    Trust::of_this_process()
        .place_of(path)
        .map_err(|distrust| {
            let message = format!("cannot listen on `{}`: {distrust}", path.display());
            Failure::new(ErrorKind::Prerequisite, message)
                .remedy("name a --socket in a directory that nobody but root or numad can change")
        })?;
    if let Some(directory) = path
        .parent()
        .filter(|directory| !directory.as_os_str().is_empty())
    {
        fs::create_dir_all(directory).map_err(|error| refused(path, &error))?;
    }
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(refused(path, &error)),
    };
    if !found.file_type().is_socket() {
        let message = format!(
            "cannot listen on `{}`: it is there and is no socket",
            path.display()
        );
        return Err(Failure::new(ErrorKind::Conflict, message).remedy("remove it or name another"));
    }
    match is_listened_on(path) {
        Ok(true) => Err(taken(path)),
        Ok(false) => fs::remove_file(path).map_err(|error| refused(path, &error)),
        Err(error) => Err(refused(path, &error)),
    }
}

/// Whether somebody listens at a socket file.
fn is_listened_on(path: &Path) -> io::Result<bool> {
    match connect_at_once(path) {
        Ok(_) => Ok(true),
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock => Ok(true),
            io::ErrorKind::ConnectionRefused => Ok(false),
            _ => Err(error),
        },
    }
}

/// Connects without waiting for a place in the queue of one who hangs, and accepts no connections.
///
/// # Errors
/// `WouldBlock` when there is no place; else those of `connect`.
pub(crate) fn connect_at_once(path: &Path) -> io::Result<UnixStream> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let client = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(client.as_raw_fd(), &UnixAddr::new(path)?)?;
    let stream = UnixStream::from(client);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

fn taken(path: &Path) -> Failure {
    let message = format!("another daemon listens on `{}`", path.display());
    let remedy = "stop it, or start this one with another --socket";
    Failure::new(ErrorKind::Conflict, message).remedy(remedy)
}

fn refused(path: &Path, error: &io::Error) -> Failure {
    let message = format!("cannot listen on `{}`: {error}", path.display());
    let remedy = match error.kind() {
        io::ErrorKind::PermissionDenied => "start as root, or name a --socket you may write",
        // Paths have 107 bytes, and `.admin` stands behind this one.
        io::ErrorKind::InvalidInput => "name a --socket of at most 101 bytes",
        _ => "name another --socket",
    };
    Failure::new(ErrorKind::Prerequisite, message).remedy(remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn a_stale_socket_is_taken_over_and_a_live_one_is_not() {
        let scratch = Scratch::new("socket");
        let path = scratch.path().join("deep/numad.sock");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        Socket::must_be_free(&path).unwrap();
        drop(UnixListener::bind(&path).unwrap());
        Socket::must_be_free(&path).unwrap();
        assert!(path.exists(), "a listener of std leaves its file");

        let (socket, _listener) =
            Socket::listen(&path, Audience::Everyone, &Access::default()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o666);
        let refused = Socket::listen(&path, Audience::Everyone, &Access::default()).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Conflict);
        assert!(refused.message.contains("numad.sock"), "{refused}");
        assert_eq!(Socket::must_be_free(&path).unwrap_err(), refused);
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn who_hangs_with_a_full_queue_is_there() {
        let scratch = Scratch::new("socket-full");
        let path = scratch.path().join("numad.sock");
        let (_socket, listener) =
            Socket::listen(&path, Audience::Everyone, &Access::default()).unwrap();
        listen(&listener, Backlog::new(1).unwrap()).unwrap();
        let waiting = [(); 2].map(|()| UnixStream::connect(&path).unwrap());
        let refused = Socket::must_be_free(&path).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Conflict);
        drop(waiting);
    }

    /// A link in its place must not lend the socket's permissions to what it leads to.
    #[test]
    fn permissions_reach_the_socket_itself_alone() {
        let scratch = Scratch::new("socket-link");
        let path = scratch.path().join("numad.sock");
        let secret = scratch.path().join("secret");
        fs::write(&secret, "").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        let (socket, _listener) =
            Socket::listen(&path, Audience::Everyone, &Access::default()).unwrap();
        let moved = scratch.path().join("moved");
        fs::rename(&path, &moved).unwrap();
        std::os::unix::fs::symlink(&secret, &path).unwrap();
        fs::set_permissions(&moved, fs::Permissions::from_mode(0o600)).unwrap();
        socket.open_to(&Access::default()).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&secret), mode(&moved)), (0o600, 0o666));
        drop(socket);
        assert!(fs::symlink_metadata(&path).is_ok(), "the link is not ours");
    }

    #[test]
    fn a_directory_of_everyone_is_no_place() {
        let scratch = Scratch::new("socket-place");
        let folder = scratch.path().join("open");
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        let refused = Socket::listen(
            &folder.join("numad.sock"),
            Audience::Everyone,
            &Access::default(),
        )
        .unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Prerequisite);
        assert!(refused.message.contains("everyone"), "{refused}");
    }

    #[test]
    fn a_file_in_the_way_stays() {
        let scratch = Scratch::new("socket-file");
        let path = scratch.path().join("numad.sock");
        fs::write(&path, "mine").unwrap();
        let refused = Socket::listen(&path, Audience::Everyone, &Access::default()).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Conflict);
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    }

    #[test]
    fn a_path_too_long_is_told() {
        let scratch = Scratch::new("socket-long");
        let path = scratch.path().join("x".repeat(120));
        let refused = Socket::listen(&path, Audience::Everyone, &Access::default()).unwrap_err();
        assert!(refused.remedy.contains("101"), "{refused}");
        // With a name of that length there is room for the socket of admins.
        let longest = format!("/{}", "x".repeat(100));
        let admins = control::admin_socket(Path::new(&longest));
        std::os::unix::net::SocketAddr::from_pathname(admins).unwrap();
    }

    #[test]
    fn only_our_own_file_is_removed() {
        let scratch = Scratch::new("socket-other");
        let path = scratch.path().join("numad.sock");
        let (socket, _listener) =
            Socket::listen(&path, Audience::Everyone, &Access::default()).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "other").unwrap();
        drop(socket);
        assert!(path.exists());
    }
}
