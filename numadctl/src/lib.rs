//! The command line of numad: parses, asks the daemon over its socket, shows the answer.
//!
//! Decides nothing about placement and changes nothing itself; what works without a daemon
//! (`topo`, `policies`, `config check`, `replay`) reads and no more. Pictures are pure functions in
//! [`render`].

#![forbid(unsafe_code)]

pub mod cli;
mod client;
mod commands;
mod find;
mod fresh;
mod output;
pub mod render;
mod second_reader;
mod stopped;
pub mod terminal;
mod trial;
mod usage;
mod waiting;

use std::ffi::OsString;
use std::io::Write;

use clap::Parser;
use control::{ErrorKind, Failure};

use crate::cli::Cli;
use crate::output::Output;

/// Runs a command line to its end and gives the exit code (docs/exit-codes.md).
///
/// Answers go to `out`, everything else to `err`. `run` replaces the process when all goes well.
pub fn run(arguments: &[OsString], out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let (mut out, mut err) = (Output::new(out), Output::new(err));
    if let Some(code) = stopped::become_one(arguments, &mut err) {
        return code;
    }
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => return explain_usage(&error, arguments, &mut out, &mut err),
    };
    match commands::run(cli, &mut out, &mut err) {
        Ok(code) => code,
        Err(failure) => refuse(&failure, &mut err),
    }
}

/// Tells of a failure, and gives its exit code.
fn refuse(failure: &Failure, err: &mut Output<'_>) -> u8 {
    for line in failure.to_string().lines() {
        // When the error stream is gone too there is nobody left to tell.
        drop(err.text(&format!("numadctl: {line}\n")));
    }
    failure.kind.exit_code()
}

/// Help and version are answers, the rest is an error; clap knows which. Errors are put on one line,
/// as all of ours are.
fn explain_usage(
    error: &clap::Error,
    arguments: &[OsString],
    out: &mut Output<'_>,
    err: &mut Output<'_>,
) -> u8 {
    let text = error.render().to_string();
    if !error.use_stderr() {
        return match out.text(&text) {
            Ok(()) => 0,
            Err(failure) => refuse(&failure, err),
        };
    }
    let is_help = error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    let told = match is_help {
        true => text,
        false => usage::on_one_line(error, arguments),
    };
    drop(err.text(&told));
    ErrorKind::Usage.exit_code()
}
