//! What is wrong with a command line, on one line and in our words.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue};
use control::{ErrorKind, Failure};

use crate::cli;

/// Refuses a setting that is given twice: nobody says which of the two is meant.
pub(crate) fn given_once(set: &[(String, String)]) -> Result<(), Failure> {
    let before = |index: usize| set[..index].iter().map(|(key, _)| key);
    let mut given = set.iter().enumerate();
    match given.find(|&(index, (key, _))| before(index).any(|other| other == key)) {
        None => Ok(()),
        Some((_, (key, _))) => {
            let text = format!("setting `{key}` is given twice");
            Err(Failure::new(ErrorKind::Usage, text).remedy("give it once"))
        }
    }
}

/// clap's report up to its usage line, what to do where that is known, and where to read more.
pub(crate) fn on_one_line(error: &clap::Error, arguments: &[OsString]) -> String {
    let (name, command) = command(arguments);
    let text = error.render().to_string();
    let what = text.split("Usage: ").next().unwrap_or_default();
    // Said at the end for all, with the command.
    let what = what.replace("For more information, try '--help'.", "");
    let what: Vec<&str> = what
        .split_whitespace()
        .filter(|word| *word != "error:")
        .collect();
    let what = what.join(" ").replace(" tip: ", "; tip: ");
    // Nobody wants a file or process that is called like a flag.
    let what = what.split("; tip: to pass").next().unwrap_or_default();
    let remedy = match is_command_without_dashes(error, &command) {
        true => "; put `--` before the command",
        false => "",
    };
    let what = in_our_words(what);
    format!("numadctl: {what}{remedy}; see `{name} --help`\n")
}

/// The command that the words begin with, by its whole name.
fn command(arguments: &[OsString]) -> (String, clap::Command) {
    let mut command = cli::command();
    let mut name = command.get_name().to_owned();
    for word in arguments.iter().skip(1) {
        if let Some(below) = command.find_subcommand(word) {
            name = format!("{name} {}", below.get_name());
            command = below.clone();
        }
    }
    (name, command)
}

/// Whether a word stands where a command after `--` was meant.
fn is_command_without_dashes(error: &clap::Error, command: &clap::Command) -> bool {
    let takes_command = command.get_arguments().any(clap::Arg::is_last_set);
    let is_word = matches!(
        error.get(ContextKind::InvalidArg),
        Some(ContextValue::String(word)) if !word.starts_with('-')
    );
    error.kind() == clap::error::ErrorKind::UnknownArgument && takes_command && is_word
}

/// What Rust's library says of numbers, as we say it.
fn in_our_words(what: &str) -> String {
    let what = what
        .replace("invalid digit found in string", "expected a whole number")
        .replace(
            "cannot parse integer from empty string",
            "expected a whole number",
        )
        .replace(
            "number too large to fit in target type",
            "the number is too large",
        )
        .replace("invalid float literal", "expected a number");
    let Some((before, rest)) = what.split_once(" is not in ") else {
        return what;
    };
    let is_bound = |letter: char| !letter.is_ascii_digit() && !".=-".contains(letter);
    let (range, after) = rest.split_at(rest.find(is_bound).unwrap_or(rest.len()));
    let Some((least, most)) = range.split_once("..") else {
        return what;
    };
    let most = most.trim_start_matches('=');
    let bounds = match most.parse() {
        // All that fits.
        Ok(u64::MAX) | Err(_) => format!("{least} on"),
        Ok(most) => format!("{least} to {most}"),
    };
    format!("{before} is not from {bounds}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_told_in_words() {
        for (rust, ours) in [
            ("a: 0 is not in 1..=3600", "a: 0 is not from 1 to 3600"),
            ("0 is not in 1..18446744073709551615", "0 is not from 1 on"),
            ("9 is not in 1..=8, b", "9 is not from 1 to 8, b"),
            ("x is not in this list", "x is not in this list"),
            ("invalid digit found in string", "expected a whole number"),
        ] {
            assert_eq!(in_our_words(rust), ours);
        }
    }
}
