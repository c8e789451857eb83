//! `profile`.

mod memory;
mod messages;
mod sent;
mod started;

use std::fs::File;
use std::io::{Cursor, Read as _};
use std::path::{Path, PathBuf};

use ::profile::build;
use ::profile::metrics::THRESHOLDS;
use control::profile::{BYTES_MAX, Profile, Thresholds};
use control::{ErrorKind, Failure};

use crate::cli;
use crate::client::Client;
use crate::fresh::{Fresh, cannot_read, must_not_replace};
use crate::output::Output;
use crate::{render, terminal};

use super::import;

pub(super) fn profile(
    client: &Client,
    arguments: &cli::Profile,
    out: &mut Output<'_>,
    err: &mut Output<'_>,
) -> Result<u8, Failure> {
    let thresholds = arguments.thresholds(THRESHOLDS);
    if let Some(file) = arguments
        .output
        .as_deref()
        .filter(|it| *it != Path::new("-"))
    {
        for made_of in &arguments.files {
            must_not_replace(made_of, file)?;
        }
        // Whether it can be written is better known now than after the program's end.
        Fresh::replacing(file).map(drop)?;
    }
    let (profile, code) = match arguments.command.is_empty() {
        true => {
            let profile = of_files(&arguments.files, thresholds)?;
            // One that was kept has its own.
            let thresholds = arguments.thresholds(profile.thresholds);
            (build::by_thresholds(profile, thresholds), 0)
        }
        false => {
            // As of `perf stat -o`: a file leaves the streams to the program.
            let file = arguments.output.as_deref();
            let started = started::Started {
                command: &arguments.command,
                keeps_output: file.is_some_and(|file| file != Path::new("-")),
            };
            started::run(client, &started, thresholds, err)?
        }
    };
    match &arguments.output {
        _ if arguments.plain.json => out.json(&profile)?,
        None => out.text(&render::profile::text(&profile, terminal::prose()))?,
        Some(file) => super::write_drawing(file, &render::profile_page::page(&profile), out)?,
    }
    Ok(code)
}

/// The profile of these files, told apart by how they begin.
pub(super) fn of_files(files: &[PathBuf], thresholds: Thresholds) -> Result<Profile, Failure> {
    let files = messages::listed(files)?;
    if let [file] = &files[..] {
        let bytes = read(file)?;
        let shown = file.display().to_string();
        if bytes.starts_with(&sampler::recording::MAGIC) {
            return memory::profile(&bytes, &shown, thresholds);
        }
        if bytes.starts_with(b"PERFILE2") || bytes.starts_with(b"2ELIFREP") {
            let recording = import::into_memory(Cursor::new(bytes), &format!("`{shown}`"))?;
            return memory::profile(&recording, &shown, thresholds);
        }
        if bytes.first() == Some(&b'{') {
            return Profile::parse(&bytes, &shown);
        }
    }
    messages::profile(&files, thresholds)
}

/// The whole of a regular file.
fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let shown = path.display();
    let refused = |error: std::io::Error| cannot_read(path, &error);
    // Opening a pipe would wait for its other end.
    if !path.metadata().map_err(refused)?.is_file() {
        let text = format!("`{shown}` is no file");
        return Err(Failure::new(ErrorKind::Usage, text).remedy("name a file"));
    }
    let limit = FILE_MAX as u64;
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(refused)?;
    file.take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(refused)?;
    if bytes.len() > FILE_MAX {
        let text = format!("`{shown}` has more than {} MiB", FILE_MAX >> 20);
        return Err(Failure::new(ErrorKind::Usage, text).remedy("record a shorter time"));
    }
    Ok(bytes)
}

/// Most bytes of a file; it is held in memory.
const FILE_MAX: usize = 4 << 30;

const _: () = assert!(BYTES_MAX <= FILE_MAX);
