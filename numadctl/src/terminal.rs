//! What the terminal can show: how wide it is, and whether it draws more than ASCII.

use std::ffi::OsString;

use picture::letters;

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
    letters::drawn(picture, &|name| std::env::var_os(name))
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let known = |name: &str| (name == "COLUMNS").then(|| OsString::from(variable));
            assert_eq!(seen(terminal, &known), wanted, "{variable}");
        }
    }
}
