//! `plan`, and what others do with its file.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use control::Failure;
use control::plan::{BYTES_MAX, Level, Plan};
use control::profile::{Level as Seen, Profile};
use numad_core::CommMatrix;
use plan::{Method, Site, Work};

use crate::cli;
use crate::fresh::{Fresh, cannot_read, cannot_write, must_not_replace};
use crate::output::Output;

/// Most bytes of a matrix that are read.
const MATRIX_BYTES_MAX: u64 = 1 << 30;

pub(super) fn plan(arguments: &cli::Plan, out: &mut Output<'_>) -> Result<(), Failure> {
    must_not_replace(&arguments.profile, &arguments.output)?;
    let named = arguments.policy.as_deref().map(Method::of).transpose()?;
    let (work, level) = work(&arguments.profile)?;
    let method = named.unwrap_or(Method::for_work(&work));
    let level = arguments.level.map_or(level, cli::Placed::level);
    let mut sites = Vec::new();
    for name in cli::machines(&arguments.machine) {
        let topology = topology::load(&name).map_err(|error| super::topo::refused(&error))?;
        let name = host(&name);
        sites.push(Site { name, topology });
    }
    let plan = plan::plan(&work, &sites, level, method)?;
    if arguments.output == Path::new("-") {
        return out.json(&plan);
    }
    let mut fresh = Fresh::replacing(&arguments.output)?;
    serde_json::to_writer_pretty(&mut fresh, &plan)
        .map_err(std::io::Error::from)
        .and_then(|()| fresh.write_all(b"\n"))
        .map_err(|error| cannot_write(&arguments.output, &error))?;
    fresh.keep()?;
    out.text(&told(&plan, &arguments.output))
}

/// What a machine is called in a plan: a file is called as its host is, where it is named after it.
fn host(spec: &str) -> String {
    let path = Path::new(spec);
    let is_file = path.extension().is_some_and(|it| it == "xml");
    let stem = path.file_stem().filter(|_| is_file);
    stem.map_or(spec.to_owned(), |stem| stem.to_string_lossy().into_owned())
}

/// What a plan does, in one line.
fn told(plan: &Plan, file: &Path) -> String {
    let plural = |count: usize, word: &str| match count {
        1 => format!("1 {word}"),
        _ => format!("{count} {word}s"),
    };
    let (before, after) = (plan.cost_before, plan.cost_after);
    format!(
        "`{}`: {} on {} by `{}`; cost {after}, core by core {before}\n",
        file.display(),
        plural(plan.places.len(), plan.level.word()),
        plural(plan.machines.len(), "machine"),
        plan.policy,
    )
}

/// Reads the file of a plan.
pub(super) fn load(path: &Path) -> Result<Plan, Failure> {
    let bytes = read(path, BYTES_MAX as u64 + 1)?;
    control::plan::read(&bytes).map_err(|failure| Failure {
        message: failure
            .message
            .replacen("the file", &format!("`{}`", path.display()), 1),
        ..failure
    })
}

/// What an earlier run did, and whether it was of ranks or threads; by how the file begins.
fn work(path: &Path) -> Result<(Work, Level), Failure> {
    const RECORDINGS: [&[u8]; 3] = [&sampler::recording::MAGIC, b"PERFILE2", b"2ELIFREP"];
    if path.is_dir() {
        return Ok((Work::of_matrix(monitored(path)?), Level::Message));
    }
    let bytes = read(path, MATRIX_BYTES_MAX)?;
    let profile = if RECORDINGS.iter().any(|magic| bytes.starts_with(magic)) {
        drop(bytes);
        super::profile::of_files(&[path.to_owned()], ::profile::metrics::THRESHOLDS)?
    } else if bytes.first() == Some(&b'{') {
        Profile::parse(&bytes, &path.display().to_string())?
    } else {
        return Ok((Work::of_matrix(matrix(path, bytes)?), Level::Message));
    };
    let level = match profile.level {
        Seen::Message => Level::Message,
        Seen::Line | Seen::Page => Level::Thread,
    };
    let work = Work::of_profile(&profile).map_err(|failure| named(path, failure))?;
    Ok((work, level))
}

fn named(path: &Path, failure: Failure) -> Failure {
    Failure {
        message: format!("`{}`: {}", path.display(), failure.message),
        ..failure
    }
}

fn matrix(path: &Path, bytes: Vec<u8>) -> Result<CommMatrix, Failure> {
    match plan::is_monitoring(&bytes) {
        true => plan::from_monitoring(&[(path.display().to_string(), bytes)]),
        false => plan::from_csv(&bytes).map_err(|failure| named(path, failure)),
    }
}

fn monitored(path: &Path) -> Result<CommMatrix, Failure> {
    let entries = path.read_dir().map_err(|error| cannot_read(path, &error))?;
    let mut files = Vec::new();
    for entry in entries {
        let file = entry.map_err(|error| cannot_read(path, &error))?.path();
        if file.extension().is_some_and(|it| it == "prof") {
            files.push(file);
        }
    }
    files.sort();
    let read = |file: &PathBuf| Ok((file.display().to_string(), read(file, MATRIX_BYTES_MAX)?));
    let files: Vec<(String, Vec<u8>)> = files.iter().map(read).collect::<Result<_, Failure>>()?;
    plan::from_monitoring(&files)
}

fn read(path: &Path, most: u64) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes));
    read.map_err(|error| cannot_read(path, &error))?;
    Ok(bytes)
}
