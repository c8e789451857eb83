//! A program that stands still before its first instruction, so that it can be attached.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use control::{ErrorKind, Failure};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::trial::command::interrupted;
use crate::waiting::Waiting;

/// The shell stops itself, is attached, and becomes the command when it is let go: same process, same start time. So a
/// run is under its policy from its first instruction, and time before that is not counted.
const STOPPED: &str = "kill -STOP \"$$\"; exec \"$0\" \"$@\"";

/// How long the shell may take to stop itself.
const STOP_WAIT: Duration = Duration::from_secs(10);

/// The command that becomes this program when it is let go.
pub(crate) fn command(program: &Path, arguments: &[impl AsRef<OsStr>]) -> Command {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(STOPPED).arg(program).args(arguments);
    command
}

/// Waits until the program stands still.
///
/// # Errors
/// When it does not, or someone wants to wait no longer.
pub(crate) fn wait(pid: Pid, waiting: &mut Waiting<'_>) -> Result<(), Failure> {
    let until = Instant::now() + STOP_WAIT;
    while Instant::now() < until {
        let flags = WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED;
        match waitpid(pid, Some(flags)) {
            Ok(WaitStatus::Stopped(_, _)) => return Ok(()),
            Ok(WaitStatus::StillAlive) => {}
            Ok(_) | Err(_) => break,
        }
        if !waiting.until(Instant::now() + Duration::from_millis(1)) {
            return Err(interrupted());
        }
    }
    Err(Failure::new(
        ErrorKind::Kernel,
        "`/bin/sh` did not stop before the program's start",
    ))
}

/// Lets it go.
///
/// # Errors
/// When it is gone.
pub(crate) fn let_go(pid: Pid) -> Result<(), Failure> {
    kill(pid, Signal::SIGCONT).map_err(|error| {
        Failure::new(
            ErrorKind::Kernel,
            format!("cannot let the program go: {error}"),
        )
    })
}
