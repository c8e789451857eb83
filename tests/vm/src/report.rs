//! The comparison as a table for people and as one page without anything outside of it.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use crate::compare::{Cell, Row};
use experiment::student::Spread;
use picture::page::{figure, whole};
use picture::{Drawing, colours, escaped};

/// A column: name, what it tells, and how it is read from a run.
struct Column {
    name: &'static str,
    unit: &'static str,
    about: &'static str,
    of: fn(&Row) -> f64,
    digits: usize,
}

const COLUMNS: [Column; 14] = [
    Column {
        name: "local",
        unit: "%",
        about: "share of memory accesses that stay on their node, in the last quarter; counted",
        of: |row| 100.0 * row.figures.steady_local,
        digits: 1,
    },
    Column {
        name: "whole",
        unit: "%",
        about: "share of memory accesses that stay on their node, over the whole run; counted",
        of: |row| 100.0 * row.figures.local,
        digits: 1,
    },
    Column {
        name: "whole time",
        unit: "ns",
        about: "per instruction, over the whole run; modelled",
        of: |row| row.figures.whole_ns,
        digits: 2,
    },
    Column {
        name: "even time",
        unit: "ns",
        about: "the same if in each second all threads had got equally far; modelled",
        of: |row| row.figures.even_ns,
        digits: 2,
    },
    Column {
        name: "imbalance",
        unit: "",
        about: "coefficient of variation of the memory controllers' load, in the last quarter; counted",
        of: |row| row.figures.imbalance,
        digits: 2,
    },
    Column {
        name: "time",
        unit: "ns",
        about: "per instruction, in the last quarter; modelled",
        of: |row| row.figures.steady_ns,
        digits: 2,
    },
    Column {
        name: "stall",
        unit: "s",
        about: "waiting for memory, all threads, whole run; modelled",
        of: |row| row.figures.stall,
        digits: 2,
    },
    Column {
        name: "converged",
        unit: "s",
        about: "until nine tenths of the way to the last quarter's time; 0 if it was steady; modelled",
        of: |row| row.figures.converged,
        digits: 1,
    },
    Column {
        name: "pages",
        unit: "",
        about: "moved by anyone; counted by the kernel",
        of: |row| row.pages,
        digits: 0,
    },
    Column {
        name: "daemon",
        unit: "M/s",
        about: "instructions in user mode of everything but the program, in millions a second; counted",
        of: |row| row.figures.others,
        digits: 2,
    },
    Column {
        name: "system",
        unit: "M/s",
        about: "instructions in the kernel, in millions a second; counted: what is more than under `nothing` is for placement",
        of: |row| row.figures.system,
        digits: 2,
    },
    Column {
        name: "overhead",
        unit: "%",
        about: "share of the machine that the placing process took; by the kernel, on a guest that is \
                some hundred times slower than a machine",
        of: |row| 100.0 * row.overhead,
        digits: 2,
    },
    Column {
        name: "kernel",
        unit: "%",
        about: "share of instructions that ran in the kernel; counted",
        of: |row| 100.0 * row.figures.kernel,
        digits: 1,
    },
    Column {
        name: "work",
        unit: "M/s",
        about: "instructions of the program itself, in millions a second; counted, in a guest where remote memory is \
                as fast as local memory, so what is missing is what the placing process and the kernel took",
        of: |row| row.figures.work,
        digits: 2,
    },
];

/// Writes table.md and compare.html; gives the table.
pub(crate) fn write(cells: &[Cell], machine: &str, folder: &Path) -> io::Result<String> {
    let table = table(cells);
    fs::create_dir_all(folder)?;
    fs::write(folder.join("table.md"), &table)?;
    fs::write(folder.join("compare.html"), page(cells, machine))?;
    Ok(table)
}

/// A table in Markdown.
fn table(cells: &[Cell]) -> String {
    let mut text = String::from("| workload | placed by | near the oracle, s |");
    for column in &COLUMNS {
        let unit = if column.unit.is_empty() {
            String::new()
        } else {
            format!(", {}", column.unit)
        };
        add(&mut text, format_args!(" {}{unit} |", column.name));
    }
    text.push_str("\n| --- | --- | --: |");
    text.push_str(&" --: |".repeat(COLUMNS.len()));
    text.push('\n');
    for cell in cells {
        add(
            &mut text,
            format_args!(
                "| {} | {} | {} |",
                cell.workload,
                cell.contestant,
                shown(near_oracle(cell, cells), 0)
            ),
        );
        for column in &COLUMNS {
            add(
                &mut text,
                format_args!(" {} |", shown(cell.spread(column.of), column.digits)),
            );
        }
        text.push('\n');
    }
    text
}

/// Seconds until a cell's local share was 95 % of the oracle's for good, with the oracle's taken
/// from its own runs, or as all where it took no part; not a number where that never came.
fn near_oracle(cell: &Cell, cells: &[Cell]) -> Spread {
    let oracle = cells
        .iter()
        .find(|one| one.workload == cell.workload && one.contestant == "oracle")
        .map(|one| one.spread(|row| row.figures.steady_local).mean)
        .filter(|share| share.is_finite());
    let wanted = 0.95 * oracle.unwrap_or(1.0);
    cell.spread(|row| {
        let below = row.locals.iter().rposition(|share| *share < wanted);
        let first = below.map_or(0, |last| last + 1);
        if first >= row.locals.len() {
            return f64::NAN;
        }
        u32::try_from(first).map_or(f64::NAN, f64::from)
    })
}

/// A page with a plot for each workload and figure.
fn page(cells: &[Cell], machine: &str) -> String {
    let mut html = format!(
        "<p>Machine <code>{}</code>, a real kernel in QEMU; accesses are counted by the ground truth, times are its model. \
         Whiskers are 95 % confidence over seeds.</p><dl>",
        escaped(machine)
    );
    for column in &COLUMNS {
        add(
            &mut html,
            format_args!("<dt><b>{}</b></dt><dd>{}</dd>", column.name, column.about),
        );
    }
    html.push_str("</dl>");
    for of in cells.chunk_by(|one, next| one.workload == next.workload) {
        add(
            &mut html,
            format_args!("<h2>{}</h2>", escaped(&of[0].workload)),
        );
        html.push_str("<div class=\"many\">");
        for column in &COLUMNS {
            html.push_str(&plot(of, column));
        }
        html.push_str("</div>\n");
    }
    whole("numad compared", &html)
}

/// Bars side by side, one for each contestant.
fn plot(cells: &[Cell], column: &Column) -> String {
    const ROW: f64 = 20.0;
    const LABELS: f64 = 110.0;
    const BARS: f64 = 170.0;
    let spreads: Vec<Spread> = cells.iter().map(|cell| cell.spread(column.of)).collect();
    let most = spreads
        .iter()
        .map(|spread| {
            spread.mean
                + if spread.margin.is_nan() {
                    0.0
                } else {
                    spread.margin
                }
        })
        .fold(f64::MIN_POSITIVE, f64::max);
    let width = |value: f64| (value / most).clamp(0.0, 1.0) * BARS;
    let height = ROW * f64::from(u32::try_from(cells.len()).unwrap_or(u32::MAX));
    let caption = format!("{} {}", column.name, column.unit);
    let size = (LABELS + BARS + 110.0, height);
    let mut drawing = Drawing::inline(size, &caption, column.about);
    let mut top = 0.0;
    for (cell, spread) in cells.iter().zip(&spreads) {
        let middle = top + ROW / 2.0;
        let name = (LABELS - 6.0, middle + 4.0);
        drawing.text(name, "text-anchor=\"end\"", &cell.contestant);
        let bar = (width(spread.mean), ROW - 6.0);
        drawing.rect((LABELS, top + 3.0), bar, &colours::series(0));
        if spread.margin > 0.0 {
            let at = |value| (LABELS + width(value), middle);
            let (from, to) = (
                at(spread.mean - spread.margin),
                at(spread.mean + spread.margin),
            );
            drawing.line(from, to, "class=\"border\"");
        }
        let told = shown(*spread, column.digits);
        drawing.text((LABELS + BARS + 6.0, middle + 4.0), "", &told);
        top += ROW;
    }
    figure(&drawing.finish(), caption.trim())
}

fn shown(spread: Spread, digits: usize) -> String {
    if spread.mean.is_nan() {
        "-".to_owned()
    } else if spread.margin.is_nan() {
        format!("{:.digits$}", spread.mean)
    } else {
        format!("{:.digits$} ± {:.digits$}", spread.mean, spread.margin)
    }
}

fn add(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    let written = text.write_fmt(arguments);
    debug_assert!(written.is_ok(), "writing to a string cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::truth::Figures;

    fn cells() -> Vec<Cell> {
        let row = |local| Row {
            locals: Vec::new(),
            figures: Figures {
                steady_local: local,
                ..Figures::default()
            },
            pages: 0.0,
            overhead: 0.0,
        };
        vec![
            Cell {
                workload: "pairs".to_owned(),
                contestant: "nothing".to_owned(),
                rows: vec![row(0.25)],
                failed: 0,
            },
            Cell {
                workload: "pairs".to_owned(),
                contestant: "deloc".to_owned(),
                rows: vec![row(0.9), row(1.0)],
                failed: 0,
            },
        ]
    }

    #[test]
    fn the_table_has_a_row_for_each_cell() {
        let table = table(&cells());
        assert_eq!(table.lines().count(), 4, "{table}");
        assert!(table.contains("| pairs | nothing | - | 25.0 |"), "{table}");
        assert!(table.contains("95.0 ± 63.5"), "{table}");
    }

    #[test]
    fn near_the_oracle_is_near_it_for_good() {
        let mut cells = cells();
        cells[0].contestant = "oracle".to_owned();
        cells[0].rows[0].figures.steady_local = 0.8;
        cells[1].rows.truncate(1);
        let mut seconds = |locals: &[f64]| {
            cells[1].rows[0].locals = locals.to_vec();
            near_oracle(&cells[1], &cells).mean
        };
        assert!((seconds(&[0.2, 0.9, 0.5, 0.77, 0.8]) - 3.0).abs() < 1e-9);
        assert!(seconds(&[0.8, 0.8]).abs() < 1e-9);
        assert!(seconds(&[0.8, 0.7]).is_nan());
    }

    #[test]
    fn the_page_is_whole_and_alone() {
        let page = page(&cells(), "ring4");
        assert_eq!(page.matches("<svg").count(), COLUMNS.len());
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
        assert!(
            !page.contains("http:") && !page.contains("<script"),
            "nothing from outside"
        );
    }
}
