//! The command that an experiment is started with.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::process::{Child, ExitStatus};

use control::rows::Target;
use control::{ErrorKind, Failure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::commands::attach::find_program;
use crate::commands::compare::exit_code;
use crate::output::Output;
use crate::stopped;
use crate::waiting::{Waiting, Woken};

/// A program that was started, and stands still until its experiment begins.
#[derive(Debug)]
pub(super) struct Started {
    child: Child,
    name: String,
    /// Whether it stands still before its first instruction.
    held: bool,
    status: Option<ExitStatus>,
}

impl Started {
    /// Starts it. Its standard streams are ours.
    ///
    /// # Errors
    /// When there is no such program, or it cannot be started.
    pub(super) fn begin(words: &[OsString], waiting: &mut Waiting<'_>) -> Result<Self, Failure> {
        let (name, rest) = words.split_first().ok_or_else(|| {
            Failure::new(ErrorKind::Usage, "no command is given").remedy("name it after `--`")
        })?;
        let program = find_program(name)?;
        let child = stopped::command(&program, rest).spawn().map_err(|error| {
            let text = format!("cannot start `{}`: {error}", program.display());
            Failure::new(ErrorKind::Kernel, text)
        })?;
        // From here on it is ended with us, whatever goes wrong.
        let started = Self {
            child,
            name: name.to_string_lossy().into_owned(),
            held: true,
            status: None,
        };
        stopped::wait(started.pid(), waiting)?;
        Ok(started)
    }

    /// It, as the daemon is told.
    pub(super) fn target(&self) -> Target {
        Target::Pids(vec![self.child.id()])
    }

    /// Lets it run, if it does not yet.
    pub(super) fn let_go(&mut self) -> Result<(), Failure> {
        if self.held {
            stopped::let_go(self.pid())?;
            self.held = false;
        }
        Ok(())
    }

    /// Whether it has begun.
    pub(super) const fn runs(&self) -> bool {
        !self.held
    }

    /// Whether it has ended.
    pub(super) fn has_ended(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status.is_some()
    }

    /// Waits for its end, and gives its exit code. Signals go to it meanwhile, and so does the one that ended the
    /// experiment.
    pub(super) fn wait_for_end(
        mut self,
        waiting: &mut Waiting<'_>,
        err: &mut Output<'_>,
    ) -> Result<u8, Failure> {
        if !self.has_ended() {
            match waiting.signal() {
                Some(signal) => self.pass_on(signal),
                None => {
                    let name = &self.name;
                    let text = format!("numadctl: `{name}` goes on without numad to its end\n");
                    drop(err.text(&text));
                }
            }
        }
        let status = loop {
            if let Some(status) = self.status {
                break status;
            }
            match waiting.child(&mut self.child, None)? {
                Woken::Ended(status) => self.status = Some(status),
                Woken::Interrupted(signal) => self.pass_on(signal),
                Woken::Late => {}
            }
        };
        Ok(u8::try_from(exit_code(status)).unwrap_or(u8::MAX))
    }

    /// Ctrl-C of a terminal goes to the program as well; what goes to numadctl alone is passed on.
    fn pass_on(&self, signal: Signal) {
        if signal != Signal::SIGINT || !io::stdin().is_terminal() {
            let _gone_already = kill(self.pid(), signal);
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap_or(i32::MAX))
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if self.held && self.status.is_none() {
            // It has not begun.
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }
}
