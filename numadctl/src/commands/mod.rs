//! One function for each command.

mod ab;
mod attach;
mod characterize;
mod checkup;
mod compare;
mod config;
mod doctor;
mod export;
mod history;
mod import;
mod journal;
mod launch;
mod mpi;
mod plan;
mod policies;
mod profile;
mod record;
mod replay;
mod report;
mod show;
mod topo;
mod undo;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use control::{ErrorKind, Failure, SOCKET_DEFAULT, SOCKET_VARIABLE};

use crate::cli::{Cli, Command};
use crate::client::Client;
use crate::fresh::{Fresh, cannot_write};
use crate::output::Output;

#[cfg(feature = "hwloc")]
pub(crate) use topo::refused;

/// Carries out a parsed command line and gives the exit code: that of the program, if `run` or `ab` waited for one.
pub(crate) fn run(cli: Cli, out: &mut Output<'_>, err: &mut Output<'_>) -> Result<u8, Failure> {
    let client = Client::new(socket(cli.socket))?;
    match &cli.command {
        Command::Run(arguments) => {
            return match &arguments.plan {
                Some(file) => launch::run(&client, arguments, file, err),
                None => attach::run(&client, arguments, err),
            };
        }
        Command::Ab(arguments) => return ab::ab(&client, arguments, out, err),
        Command::Profile(arguments) => return profile::profile(&client, arguments, out, err),
        _ => {}
    }
    other(&client, cli.command, out, err).map(|()| 0)
}

fn other(
    client: &Client,
    command: Command,
    out: &mut Output<'_>,
    err: &mut Output<'_>,
) -> Result<(), Failure> {
    match command {
        Command::Attach(arguments) => attach::attach(client, &arguments, out),
        Command::Run(arguments) => attach::run(client, &arguments, err).map(drop),
        Command::Detach(arguments) => undo::detach(client, &arguments, out, err),
        Command::Undo(arguments) => undo::undo(client, &arguments, out, err),
        Command::Journal(arguments) => journal::journal(client, &arguments, out),
        Command::Status(arguments) => show::status(client, &arguments, out),
        Command::Explain(arguments) => show::explain(client, &arguments, out),
        Command::Matrix(arguments) => show::matrix(client, &arguments, out),
        Command::Record(arguments) => record::record(client, &arguments, out, err),
        Command::Profile(arguments) => profile::profile(client, &arguments, out, err).map(drop),
        Command::Replay(arguments) => replay::replay(&arguments, out),
        Command::Ab(arguments) => ab::ab(client, &arguments, out, err).map(drop),
        Command::Compare(arguments) => compare::compare(client, &arguments, out, err),
        Command::Report(arguments) => report::report(client, &arguments, out),
        Command::Topo(arguments) => topo::topo(&arguments, out, err),
        Command::Characterize(arguments) => characterize::characterize(&arguments, out, err),
        Command::Import(arguments) => import::import(&arguments, out),
        Command::Export(arguments) => export::export(client, &arguments, out),
        Command::Plan(arguments) => plan::plan(&arguments, out),
        Command::History(plain) => history::history(client, plain, out),
        Command::Policies(arguments) => policies::list(client, &arguments, out, err),
        Command::Doctor(arguments) => match arguments.pid {
            Some(pid) => checkup::checkup(client, pid, arguments, out),
            None => doctor::doctor(client, arguments, out),
        },
        Command::Config(arguments) => config::config(client, &arguments, out),
        Command::Mpi(arguments) => mpi::mpi(client.socket(), arguments, out),
        Command::Reload(plain) => config::reload(client, plain, out),
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

/// The state directory of the daemon: the flag, else what the settings say.
fn state_directory(flag: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(directory) = flag {
        return Ok(directory.to_owned());
    }
    let loaded = ::config::load(&::config::Paths::default()).map_err(|error| {
        let problems = error.to_string().replace('\n', "; ");
        Failure::new(ErrorKind::Configuration, problems)
    })?;
    Ok(loaded.config.daemon.state_dir)
}

/// Gives a drawing out, into a file or, for `-`, to standard output.
fn write_drawing(file: &Path, drawing: &str, out: &mut Output<'_>) -> Result<(), Failure> {
    if file == Path::new("-") {
        return out.raw(drawing);
    }
    // Through no link, which someone else may have put there.
    let mut fresh = Fresh::replacing(file)?;
    fresh
        .write_all(drawing.as_bytes())
        .map_err(|error| cannot_write(file, &error))?;
    fresh.keep()
}
