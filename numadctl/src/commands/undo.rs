//! `detach` and `undo`.

use control::rows::{UndoReport, UndoRequest};
use control::{ErrorKind, Failure};
use hyper::Method;

use crate::cli::{One, Plain, Undo};
use crate::client::{CallError, Client};
use crate::output::Output;
use crate::{find, render};

pub(super) fn detach(
    client: &Client,
    arguments: &One,
    out: &mut Output<'_>,
    err: &mut Output<'_>,
) -> Result<(), Failure> {
    let id = find::attachment(client, arguments.which)?;
    let path = format!("/v1/attachments/{id}");
    let report = client.undone(&Method::DELETE, &path, None, &mut |left| tell(left, err))?;
    give(&report, arguments.plain, out)
}

pub(super) fn undo(
    client: &Client,
    arguments: &Undo,
    out: &mut Output<'_>,
    err: &mut Output<'_>,
) -> Result<(), Failure> {
    let pid = arguments.pid();
    let request = UndoRequest {
        pid,
        all: pid.is_none(),
    };
    let report = client.undone(&Method::POST, "/v1/undo", Some(&request), &mut |left| {
        tell(left, err)
    });
    let report = report.map_err(|error| match error {
        CallError::Down(failure) => Failure {
            remedy: "without a daemon `numad --undo` puts back what its journal holds".to_owned(),
            ..failure
        },
        CallError::Failed(failure) => failure,
    })?;
    give(&report, arguments.plain, out)
}

fn tell(left: u64, err: &mut Output<'_>) -> Result<(), Failure> {
    let left = render::units::count(left, "change");
    err.text(&format!("numadctl: putting back; {left} left\n"))
}

fn give(report: &UndoReport, plain: Plain, out: &mut Output<'_>) -> Result<(), Failure> {
    if plain.json {
        out.json(report)?;
    } else {
        out.text(&render::attachment::undone(report))?;
    }
    match report.failed.len() {
        0 => Ok(()),
        1 => Err(Failure::new(
            ErrorKind::Kernel,
            "1 change could not be undone",
        )),
        count => Err(Failure::new(
            ErrorKind::Kernel,
            format!("{count} changes could not be undone"),
        )),
    }
}
