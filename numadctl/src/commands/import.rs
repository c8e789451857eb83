//! `import`.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;

use control::{ErrorKind, Failure};
use sampler::perf_data::{self, ImportError, ImportOptions, PerfDataError, Reader, Summary};
use sampler::{Header, RecordingWriter};

use crate::cli::Import;
use crate::fresh::{Fresh, cannot_write};
use crate::output::Output;
use crate::render;

pub(super) fn import(arguments: &Import, out: &mut Output<'_>) -> Result<(), Failure> {
    let shown = if arguments.file == Path::new("-") {
        "standard input".to_owned()
    } else {
        format!("`{}`", arguments.file.display())
    };
    let (input, seekable) = open(&arguments.file, &shown)?;
    if arguments.output == Path::new("-") {
        let text = "a recording cannot go to standard output";
        return Err(Failure::new(ErrorKind::Usage, text).remedy("name a file"));
    }
    let fresh = if arguments.force {
        Fresh::replacing(&arguments.output)?
    } else {
        Fresh::begin(&arguments.output)?
    };
    let reader = if seekable {
        Reader::open(input)
    } else {
        Reader::stream(input)
    };
    let reader = reader.map_err(|error| unreadable(&shown, &error))?;
    let (fresh, summary) = transfer(reader, fresh, arguments, &shown)?;
    let bytes = fresh.bytes();
    fresh.keep()?;
    if arguments.plain.json {
        return out.json(&render::import::value(&summary, &arguments.output, bytes));
    }
    out.text(&render::import::text(&summary, &arguments.output, bytes))
}

/// The file or standard input, and whether one can go to any place in it.
fn open(file: &Path, shown: &str) -> Result<(File, bool), Failure> {
    let refused = |error: io::Error| {
        let kind = match error.kind() {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            io::ErrorKind::PermissionDenied => ErrorKind::NotPermitted,
            _ => ErrorKind::Kernel,
        };
        Failure::new(kind, format!("cannot read {shown}: {}", why(&error)))
    };
    let input = if file == Path::new("-") {
        let owned = io::stdin().as_fd().try_clone_to_owned();
        owned.map(File::from)
    } else {
        File::open(file)
    }
    .map_err(refused)?;
    let about = input.metadata().map_err(refused)?;
    if about.is_dir() {
        let text = format!("{shown} is a directory, as `perf record --threads` makes them");
        return Err(Failure::new(ErrorKind::Usage, text)
            .remedy("record without `--threads`, and name the file"));
    }
    Ok((input, about.is_file()))
}

fn transfer(
    reader: Reader<File>,
    fresh: Fresh,
    arguments: &Import,
    shown: &str,
) -> Result<(Fresh, Summary), Failure> {
    let options = ImportOptions {
        keep_kernel: arguments.keep_kernel,
    };
    let path = fresh.path().to_owned();
    let begin = |header: &Header| RecordingWriter::new(fresh, &path, header);
    perf_data::import(reader, options, begin).map_err(|error| match error {
        ImportError::Input(error) => unreadable(shown, &error),
        ImportError::Output(error) => cannot_write(&error.path, &error.source),
    })
}

fn unreadable(shown: &str, error: &PerfDataError) -> Failure {
    match error {
        PerfDataError::Read { offset, source } => {
            let text = format!("cannot read {shown} at offset {offset}: {}", why(source));
            Failure::new(ErrorKind::Kernel, text)
        }
        error => Failure::new(ErrorKind::Usage, format!("{shown}: {error}")),
    }
}

/// The system's words without its number.
fn why(error: &io::Error) -> String {
    let text = error.to_string().to_lowercase();
    text.split(" (os error")
        .next()
        .unwrap_or_default()
        .to_owned()
}
