//! `config` and `reload`.

use std::fs::File;
use std::io;
use std::path::Path;

use control::rows::{ConfigText, ReloadReport};
use control::{ErrorKind, Failure};

use crate::cli::{Config, ConfigAction, Plain};
use crate::client::Client;
use crate::output::Output;
use crate::render;

pub(super) fn config(
    client: &Client,
    arguments: &Config,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    match &arguments.action {
        ConfigAction::Check { file } => {
            let (paths, loaded) = load(file.as_deref())?;
            out.text(&render::settings::checked(paths.file(), &loaded.files))
        }
        ConfigAction::Show {
            offline,
            file,
            plain,
        } => {
            let text = if *offline {
                let (_, loaded) = load(file.as_deref())?;
                ConfigText {
                    files: loaded
                        .files
                        .iter()
                        .map(|file| file.display().to_string())
                        .collect(),
                    text: config::render_effective(&loaded.config),
                    settings: loaded.config.in_words(),
                }
            } else {
                client.get("/v1/config").map_err(|error| match error {
                    crate::client::CallError::Down(failure) => Failure {
                        remedy: format!(
                            "{}; `numadctl config show --offline` reads the files",
                            failure.remedy
                        ),
                        ..failure
                    },
                    crate::client::CallError::Failed(failure) => failure,
                })?
            };
            if plain.json {
                return out.json(&text);
            }
            out.text(&render::settings::shown(&text))
        }
    }
}

pub(super) fn reload(client: &Client, plain: Plain, out: &mut Output<'_>) -> Result<(), Failure> {
    let report: ReloadReport = client.post("/v1/reload", &serde_json::json!({}))?;
    if plain.json {
        return out.json(&report);
    }
    out.text(&render::settings::reloaded(&report))
}

fn load(file: Option<&Path>) -> Result<(config::Paths, config::Loaded), Failure> {
    let paths = file.map_or_else(config::Paths::default, config::Paths::named);
    let shown = paths.file().display();
    if paths.are_absent() {
        let text = format!("there is no file `{shown}`, nor a drop-in");
        return Err(Failure::new(ErrorKind::NotFound, text)
            .remedy("name a settings file, or a directory that holds `numad.toml`"));
    }
    // Opening a pipe would wait for its other end.
    let opened = paths
        .file()
        .metadata()
        .and_then(|about| match about.is_file() {
            true => File::open(paths.file()).map(drop),
            false => Ok(()),
        });
    if matches!(opened, Err(error) if error.kind() == io::ErrorKind::PermissionDenied) {
        let text = format!("you may not read `{shown}`");
        return Err(Failure::new(ErrorKind::NotPermitted, text).remedy("ask as root"));
    }
    match config::load(&paths) {
        Ok(loaded) => Ok((paths, loaded)),
        Err(error) => Err(Failure::new(ErrorKind::Configuration, error.to_string())),
    }
}
