//! `attach` and `run`.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process;

use control::rows::{AttachRequest, Attachment, Target, UndoReport};
use control::{ErrorKind, Failure};

use crate::cli::{Attach, Run, Under};
use crate::client::Client;
use crate::output::Output;
use crate::render;

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
    out.text(&render::attachment::attached(&row))
}

/// Attaches this very process, then becomes the command: process number and start time survive, so
/// the program is under its policy from its first instruction and there is no moment in which it
/// runs and is not.
pub(super) fn run(client: &Client, arguments: &Run) -> Result<(), Failure> {
    let (name, rest) = arguments.command.split_first().ok_or_else(|| {
        Failure::new(ErrorKind::Usage, "no command is given").remedy("name it after `--`")
    })?;
    // Looked up before anything is attached, so that a typo leaves nothing behind.
    let program = find_program(name)?;
    let request = request(Target::Pids(vec![process::id()]), &arguments.under)?;
    let row: Attachment = client.post("/v1/attachments", &request)?;
    let error = process::Command::new(&program).arg0(name).args(rest).exec();
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

fn request(target: Target, under: &Under) -> Result<AttachRequest, Failure> {
    let mut set = std::collections::BTreeMap::new();
    for (key, value) in &under.set {
        if set.insert(key.clone(), value.clone()).is_some() {
            return Err(Failure::new(
                ErrorKind::Usage,
                format!("setting `{key}` is given twice"),
            ));
        }
    }
    Ok(AttachRequest {
        target,
        policy: under.policy.clone(),
        set,
        dry_run: under.dry_run,
    })
}

/// What the shell would start: a path if there is a slash in it, else the first in `PATH`.
fn find_program(name: &OsStr) -> Result<PathBuf, Failure> {
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
            )),
            Err(error) => Err(Failure::new(
                ErrorKind::NotFound,
                format!("cannot start `{shown}`: {error}"),
            )),
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
