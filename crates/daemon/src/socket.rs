//! The socket file: made, taken over when stale, removed.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use control::{ErrorKind, Failure};

use crate::peer::Access;

/// A listening socket that takes its file with it.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    inode: u64,
}

impl Socket {
    /// Listens at `path`, with the permissions that `access` asks for.
    ///
    /// A socket file that nobody listens on any more is taken over.
    ///
    /// # Errors
    /// When someone listens there, something else lies there, or the kernel refuses.
    pub fn listen(path: &Path, access: &Access) -> Result<(Self, UnixListener), Failure> {
        make_room(path)?;
        let listener = UnixListener::bind(path).map_err(|error| refused(path, &error))?;
        let inode = listener
            .set_nonblocking(true)
            .and_then(|()| fs::metadata(path))
            .map_err(|error| refused(path, &error))?
            .ino();
        let socket = Self {
            path: path.to_owned(),
            inode,
        };
        // Bound with the process's own umask, so never wider than this makes it, but for a umask of
        // zero; and then the peers' credentials still decide.
        socket.open_to(access)?;
        Ok((socket, listener))
    }

    /// Gives the file the permissions that `access` asks for.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn open_to(&self, access: &Access) -> Result<(), Failure> {
        let (mode, group) = access.socket_mode();
        if group.is_some() {
            nix::unistd::chown(&self.path, None, group)
                .map_err(|errno| refused(&self.path, &io::Error::from(errno)))?;
        }
        fs::set_permissions(&self.path, fs::Permissions::from_mode(mode))
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
        if fs::metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            // Left behind it is merely stale, and the next start takes it over.
            drop(fs::remove_file(&self.path));
        }
    }
}

/// Makes the directory, and takes away a stale socket.
fn make_room(path: &Path) -> Result<(), Failure> {
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
    match UnixStream::connect(path) {
        Ok(_) => {
            let message = format!("another daemon listens on `{}`", path.display());
            let remedy = "stop it, or start this one with another --socket";
            Err(Failure::new(ErrorKind::Conflict, message).remedy(remedy))
        }
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|error| refused(path, &error))
        }
        Err(error) => Err(refused(path, &error)),
    }
}

fn refused(path: &Path, error: &io::Error) -> Failure {
    let message = format!("cannot listen on `{}`: {error}", path.display());
    let remedy = match error.kind() {
        io::ErrorKind::PermissionDenied => "start as root, or name a --socket you may write",
        io::ErrorKind::InvalidInput => "name a --socket of at most 107 bytes",
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
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "a listener of std leaves its file");

        let (socket, _listener) = Socket::listen(&path, &Access::default()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o666);
        let refused = Socket::listen(&path, &Access::default()).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Conflict);
        assert!(refused.message.contains("numad.sock"), "{refused}");
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_in_the_way_stays() {
        let scratch = Scratch::new("socket-file");
        let path = scratch.path().join("numad.sock");
        fs::write(&path, "mine").unwrap();
        let refused = Socket::listen(&path, &Access::default()).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Conflict);
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    }

    #[test]
    fn a_path_too_long_is_told() {
        let scratch = Scratch::new("socket-long");
        let path = scratch.path().join("x".repeat(120));
        let refused = Socket::listen(&path, &Access::default()).unwrap_err();
        assert!(refused.remedy.contains("107"), "{refused}");
    }

    #[test]
    fn only_our_own_file_is_removed() {
        let scratch = Scratch::new("socket-other");
        let path = scratch.path().join("numad.sock");
        let (socket, _listener) = Socket::listen(&path, &Access::default()).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "other").unwrap();
        drop(socket);
        assert!(path.exists());
    }
}
