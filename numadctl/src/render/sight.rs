//! Pictures of a program as numad saw it last, with their numbers below: of an attachment that has ended, and of each
//! policy of an experiment.

use control::rows::{Matrix, NodeAccesses};
use picture::page::{figure, numbers, table};
use picture::{Drawing, colours};

use super::matrix_svg;

/// Who shared memory with whom, by groups; none for what is no matrix.
pub fn matrix(matrix: &Matrix) -> Option<String> {
    if !super::matrix::is_square(matrix) {
        return None;
    }
    let (head, rows) = matrix_svg::numbers(matrix);
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let caption = "Threads that share memory stand next to each other; lines part the nodes.";
    let drawing = figure(&matrix_svg::inline(matrix), caption);
    Some(drawing + &numbers(&table(&head, &rows)))
}

/// From which node memory was accessed; none where nothing was sampled.
pub fn accesses(nodes: &[NodeAccesses]) -> Option<String> {
    const ROW: f64 = 24.0;
    const WIDTH: f64 = 560.0;
    const NAMES: f64 = 70.0;
    const BAR: f64 = 360.0;
    let most = nodes.iter().map(|node| node.samples).max();
    let most = most.filter(|most| *most > 0)?;
    let title = "Accesses sampled in the last window, by the node of the thread";
    let description = "A bar for each node with threads of the program; longer is more accesses.";
    let size = (WIDTH, ROW * nodes.len() as f64);
    let mut drawing = Drawing::inline(size, title, description);
    let mut rows = Vec::new();
    for (row, there) in nodes.iter().enumerate() {
        let top = ROW * row as f64;
        let name = there
            .node
            .map_or_else(|| "no node".to_owned(), |node| format!("node {node}"));
        let width = BAR * there.samples as f64 / most as f64;
        drawing.text((0.0, top + 16.0), "", &name);
        drawing.rect((NAMES, top + 3.0), (width, ROW - 6.0), &colours::series(0));
        drawing.text(
            (NAMES + width + 8.0, top + 16.0),
            "",
            &there.samples.to_string(),
        );
        rows.push(vec![
            name,
            there.threads.to_string(),
            there.samples.to_string(),
        ]);
    }
    let head = ["node", "threads", "accesses sampled"];
    Some(figure(&drawing.finish(), title) + &numbers(&table(&head, &rows)))
}
