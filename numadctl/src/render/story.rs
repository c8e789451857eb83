//! What is kept of attachments after their end, as a list and one by one.

use control::rows::NodeAccesses;
use control::story::{Story, StoryRow};
use picture::escaped;
use picture::page::{verbatim, whole};

use super::table::{Side, fitting};
use super::units::{count, date, seconds, share};
use super::wrap::{on_one_line, wrapped};
use super::{attachment, explain, sight};

/// The list, oldest first, in lines of at most `width` where that leaves anything.
#[must_use]
pub fn list(rows: &[StoryRow], width: usize) -> String {
    if rows.is_empty() {
        return "nothing is kept; programs are listed here when their attachment has ended\n"
            .to_owned();
    }
    let head = [
        ("ID", Side::Right, 0),
        ("PROGRAM", Side::Left, 0),
        ("POLICY", Side::Left, 0),
        ("ENDED (UTC)", Side::Left, 1),
        ("FOR", Side::Right, 2),
        ("SAMPLES", Side::Right, 5),
        ("THREADS", Side::Right, 4),
        ("PAGES", Side::Right, 3),
        ("LOCAL", Side::Left, 0),
    ];
    let cells = |row: &StoryRow| {
        vec![
            row.id.to_string(),
            row.command.clone(),
            attachment::policy(&row.policy, row.dry_run),
            date(row.ended_unix_s),
            seconds(row.lasted_s),
            row.samples.to_string(),
            row.thread_moves.to_string(),
            row.pages_moved.to_string(),
            format!("{} to {}", share(row.local_before), share(row.local_after)),
        ]
    };
    let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
    fitting(&head, &rows, width)
}

/// What was done and gained, in a sentence. What was not measured is said to be so.
#[must_use]
pub fn gained(row: &StoryRow) -> String {
    let local = match (row.local_before, row.local_after) {
        (Some(before), Some(after)) => format!(
            "local accesses went from {} to {}",
            share(Some(before)),
            share(Some(after))
        ),
        _ => "how many accesses were local was not measured".to_owned(),
    };
    let done = match (row.dry_run, row.thread_moves, row.pages_moved) {
        (true, ..) => "nothing was changed (dry run)".to_owned(),
        (false, 0, 0) => "nothing was moved".to_owned(),
        (false, threads, pages) => format!(
            "{} of threads, {} moved",
            count(threads, "move"),
            count(pages, "page")
        ),
    };
    format!(
        "{} under {} for {}: {done}, {local}",
        on_one_line(&row.command),
        row.policy,
        seconds(row.lasted_s)
    )
}

/// The whole story, in lines of at most `width` where words allow it.
#[must_use]
pub fn text(story: &Story, width: usize) -> String {
    let ended = format!(
        "attachment {} has ended, {} UTC. {}. On {}.",
        story.row.id,
        date(story.row.ended_unix_s),
        gained(&story.row),
        story.machine
    );
    let mut text: String = wrapped(&ended, width)
        .into_iter()
        .map(|line| line + "\n")
        .collect();
    if let Some(undone) = &story.undone {
        text.push_str(&attachment::undone(undone));
    }
    text.push('\n');
    text.push_str(&explain::text(&story.detail, &story.events, width));
    text
}

/// The story as a page: nothing runs in it and nothing is loaded.
#[must_use]
pub fn page(story: &Story) -> String {
    let title = format!("{} under {}", story.row.command, story.row.policy);
    let mut body = format!(
        "<p class=\"verdict\">{}.</p>\n<p>Attachment {}, ended {} UTC. {}.</p>\n",
        escaped(&gained(&story.row)),
        story.row.id,
        date(story.row.ended_unix_s),
        escaped(&story.machine)
    );
    if let Some(undone) = &story.undone {
        body.push_str(&verbatim(&attachment::undone(undone)));
    }
    if let Some(picture) = story.matrix.as_ref().and_then(sight::matrix) {
        body.push_str("<h2>Who shared memory with whom</h2>\n");
        body.push_str(&picture);
    }
    if let Some(picture) = sight::accesses(&NodeAccesses::of(&story.detail.threads)) {
        body.push_str("<h2>Accesses of each node</h2>\n");
        body.push_str(&picture);
    }
    body.push_str("<h2>What was seen, done and not done</h2>\n");
    let told = explain::text(&story.detail, &story.events, PAGE_COLUMNS);
    body.push_str(&verbatim(&told));
    whole(&title, &body)
}

/// Characters in a line of the page.
const PAGE_COLUMNS: usize = 92;
