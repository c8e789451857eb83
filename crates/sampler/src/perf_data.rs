//! Files that `perf record` wrote: what perf saw, as records of ours.
//!
//! Both forms are read, the one with a table of contents (`PERFILE2`, from a file) and the one made
//! for pipes, in either byte order, with several events, compressed or not. [`Reader`] gives what is
//! in a file one [`Item`] at a time, as perf itself would; [`import()`] puts that in the order of time
//! and writes a recording.
//!
//! Reading is total: any bytes give items or an error with the offset. No length is believed before
//! the bytes are there, so a forged file is read into no more memory than a good one: a record has
//! at most 64 KiB, a section that is kept at most 8 MiB, a compressed window at most 8 MiB, and
//! [`import()`] holds back at most about a million records for the order.
//!
//! What perf's tools know of a file but nobody needs here is skipped: mappings, build ids, traces of
//! processors (`AUXTRACE`), tracepoints' fields. The name of the host and the command line are left
//! out on purpose.

mod attr;
mod bytes;
mod error;
mod events;
mod features;
mod import;
mod inflate;
mod input;
mod machine;
mod order;
mod reader;
mod sample;

pub use attr::Event;
pub use error::PerfDataError;
pub use import::{ImportError, ImportOptions, Skipped, Summary, import};
pub use reader::{Item, Reader};
pub use sample::PerfSample;

/// Reads everything of `data`, as a file and as a stream, and imports it into memory; for fuzzing.
///
/// # Errors
/// When the bytes are no whole file of perf.
pub fn check(data: &[u8]) -> Result<Summary, ImportError> {
    let options = ImportOptions { keep_kernel: true };
    let begin = |header: &crate::Header| {
        crate::RecordingWriter::new(std::io::sink(), std::path::Path::new("memory"), header)
    };
    // What the stream gives is less than what the file gives; it must come to an end all the same.
    if let Ok(mut reader) = Reader::stream(data) {
        while matches!(reader.next_item(), Ok(Some(_))) {}
    }
    let reader = Reader::open(std::io::Cursor::new(data)).map_err(ImportError::Input)?;
    import(reader, options, begin).map(|(_, summary)| summary)
}

#[cfg(test)]
mod tests;
