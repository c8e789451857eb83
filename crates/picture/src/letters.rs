//! Pictures made of letters: which letters a terminal can show.

use std::ffi::OsString;

/// A picture as a terminal with this environment can show it: in ASCII alone where its locale is not UTF-8.
#[must_use]
pub fn drawn(picture: String, environment: &dyn Fn(&str) -> Option<OsString>) -> String {
    if is_utf8(environment) {
        picture
    } else {
        ascii(&picture)
    }
}

/// The first of these variables that is set decides, as in the C library.
fn is_utf8(environment: &dyn Fn(&str) -> Option<OsString>) -> bool {
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
