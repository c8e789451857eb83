//! The daemon's door: reads the command line, and turns failures into one line and an exit code.

#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::process::ExitCode;

use control::ErrorKind;
use numad::cli::Options;
use numad::external::rights;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    // The daemon's own way to start an external policy, not for people.
    if let Some((_flag, words)) = words.split_first().filter(|it| it.0 == rights::FLAG) {
        return ExitCode::from(rights::become_program(words));
    }
    let options = match Options::read(std::env::args_os()) {
        Ok(options) => options,
        Err(refused) if refused.use_stderr() => {
            let text = refused.to_string();
            let first = text.lines().next().unwrap_or_default();
            let what = first.strip_prefix("error: ").unwrap_or(first);
            let line = format!("numad: {what}; see `numad --help`\n");
            drop(io::stderr().lock().write_all(line.as_bytes()));
            return ExitCode::from(ErrorKind::Usage.exit_code());
        }
        // Help and version go to standard output and are no mistake.
        Err(answer) => {
            return answer
                .print()
                .map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
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
