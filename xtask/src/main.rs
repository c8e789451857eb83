//! `cargo xtask`: what a developer does beside building and testing.

#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

mod r#gen;
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
    /// packaging/numad.toml.
    Gen {
        /// Write nothing; fail and name the files that are stale.
        #[arg(long)]
        check: bool,
    },
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
    }
}
