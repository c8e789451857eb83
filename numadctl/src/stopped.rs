//! A program that stands still before its first instruction, so that it can be attached.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, io};

use control::{ErrorKind, Failure};
use nix::sys::signal::{Signal, kill, raise};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::output::Output;
use crate::trial::command::interrupted;
use crate::waiting::Waiting;

/// The word by which `numadctl` is told to stand still and then become what follows. A shell could
/// do that, but would leave variables out that it cannot name, such as `a.b` and functions that
/// bash exports.
const STAND_STILL: &str = "--stand-still";

/// How long it may take until it stands still.
const STOP_WAIT: Duration = Duration::from_secs(10);

/// The command that becomes this program when it is let go.
pub(crate) fn command(program: &Path, arguments: &[impl AsRef<OsStr>]) -> Command {
    // This very program, even where another has taken its place meanwhile.
    let mut command = Command::new("/proc/self/exe");
    command.arg(STAND_STILL).arg(program).args(arguments);
    command
}

/// Stops itself, is attached, and becomes the program when it is let go: same process, same start
/// time. So a run is under its policy from its first instruction, and time before that is not
/// counted. Comes back with an exit code, as a shell would give it, where there is no such program;
/// nothing if the arguments are no such order.
pub(crate) fn become_one(arguments: &[OsString], err: &mut Output<'_>) -> Option<u8> {
    let [_, word, program, rest @ ..] = arguments else {
        return None;
    };
    if word != STAND_STILL {
        return None;
    }
    take_name(Path::new(program));
    let failed = match raise(Signal::SIGSTOP) {
        Ok(()) => Command::new(program).args(rest).exec(),
        Err(error) => error.into(),
    };
    let program = program.display();
    drop(err.text(&format!("numadctl: cannot start `{program}`: {failed}\n")));
    Some(match failed.kind() {
        io::ErrorKind::NotFound => 127,
        _ => 126,
    })
}

/// From now on this process has the program's name, for one that ends soon is not looked at again
/// after its attach.
pub(crate) fn take_name(program: &Path) {
    if let Some(name) = program.file_name() {
        drop(fs::write("/proc/self/comm", name.as_encoded_bytes()));
    }
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
    // Ctrl-C of a terminal ends it too.
    if waiting.interrupted() {
        return Err(interrupted());
    }
    Err(Failure::new(
        ErrorKind::Kernel,
        "it did not stand still before the program's start",
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
