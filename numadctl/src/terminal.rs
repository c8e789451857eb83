//! What the terminal can show: how wide it is, and whether it draws more than ASCII.

use std::ffi::OsString;

/// Width where nothing says how wide the terminal is.
pub const WIDTH_DEFAULT: usize = 80;

/// Widest text for people to read; lines longer than this are hard to follow.
pub(crate) const WIDTH_MAX: usize = 100;

/// Variable of the environment, by name.
type Environment<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Columns to draw in: `wanted`, else what the terminal says, else the variable COLUMNS, else 80.
pub(crate) fn columns(wanted: usize) -> usize {
    match wanted {
        0 => seen(
            terminal_size::terminal_size().map(|(width, _)| width.0),
            &|name| std::env::var_os(name),
        ),
        wanted => wanted,
    }
}

/// Columns for prose: the terminal's, but at most 100.
pub(crate) fn prose() -> usize {
    columns(0).min(WIDTH_MAX)
}

fn seen(terminal: Option<u16>, environment: Environment<'_>) -> usize {
    let variable = || environment("COLUMNS")?.to_str()?.parse().ok();
    let known = terminal.map(usize::from).filter(|&width| width > 0);
    known
        .or_else(variable)
        .filter(|&width| width > 0)
        .unwrap_or(WIDTH_DEFAULT)
}

/// A picture as the terminal can show it: with ASCII alone where the locale is not UTF-8.
pub(crate) fn drawn(picture: String) -> String {
    if is_utf8(&|name| std::env::var_os(name)) {
        picture
    } else {
        ascii(&picture)
    }
}

/// The first of these variables that is set decides, as in the C library.
fn is_utf8(environment: Environment<'_>) -> bool {
    ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .filter_map(environment)
        .find(|value| !value.is_empty())
        .is_some_and(|value| {
            let name = value.to_string_lossy().to_ascii_lowercase();
            name.contains("utf-8") || name.contains("utf8")
        })
}

/// Frames and shades in ASCII; every character takes as many columns as before.
#[must_use]
pub fn ascii(picture: &str) -> String {
    picture
        .chars()
        .map(|letter| match letter {
            '─' => '-',
            '│' => '|',
            '┌' | '┬' | '┐' | '├' | '┼' | '┤' | '└' | '┴' | '┘' => '+',
            '░' => '.',
            '▒' => ':',
            '▓' => 'x',
            '█' => '#',
            '·' => '.',
            other => other,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables<'a>(set: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        move |name| {
            let found = set.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        }
    }

    #[test]
    fn the_terminal_says_how_wide_it_is_before_the_environment_does() {
        for (terminal, variable, wanted) in [
            (Some(132), "60", 132),
            (None, "60", 60),
            (Some(0), "60", 60),
            (None, "0", 80),
            (None, "wide", 80),
            (None, "", 80),
        ] {
            let set = [("COLUMNS", variable)];
            assert_eq!(seen(terminal, &variables(&set)), wanted, "{variable}");
        }
    }

    #[test]
    fn the_first_variable_that_is_set_decides_on_letters() {
        for (set, wanted) in [
            (&[][..], false),
            (&[("LANG", "C")], false),
            (&[("LANG", "en_US.UTF-8")], true),
            (&[("LANG", "de_DE.utf8")], true),
            (&[("LC_ALL", "C"), ("LANG", "C.UTF-8")], false),
            (&[("LC_ALL", ""), ("LANG", "C.UTF-8")], true),
            (&[("LC_CTYPE", "C.UTF-8"), ("LANG", "C")], true),
        ] {
            assert_eq!(is_utf8(&variables(set)), wanted, "{set:?}");
        }
    }

    #[test]
    fn pictures_have_an_ascii_form_of_the_same_width() {
        assert_eq!(ascii("┌──┬┐\n│░▒▓█│"), "+--++\n|.:x#|");
    }
}
