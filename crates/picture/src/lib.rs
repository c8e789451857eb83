//! Pictures: drawings in SVG that need nothing but themselves (no script, no font, no reference to anything outside),
//! the [`page`] that holds them, and the [`letters`] that a terminal can draw with.
//!
//! A drawing has a title and a description for those who do not see it. Text is escaped here and nowhere else; a
//! style is a list of attributes, written by us.

#![forbid(unsafe_code)]

use std::fmt::Write as _;

pub mod colours;
pub mod letters;
pub mod page;

/// A drawing in the making. Lengths are pixels, from the left upper corner.
#[derive(Clone, Debug)]
pub struct Drawing {
    out: String,
}

impl Drawing {
    /// A drawing that stands in a file of its own, with the colours of [`colours::style`].
    #[must_use]
    pub fn alone(size: (f64, f64), title: &str, description: &str) -> Self {
        let mut drawing = Self::begin(
            size,
            title,
            description,
            "xmlns=\"http://www.w3.org/2000/svg\" font-family=\"sans-serif\" font-size=\"12\" ",
        );
        drawing.push(format_args!("<style>{}</style>\n", colours::style()));
        drawing.paper("class=\"paper\"");
        drawing
    }

    /// What a terminal showed, in a file of its own: letters of one width on dark, wherever it is shown.
    #[must_use]
    pub fn terminal(size: (f64, f64), title: &str, description: &str) -> Self {
        let mut drawing = Self::begin(
            size,
            title,
            description,
            "xmlns=\"http://www.w3.org/2000/svg\" font-family=\"ui-monospace, monospace\" font-size=\"13\" ",
        );
        drawing.paper("rx=\"6\" fill=\"#1b1f27\"");
        drawing
    }

    /// A drawing within a page of HTML, whose colours and letters are the page's. On a narrow screen it shrinks as far as
    /// its letters stay readable, and then is scrolled.
    #[must_use]
    pub fn inline(size: (f64, f64), title: &str, description: &str) -> Self {
        const READABLE: f64 = 544.0;
        let least = number(size.0.min(READABLE));
        let extra = format!("role=\"img\" style=\"min-width:{least}px\" ");
        Self::begin(size, title, description, &extra)
    }

    fn paper(&mut self, style: &str) {
        self.push(format_args!(
            "<rect width=\"100%\" height=\"100%\" {style}/>\n"
        ));
    }

    fn begin((width, height): (f64, f64), title: &str, description: &str, extra: &str) -> Self {
        let (width, height) = (number(width), number(height));
        let mut drawing = Self { out: String::new() };
        drawing.push(format_args!(
            "<svg {extra}width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n<title>{}</title>\n<desc>{}</desc>\n",
            escaped(title),
            escaped(description)
        ));
        drawing
    }

    /// A rectangle.
    pub fn rect(&mut self, at: (f64, f64), size: (f64, f64), style: &str) {
        let ((x, y), (width, height)) = (numbers(at), numbers(size));
        self.push(format_args!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" {style}/>\n"
        ));
    }

    /// A rectangle that tells something when pointed at.
    pub fn named_rect(&mut self, at: (f64, f64), size: (f64, f64), style: &str, name: &str) {
        let ((x, y), (width, height)) = (numbers(at), numbers(size));
        self.push(format_args!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" {style}><title>{}</title></rect>\n",
            escaped(name)
        ));
    }

    /// A line of text, its baseline beginning at a point.
    pub fn text(&mut self, at: (f64, f64), style: &str, text: &str) {
        let (x, y) = numbers(at);
        let space = if style.is_empty() { "" } else { " " };
        self.push(format_args!(
            "<text x=\"{x}\" y=\"{y}\"{space}{style}>{}</text>\n",
            escaped(text)
        ));
    }

    /// A line of text that runs upwards from a point.
    pub fn text_upwards(&mut self, at: (f64, f64), style: &str, text: &str) {
        let (x, y) = numbers(at);
        self.push(format_args!(
            "<text transform=\"translate({x} {y}) rotate(-90)\" {style}>{}</text>\n",
            escaped(text)
        ));
    }

    /// A straight line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), style: &str) {
        let ((x1, y1), (x2, y2)) = (numbers(from), numbers(to));
        self.push(format_args!(
            "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" {style}/>\n"
        ));
    }

    /// A path, as SVG writes them.
    pub fn path(&mut self, path: &str, style: &str) {
        self.push(format_args!("<path d=\"{path}\" {style}/>\n"));
    }

    /// Opens a group; what is drawn until [`Self::end_group`] has its attributes.
    pub fn group(&mut self, style: &str) {
        self.push(format_args!("<g {style}>\n"));
    }

    /// Closes the group.
    pub fn end_group(&mut self) {
        self.out.push_str("</g>\n");
    }

    /// One of four shapes around a point, by number: differences that do not rest on colour.
    pub fn mark(&mut self, kind: usize, (x, y): (f64, f64), style: &str, name: &str) {
        let at = |dx: f64, dy: f64| format!("{} {}", number(x + dx), number(y + dy));
        let corners = match kind % 4 {
            0 => {
                let (x, y) = numbers((x, y));
                self.push(format_args!(
                    "<circle cx=\"{x}\" cy=\"{y}\" r=\"4\" {style}><title>{}</title></circle>\n",
                    escaped(name)
                ));
                return;
            }
            1 => [at(-3.6, -3.6), at(3.6, -3.6), at(3.6, 3.6), at(-3.6, 3.6)].join("L"),
            2 => [at(0.0, -4.8), at(4.4, 3.4), at(-4.4, 3.4)].join("L"),
            _ => [at(0.0, -5.0), at(5.0, 0.0), at(0.0, 5.0), at(-5.0, 0.0)].join("L"),
        };
        self.push(format_args!(
            "<path d=\"M{corners}Z\" {style}><title>{}</title></path>\n",
            escaped(name)
        ));
    }

    /// The whole drawing.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.out.push_str("</svg>\n");
        self.out
    }

    fn push(&mut self, arguments: std::fmt::Arguments<'_>) {
        let written = self.out.write_fmt(arguments);
        debug_assert!(written.is_ok(), "a String takes every write");
    }
}

/// Text for an element or attribute of SVG or HTML: what means something there is escaped, controls are `?`.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() => escaped.push('?'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// At most one decimal, and none where it is 0: a tenth of a pixel is not seen.
fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" {
        "0".to_owned()
    } else {
        text.to_owned()
    }
}

fn numbers((one, other): (f64, f64)) -> (String, String) {
    (number(one), number(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_is_whole() {
        let mut drawing = Drawing::alone((100.0, 50.5), "a < b", "\"c\" & d");
        drawing.rect((1.0, 2.25), (3.0, -0.01), "fill=\"#fff\"");
        drawing.text((0.0, 0.0), "", "x\u{1b}y");
        drawing.mark(1, (10.0, 10.0), "class=\"a\"", "<");
        let style = format!("<style>{}</style>\n", colours::style());
        assert_eq!(
            drawing.finish().replace(&style, ""),
            "<svg xmlns=\"http://www.w3.org/2000/svg\" font-family=\"sans-serif\" font-size=\"12\" width=\"100\" height=\"50.5\" viewBox=\"0 0 100 50.5\">\n<title>a &lt; b</title>\n<desc>&quot;c&quot; &amp; d</desc>\n\
             <rect width=\"100%\" height=\"100%\" class=\"paper\"/>\n\
             <rect x=\"1\" y=\"2.2\" width=\"3\" height=\"0\" fill=\"#fff\"/>\n\
             <text x=\"0\" y=\"0\">x?y</text>\n\
             <path d=\"M6.4 6.4L13.6 6.4L13.6 13.6L6.4 13.6Z\" class=\"a\"><title>&lt;</title></path>\n</svg>\n"
        );
    }

    #[test]
    fn every_mark_has_its_shape() {
        let of = |kind| {
            let mut drawing = Drawing::inline((1.0, 1.0), "", "");
            drawing.mark(kind, (0.0, 0.0), "", "");
            drawing.finish()
        };
        let shapes: std::collections::BTreeSet<String> = (0..5).map(of).collect();
        assert_eq!(shapes.len(), 4);
    }
}
