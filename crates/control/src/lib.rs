//! What goes over the socket: rows of plain data, the error that every request may end in, and the
//! paths. Depends on nothing of ours; numbers are plain here because JSON has no other kind.

#![forbid(unsafe_code)]

pub mod decode;
pub mod error;
pub mod rows;

pub use error::{ErrorBody, ErrorKind, Failure};

/// Where the daemon listens unless told otherwise.
pub const SOCKET_DEFAULT: &str = "/run/numad/numad.sock";

/// Environment variable that names another socket, for both programs.
pub const SOCKET_VARIABLE: &str = "NUMAD_SOCKET";

/// Header of the answer that is a recording: its number.
pub const RECORDING_HEADER: &str = "numad-recording";
