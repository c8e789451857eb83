//! `history`, and what other commands show of attachments that have ended.

use control::rows::UndoReport;
use control::story::{Story, StoryRow};
use control::{ErrorKind, Failure};

use crate::cli::{Plain, Which};
use crate::client::{CallError, Client};
use crate::output::Output;
use crate::{render, terminal};

pub(super) fn history(client: &Client, plain: Plain, out: &mut Output<'_>) -> Result<(), Failure> {
    let rows: Vec<StoryRow> = client.get("/v1/history")?;
    match plain.json {
        true => out.json(&rows),
        false => out.text(&render::story::list(&rows, terminal::columns(0))),
    }
}

/// The story of this number.
pub(super) fn story(client: &Client, id: u32) -> Result<Story, CallError> {
    client.get(&format!("/v1/history/{id}"))
}

/// What is kept of an attachment whose program has ended, if anything is.
pub(super) fn ended(client: &Client, id: u32) -> Option<Story> {
    // Ends the attachment, if the daemon has not seen yet that the program did.
    drop(client.delete::<UndoReport>(&format!("/v1/attachments/{id}")));
    story(client, id).ok()
}

/// The story that is meant, where no such attachment was found any more; else why that was not found.
pub(super) fn instead(client: &Client, which: Which, failure: Failure) -> Result<Story, Failure> {
    match which {
        Which::Either(id) | Which::Id(id) if failure.kind == ErrorKind::NotFound => {
            story(client, id).map_err(|_not_kept| failure)
        }
        _ => Err(failure),
    }
}
