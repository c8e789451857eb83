//! `attach` and `run`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process;

use control::rows::{AttachRequest, Attachment, Target, UndoReport};
use control::{ErrorKind, Failure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use numad_core::published::METHOD;

use super::compare::exit_code;
use super::{history, mpi};

use crate::cli::{Attach, Run, Under};
use crate::client::Client;
use crate::fresh::why;
use crate::output::Output;
use crate::usage::given_once;
use crate::waiting::{Waiting, Woken};
use crate::{render, stopped};

pub(super) fn attach(
    client: &Client,
    arguments: &Attach,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let request = request(arguments.target(), &arguments.under)?;
    let row: Attachment = client.post("/v1/attachments", &request)?;
    if arguments.plain.json {
        return out.json(&row);
    }
    out.text(&render::attachment::attached(&row))?;
    match request.target {
        Target::Pids(_) => Ok(()),
        // Anyone may have a program of that name.
        _ => out.text(&format!("it is a program of user {}\n", row.uid)),
    }
}

/// Starts the program, waits for its end, and tells what was done and gained. Gives the program's exit code.
fn run_and_tell(client: &Client, arguments: &Run, err: &mut Output<'_>) -> Result<u8, Failure> {
    let (name, rest) = arguments.command.split_first().ok_or_else(no_command)?;
    let program = find_program(name)?;
    let cannot = |error: io::Error| {
        let program = program.display();
        Failure::new(
            ErrorKind::Kernel,
            format!("cannot start `{program}`: {error}"),
        )
    };
    let mut waiting = Waiting::new(client.runtime())?;
    let mut command = stopped::command(&program, rest);
    command.envs(with_mpi(client, arguments)?);
    let mut child = command.spawn().map_err(cannot)?;
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
    let attached = stopped::wait(pid, &mut waiting).and_then(|()| {
        let request = request(Target::Pids(vec![child.id()]), &arguments.under)?;
        Ok(client.post::<Attachment>("/v1/attachments", &request)?)
    });
    let row = match attached {
        Ok(row) => row,
        Err(failure) => {
            // It has not begun.
            drop(child.kill());
            drop(child.wait());
            return Err(failure);
        }
    };
    stopped::let_go(pid)?;
    let status = loop {
        match waiting.child(&mut child, None)? {
            Woken::Ended(status) => break status,
            // Ctrl-C of a terminal goes to the program as well; what goes to numadctl alone is passed on.
            Woken::Interrupted(Signal::SIGINT) if io::stdin().is_terminal() => {}
            Woken::Interrupted(signal) => {
                let _gone_already = kill(pid, signal);
            }
            Woken::Late => {}
        }
    };
    tell(client, row.id, err);
    let code = exit_code(status);
    Ok(u8::try_from(code).unwrap_or(u8::MAX))
}

/// What was done and gained. It has ended: whatever goes wrong here is not its failure.
fn tell(client: &Client, id: u32, err: &mut Output<'_>) {
    if let Some(story) = history::ended(client, id) {
        let gained = render::story::gained(&story.row);
        let line = format!("numadctl: {gained}; `numadctl report id:{id}` tells more\n");
        drop(err.text(&line));
    }
}

fn no_command() -> Failure {
    Failure::new(ErrorKind::Usage, "no command is given").remedy("name it after `--`")
}

/// Attaches this very process, then becomes the command: process number and start time survive, so
/// the program is under its policy from its first instruction and there is no moment in which it
/// runs and is not.
pub(super) fn run(client: &Client, arguments: &Run, err: &mut Output<'_>) -> Result<u8, Failure> {
    let in_terminal = || io::stderr().is_terminal() && !arguments.no_wait;
    if arguments.wait || in_terminal() {
        return run_and_tell(client, arguments, err);
    }
    let (name, rest) = arguments.command.split_first().ok_or_else(no_command)?;
    // Looked up before anything is attached, so that a typo leaves nothing behind.
    let program = find_program(name)?;
    let variables = with_mpi(client, arguments)?;
    let request = request(Target::Pids(vec![process::id()]), &arguments.under)?;
    stopped::take_name(&program);
    let row: Attachment = client.post("/v1/attachments", &request)?;
    let mut command = process::Command::new(&program);
    let error = command.arg0(name).args(rest).envs(variables).exec();
    // Only reached when the kernel refused: nobody is to stay attached.
    let taken_back: Result<UndoReport, _> = client.delete(&format!("/v1/attachments/{}", row.id));
    let failure = Failure::new(
        ErrorKind::Kernel,
        format!("cannot start `{}`: {error}", program.display()),
    );
    Err(match taken_back {
        Ok(_) => failure,
        Err(_) => failure.remedy(format!("detach with `numadctl detach id:{}`", row.id)),
    })
}

/// What `--mpi` adds to the environment of the program.
fn with_mpi(client: &Client, arguments: &Run) -> Result<Vec<(&'static str, OsString)>, Failure> {
    match arguments.mpi {
        true => Ok(mpi::environment(client.socket())?.into()),
        false => Ok(Vec::new()),
    }
}

fn request(target: Target, under: &Under) -> Result<AttachRequest, Failure> {
    given_once(&under.set)?;
    let mut set = BTreeMap::from_iter(under.set.clone());
    if under.as_published {
        set.insert(METHOD.to_owned(), "published".to_owned());
    }
    Ok(AttachRequest {
        target,
        policy: under.policy.clone(),
        set,
        dry_run: under.dry_run,
        for_ms: under.for_ms,
    })
}

/// What the shell would start: a path if there is a slash in it, else the first in `PATH`.
pub(super) fn find_program(name: &OsStr) -> Result<PathBuf, Failure> {
    let shown = Path::new(name).display();
    if name.as_encoded_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return match path.metadata() {
            Ok(metadata) if metadata.is_file() && metadata.permissions().mode() & 0o111 != 0 => {
                Ok(path)
            }
            Ok(_) => Err(Failure::new(
                ErrorKind::NotPermitted,
                format!("`{shown}` is no file that can be started"),
            )
            .remedy("name a program, or `chmod +x` it")),
            Err(error) => Err(Failure::new(
                ErrorKind::NotFound,
                format!("cannot start `{shown}`: {}", why(&error)),
            )
            .remedy("name a program that is there")),
        };
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(|path| {
            path.metadata().is_ok_and(|metadata| {
                metadata.is_file() && metadata.permissions().mode() & 0o111 != 0
            })
        })
        .ok_or_else(|| {
            Failure::new(
                ErrorKind::NotFound,
                format!("command `{shown}` is not found"),
            )
            .remedy("name it with its path")
        })
}
