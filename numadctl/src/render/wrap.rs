//! Long lines, broken where words end.

/// Fits every terminal; for answers that do not go by its width.
pub const WIDTH: usize = 80;

/// Units that stay on the line of their number.
const UNITS: [&str; 11] = [
    "%", "s", "ms", "us", "ns", "min", "B", "KiB", "MiB", "GiB", "GB/s",
];

/// Text without line breaks: names of threads and processes are chosen by anyone, and one of two
/// lines could look like a line of ours.
pub(super) fn on_one_line(text: &str) -> String {
    text.replace(['\n', '\t'], "?")
}

/// Words, a number and its unit being one.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in on_one_line(text).split(' ') {
        let unit = UNITS.contains(&word.trim_end_matches(['.', ',', ';', ':', ')']));
        match words.last_mut() {
            Some(number) if unit && number.ends_with(|last: char| last.is_ascii_digit()) => {
                number.push(' ');
                number.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

/// The text in lines of at most this many characters; a longer word has a line of its own.
#[must_use]
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut length = 0;
    for word in &words(text) {
        let word_length = word.chars().count();
        if length > 0 && length + 1 + word_length > width {
            lines.push(String::new());
            length = 0;
        }
        if let Some(line) = lines.last_mut() {
            if length > 0 {
                line.push(' ');
                length += 1;
            }
            line.push_str(word);
            length += word_length;
        }
    }
    lines
}

/// The text as a paragraph, in lines of at most `width`.
#[must_use]
pub fn paragraph(text: &str, width: usize) -> String {
    wrapped(text, width).join("\n") + "\n"
}

/// A label, and a text that stands beside it in lines of at most `width`, however many it takes. Labels that are longer
/// than most push their text to the right.
#[must_use]
pub fn labelled(label: &str, text: &str, width: usize) -> String {
    const MARGIN: usize = 10;
    beside(label, text, MARGIN, width)
}

/// The same with a text that begins after `margin` characters.
#[must_use]
pub fn beside(label: &str, text: &str, margin: usize, width: usize) -> String {
    let margin = margin.max(label.chars().count() + 1);
    let mut told = String::new();
    for (number, line) in wrapped(text, width.saturating_sub(margin))
        .iter()
        .enumerate()
    {
        let label = if number == 0 { label } else { "" };
        told.push_str(&format!("{label:margin$}{line}\n"));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_two_lines_makes_none() {
        assert_eq!(paragraph("of a\nb\tc, under", 80), "of a?b?c, under\n");
    }

    #[test]
    fn a_number_keeps_its_unit() {
        assert_eq!(wrapped("of 3.1 s: none", 7), ["of", "3.1 s:", "none"]);
        assert_eq!(wrapped("to 100 %, all", 6), ["to", "100 %,", "all"]);
        assert_eq!(wrapped("a s b", 3), ["a s", "b"], "no number, no unit");
    }

    #[test]
    fn lines_end_where_words_end() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("one two three", 3), ["one", "two", "three"]);
        assert_eq!(wrapped("", 7), [""]);
        assert_eq!(wrapped("ünüsüäl", 7), ["ünüsüäl"]);
    }

    #[test]
    fn what_is_labelled_is_at_most_as_wide_as_a_page() {
        let told = labelled("seen", &"twelve chars ".repeat(20), 100);
        assert!(told.starts_with("seen      twelve chars"), "{told}");
        assert!(told.lines().count() == 3 && told.lines().all(|line| line.len() <= 100));
        assert!(
            told.lines()
                .skip(1)
                .all(|line| line.starts_with("          "))
        );
    }

    #[test]
    fn a_long_label_does_not_run_into_its_text() {
        let told = labelled("policy 170", "at work", 80);
        assert_eq!(told, "policy 170 at work\n");
    }
}
