//! The file of a profile: what the tasks of a program communicate, and when.
//!
//! docs/profiles.md describes the fields for people. `numadctl profile` writes it, `numadctl plan` reads it.

use serde::{Deserialize, Serialize};

use crate::error::{ErrorKind, Failure};

/// Version of the format that this program writes.
pub const FORMAT: u32 = 1;

/// Most tasks of a profile; a matrix of them has a million cells.
pub const TASKS_MAX: usize = 1024;

/// Longest run in seconds: a 64-bit number of nanoseconds holds no more.
const LENGTH_S_MAX: f64 = 1.9e10;

/// Most bytes of a file.
pub const BYTES_MAX: usize = 256 << 20;

/// What was seen as communication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// A store by one thread, then a load of the same line by another.
    Line,
    /// Accesses of several threads to the same page; the source does not tell stores from loads.
    Page,
    /// Messages.
    Message,
}

/// What two tasks communicate, both directions together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// Position of the lower task.
    pub low: usize,
    /// Position of the other one.
    pub high: usize,
    /// Bytes.
    pub bytes: u64,
    /// Events, or messages.
    pub events: u64,
}

/// Communication of the same span of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Its first moment since the start, in seconds; absent where the source tells no times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_s: Option<f64>,
    /// Its last moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_s: Option<f64>,
    /// Pairs that communicate in it.
    pub pairs: Vec<Pair>,
}

/// What each task communicated in a short time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// Its start, in seconds.
    pub at_s: f64,
    /// Events in it.
    pub events: u64,
    /// Bytes of each task, sent and received.
    pub bytes: Vec<u64>,
}

/// The six metrics of the profile. Absent is what the source does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// `Lcomm`: bytes communicated, each pair counted in both directions.
    pub comm_bytes: u64,
    /// `CommR`: `Lcomm` by bytes of all memory accesses.
    pub comm_ratio: Option<f64>,
    /// `CommC`: mean share of the tasks that communicate in a group.
    pub concurrency: Option<f64>,
    /// `DramR`: share of accesses that memory answered.
    pub dram_ratio: Option<f64>,
    /// `CommLoc`: mean variance of a task's communication with the others, where the largest is 1.
    pub locality: f64,
    /// `CommDyn`: changes of the order of tasks by communication from one second to the next.
    pub changes: Option<u64>,
}

/// Where classes begin.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Thresholds {
    /// `CommR` below which communication cannot matter.
    pub comm_min: f64,
    /// `DramR` below which memory cannot matter.
    pub dram_min: f64,
    /// `CommDyn` above which a program is dynamic.
    pub changes_max: u64,
    /// Samples below which there is no class.
    #[serde(default)]
    pub samples_min: u64,
    /// Events in a second, on average, below which sampled events do not tell static from dynamic.
    #[serde(default)]
    pub events_min: u64,
}

/// What kind of mapping a program gains from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// None.
    NonMapping,
    /// One before it starts.
    Static,
    /// One that follows it while it runs.
    Dynamic,
}

/// A metric that the source does not tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unknown {
    /// Its name, as in the paper.
    pub metric: String,
    /// Why it is not known.
    pub why: String,
}

/// A profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Version of the format, [`FORMAT`].
    pub numad_profile: u32,
    /// The program that wrote it, with its version.
    pub made_by: String,
    /// What it was made from.
    pub source: String,
    /// What was seen as communication.
    pub level: Level,
    /// A name for each task: `rank 3`, or the number and name of a thread.
    pub tasks: Vec<String>,
    /// Length, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length_s: Option<f64>,
    /// The metrics.
    pub metrics: Metrics,
    /// Where classes begin.
    pub thresholds: Thresholds,
    /// Sampled accesses that it is made of; absent where all were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    /// The class; absent where it cannot be told.
    pub class: Option<Class>,
    /// Why it cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_unknown: Option<String>,
    /// The class if mapping can help at all, where only that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_if_mapping_helps: Option<Class>,
    /// Why metrics are not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<Unknown>,
    /// Pairs that communicate at the same time.
    pub groups: Vec<Group>,
    /// The run in time; empty where the source tells no times.
    pub moments: Vec<Moment>,
    /// What else is to be known.
    pub notes: Vec<String>,
}

impl Profile {
    /// A profile out of a file.
    ///
    /// # Errors
    /// When it is none, of another version, or contradicts itself.
    pub fn parse(bytes: &[u8], name: &str) -> Result<Self, Failure> {
        let wrong = |text: String| {
            Failure::new(ErrorKind::Usage, format!("`{name}` is no profile: {text}"))
                .remedy("make it with `numadctl profile --json`")
        };
        let value: serde_json::Value =
            serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
        match value
            .get("numad_profile")
            .and_then(serde_json::Value::as_u64)
        {
            Some(format) if format == u64::from(FORMAT) => {}
            Some(format) => {
                return Err(wrong(format!("its format is {format}, known is {FORMAT}")));
            }
            None => return Err(wrong("it has no `numad_profile`".to_owned())),
        }
        let profile: Self =
            serde_json::from_value(value).map_err(|error| wrong(error.to_string()))?;
        let tasks = profile.tasks.len();
        if tasks > TASKS_MAX {
            return Err(wrong(format!("{tasks} tasks, more than {TASKS_MAX}")));
        }
        let pairs = profile.groups.iter().flat_map(|group| &group.pairs);
        let stray = pairs
            .clone()
            .find(|pair| pair.low >= pair.high || pair.high >= tasks);
        if let Some(Pair { low, high, .. }) = stray {
            return Err(wrong(format!("pair {low}, {high} of {tasks} tasks")));
        }
        let is_length = |length_s| (0.0..=LENGTH_S_MAX).contains(&length_s);
        if let Some(length_s) = profile.length_s.filter(|&it| !is_length(it)) {
            return Err(wrong(format!("{length_s:e} is no length in seconds")));
        }
        if profile
            .moments
            .iter()
            .any(|moment| moment.bytes.len() != tasks)
        {
            return Err(wrong(
                "a moment without one number for each task".to_owned(),
            ));
        }
        Ok(profile)
    }

    /// Bytes between each two tasks, symmetric.
    #[must_use]
    pub fn matrix(&self) -> Vec<Vec<u64>> {
        let mut rows = vec![vec![0_u64; self.tasks.len()]; self.tasks.len()];
        for pair in self.groups.iter().flat_map(|group| &group.pairs) {
            let sum = rows[pair.low][pair.high].saturating_add(pair.bytes);
            rows[pair.low][pair.high] = sum;
            rows[pair.high][pair.low] = sum;
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(length_s: &str) -> Result<Profile, Failure> {
        let metrics = serde_json::to_string(&Metrics::default()).unwrap();
        let text = format!(
            r#"{{"numad_profile": 1, "made_by": "x", "source": "x", "level": "page",
                "tasks": ["a"], "length_s": {length_s}, "metrics": {metrics},
                "thresholds": {{"comm_min": 0, "dram_min": 0, "changes_max": 1}},
                "class": null, "groups": [], "moments": [], "notes": []}}"#
        );
        Profile::parse(text.as_bytes(), "a test")
    }

    #[test]
    fn a_length_is_one_in_seconds() {
        for good in ["null", "0", "2.5", "1e10"] {
            parsed(good).unwrap();
        }
        for (wrong, shown) in [("-1", "-1e0"), ("-0.5", "-5e-1"), ("1e308", "1e308")] {
            let failure = parsed(wrong).unwrap_err();
            let text = format!("`a test` is no profile: {shown} is no length in seconds");
            assert_eq!(failure.message, text);
        }
    }
}
