//! The picture of a session: what a terminal showed, as a drawing for README.md.
//!
//! Frames and shades are drawn as lines and squares, so that they fit together in every font.

use std::fmt::Write as _;

/// Size of a character cell in pixels.
const CELL: (usize, usize) = (8, 18);

/// Room around the text in pixels.
const MARGIN: usize = 14;

/// The drawing of these lines. A line that begins with `$ ` is what somebody typed.
pub(crate) fn svg(text: &str) -> String {
    let columns = text.lines().map(|line| line.chars().count()).max();
    let width = columns.unwrap_or(0).max(80) * CELL.0 + 2 * MARGIN;
    let height = text.lines().count() * CELL.1 + 2 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"ui-monospace, monospace\" font-size=\"13\">\n\
         <title>A session with numad</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"#1b1f27\"/>\n\
         <g fill=\"#d5dae3\" stroke=\"none\">\n"
    );
    for (row, line) in text.lines().enumerate() {
        let top = MARGIN + row * CELL.1;
        push_words(&mut svg, line, top);
        for (column, letter) in line.chars().enumerate() {
            push_drawn(&mut svg, letter, MARGIN + column * CELL.0, top);
        }
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

/// Runs of letters, each at its column, so that the columns of a table stand below each other.
fn push_words(svg: &mut String, line: &str, top: usize) {
    let typed = line.starts_with("$ ");
    let heading = line
        .split_once(". ")
        .is_some_and(|(number, _)| number.parse::<u8>().is_ok());
    let colour = match (typed, heading) {
        (true, _) => " fill=\"#8fd18a\"",
        (_, true) => " fill=\"#ffffff\" font-weight=\"bold\"",
        _ => "",
    };
    let mut run = (0, String::new());
    let letters = line.chars().chain(std::iter::once('\n')).enumerate();
    let mut blanks = 0;
    for (column, letter) in letters {
        let drawn = sides(letter).is_some() || shade(letter).is_some();
        blanks = if letter == ' ' { blanks + 1 } else { 0 };
        // A single blank belongs to the sentence; more are the space between columns.
        if drawn || letter == '\n' || blanks > 1 {
            let words = run.1.trim_end();
            if !words.is_empty() {
                let (x, y) = (MARGIN + run.0 * CELL.0, top + CELL.1 - 5);
                let long = words.chars().count() * CELL.0;
                // Writing to a string does not fail.
                let _always_fine = writeln!(
                    svg,
                    "<text x=\"{x}\" y=\"{y}\" textLength=\"{long}\"{colour}>{}</text>",
                    escaped(words)
                );
            }
            run = (column + 1, String::new());
        } else if run.1.is_empty() && letter == ' ' {
            run.0 = column + 1;
        } else {
            run.1.push(letter);
        }
    }
}

/// A piece of a frame, or a shade.
fn push_drawn(svg: &mut String, letter: char, x: usize, y: usize) {
    if let Some(opacity) = shade(letter) {
        let (width, height) = CELL;
        let _always_fine = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"#6fb3ff\" opacity=\"{opacity}\"/>"
        );
    }
    let Some(sides) = sides(letter) else { return };
    let (middle, centre) = (x + CELL.0 / 2, y + CELL.1 / 2);
    let ends = [
        (x, centre),
        (x + CELL.0, centre),
        (middle, y),
        (middle, y + CELL.1),
    ];
    for ((end_x, end_y), _) in ends.iter().zip(sides).filter(|(_, there)| *there) {
        let _always_fine = writeln!(
            svg,
            "<path d=\"M{middle} {centre}L{end_x} {end_y}\" stroke=\"#7d8694\"/>"
        );
    }
}

/// To which sides a piece of a frame goes: left, right, up, down.
const fn sides(letter: char) -> Option<[bool; 4]> {
    Some(match letter {
        '─' => [true, true, false, false],
        '│' => [false, false, true, true],
        '┌' => [false, true, false, true],
        '┐' => [true, false, false, true],
        '└' => [false, true, true, false],
        '┘' => [true, false, true, false],
        '├' => [false, true, true, true],
        '┤' => [true, false, true, true],
        '┬' => [true, true, false, true],
        '┴' => [true, true, true, false],
        '┼' => [true, true, true, true],
        _ => return None,
    })
}

/// How dark a shade is.
const fn shade(letter: char) -> Option<&'static str> {
    Some(match letter {
        '░' => "0.25",
        '▒' => "0.5",
        '▓' => "0.75",
        '█' => "1",
        _ => return None,
    })
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_frames_are_drawn() {
        let svg = svg("$ a <b\n1. Head\nx  y\n┌█\n");
        assert!(svg.contains("fill=\"#8fd18a\">$ a &lt;b</text>"), "{svg}");
        assert!(svg.contains("font-weight=\"bold\">1. Head</text>"), "{svg}");
        // Two columns are two texts, and the second keeps its place.
        assert!(
            svg.contains("x=\"38\" y=\"63\" textLength=\"8\">y</text>"),
            "{svg}"
        );
        assert_eq!(svg.matches("<path").count(), 2, "{svg}");
        assert_eq!(svg.matches("opacity=\"1\"").count(), 1, "{svg}");
    }
}
