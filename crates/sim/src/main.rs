//! The binary `numad-sim`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    sim::cli::run()
}
