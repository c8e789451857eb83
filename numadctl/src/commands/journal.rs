//! `journal`.

use std::io;
use std::path::Path;

use actuator::journal;
use actuator::{JournalLimits, OpenError};
use control::rows::JournalReport;
use control::{ErrorKind, Failure};
use procfs::{Presence, Reader};

use super::state_directory;
use crate::cli::Journal;
use crate::client::{CallError, Client};
use crate::output::Output;
use crate::render;

pub(super) fn journal(
    client: &Client,
    arguments: &Journal,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let report = if arguments.offline {
        offline(&state_directory(arguments.state_dir.as_deref())?)?
    } else {
        client.get("/v1/journal").map_err(|error| match error {
            CallError::Down(failure) => Failure {
                remedy: format!(
                    "{}; `numadctl journal --offline` reads the file",
                    failure.remedy
                ),
                ..failure
            },
            CallError::Failed(failure) => failure,
        })?
    };
    if arguments.plain.json {
        return out.json(&report);
    }
    // Who else is an admin of the daemon only the daemon knows.
    let all = arguments.offline || nix::unistd::geteuid().is_root();
    out.text(&render::journal::text(&report, all))
}

/// What the file says, with the names of processes that live.
fn offline(directory: &Path) -> Result<JournalReport, Failure> {
    let reader = Reader::new("/");
    let boot = reader
        .boot_id()
        .map_err(|error| Failure::new(ErrorKind::Prerequisite, error.to_string()))?;
    let (contents, found) = journal::read(directory, &boot, JournalLimits::default())
        .map_err(|error| unreadable(&error))?;
    let now = reader.now().ok();
    let mut report = contents.report(&|since| Some(procfs::age(since, now?)));
    for row in &mut report.processes {
        let process = reader.process(topology::Pid(row.pid));
        if let Ok(Presence::Here(process)) = process
            && (row.start == 0 || process.start.0 == row.start)
        {
            row.command = Some(process.name);
        }
    }
    Ok(JournalReport {
        directory: directory.display().to_string(),
        damaged: found.damaged,
        stale: found.stale,
        ..report
    })
}

fn unreadable(error: &OpenError) -> Failure {
    let OpenError::Io(path, source) = error else {
        return Failure::new(ErrorKind::Prerequisite, error.to_string());
    };
    let path = path.display();
    match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            Failure::new(ErrorKind::NotFound, format!("there is no journal `{path}`"))
                .remedy("name the --state-dir of the daemon")
        }
        io::ErrorKind::PermissionDenied => {
            let message = format!("you may not read the journal `{path}`");
            Failure::new(ErrorKind::NotPermitted, message).remedy("read it as root")
        }
        _ => Failure::new(
            ErrorKind::Kernel,
            format!("cannot read the journal `{path}`: {source}"),
        ),
    }
}
