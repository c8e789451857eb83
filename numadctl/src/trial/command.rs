//! Metrics that a command prints.
//!
//! Commands run as whoever runs numadctl, never as the daemon: the daemon is root and would run them with rights that
//! the user does not have.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use control::{ErrorKind, Failure};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::waiting::{Waiting, Woken};

/// Longest that a metric's command may take.
const TIME_MAX: Duration = Duration::from_secs(10);

/// Longest number that a command may print, with white space around it.
const PRINTED_BYTES_MAX: usize = 256;

/// Runs a metric's command in a shell and reads the number that it prints.
///
/// # Errors
/// When it cannot be started, ends with a failure, takes too long, or prints anything but one finite number. What it
/// started is ended then. `Busy` when someone interrupts the wait.
pub(crate) fn ask(command: &str, waiting: &mut Waiting<'_>) -> Result<f64, Failure> {
    let wrong = |what: &str| {
        Failure::new(ErrorKind::Program, format!("metric `{command}` {what}"))
            .remedy("it must print one number within 10 s and end with code 0")
    };
    let mut printed =
        nameless_file().map_err(|error| wrong(&format!("has nowhere to print to: {error}")))?;
    let output = printed
        .try_clone()
        .map_err(|error| wrong(&format!("has nowhere to print to: {error}")))?;
    let mut child = Command::new("/bin/sh")
        .arg("-c")
        .arg(command)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|error| wrong(&format!("cannot be started: {error}")))?;
    let group = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
    let woken = waiting.child(&mut child, Some(TIME_MAX));
    let Ok(Woken::Ended(status)) = woken else {
        // All of the shell's, or a hanging command would outlive it.
        let _gone_already = killpg(group, Signal::SIGKILL);
        drop(child.wait());
        return Err(match woken? {
            Woken::Interrupted(_) => interrupted(),
            _ => wrong("did not end within 10 s"),
        });
    };
    if !status.success() {
        // Ctrl-C reaches the command too, if it comes before that has a group of its own.
        if waiting.interrupted() {
            return Err(interrupted());
        }
        return Err(wrong(&format!("ended with {status}")));
    }
    let mut text = Vec::new();
    let read = printed.rewind().and_then(|()| {
        printed
            .take(PRINTED_BYTES_MAX as u64 + 1)
            .read_to_end(&mut text)
    });
    read.map_err(|error| wrong(&format!("cannot be read: {error}")))?;
    number(&text).map_err(|what| wrong(&what))
}

/// What is said when someone ends the waiting.
pub(crate) fn interrupted() -> Failure {
    Failure::new(ErrorKind::Busy, "interrupted")
}

/// The one number in what a command printed.
fn number(printed: &[u8]) -> Result<f64, String> {
    let text = String::from_utf8_lossy(printed);
    let text = text.trim();
    if text.is_empty() {
        return Err("printed nothing".to_owned());
    }
    let quoted: String = text
        .chars()
        .take(40)
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    let number: f64 = match text.parse() {
        Ok(number) if printed.len() <= PRINTED_BYTES_MAX => number,
        _ => return Err(format!("printed `{quoted}`, which is no number")),
    };
    if number.is_finite() {
        Ok(number)
    } else {
        Err(format!("printed `{quoted}`, which is not finite"))
    }
}

/// A file without a name, for output of any length that nobody reads while it comes.
pub(crate) fn nameless_file() -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let unique = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos());
    let path = std::env::temp_dir().join(format!(".numadctl-{}-{unique}", std::process::id()));
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_number_is_one() {
        assert_eq!(number(b" 12.5\n"), Ok(12.5));
        assert_eq!(number(b"1e3"), Ok(1000.0));
        for (text, part) in [
            (b"".as_slice(), "nothing"),
            (b"12 13", "no number"),
            (b"fast", "no number"),
            (b"NaN", "not finite"),
            (b"inf", "not finite"),
            (b"\xff\x1b[2J", "no number"),
        ] {
            let told = number(text).unwrap_err();
            assert!(told.contains(part) && !told.contains('\u{1b}'), "{told}");
        }
    }
}
