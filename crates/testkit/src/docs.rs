//! The command lines that our documents show, for tests that parse each with the program's parser.
//!
//! A command line is an indented or fenced line, or a span in backticks, that begins with the name
//! of a program. Placeholders (`PID`, `$program`, `{id}`) become values that a parser accepts.

use std::fs;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;

/// A command line as a document shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// Where it stands, as `README.md:12`.
    pub place: String,
    /// The words after the program's name.
    pub arguments: Vec<String>,
    /// Whether it stands in running text, where `numadctl attach` names a command and is not meant
    /// to be typed as it is.
    pub in_prose: bool,
}

/// Every command line of `program` that the documents and messages of this repository show.
///
/// A `program` of several words, as in `cargo xtask`, is looked for as those words.
///
/// # Panics
/// When a document cannot be read, or none shows the program at all.
#[must_use]
pub fn command_lines(program: &str) -> Vec<CommandLine> {
    let root = root();
    let mut found = Vec::new();
    for path in documents(&root) {
        let text = fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("cannot read `{}`: {error}", path.display()));
        let name = path.strip_prefix(&root).unwrap_or(&path).display();
        let shown = match path.extension().and_then(|end| end.to_str()) {
            Some("md") => of_markdown(&text),
            Some("rs") => of_source(&text),
            _ => of_man_page(&text),
        };
        for (line, text, in_prose) in shown {
            for arguments in invocations(&text, program) {
                let place = format!("{name}:{line}");
                found.push(CommandLine {
                    place,
                    arguments,
                    in_prose,
                });
            }
        }
    }
    assert!(!found.is_empty(), "no document shows `{program}`");
    found
}

/// Holds every command line of `program` against its parser, and names all that it refuses.
///
/// # Panics
/// When the parser refuses one. In running text a command may lack arguments.
#[track_caller]
pub fn check(program: &str, parser: &clap::Command) {
    let refused = |line: &CommandLine| {
        let words = std::iter::once(program).chain(line.arguments.iter().map(String::as_str));
        let error = parser.clone().try_get_matches_from(words).err()?;
        let incomplete = matches!(
            error.kind(),
            ErrorKind::MissingRequiredArgument
                | ErrorKind::MissingSubcommand
                | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        );
        let answered = matches!(
            error.kind(),
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
        );
        if answered || incomplete && line.in_prose {
            return None;
        }
        let why = error.to_string();
        Some(format!(
            "{}: `{program} {}`: {}",
            line.place,
            line.arguments.join(" "),
            why.lines().next().unwrap_or_default()
        ))
    };
    let wrong: Vec<String> = command_lines(program).iter().filter_map(refused).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().nth(2).unwrap_or(here);
    root.to_path_buf()
}

/// Documents for people, man pages, and sources, whose messages send people to commands.
fn documents(root: &Path) -> Vec<PathBuf> {
    let mut found = vec![root.join("tests/vm/README.md")];
    for (folder, end) in [
        ("", "md"),
        ("docs", "md"),
        ("docs/decisions", "md"),
        ("docs/man", ""),
    ] {
        for path in entries(&root.join(folder)) {
            if path.is_file() && path.to_string_lossy().ends_with(end) {
                found.push(path);
            }
        }
    }
    for folder in ["crates", "numadctl", "xtask"] {
        sources(&root.join(folder), &mut found);
    }
    found.sort();
    found
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in entries(folder) {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("cannot list `{}`: {error}", folder.display()));
    entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .collect()
}

/// Lines with their numbers and whether they stand in prose.
type Shown = Vec<(usize, String, bool)>;

/// Indented and fenced lines, which go on in the next after a backslash, and spans in backticks, which may go on, too.
fn of_markdown(text: &str) -> Shown {
    let mut shown = Vec::new();
    let (mut fenced, mut after_blank, mut block) = (false, true, false);
    let mut span: Option<(usize, String)> = None;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            continue;
        }
        // An indented line goes on with a block, or begins one below a blank line.
        block = line.starts_with("    ") && (block || after_blank);
        after_blank = line.trim().is_empty();
        if fenced || block {
            let goes_on = |shown: &mut Shown| {
                let (_, before, _) = shown.last_mut()?;
                before.truncate(before.strip_suffix('\\')?.len());
                before.push_str(line.trim());
                Some(())
            };
            if goes_on(&mut shown).is_none() {
                shown.push((index + 1, line.trim().to_owned(), false));
            }
            continue;
        }
        // A paragraph or a row of a table ends every span.
        if after_blank || line.starts_with('|') {
            span = None;
        }
        for (number, part) in line.split('`').enumerate() {
            if number > 0 {
                match span.take() {
                    Some((from, text)) => shown.push((from, text, true)),
                    None => span = Some((index + 1, String::new())),
                }
            }
            if let Some((_, text)) = &mut span {
                text.push_str(part);
            }
        }
        if let Some((_, text)) = &mut span {
            text.push(' ');
        }
    }
    shown
}

/// Spans in backticks of messages.
fn of_source(text: &str) -> Shown {
    let mut shown = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("//") {
            continue;
        }
        let spans: Vec<&str> = line.split('`').collect();
        // A span that goes on in the next line is not looked at.
        if spans.len() % 2 == 1 {
            let spans = spans.into_iter().skip(1).step_by(2);
            shown.extend(spans.map(|span| (index + 1, span.to_owned(), true)));
        }
    }
    shown
}

/// The lines of the examples of a man page.
fn of_man_page(text: &str) -> Shown {
    let mut shown = Vec::new();
    let mut examples = false;
    for (index, line) in text.lines().enumerate() {
        match line {
            ".nf" => examples = true,
            ".fi" => examples = false,
            _ if examples => {
                let plain = line.replace("\\-", "-").replace("\\*(Aq", "'");
                shown.push((
                    index + 1,
                    plain.replace("\\.", ".").replace("\\&", ""),
                    false,
                ));
            }
            _ => {}
        }
    }
    shown
}

/// The arguments of each call of `program` in a line of shell.
fn invocations(line: &str, program: &str) -> Vec<Vec<String>> {
    let program: Vec<&str> = program.split(' ').collect();
    let mut found = Vec::new();
    for command in commands(line) {
        let mut words = command.as_slice();
        while let [first, rest @ ..] = words {
            let set = first.split_once('=').is_some_and(|(name, _)| {
                !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
            });
            if first == "$" || first == "sudo" || first == "nohup" || set {
                words = rest;
            } else {
                break;
            }
        }
        let begins = words.len() >= program.len()
            && words.iter().zip(&program).all(|(word, part)| word == part);
        if begins {
            let arguments = &words[program.len()..];
            // `numad ...` says that something follows, not what.
            if !arguments.iter().any(|word| word == "...") {
                found.push(arguments.iter().map(|word| value(word)).collect());
            }
        }
    }
    found
}

/// What a parser accepts in place of a placeholder.
fn value(word: &str) -> String {
    let number = matches!(word, "PID" | "ID" | "ID|PID" | "N" | "SECONDS" | "MS");
    if number || word.starts_with('$') {
        return "1".to_owned();
    }
    // What a message of ours fills in.
    if let Some((before, rest)) = word.split_once('{')
        && let Some((_, after)) = rest.split_once('}')
    {
        return format!("{before}1{after}");
    }
    match word {
        "NCPUS[:MB]" => "4:1000".to_owned(),
        "TIME" => "1s".to_owned(),
        "KEY=VALUE" | "NAME=VALUE" => "name=1".to_owned(),
        _ => word.to_owned(),
    }
}

/// The commands of a line of shell, each as its words. What follows two spaces or a `#` explains.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word = String::new();
    let mut quote = None;
    let mut letters = line.chars().peekable();
    let close = |word: &mut String, commands: &mut Vec<Vec<String>>| {
        if !word.is_empty() {
            let finished = std::mem::take(word);
            if let Some(command) = commands.last_mut() {
                command.push(finished);
            }
        }
    };
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            (_, Some(open)) if letter == open => quote = None,
            (_, Some(_)) => word.push(letter),
            ('\'' | '"', None) => quote = Some(letter),
            (' ', None) => {
                close(&mut word, &mut commands);
                if matches!(letters.peek(), Some(' ' | '#')) && commands != [Vec::<String>::new()] {
                    break;
                }
            }
            // A redirection ends what the program sees; `ID|PID` is one word.
            ('>' | '<', None) => {
                close(&mut word, &mut commands);
                break;
            }
            ('|', None) if !word.is_empty() => word.push(letter),
            ('|' | '&' | ';', None) => {
                close(&mut word, &mut commands);
                commands.push(Vec::new());
            }
            _ => word.push(letter),
        }
    }
    close(&mut word, &mut commands);
    commands.retain(|command| !command.is_empty());
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn calls(line: &str, program: &str, wanted: &[&[&str]]) {
        assert_eq!(invocations(line, program), wanted, "{line}");
    }

    #[test]
    fn a_line_of_shell_is_taken_apart() {
        calls("numadctl status", "numadctl", &[&["status"]]);
        calls(
            "$ sudo numadctl undo --all",
            "numadctl",
            &[&["undo", "--all"]],
        );
        calls(
            "numadctl config check && numadctl reload",
            "numadctl",
            &[&["config", "check"], &["reload"]],
        );
        calls(
            "perf record -o - | numadctl import - -o a.rec",
            "numadctl",
            &[&["import", "-", "-o", "a.rec"]],
        );
        calls(
            "numadctl attach 4242     # one line",
            "numadctl",
            &[&["attach", "4242"]],
        );
        calls(
            "make compare COMPARE='--only a,b --seeds 1'   side by side",
            "make",
            &[&["compare", "COMPARE=--only a,b --seeds 1"]],
        );
        calls("numadctl detach ID|PID", "numadctl", &[&["detach", "1"]]);
        calls("numadctl detach {id}", "numadctl", &[&["detach", "1"]]);
        calls("cargo xtask gen", "cargo xtask", &[&["gen"]]);
        calls("NUMAD_SOCKET=/x numad --undo >out", "numad", &[&["--undo"]]);
        calls("numadctl attach ...", "numadctl", &[]);
        calls("the numadctl status", "numadctl", &[]);
    }

    #[test]
    fn documents_show_blocks_and_spans() {
        let text =
            "See `a b` and\n`c`:\n\n    d e\n    f \\\n      F\n\n```\ng\n```\n- item\n    `h`\n";
        let shown = of_markdown(text);
        let lines: Vec<(usize, &str, bool)> = shown
            .iter()
            .map(|(line, text, prose)| (*line, text.as_str(), *prose))
            .filter(|(_, text, _)| !text.is_empty())
            .collect();
        assert_eq!(
            lines,
            [
                (1, "a b", true),
                (2, "c", true),
                (4, "d e", false),
                (5, "f F", false),
                (9, "g", false),
                (12, "h", true)
            ]
        );
        assert_eq!(
            of_man_page("text\n.nf\na \\-\\-b\n.fi\n"),
            [(3, "a --b".to_owned(), false)]
        );
    }
}
