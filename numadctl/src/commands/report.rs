//! `report`.

use control::Failure;
use control::experiment::Experiment;

use crate::cli::experiment::Report;
use crate::client::Client;
use crate::fresh::must_not_replace;
use crate::output::Output;
use crate::{render, terminal, trial};

use super::{history, write_drawing};

/// What is to be shown.
enum Named {
    /// An experiment that the daemon keeps, `ab:3`.
    Kept(u32),
    /// An attachment that has ended, `id:3`.
    Ended(u32),
    /// A file.
    File,
}

pub(super) fn report(
    client: &Client,
    arguments: &Report,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    match named(arguments) {
        Named::Kept(number) => experiment(
            client.get(&format!("/v1/experiments/{number}"))?,
            arguments,
            out,
        ),
        Named::File => {
            if let Some(page) = &arguments.output {
                must_not_replace(&arguments.file, page)?;
            }
            experiment(trial::load(&arguments.file)?, arguments, out)
        }
        Named::Ended(number) => {
            let story = history::story(client, number)?;
            match &arguments.output {
                _ if arguments.json => out.json(&story),
                None => out.text(&render::story::text(&story, terminal::prose())),
                Some(file) => write_drawing(file, &render::story::page(&story), out),
            }
        }
    }
}

fn experiment(
    mut experiment: Experiment,
    arguments: &Report,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    // The slices are the truth; a file that was edited by hand claims nothing that they do not.
    experiment.results = experiment::results::results(&experiment);
    match &arguments.output {
        _ if arguments.json => out.json(&experiment),
        None => out.text(&render::experiment::text(&experiment, terminal::prose())),
        Some(file) => write_drawing(file, &render::experiment_page::page(&experiment), out),
    }
}

fn named(arguments: &Report) -> Named {
    let parts = arguments
        .file
        .to_str()
        .and_then(|name| name.split_once(':'));
    let number = parts.and_then(|(_, number)| number.parse().ok());
    match (parts, number) {
        (Some(("ab", _)), Some(number)) => Named::Kept(number),
        (Some(("id", _)), Some(number)) => Named::Ended(number),
        _ => Named::File,
    }
}
