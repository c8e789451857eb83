//! Metrics: what they are called, and what value the readings of a slice give.

use std::time::Duration;

use control::experiment::{Metric, Moved};
use control::rows::Counts;
use control::{ErrorKind, Failure};

/// What is said of a primary metric without a value in the first slice.
pub const NO_VALUE: &str = "has no value here";

/// How the value of a metric comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// Time from start to end of a run.
    Wall,
    /// Processor time of a run.
    Cpu,
    /// A number that a command prints.
    Gauge(&'a str),
    /// The growth per second of a number that a command prints.
    Counter(&'a str),
    /// A number that a Prometheus server gives.
    Query {
        /// Where it listens, `http://...`.
        url: &'a str,
        /// What it is asked.
        query: &'a str,
    },
    /// A figure of the daemon about the attached program.
    Daemon(Figure),
}

/// A figure that the daemon has of an attached program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Instructions per cycle.
    Ipc,
    /// Instructions per second.
    Instructions,
    /// Share of accesses that are local.
    Local,
    /// Joules of the processor packages: of a whole run, or for a billion instructions of a program.
    Energy,
    /// Power of the processor packages.
    Watts,
}

/// What was read at a moment of a slice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// When, since the beginning of the experiment.
    pub at: Duration,
    /// What the daemon counts.
    pub counts: Option<Counts>,
    /// Share of accesses that are local.
    pub local: Option<f64>,
    /// Joules that the processor packages have used since the slice's first reading.
    pub energy: Option<f64>,
    /// What was moved so far in this slice.
    pub moved: Moved,
    /// Numbers that commands printed, in the order of the metrics; none for metrics without a command.
    pub printed: Vec<Option<f64>>,
}

impl Source<'_> {
    /// Whether its numbers come from a command or a server, and not from the daemon.
    #[must_use]
    pub const fn is_outside(&self) -> bool {
        match self {
            Self::Gauge(_) | Self::Counter(_) | Self::Query { .. } => true,
            Self::Wall | Self::Cpu | Self::Daemon(_) => false,
        }
    }
}

/// Whether one of these needs the energy that the processor packages use.
pub fn needs_energy(metrics: &[Metric]) -> bool {
    let energy = |name: &str| {
        let source = source(name);
        matches!(source, Some(Source::Daemon(Figure::Energy | Figure::Watts)))
    };
    metrics.iter().any(|metric| energy(&metric.name))
}

/// Whether the primary one of these needs the instructions of a program.
#[must_use]
pub fn needs_instructions(metrics: &[Metric]) -> bool {
    let primary = metrics.first().and_then(|metric| source(&metric.name));
    matches!(
        primary,
        Some(Source::Daemon(
            Figure::Instructions | Figure::Ipc | Figure::Energy
        ))
    )
}

/// That nothing here counts energy.
#[must_use]
pub fn no_energy() -> Failure {
    let text = "energy is not counted here: `/sys/class/powercap` has no processor package";
    Failure::new(ErrorKind::Prerequisite, text)
        .remedy("load `intel_rapl_msr`, for AMD too; virtual machines have none, so name another metric there")
}

/// What a metric's name means.
#[must_use]
pub fn source(name: &str) -> Option<Source<'_>> {
    match name {
        "wall" => Some(Source::Wall),
        "cpu" => Some(Source::Cpu),
        "ipc" => Some(Source::Daemon(Figure::Ipc)),
        "instructions" => Some(Source::Daemon(Figure::Instructions)),
        "local" => Some(Source::Daemon(Figure::Local)),
        "energy" => Some(Source::Daemon(Figure::Energy)),
        "watts" => Some(Source::Daemon(Figure::Watts)),
        _ => {
            let command = |prefix: &str| {
                let command = name.strip_prefix(prefix)?;
                (!command.trim().is_empty()).then_some(command)
            };
            command("counter:cmd:")
                .map(Source::Counter)
                .or_else(|| command("cmd:").map(Source::Gauge))
                .or_else(|| query(name))
        }
    }
}

fn query(name: &str) -> Option<Source<'_>> {
    let (url, query) = name
        .strip_prefix("prom:")?
        .split_once(char::is_whitespace)?;
    let named = url
        .strip_prefix("http://")
        .is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'));
    (named && !query.trim().is_empty()).then_some(Source::Query { url, query })
}

/// Reads a metric as it is given: a name, with `lower:` or `higher:` before it where it is not as usual.
///
/// # Errors
/// A name that means nothing here.
pub fn parse(text: &str, known: &str) -> Result<Metric, Failure> {
    let (name, higher) = if let Some(name) = text.strip_prefix("lower:") {
        (name, Some(false))
    } else if let Some(name) = text.strip_prefix("higher:") {
        (name, Some(true))
    } else {
        (text, None)
    };
    let source = source(name).ok_or_else(|| {
        Failure::new(ErrorKind::Usage, format!("`{text}` is no metric"))
            .remedy(format!("known are {known}"))
    })?;
    let (unit, usual) = match source {
        Source::Wall | Source::Cpu => ("s", false),
        Source::Gauge(_) | Source::Query { .. } | Source::Daemon(Figure::Local) => ("", true),
        Source::Counter(_) | Source::Daemon(Figure::Instructions) => ("1/s", true),
        Source::Daemon(Figure::Ipc) => ("1/cycle", true),
        Source::Daemon(Figure::Energy) => ("J/10^9 instr.", false),
        Source::Daemon(Figure::Watts) => ("W", false),
    };
    Ok(Metric {
        name: name.to_owned(),
        unit: unit.to_owned(),
        higher_is_better: higher.unwrap_or(usual),
    })
}

/// The value of the metric at this place in the list, by the readings of a slice; none where nothing is known.
#[must_use]
pub fn value(source: Source<'_>, index: usize, readings: &[Reading]) -> Option<f64> {
    let (first, last) = (readings.first()?, readings.last()?);
    let seconds = last.at.checked_sub(first.at)?.as_secs_f64();
    let printed = |reading: &Reading| reading.printed.get(index).copied().flatten();
    let counted = |of: fn(&Counts) -> Option<u64>| {
        let at = |reading: &Reading| reading.counts.as_ref().and_then(of);
        at(last)?.checked_sub(at(first)?).map(|count| count as f64)
    };
    let mean = |of: &dyn Fn(&Reading) -> Option<f64>| {
        let values: Vec<f64> = readings.iter().filter_map(of).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let value = match source {
        Source::Gauge(_) | Source::Query { .. } => mean(&printed)?,
        Source::Counter(_) => {
            let read: Vec<f64> = readings.iter().filter_map(printed).collect();
            // One that goes backwards was set to 0 meanwhile: nothing is known of the slice.
            if !read.is_sorted() {
                return None;
            }
            (printed(last)? - printed(first)?) / seconds
        }
        Source::Daemon(Figure::Instructions) => counted(|it| it.instructions)? / seconds,
        Source::Daemon(Figure::Ipc) => counted(|it| it.instructions)? / counted(|it| it.cycles)?,
        Source::Daemon(Figure::Local) => mean(&|reading| reading.local)?,
        Source::Daemon(Figure::Energy) => {
            (last.energy? - first.energy?) / (counted(|it| it.instructions)? / 1e9)
        }
        Source::Daemon(Figure::Watts) => (last.energy? - first.energy?) / seconds,
        Source::Wall | Source::Cpu => return None,
    };
    (value.is_finite() && value > 0.0).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_read() {
        let of = |text| parse(text, "").map(|it| (it.name, it.higher_is_better));
        assert_eq!(of("wall").unwrap(), ("wall".to_owned(), false));
        assert_eq!(
            of("cmd:date +%s").unwrap(),
            ("cmd:date +%s".to_owned(), true)
        );
        assert_eq!(of("lower:cmd:x").unwrap(), ("cmd:x".to_owned(), false));
        assert_eq!(of("counter:cmd:x").unwrap().0, "counter:cmd:x");
        let query = source("prom:http://localhost:9090 rate(x[1m])").unwrap();
        assert!(query.is_outside(), "{query:?}");
        for nothing in [
            "",
            "wal",
            "cmd:",
            "cmd: ",
            "counter:",
            "lower:",
            "prom:x",
            "prom:https://x y",
            "prom:http:// y",
            "prom:http://x ",
        ] {
            assert_eq!(of(nothing).unwrap_err().kind, ErrorKind::Usage, "{nothing}");
        }
    }

    fn readings(printed: &[f64]) -> Vec<Reading> {
        let reading = |(second, printed): (u64, &f64)| Reading {
            at: Duration::from_secs(second),
            counts: Some(Counts {
                instructions: Some(1_000 * second * second),
                cycles: Some(2_000 * second),
                ..Counts::default()
            }),
            local: Some(0.25 + 0.25 * (second % 2) as f64),
            energy: Some(50.0 * second as f64),
            moved: Moved::default(),
            printed: vec![Some(*printed)],
        };
        (0..).zip(printed).map(reading).collect()
    }

    #[track_caller]
    fn gives(source: Source<'_>, printed: &[f64], wanted: Option<f64>) {
        assert_eq!(value(source, 0, &readings(printed)), wanted);
    }

    #[test]
    fn values_follow_from_readings() {
        gives(Source::Gauge(""), &[1.0, 2.0, 6.0], Some(3.0));
        gives(Source::Counter(""), &[10.0, 11.0, 30.0], Some(10.0));
        gives(
            Source::Daemon(Figure::Instructions),
            &[0.0; 3],
            Some(2_000.0),
        );
        gives(Source::Daemon(Figure::Ipc), &[0.0; 3], Some(1.0));
        gives(Source::Daemon(Figure::Local), &[0.0; 4], Some(0.375));
        gives(Source::Daemon(Figure::Watts), &[0.0; 3], Some(50.0));
        // 100 J for 4,000 instructions.
        let energy = Source::Daemon(Figure::Energy);
        gives(energy, &[0.0; 3], Some(25_000_000.0));
        let mut readings = readings(&[0.0; 3]);
        readings[2].energy = None;
        assert_eq!(value(energy, 0, &readings), None);
    }

    #[test]
    fn what_cannot_be_told_has_no_value() {
        gives(Source::Counter(""), &[10.0], None);
        gives(Source::Counter(""), &[10.0, 5.0], None);
        gives(Source::Counter(""), &[10.0, 0.0, 30.0], None);
        gives(Source::Gauge(""), &[0.0, 0.0], None);
        gives(Source::Gauge(""), &[], None);
        gives(Source::Daemon(Figure::Ipc), &[1.0], None);
    }
}
