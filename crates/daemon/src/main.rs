//! The daemon's door: reads the command line, and turns failures into one line and an exit code.

#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::process::ExitCode;

use control::ErrorKind;
use numad::cli::Options;

fn main() -> ExitCode {
    let options = match Options::read(std::env::args_os()) {
        Ok(options) => options,
        Err(said) => {
            // Help and version go to standard output and are no mistake.
            let code = if said.use_stderr() {
                ErrorKind::Usage.exit_code()
            } else {
                0
            };
            return said
                .print()
                .map_or(ExitCode::FAILURE, |()| ExitCode::from(code));
        }
    };
    match numad::start::run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let line = format!("numad: {failure}\n");
            // If standard error is gone, the exit code still tells.
            drop(io::stderr().lock().write_all(line.as_bytes()));
            ExitCode::from(failure.kind.exit_code())
        }
    }
}
