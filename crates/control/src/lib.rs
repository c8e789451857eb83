//! What goes over the socket: rows of plain data, the error that every request may end in, and the
//! paths. Depends on nothing of ours; numbers are plain here because JSON has no other kind.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

pub mod decode;
pub mod error;
pub mod experiment;
pub mod external;
pub mod plan;
pub mod profile;
pub mod rows;
pub mod story;

pub use error::{ErrorBody, ErrorKind, Failure, changes_display};

/// Where the daemon listens unless told otherwise.
pub const SOCKET_DEFAULT: &str = "/run/numad/numad.sock";

/// Where the daemon listens for root and the admin group alone: beside the socket for everyone.
#[must_use]
pub fn admin_socket(socket: &Path) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(".admin");
    PathBuf::from(name)
}

/// Where the daemon gives MPI programs the rows that they count in: beside the socket for everyone.
#[must_use]
pub fn mpi_socket(socket: &Path) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(".mpi");
    PathBuf::from(name)
}

/// Environment variable that names it to MPI programs.
pub const MPI_SOCKET_VARIABLE: &str = "NUMAD_MPI_SOCKET";

/// Environment variable that names another socket, for both programs.
pub const SOCKET_VARIABLE: &str = "NUMAD_SOCKET";

/// Header of the answer that is a recording: its number.
pub const RECORDING_HEADER: &str = "numad-recording";
