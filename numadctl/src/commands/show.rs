//! `status`, `explain` and `matrix`.

use std::time::Duration;

use control::rows::{self, AttachmentDetail, EventRow};
use control::story::Story;
use control::{ErrorKind, Failure};

use crate::cli::{Explain, Form, Matrix, Status, Which, Window};
use crate::client::Client;
use crate::output::Output;
use crate::{find, render, terminal};

use super::{history, write_drawing};

/// Moves the cursor home and clears what is below.
const CLEAR: &str = "\x1b[H\x1b[J";

pub(super) fn status(
    client: &Client,
    arguments: &Status,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    use std::io::IsTerminal;
    let redraw = arguments.watch && !arguments.plain.json && std::io::stdout().is_terminal();
    let mut left = match arguments.count {
        _ if !arguments.watch => Some(1),
        count => count,
    };
    loop {
        let mut status: rows::Status = client.get("/v1/status")?;
        if let Some(which) = arguments.which {
            let id = find::choose(&status.attachments, which)?;
            status.attachments.retain(|row| row.id == id);
        }
        if arguments.plain.json {
            out.json(&status)?;
        } else {
            if redraw {
                out.raw(CLEAR)?;
            }
            out.text(&render::status::text(&status, terminal::columns(0)))?;
        }
        left = left.map(|left| left.saturating_sub(1));
        if left == Some(0) || out.closed() {
            return Ok(());
        }
        if !arguments.plain.json && !redraw {
            out.text("\n")?;
        }
        std::thread::sleep(Duration::from_secs(arguments.every));
    }
}

pub(super) fn explain(
    client: &Client,
    arguments: &Explain,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let which = arguments.one.which;
    let found = find::attachment(client, which)
        .and_then(|id| Ok((id, client.get(&format!("/v1/attachments/{id}"))?)));
    let found = match found {
        Err(failure) => match history::instead(client, which, failure) {
            Ok(story) => return explain_story(story, arguments, out),
            Err(failure) => Err(failure),
        },
        found => found,
    };
    let (id, detail): (u32, Option<AttachmentDetail>) = match (found, which) {
        (Ok((id, detail)), _) => (id, Some(detail)),
        // What was done to a program that has ended is remembered for a while, by its number.
        (Err(failure), Which::Either(id) | Which::Id(id))
            if failure.kind == ErrorKind::NotFound && events(client, id, 1).is_ok() =>
        {
            (id, None)
        }
        (Err(failure), _) => return Err(failure),
    };
    let events = events(client, id, arguments.last)?;
    if arguments.one.plain.json {
        return out.json(&serde_json::json!({ "detail": detail, "events": events }));
    }
    match detail {
        Some(detail) if arguments.brief => {
            out.text(&render::explain::brief(&detail, &events, terminal::prose()))
        }
        Some(detail) => out.text(&render::explain::text(&detail, &events, terminal::prose())),
        None => out.text(&render::explain::ended(id, &events, terminal::prose())),
    }
}

fn explain_story(
    mut story: Story,
    arguments: &Explain,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let last = usize::try_from(arguments.last).unwrap_or(usize::MAX);
    story
        .events
        .drain(..story.events.len().saturating_sub(last));
    if arguments.one.plain.json {
        let (detail, events) = (&story.detail, &story.events);
        return out.json(&serde_json::json!({ "detail": detail, "events": events }));
    }
    let width = terminal::prose();
    match arguments.brief {
        true => out.text(&render::wrap::paragraph(
            &render::story::gained(&story.row),
            width,
        )),
        false => out.text(&render::story::text(&story, width)),
    }
}

fn events(client: &Client, id: u32, last: u32) -> Result<Vec<EventRow>, Failure> {
    Ok(client.get(&format!("/v1/attachments/{id}/events?last={last}"))?)
}

/// The matrix that is kept of an attachment that has ended.
fn kept(story: Story, window: Window) -> Result<rows::Matrix, Failure> {
    let id = story.row.id;
    if window != Window::Decayed {
        let text =
            format!("attachment `{id}` has ended, and `decayed` alone is kept of its matrices");
        return Err(Failure::new(ErrorKind::NotFound, text).remedy("leave `--window` out"));
    }
    story.matrix.ok_or_else(|| {
        let text = format!("no matrix is kept of attachment `{id}`");
        Failure::new(ErrorKind::NotFound, text)
            .remedy(format!("`numadctl explain id:{id}` shows what is"))
    })
}

pub(super) fn matrix(
    client: &Client,
    arguments: &Matrix,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let word = arguments.window.word();
    let found = find::attachment(client, arguments.which).and_then(|id| {
        let matrix = client.get(&format!("/v1/attachments/{id}/matrix?window={word}"))?;
        Ok((id, matrix))
    });
    let (id, matrix): (u32, rows::Matrix) = match found {
        Ok(found) => found,
        Err(failure) => {
            let story = history::instead(client, arguments.which, failure)?;
            (story.row.id, kept(story, arguments.window)?)
        }
    };
    if !render::matrix::is_square(&matrix) {
        return Err(Failure::new(
            ErrorKind::Internal,
            format!("the matrix of attachment `{id}` is not square"),
        )
        .remedy("check that numad and numadctl have the same version"));
    }
    match arguments.form() {
        Form::Json => out.json(&matrix),
        Form::Csv => out.text(&render::matrix::csv(&matrix)),
        Form::Svg(file) => write_drawing(&file, &render::matrix_svg::drawing(&matrix), out),
        Form::Text => {
            let picture = render::matrix::picture(&matrix, terminal::columns(arguments.width));
            out.text(&terminal::drawn(picture))
        }
    }
}
