//! One function for each command.

mod attach;
mod characterize;
mod config;
mod doctor;
mod import;
mod policies;
mod record;
mod replay;
mod show;
mod topo;
mod undo;

use std::path::{Path, PathBuf};

use control::{ErrorKind, Failure, SOCKET_DEFAULT, SOCKET_VARIABLE};

use crate::cli::{Cli, Command};
use crate::client::Client;
use crate::output::Output;

/// Carries out a parsed command line.
pub(crate) fn run(cli: Cli, out: &mut Output<'_>, err: &mut Output<'_>) -> Result<(), Failure> {
    let client = Client::new(socket(cli.socket))?;
    match cli.command {
        Command::Attach(arguments) => attach::attach(&client, &arguments, out),
        Command::Run(arguments) => attach::run(&client, &arguments),
        Command::Detach(arguments) => undo::detach(&client, &arguments, out),
        Command::Undo(arguments) => undo::undo(&client, &arguments, out),
        Command::Status(arguments) => show::status(&client, &arguments, out),
        Command::Explain(arguments) => show::explain(&client, &arguments, out),
        Command::Matrix(arguments) => show::matrix(&client, &arguments, out),
        Command::Record(arguments) => record::record(&client, &arguments, out, err),
        Command::Replay(arguments) => replay::replay(&arguments, out),
        Command::Topo(arguments) => topo::topo(&arguments, out, err),
        Command::Characterize(arguments) => characterize::characterize(&arguments, out, err),
        Command::Import(arguments) => import::import(&arguments, out),
        Command::Policies(arguments) => policies::list(&client, &arguments, out, err),
        Command::Doctor(plain) => doctor::doctor(&client, plain, out),
        Command::Config(arguments) => config::config(&client, &arguments, out),
        Command::Reload(plain) => config::reload(&client, plain, out),
    }
}

/// The socket that is meant: the flag, else the variable, else the default.
fn socket(flag: Option<PathBuf>) -> PathBuf {
    flag.or_else(|| {
        std::env::var_os(SOCKET_VARIABLE)
            .filter(|path| !path.is_empty())
            .map(PathBuf::from)
    })
    .unwrap_or_else(|| PathBuf::from(SOCKET_DEFAULT))
}

/// Gives a drawing out, into a file or, for `-`, to standard output.
fn write_drawing(file: &Path, drawing: &str, out: &mut Output<'_>) -> Result<(), Failure> {
    if file == Path::new("-") {
        return out.raw(drawing);
    }
    std::fs::write(file, drawing).map_err(|error| {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            std::io::ErrorKind::PermissionDenied => ErrorKind::NotPermitted,
            _ => ErrorKind::Kernel,
        };
        Failure::new(kind, format!("cannot write `{}`: {error}", file.display()))
    })
}
