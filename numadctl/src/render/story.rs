//! What is kept of attachments after their end, as a list and one by one.

use std::collections::BTreeMap;

use control::rows::ThreadRow;
use control::story::{Story, StoryRow};
use picture::page::{figure, numbers, table, verbatim, whole};
use picture::{Drawing, colours, escaped};

use super::table::{Side, fitting};
use super::units::{count, date, seconds, share};
use super::wrap::wrapped;
use super::{attachment, explain, matrix_svg};

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
            row.policy.clone(),
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
        row.command,
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
    if let Some(matrix) = story
        .matrix
        .as_ref()
        .filter(|it| super::matrix::is_square(it))
    {
        let (head, rows) = matrix_svg::numbers(matrix);
        let head: Vec<&str> = head.iter().map(String::as_str).collect();
        let caption = "Threads that share memory stand next to each other; lines part the nodes.";
        body.push_str("<h2>Who shared memory with whom</h2>\n");
        body.push_str(&figure(&matrix_svg::inline(matrix), caption));
        body.push_str(&numbers(&table(&head, &rows)));
    }
    body.push_str(&accesses(&story.detail.threads));
    body.push_str("<h2>What was seen, done and not done</h2>\n");
    let told = explain::text(&story.detail, &story.events, PAGE_COLUMNS);
    body.push_str(&verbatim(&told));
    whole(&title, &body)
}

/// From which node memory was accessed last: samples of the threads there.
fn accesses(threads: &[ThreadRow]) -> String {
    const ROW: f64 = 24.0;
    const WIDTH: f64 = 560.0;
    const NAMES: f64 = 70.0;
    const BAR: f64 = 360.0;
    let mut nodes: BTreeMap<Option<u32>, (u64, u64)> = BTreeMap::new();
    for thread in threads {
        let (count, samples) = nodes.entry(thread.node).or_default();
        *count += 1;
        *samples += thread.samples;
    }
    let most = nodes.values().map(|(_, samples)| *samples).max();
    let Some(most) = most.filter(|most| *most > 0) else {
        return String::new();
    };
    let title = "Accesses sampled in the last window, by the node of the thread";
    let description = "A bar for each node with threads of the program; longer is more accesses.";
    let size = (WIDTH, ROW * nodes.len() as f64);
    let mut drawing = Drawing::inline(size, title, description);
    let mut rows = Vec::new();
    for (row, (node, (count, samples))) in nodes.into_iter().enumerate() {
        let top = ROW * row as f64;
        let name = node.map_or_else(|| "no node".to_owned(), |node| format!("node {node}"));
        let width = BAR * samples as f64 / most as f64;
        drawing.text((0.0, top + 16.0), "", &name);
        drawing.rect((NAMES, top + 3.0), (width, ROW - 6.0), &colours::series(0));
        drawing.text((NAMES + width + 8.0, top + 16.0), "", &samples.to_string());
        rows.push(vec![name, count.to_string(), samples.to_string()]);
    }
    let head = ["node", "threads", "accesses sampled"];
    let table = numbers(&table(&head, &rows));
    let drawing = figure(&drawing.finish(), title);
    format!("<h2>Accesses of each node</h2>\n{drawing}{table}")
}

/// Characters in a line of the page.
const PAGE_COLUMNS: usize = 92;
