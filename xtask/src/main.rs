//! `cargo xtask`: what a developer does beside building and testing.

#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

mod r#gen;
mod session;
mod soak;
mod tidy;

#[derive(Debug, Parser)]
#[command(name = "xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Check what the compiler cannot: the map, unsafe rooms, file sizes, links.
    Tidy,
    /// Write what is generated from definitions: docs/config.md, docs/exit-codes.md, docs/man,
    /// docs/session.svg, packaging/completions, packaging/numad.toml.
    Gen {
        /// Write nothing; fail and name the files that are stale.
        #[arg(long)]
        check: bool,
    },
    /// Let those who do their worst loose on the real daemon, from a seed.
    Soak(soak::Soak),
    /// One of those; started by `soak`.
    #[command(hide = true)]
    SoakClient(soak::Client),
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[expect(
                clippy::print_stderr,
                reason = "this is where a task tells its failure"
            )]
            {
                eprintln!("xtask: {error:#}");
            }
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("xtask has no parent folder")?;
    match Arguments::parse().task {
        Task::Tidy => tidy::run(root),
        Task::Gen { check } => r#gen::run(root, check),
        Task::Soak(soak) => soak::run(soak),
        Task::SoakClient(client) => soak::client(&client),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn what_documents_show_is_a_task() {
        testkit::docs::check("cargo xtask", &Arguments::command());
    }

    #[test]
    fn what_documents_show_is_a_target() {
        let makefile = include_str!("../../Makefile");
        let targets: Vec<&str> = makefile
            .lines()
            .filter(|line| !line.starts_with(['\t', '#']))
            .filter_map(|line| line.split_once(':'))
            .map(|(target, _)| target.trim())
            .collect();
        let variable = |name: &str| makefile.contains(&format!("$({name}"));
        for line in testkit::docs::command_lines("make") {
            for word in &line.arguments {
                let known = match word.split_once('=') {
                    Some((name, _)) => variable(name),
                    None => targets.contains(&word.as_str()),
                };
                assert!(known, "{}: there is no `{word}` to make", line.place);
            }
        }
    }
}
