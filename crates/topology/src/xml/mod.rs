//! The machine from hwloc's XML, versions 1 to 3, without hwloc.
//!
//! What `lstopo machine.xml` writes. hwloc takes what firmware told at its word, so figures from
//! such a file count as told by firmware. Processors that hwloc knows to exist but wrote no object
//! for (offline, or kept from the one who ran it) are unknown here; none is known to be isolated.

mod element;
mod matrix;
pub(crate) mod objects;

use std::io;
use std::path::Path;

use roxmltree::{Document, Error, ParsingOptions};

use crate::draft::Draft;
use crate::load::{LoadError, Reason, read_bounded};
use crate::machine::Topology;

use self::element::foreign;

/// The largest known file, of a machine with 384 processors, is 0.3 MiB.
pub const BYTES_MAX: u64 = 16 << 20;
/// The same file has 7,000 nodes, texts between elements included.
const ELEMENTS_MAX: u32 = 1 << 20;

/// Which of hwloc's formats a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// Nodes contain their processors; distances hang on an object, as floats.
    One,
    /// Nodes hang on what they are near to; distances are a list of their own.
    TwoOrThree,
}

/// Reads a file.
///
/// # Errors
/// Names the file and what is wrong with it.
pub fn read(path: &Path) -> Result<Topology, LoadError> {
    parse(&text(path)?).map_err(|reason| LoadError {
        file: path.into(),
        reason,
    })
}

/// The text of a file that may be XML.
///
/// # Errors
/// Names the file, and says why it is not a text of a bearable size.
pub fn text(path: &Path) -> Result<String, LoadError> {
    let fail = |reason| LoadError {
        file: path.into(),
        reason,
    };
    let unreadable = |error: io::Error| LoadError::unreadable(path, &error);
    // Opening a pipe would block for ever.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(fail(foreign("neither a file nor a directory")));
    }
    let bytes = read_bounded(path, BYTES_MAX).map_err(unreadable)?;
    let bytes = bytes.ok_or_else(|| {
        fail(Reason::TooLarge {
            bytes_max: BYTES_MAX,
        })
    })?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        fail(foreign(&format!("byte {at} is not UTF-8")))
    })
}

/// Reads the text of a file.
///
/// # Errors
/// Says what is wrong with it.
pub fn parse(text: &str) -> Result<Topology, Reason> {
    if u64::try_from(text.len()).is_ok_and(|length| length > BYTES_MAX) {
        return Err(Reason::TooLarge {
            bytes_max: BYTES_MAX,
        });
    }
    // hwloc writes a DOCTYPE, which must be let through, but never an entity; whoever declares one
    // is up to something.
    if text.contains("<!ENTITY") {
        return Err(foreign("it declares entities"));
    }
    let options = ParsingOptions {
        allow_dtd: true,
        nodes_limit: ELEMENTS_MAX,
        ..ParsingOptions::default()
    };
    let document =
        Document::parse_with_options(text, options).map_err(|error| broken(text, &error))?;
    draft(&document)?.finish().map_err(Reason::Contradiction)
}

fn draft(document: &Document<'_>) -> Result<Draft, Reason> {
    let root = document.root_element();
    if root.tag_name().name() != "topology" {
        let name = root.tag_name().name();
        return Err(foreign(&format!(
            "its outermost element is `{name}`, not `topology`"
        )));
    }
    let version = match root.attribute("version") {
        None => Version::One,
        Some(version) if version.starts_with("2.") || version.starts_with("3.") => {
            Version::TwoOrThree
        }
        Some(version) => return Err(foreign(&format!("its version is `{version}`"))),
    };
    let (mut draft, index) = objects::read(root, version)?;
    match version {
        Version::One => draft.distances = matrix::version_one(root, &index, &mut draft.notes)?,
        Version::TwoOrThree => {
            draft.distances = matrix::version_two(root, &index)?;
            draft.figures = matrix::figures(root, &index)?;
        }
    }
    Ok(draft)
}

/// Tells a file that ends too early from one that is no XML.
fn broken(text: &str, error: &Error) -> Reason {
    if text.trim().is_empty() {
        return foreign("it is empty");
    }
    let starts_right = text.trim_start().starts_with('<');
    let last_line = text.lines().count();
    let at_the_end = match error {
        Error::UnclosedRootNode | Error::UnexpectedEndOfStream => true,
        // A file cut inside a tag breaks at its very end.
        other => at_end(text, other),
    };
    if !starts_right {
        foreign("it is not XML")
    } else if matches!(error, Error::NodesLimitReached) {
        foreign(&format!("it has more than {ELEMENTS_MAX} elements"))
    } else if at_the_end && !text.trim_end().ends_with("</topology>") {
        Reason::CutShort(format!("it ends in line {last_line}, before `</topology>`"))
    } else {
        foreign(&error.to_string())
    }
}

/// Whether an error is in the last tag of a text.
fn at_end(text: &str, error: &Error) -> bool {
    let Some(tag) = text.rfind('<') else {
        return false;
    };
    let row = text[..tag].matches('\n').count() + 1;
    usize::try_from(error.pos().row).is_ok_and(|at| at >= row)
}
