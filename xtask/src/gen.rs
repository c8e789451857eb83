//! What is generated from definitions in code: the page of settings, the default settings file, the
//! table of exit codes, the man pages, completions for shells, the picture of a session. `--check` compares instead of writing.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::builder::PossibleValuesParser;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};
use control::ErrorKind;

use crate::session;

/// Where the man pages are.
const MAN: &str = "docs/man";

/// Where the files are that let a shell complete command lines.
const COMPLETIONS: &str = "packaging/completions";

/// What a terminal showed (`make session`), for the picture of it.
const SESSION: &str = "docs/session.txt";

/// Writes every generated file, or checks that each is what would be written.
///
/// A man page that no definition stands behind any more is removed, or named.
pub(crate) fn run(root: &Path, check: bool) -> Result<()> {
    let files = files(root)?;
    let mut stale = Vec::new();
    for (path, content) in &files {
        let there = fs::read(root.join(path)).unwrap_or_default();
        if there == content.as_bytes() {
            continue;
        }
        stale.push(path.display().to_string());
        if !check {
            write(&root.join(path), content)?;
        }
    }
    for path in left_over(root, &files)? {
        stale.push(format!("{} (is no longer made)", path.display()));
        if !check {
            fs::remove_file(root.join(&path))
                .with_context(|| format!("cannot remove `{}`", path.display()))?;
        }
    }
    if check && !stale.is_empty() {
        bail!("stale, run `cargo xtask gen`:\n{}", stale.join("\n"));
    }
    Ok(())
}

/// Every generated file, by its path from the root.
fn files(root: &Path) -> Result<BTreeMap<PathBuf, String>> {
    let mut files = BTreeMap::from([
        (PathBuf::from("docs/config.md"), config::render_markdown()),
        (
            PathBuf::from("packaging/numad.toml"),
            config::render_default(),
        ),
        (PathBuf::from("docs/exit-codes.md"), exit_codes()),
        (Path::new(MAN).join("numad.toml.5"), settings_page()),
    ]);
    if let Ok(session) = fs::read_to_string(root.join(SESSION)) {
        files.insert(PathBuf::from("docs/session.svg"), session::svg(&session));
    }
    add_pages(numadctl::cli::command(), "1", &mut files)?;
    add_pages(numad::cli::command(), "8", &mut files)?;
    add_pages(sim::cli::command(), "1", &mut files)?;
    for command in [
        numadctl::cli::command(),
        numad::cli::command(),
        sim::cli::command(),
    ] {
        add_completions(command, &mut files)?;
    }
    Ok(files)
}

fn write(path: &Path, content: &str) -> Result<()> {
    let folder = path.parent().context("a generated file is in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    fs::write(path, content).with_context(|| format!("cannot write `{}`", path.display()))
}

/// Man pages that are there and are not made.
fn left_over(root: &Path, files: &BTreeMap<PathBuf, String>) -> Result<Vec<PathBuf>> {
    let Ok(entries) = fs::read_dir(root.join(MAN)) else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = Path::new(MAN).join(entry?.file_name());
        if !files.contains_key(&path) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn exit_codes() -> String {
    let mut text = String::from(
        "<!-- Made by `cargo xtask gen` from crates/control; change it there. -->\n\
         # Exit codes\n\n\
         Of `numad` and `numadctl` alike. `numadctl run` ends with the exit code of the program it became.\n\
         An error is one line on the error stream: what failed, on what, and what to do now. Over the\n\
         socket the same failure has the HTTP status and the word in the last two columns.\n\n\
         | code | meaning | HTTP status | `kind` |\n\
         | --- | --- | --- | --- |\n\
         | 0 | success | 200 | |\n",
    );
    for kind in ErrorKind::ALL {
        let word = word(kind);
        let line = format!(
            "| {} | {} | {} | `{word}` |\n",
            kind.exit_code(),
            kind.meaning(),
            kind.http_status()
        );
        text.push_str(&line);
    }
    text
}

/// As it stands in the JSON of an error.
fn word(kind: ErrorKind) -> String {
    serde_json::to_value(kind)
        .ok()
        .and_then(|value| value.as_str().map(ToOwned::to_owned))
        .unwrap_or_default()
}

/// A page for a command and for each command below it, as `numadctl-config-check.1`.
fn add_pages(
    command: clap::Command,
    section: &str,
    files: &mut BTreeMap<PathBuf, String>,
) -> Result<()> {
    let mut command = command.disable_help_subcommand(true);
    // Gives every command its full name.
    command.build();
    let mut waiting = vec![&command];
    while let Some(command) = waiting.pop() {
        let name = command.get_display_name().unwrap_or(command.get_name());
        let man = Man::new(command.clone())
            .section(section)
            .date("")
            .source(concat!("numad ", env!("CARGO_PKG_VERSION")));
        let mut bytes = Vec::new();
        man.render_title(&mut bytes)?;
        man.render_name_section(&mut bytes)?;
        man.render_synopsis_section(&mut bytes)?;
        man.render_description_section(&mut bytes)?;
        man.render_options_section(&mut bytes)?;
        if command.has_subcommands() {
            man.render_subcommands_section(&mut bytes)?;
        }
        let after = command.get_after_help().map(ToString::to_string);
        page_end(&after.unwrap_or_default()).to_writer(&mut bytes)?;
        let text = String::from_utf8(bytes).context("a man page is not UTF-8")?;
        files.insert(Path::new(MAN).join(format!("{name}.{section}")), text);
        waiting.extend(command.get_subcommands());
    }
    Ok(())
}

/// What bash, zsh and fish need to complete a command line, named as they look for it.
fn add_completions(command: clap::Command, files: &mut BTreeMap<PathBuf, String>) -> Result<()> {
    let name = command.get_name().to_owned();
    let command = with_policies(command);
    for (shell, file) in [
        (Shell::Bash, format!("{name}.bash")),
        (Shell::Zsh, format!("_{name}")),
        (Shell::Fish, format!("{name}.fish")),
    ] {
        let mut bytes = Vec::new();
        clap_complete::generate(shell, &mut command.clone(), &name, &mut bytes);
        let text = String::from_utf8(bytes).context("a completion is not UTF-8")?;
        files.insert(
            Path::new(COMPLETIONS).join(file),
            mended(shell, &name, text),
        );
    }
    Ok(())
}

/// What the generator gets wrong, put right.
fn mended(shell: Shell, name: &str, text: String) -> String {
    match shell {
        // With two colons, the first process would end the flags: `attach 4242 --policy` had no values.
        Shell::Zsh => text.replace("'*::pids ", "'*:pids "),
        Shell::Fish => {
            // A flag that still lacks its value is no failure: the value is what is completed.
            let mut text = text.replace("\n    or return\n", "\n    or return 0\n");
            if name == "numadctl" {
                // Only flags have values there.
                let names: Vec<&str> = policies::registry().iter().map(|one| one.name).collect();
                text.push_str(&format!(
                    "complete -c numadctl -n \"__fish_numadctl_using_subcommand policies; and \
                     __fish_seen_subcommand_from show\" -f -a \"{}\"\n",
                    names.join(" ")
                ));
            }
            text
        }
        _ => text,
    }
}

/// The command, with the names of all policies as the values of what takes one. The programs
/// themselves take any name: theirs is the better error, and the daemon may be of another version.
fn with_policies(command: clap::Command) -> clap::Command {
    let lists_policies = command.get_name() == "policies";
    command
        .mut_args(|argument| match argument.get_id().as_str() {
            "policy" => argument.value_parser(policy_names()),
            _ => argument,
        })
        .mut_subcommands(|command| {
            let command = with_policies(command);
            if lists_policies && command.get_name() == "show" {
                command.mut_arg("name", |argument| argument.value_parser(policy_names()))
            } else {
                command
            }
        })
}

fn policy_names() -> PossibleValuesParser {
    let names = policies::registry().iter().map(|policy| policy.name);
    PossibleValuesParser::new(names)
}

/// What stands after the flags in `--help` (examples line by line, then prose), exit codes, and
/// pages to read next.
fn page_end(after_help: &str) -> Roff {
    let mut roff = Roff::new();
    for paragraph in after_help
        .split("\n\n")
        .filter(|paragraph| !paragraph.is_empty())
    {
        if !paragraph.starts_with("EXAMPLE") {
            roff.control("PP", []);
            roff.text([roman(paragraph)]);
            continue;
        }
        roff.control("SH", ["EXAMPLES"]);
        roff.control("nf", []);
        for line in paragraph.lines().skip(1) {
            roff.text([roman(line.trim_start())]);
        }
        roff.control("fi", []);
    }
    roff.control("SH", ["EXIT STATUS"]);
    for (code, meaning) in std::iter::once((0, "success"))
        .chain(ErrorKind::ALL.map(|kind| (kind.exit_code(), kind.meaning())))
    {
        roff.control("TP", []);
        roff.text([bold(code.to_string())]);
        roff.text([roman(meaning)]);
    }
    roff.control("SH", ["SEE ALSO"]);
    roff.text([
        bold("numad"),
        roman("(8), "),
        bold("numadctl"),
        roman("(1), "),
        bold("numad.toml"),
        roman("(5)"),
    ]);
    roff
}

/// `numad.toml(5)`.
fn settings_page() -> String {
    let mut roff = Roff::new();
    let source = format!("numad {}", env!("CARGO_PKG_VERSION"));
    roff.control("TH", ["numad.toml", "5", "", source.as_str()]);
    roff.control("SH", ["NAME"]);
    roff.text([roman("numad.toml - settings of numad")]);
    roff.control("SH", ["DESCRIPTION"]);
    roff.text([
        roman("The daemon reads "),
        italic(config::FILE_DEFAULT),
        roman(", then the files "),
        italic(format!("{}.d/*.toml", config::FILE_DEFAULT)),
        roman(
            " by name; a later one wins, setting by setting. Unknown settings and values out of bounds \
             are errors. ",
        ),
        bold("numadctl config check"),
        roman(" finds them without a daemon."),
    ]);
    for section in config::documented() {
        if section.settings.is_empty() {
            continue;
        }
        roff.control("SH", [format!("[{}]", section.name).as_str()]);
        roff.text([roman(section.help)]);
        for setting in section.settings {
            roff.control("TP", []);
            roff.text([bold(setting.name), roman(" = "), italic(setting.default)]);
            let mut text = String::from(setting.help);
            // Writing to a string does not fail.
            let _always_fine = write!(
                text,
                " Expects {}. Takes effect {}.",
                setting.expects,
                setting.effect.words()
            );
            roff.text([roman(text)]);
        }
    }
    roff.control("SH", ["SEE ALSO"]);
    roff.text([
        bold("numad"),
        roman("(8), "),
        bold("numadctl"),
        roman("(1)"),
    ]);
    roff.render()
}
