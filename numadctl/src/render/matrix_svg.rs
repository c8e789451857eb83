//! The communication matrix as a heat map that needs nothing but itself.

use std::collections::BTreeMap;

use control::rows::Matrix;
use picture::Drawing;
use picture::colours::{field, strength, stroke};

use super::matrix::{Bin, amounts, bins, nouns};
use super::units::count;

/// Most cells on a side; more threads share one.
const SIDE_MAX: usize = 512;

/// Most cells on a side that are named one by one and tell their amount when pointed at.
const NAMED_MAX: usize = 64;

/// Side of the drawing's square in pixels, about.
const SQUARE: usize = 640;

/// Room for names at the left and top.
const MARGIN: usize = 90;

/// What the cells show.
struct Picture {
    rows: Vec<Vec<u64>>,
    most: u64,
    /// Side of a cell in pixels.
    cell: usize,
}

/// The heat map in a file of its own: one cell for each pair of threads, those that share memory next to each other,
/// darker is more, lines between nodes. `matrix` must be square.
#[must_use]
pub fn drawing(matrix: &Matrix) -> String {
    drawn(matrix, Drawing::alone)
}

/// The same within a page.
#[must_use]
pub(crate) fn inline(matrix: &Matrix) -> String {
    drawn(matrix, Drawing::inline)
}

/// The numbers of the picture as a head and rows: each cell where cells are named, else whom each thread shares most
/// with.
#[must_use]
pub(crate) fn numbers(matrix: &Matrix) -> (Vec<String>, Vec<Vec<String>>) {
    let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let node = |node: Option<u32>| node.map_or_else(|| "-".to_owned(), |node| node.to_string());
    let bins = bins(matrix, SIDE_MAX);
    if bins.len() > NAMED_MAX {
        let of = |tid: u32| matrix.tids.iter().position(|known| *known == tid);
        let rows = matrix.partners.iter().map(|partner| {
            let home = of(partner.tid).and_then(|at| matrix.nodes[at]);
            let bounds = format!(
                "{:.0} to {:.0} %",
                partner.low * 100.0,
                partner.high * 100.0
            );
            let (tid, with, samples) = (partner.tid, partner.with, partner.samples);
            vec![
                tid.to_string(),
                node(home),
                with.to_string(),
                samples.to_string(),
                bounds,
            ]
        });
        let head = [
            "thread",
            "node",
            "shares most with",
            "samples",
            "part of what it shares",
        ];
        return (named(&head), rows.collect());
    }
    let mut head: Vec<String> = named(&["node", "thread"]);
    head.extend(bins.iter().map(|bin| matrix.tids[bin.tasks[0]].to_string()));
    let (amounts, _) = amounts(matrix, &bins);
    let rows = bins.iter().zip(amounts).map(|(bin, row)| {
        let mut cells = vec![node(bin.node), matrix.tids[bin.tasks[0]].to_string()];
        cells.extend(row.iter().map(ToString::to_string));
        cells
    });
    (head, rows.collect())
}

fn drawn(matrix: &Matrix, begin: impl Fn((f64, f64), &str, &str) -> Drawing) -> String {
    let bins = bins(matrix, SIDE_MAX);
    let cell = (SQUARE / bins.len().max(1)).clamp(1, 40);
    let side = cell * bins.len();
    let (width, height) = ((MARGIN + side + 20).max(460), MARGIN + side + 60);
    let (rows, most) = amounts(matrix, &bins);
    let picture = Picture { rows, most, cell };
    let (who, seen) = nouns(matrix);
    let all = count(u64::try_from(matrix.tids.len()).unwrap_or(u64::MAX), who);
    let title = format!(
        "Communication, {}: {all}, {}",
        matrix.window,
        count(matrix.samples, seen)
    );
    let (more, together) = match who {
        "rank" => ("bytes that they sent each other", "communicate"),
        _ => ("memory that both use", "share memory"),
    };
    let description = format!(
        "Each row and each column is a {who}. Where two cross, darker is more {more}. Those that {together} stand next to \
         each other; lines part the nodes."
    );
    let mut svg = begin(pixels((width, height)), &title, &description);
    svg.text((10.0, 20.0), "font-size=\"14\"", &title);
    if bins.len() <= NAMED_MAX {
        push_named_cells(&mut svg, matrix, &bins, &picture);
        push_names(&mut svg, matrix, &bins, cell);
    } else {
        push_cells(&mut svg, &picture);
    }
    push_borders(&mut svg, &bins, cell);
    push_scale(&mut svg, MARGIN + side + 20, (most, who), &bins);
    svg.finish()
}

/// Numbers of pixels are small.
fn pixels((one, other): (usize, usize)) -> (f64, f64) {
    (one as f64, other as f64)
}

/// Each cell by itself, so that it can tell its amount.
fn push_named_cells(svg: &mut Drawing, matrix: &Matrix, bins: &[Bin], picture: &Picture) {
    let (cell, name) = (picture.cell, |bin: &Bin| matrix.tids[bin.tasks[0]]);
    for (y, row) in picture.rows.iter().enumerate() {
        for (x, &amount) in row.iter().enumerate().filter(|&(_, &amount)| amount > 0) {
            let at = pixels((MARGIN + x * cell, MARGIN + y * cell));
            let told = format!("{} - {}: {amount}", name(&bins[y]), name(&bins[x]));
            let style = field("heat", amount, picture.most);
            svg.named_rect(at, pixels((cell, cell)), &style, &told);
        }
    }
}

/// One path for each strength, of lines as thick as a cell: a tenth of the bytes of single cells.
fn push_cells(svg: &mut Drawing, picture: &Picture) {
    let mut paths: BTreeMap<u64, String> = BTreeMap::new();
    let of = |amount| strength(amount, picture.most);
    for (y, row) in picture.rows.iter().enumerate() {
        let mut x = 0;
        for run in row.chunk_by(|&one, &other| of(one) == of(other)) {
            if of(run[0]) > 0 {
                let line = format!("M{x} {y}.5h{}", run.len());
                paths.entry(of(run[0])).or_default().push_str(&line);
            }
            x += run.len();
        }
    }
    svg.group(&format!(
        "transform=\"translate({MARGIN} {MARGIN}) scale({})\" shape-rendering=\"crispEdges\"",
        picture.cell
    ));
    for (strength, path) in paths {
        svg.path(&path, &stroke("hot", strength));
    }
    svg.end_group();
}

/// The frame, lines between nodes, and the names of nodes at the left.
fn push_borders(svg: &mut Drawing, bins: &[Bin], cell: usize) {
    let side = cell * bins.len();
    svg.rect(
        pixels((MARGIN, MARGIN)),
        pixels((side, side)),
        "class=\"border\"",
    );
    for (index, bin) in bins.iter().enumerate() {
        if index > 0 && bins[index - 1].node == bin.node {
            continue;
        }
        let at = MARGIN + index * cell;
        let end = MARGIN + side;
        if index > 0 {
            let path = format!("M{MARGIN} {at}H{end}M{at} {MARGIN}V{end}");
            svg.path(&path, "class=\"border\" stroke-width=\"0.7\"");
        }
        let name = bin
            .node
            .map_or_else(|| "no node".to_owned(), |node| format!("node {node}"));
        svg.text(pixels((6, at + 12)), "", &name);
    }
}

fn push_names(svg: &mut Drawing, matrix: &Matrix, bins: &[Bin], cell: usize) {
    let size = cell.clamp(6, 10);
    for (index, bin) in bins.iter().enumerate() {
        let tid = matrix.tids[bin.tasks[0]].to_string();
        let middle = MARGIN + index * cell + cell / 2 + size / 3;
        let style = format!("font-size=\"{size}\"");
        svg.text_upwards(pixels((middle, MARGIN - 4)), &style, &tid);
        let style = format!("{style} text-anchor=\"end\"");
        svg.text(pixels((MARGIN - 4, middle)), &style, &tid);
    }
}

fn push_scale(svg: &mut Drawing, top: usize, (most, who): (u64, &str), bins: &[Bin]) {
    if most == 0 {
        svg.text(pixels((MARGIN, top + 12)), "", "no communication seen");
        return;
    }
    for (part, x) in (0..=8).zip((MARGIN..).step_by(16)) {
        // The least that is more than nothing first.
        let style = field("heat", (part * 1000 / 8).max(1), 1000);
        svg.rect(pixels((x, top)), (16.0, 12.0), &style);
    }
    let together = bins.iter().map(|bin| bin.tasks.len()).max().unwrap_or(1);
    let unit = if together > 1 {
        format!("mean amount of up to {together} {who}s")
    } else {
        "amount".to_owned()
    };
    svg.text(pixels((MARGIN, top + 26)), "", "above 0");
    let most = format!("{most} ({unit})");
    svg.text(pixels((MARGIN + 150, top + 26)), "", &most);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_of_ranks() {
        let matrix = |window: &str| Matrix {
            window: window.to_owned(),
            tids: vec![7, 9],
            nodes: vec![Some(0), None],
            ranks: Vec::new(),
            rows: vec![vec![0, 5], vec![5, 0]],
            samples: 1,
            support: vec![vec![0, 1], vec![1, 0]],
            confidence: 0.9,
            partners: Vec::new(),
        };
        let of_ranks = drawing(&matrix("messages"));
        assert!(of_ranks.contains("Communication, messages: 2 ranks, 1 message<"));
        assert!(of_ranks.contains("bytes that they sent each other"));
        assert!(!of_ranks.contains("thread") && !of_ranks.contains("sample"));
        let of_threads = drawing(&matrix("live"));
        assert!(of_threads.contains("Communication, live: 2 threads, 1 sample<"));
        assert!(of_threads.contains("memory that both use"));
    }
}
