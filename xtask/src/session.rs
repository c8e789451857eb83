//! The picture of a session: what a terminal showed, as a drawing for README.md.
//!
//! Frames and shades are drawn as lines and squares, so that they fit together in every font.

use picture::Drawing;

/// Size of a character cell in pixels.
const CELL: (usize, usize) = (8, 18);

/// Room around the text in pixels.
const MARGIN: usize = 14;

/// The drawing of these lines. A line that begins with `$ ` is what somebody typed.
pub(crate) fn svg(text: &str) -> String {
    let columns = text.lines().map(|line| line.chars().count()).max();
    let width = columns.unwrap_or(0).max(80) * CELL.0 + 2 * MARGIN;
    let height = text.lines().count() * CELL.1 + 2 * MARGIN;
    let description = "What a terminal shows: a program runs, one command attaches it, its matrix of shared memory, \
                       what it gains, why, and the undo.";
    let size = pixels((width, height));
    let mut drawing = Drawing::terminal(size, "A session with numad", description);
    drawing.group("fill=\"#d5dae3\" stroke=\"none\"");
    for (row, line) in text.lines().enumerate() {
        let top = MARGIN + row * CELL.1;
        push_words(&mut drawing, line, top);
        for (column, letter) in line.chars().enumerate() {
            push_drawn(&mut drawing, letter, MARGIN + column * CELL.0, top);
        }
    }
    drawing.end_group();
    drawing.finish()
}

/// Numbers of pixels are small.
fn pixels((one, other): (usize, usize)) -> (f64, f64) {
    let pixels = |count: usize| u32::try_from(count).map_or(f64::MAX, f64::from);
    (pixels(one), pixels(other))
}

/// Runs of letters, each at its column, so that the columns of a table stand below each other.
fn push_words(drawing: &mut Drawing, line: &str, top: usize) {
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
                let style = format!("textLength=\"{long}\"{colour}");
                drawing.text(pixels((x, y)), &style, words);
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
fn push_drawn(drawing: &mut Drawing, letter: char, x: usize, y: usize) {
    if let Some(opacity) = shade(letter) {
        let style = format!("fill=\"#6fb3ff\" opacity=\"{opacity}\"");
        drawing.rect(pixels((x, y)), pixels(CELL), &style);
    }
    let Some(sides) = sides(letter) else { return };
    let (middle, centre) = (x + CELL.0 / 2, y + CELL.1 / 2);
    let ends = [
        (x, centre),
        (x + CELL.0, centre),
        (middle, y),
        (middle, y + CELL.1),
    ];
    for (&end, _) in ends.iter().zip(sides).filter(|(_, there)| *there) {
        let from = pixels((middle, centre));
        drawing.line(from, pixels(end), "stroke=\"#7d8694\"");
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
        assert_eq!(svg.matches("<line").count(), 2, "{svg}");
        assert_eq!(svg.matches("opacity=\"1\"").count(), 1, "{svg}");
    }
}
