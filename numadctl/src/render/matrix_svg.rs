//! The communication matrix as a heat map that needs nothing but itself.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use control::rows::Matrix;

use super::matrix::{Bin, amounts, bins};

/// Most cells on a side; more threads share one.
const SIDE_MAX: usize = 512;

/// Most cells on a side that are named one by one and tell their amount when pointed at.
const NAMED_MAX: usize = 64;

/// Colours of the scale.
const STEPS: u128 = 64;

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

/// The heat map: one cell for each pair of threads, ordered by node, darker is more, lines between
/// nodes. `matrix` must be square.
#[must_use]
pub fn drawing(matrix: &Matrix) -> String {
    let bins = bins(matrix, SIDE_MAX);
    let cell = (SQUARE / bins.len().max(1)).clamp(1, 40);
    let side = cell * bins.len();
    let (width, height) = ((MARGIN + side + 20).max(460), MARGIN + side + 60);
    let (rows, most) = amounts(matrix, &bins);
    let picture = Picture { rows, most, cell };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"10\" y=\"20\" font-size=\"14\">Communication, {}: {} threads, {} samples</text>\n",
        escaped(&matrix.window),
        matrix.tids.len(),
        matrix.samples
    );
    if bins.len() <= NAMED_MAX {
        push_named_cells(&mut svg, matrix, &bins, &picture);
        push_names(&mut svg, matrix, &bins, cell);
    } else {
        push_cells(&mut svg, &picture);
    }
    push_borders(&mut svg, &bins, cell);
    push_scale(&mut svg, MARGIN + side + 20, most, &bins);
    svg.push_str("</svg>\n");
    svg
}

/// Each cell by itself, so that it can tell its amount.
fn push_named_cells(svg: &mut String, matrix: &Matrix, bins: &[Bin], picture: &Picture) {
    let (cell, name) = (picture.cell, |bin: &Bin| matrix.tids[bin.tasks[0]]);
    for (y, row) in picture.rows.iter().enumerate() {
        for (x, &amount) in row.iter().enumerate().filter(|&(_, &amount)| amount > 0) {
            push(
                svg,
                format_args!(
                    "<rect x=\"{}\" y=\"{}\" width=\"{cell}\" height=\"{cell}\" fill=\"{}\">\
                     <title>{} - {}: {amount}</title></rect>\n",
                    MARGIN + x * cell,
                    MARGIN + y * cell,
                    colour(step(amount, picture.most)),
                    name(&bins[y]),
                    name(&bins[x])
                ),
            );
        }
    }
}

/// One path for each colour, of lines as thick as a cell: a tenth of the bytes of single cells.
fn push_cells(svg: &mut String, picture: &Picture) {
    let mut paths: BTreeMap<u128, String> = BTreeMap::new();
    for (y, row) in picture.rows.iter().enumerate() {
        let mut x = 0;
        for run in row.chunk_by(|&one, &other| step(one, picture.most) == step(other, picture.most))
        {
            let step = step(run[0], picture.most);
            if step > 0 {
                push(
                    paths.entry(step).or_default(),
                    format_args!("M{x} {y}.5h{}", run.len()),
                );
            }
            x += run.len();
        }
    }
    push(
        svg,
        format_args!(
            "<g transform=\"translate({MARGIN} {MARGIN}) scale({})\" shape-rendering=\"crispEdges\">\n",
            picture.cell
        ),
    );
    for (step, path) in paths {
        push(
            svg,
            format_args!("<path d=\"{path}\" stroke=\"{}\"/>\n", colour(step)),
        );
    }
    svg.push_str("</g>\n");
}

/// The frame, lines between nodes, and the names of nodes at the left.
fn push_borders(svg: &mut String, bins: &[Bin], cell: usize) {
    let side = cell * bins.len();
    push(
        svg,
        format_args!(
            "<rect x=\"{MARGIN}\" y=\"{MARGIN}\" width=\"{side}\" height=\"{side}\" fill=\"none\" stroke=\"#555555\"/>\n"
        ),
    );
    for (index, bin) in bins.iter().enumerate() {
        if index > 0 && bins[index - 1].node == bin.node {
            continue;
        }
        let at = MARGIN + index * cell;
        let end = MARGIN + side;
        if index > 0 {
            push(
                svg,
                format_args!(
                    "<path d=\"M{MARGIN} {at}H{end}M{at} {MARGIN}V{end}\" stroke=\"#555555\" stroke-width=\"0.7\"/>\n"
                ),
            );
        }
        let name = bin
            .node
            .map_or_else(|| "no node".to_owned(), |node| format!("node {node}"));
        push(
            svg,
            format_args!("<text x=\"6\" y=\"{}\">{name}</text>\n", at + 12),
        );
    }
}

fn push_names(svg: &mut String, matrix: &Matrix, bins: &[Bin], cell: usize) {
    let size = cell.clamp(6, 10);
    for (index, bin) in bins.iter().enumerate() {
        let tid = matrix.tids[bin.tasks[0]];
        let middle = MARGIN + index * cell + cell / 2 + size / 3;
        push(
            svg,
            format_args!(
                "<text x=\"{}\" y=\"{middle}\" font-size=\"{size}\" text-anchor=\"end\">{tid}</text>\n\
             <text transform=\"translate({middle} {}) rotate(-90)\" font-size=\"{size}\">{tid}</text>\n",
                MARGIN - 4,
                MARGIN - 4
            ),
        );
    }
}

fn push_scale(svg: &mut String, top: usize, most: u64, bins: &[Bin]) {
    if most == 0 {
        push(
            svg,
            format_args!(
                "<text x=\"{MARGIN}\" y=\"{}\">no communication seen</text>\n",
                top + 12
            ),
        );
        return;
    }
    for (part, x) in (0..=8u128).zip((MARGIN..).step_by(16)) {
        let colour = colour((STEPS * part / 8).max(1));
        push(
            svg,
            format_args!(
                "<rect x=\"{x}\" y=\"{top}\" width=\"16\" height=\"12\" fill=\"{colour}\"/>\n"
            ),
        );
    }
    let together = bins.iter().map(|bin| bin.tasks.len()).max().unwrap_or(1);
    let unit = if together > 1 {
        format!("mean amount of up to {together} threads")
    } else {
        "amount".to_owned()
    };
    push(
        svg,
        format_args!(
            "<text x=\"{MARGIN}\" y=\"{}\">above 0</text>\n<text x=\"{}\" y=\"{}\">{most} ({unit})</text>\n",
            top + 26,
            MARGIN + 150,
            top + 26
        ),
    );
}

/// How dark an amount is, from 1 to [`STEPS`]; 0 is nothing at all.
fn step(amount: u64, most: u64) -> u128 {
    (u128::from(amount) * STEPS).div_ceil(u128::from(most.max(1)))
}

/// From a light to a dark blue.
fn colour(step: u128) -> String {
    let from_to = |light: u128, dark: u128| light - (light - dark) * step.min(STEPS) / STEPS;
    format!(
        "#{:02x}{:02x}{:02x}",
        from_to(222, 8),
        from_to(235, 48),
        from_to(247, 107)
    )
}

/// Text for an element of the drawing.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            c if c.is_control() => escaped.push('?'),
            c => escaped.push(c),
        }
    }
    escaped
}

fn push(svg: &mut String, arguments: std::fmt::Arguments<'_>) {
    svg.write_fmt(arguments)
        .expect("writing to a string does not fail");
}
