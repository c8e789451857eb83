//! What a recording holds, in a few lines.

use std::path::Path;

use sampler::recording::{Ending, Survey};

use super::units::{bytes, count, seconds};
use super::wrap::{WIDTH, labelled};

/// Seconds from the first to the last time in it.
#[must_use]
pub fn duration_s(survey: &Survey) -> f64 {
    survey
        .span
        .map_or(0.0, |(first, last)| last.since(first).as_secs_f64())
}

/// A few lines: the file, what is in it, and where that came from.
#[must_use]
pub fn summary(file: &Path, size: u64, survey: &Survey) -> String {
    let file = format!(
        "`{}`, {}, {}, {}",
        file.display(),
        ending(survey),
        seconds(duration_s(survey)),
        bytes(size)
    );
    format!("{}{}", labelled("file", &file, WIDTH), contents(survey))
}

/// What is in it, and where that came from.
#[must_use]
pub fn contents(survey: &Survey) -> String {
    let many = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let processes = count(many(survey.processes().len()), "process");
    let messages = match survey.messages {
        0 => String::new(),
        some => format!(" and {}", count(some, "message")),
    };
    let held = format!(
        "{}{messages} of {} in {processes}, {} lost",
        count(survey.samples, "sample"),
        count(many(survey.threads.len()), "thread"),
        survey.lost
    );
    let source = match survey.header.source.as_str() {
        "" => "not told",
        told => told,
    };
    format!(
        "{}{}",
        labelled("holds", &held, WIDTH),
        labelled("source", source, WIDTH)
    )
}

/// Whether it is whole.
#[must_use]
pub fn ending(survey: &Survey) -> String {
    match (&survey.damage, survey.ending) {
        (Some(damage), _) => damage.to_string(),
        (None, Ending::Complete) => "complete".to_owned(),
        (None, ending @ Ending::CutOff { .. }) => ending.to_string(),
    }
}
