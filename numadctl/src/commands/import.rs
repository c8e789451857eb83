//! `import`.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use control::{ErrorKind, Failure};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, poll};
use sampler::perf_data::{self, ImportError, ImportOptions, PerfDataError, Reader, Summary};
use sampler::{Header, RecordingWriter};

use crate::cli::Import;
use crate::fresh::{Fresh, cannot_read, cannot_write, must_not_replace, why};
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
    must_not_replace(&arguments.file, &arguments.output)?;
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
    let refused = |error: io::Error| match file == Path::new("-") {
        true => {
            let text = format!("cannot read {shown}: {}", why(&error));
            Failure::new(ErrorKind::Kernel, text).remedy("name a file")
        }
        false => cannot_read(file, &error),
    };
    let input = if file == Path::new("-") {
        let owned = io::stdin().as_fd().try_clone_to_owned();
        owned.map(File::from)
    } else {
        // A pipe would be waited for until someone writes into it, which may be never.
        File::options()
            .read(true)
            .custom_flags(OFlag::O_NONBLOCK.bits())
            .open(file)
    }
    .map_err(refused)?;
    let about = input.metadata().map_err(refused)?;
    if about.file_type().is_fifo() && file != Path::new("-") {
        wait_for_writer(&input, shown)?;
    }
    if about.is_dir() {
        let text = format!("{shown} is a directory, as `perf record --threads` makes them");
        return Err(Failure::new(ErrorKind::Usage, text)
            .remedy("record without `--threads`, and name the file"));
    }
    Ok((input, about.is_file()))
}

/// Waits until something comes out of a pipe, or its writers have gone; from then on reading waits.
fn wait_for_writer(pipe: &File, shown: &str) -> Result<(), Failure> {
    let failed = |errno: nix::errno::Errno| {
        Failure::new(
            ErrorKind::Kernel,
            format!("cannot read {shown}: {}", errno.desc()),
        )
        .remedy("name a file")
    };
    let mut waiting = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
    if poll(&mut waiting, WRITER_WAIT_MS).map_err(failed)? == 0 {
        let text = format!("nobody writes into the pipe {shown}");
        return Err(Failure::new(ErrorKind::NotFound, text)
            .remedy("start what writes into it first, or name a file"));
    }
    let flags = OFlag::from_bits_retain(fcntl(pipe, FcntlArg::F_GETFL).map_err(failed)?);
    fcntl(pipe, FcntlArg::F_SETFL(flags & !OFlag::O_NONBLOCK)).map_err(failed)?;
    Ok(())
}

/// How long a pipe may stay silent before it has a writer; `perf` writes at once.
const WRITER_WAIT_MS: u16 = 5_000;

/// A file of perf as a recording, in memory.
pub(super) fn into_memory(
    input: impl io::Read + io::Seek + Send + 'static,
    shown: &str,
) -> Result<Vec<u8>, Failure> {
    let reader = Reader::open(input).map_err(|error| unreadable(shown, &error))?;
    let begin = |header: &Header| RecordingWriter::new(Vec::new(), Path::new("memory"), header);
    let imported = perf_data::import(reader, ImportOptions::default(), begin);
    let (bytes, _) = imported.map_err(|error| match error {
        ImportError::Input(error) => unreadable(shown, &error),
        ImportError::Output(error) => cannot_write(&error.path, &error.source),
    })?;
    Ok(bytes)
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
            Failure::new(ErrorKind::Kernel, text).remedy("copy it to another disk and try again")
        }
        // It says itself what to do.
        PerfDataError::Unsupported { .. } => {
            Failure::new(ErrorKind::Usage, format!("{shown}: {error}"))
        }
        error => Failure::new(ErrorKind::Usage, format!("{shown}: {error}"))
            .remedy("name a whole file that `perf record` wrote"),
    }
}
