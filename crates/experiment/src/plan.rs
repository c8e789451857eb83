//! What is asked of an experiment, checked and made a plan before anything is touched.

use control::experiment::{Ending, Experiment, ExperimentRequest, FORMAT, Kind};
use control::rows::Target;
use control::{ErrorKind, Failure, changes_display};

use crate::metric::{self, Source};
use crate::{Design, Timing, pairs_min, results};

/// Metrics of a running program.
const KNOWN: &str =
    "instructions, ipc, local, energy, watts, cmd:PROGRAM, counter:cmd:PROGRAM and prom:URL QUERY";

/// Slices are this long unless they are to be longer: most of the noise of a machine is shorter.
pub const SLICE_DEFAULT_MS: u64 = 60_000;

/// Most that a slice may take: a day.
const SLICE_MAX_MS: u64 = 86_400_000;

/// The experiment on a running program that a request asks for. `machine` is the machine in one line.
///
/// # Errors
/// Names what makes no sense, with what would.
pub fn slices(
    request: &ExperimentRequest,
    made_by: &str,
    machine: String,
) -> Result<Experiment, Failure> {
    let arms = request.arms.clone();
    let mut metrics = Vec::new();
    for text in &request.metrics {
        let metric = metric::parse(text, KNOWN)?;
        let daemons = match metric::source(&metric.name) {
            Some(Source::Daemon(_)) => true,
            Some(Source::Gauge(_) | Source::Counter(_) | Source::Query { .. }) => false,
            _ => {
                let text = format!("metric `{text}` is for whole runs");
                return Err(usage(text).remedy(format!("known are {KNOWN}")));
            }
        };
        if !daemons && !request.attended {
            let text = format!("metric `{text}` is read by numadctl, which would not be there");
            return Err(usage(text).remedy(
                "leave --detach away, or name metrics of the daemon: instructions, ipc, local, energy, watts",
            ));
        }
        // Power is the machine's, whatever the program is under.
        let programs = daemons && metric.name != "watts";
        if programs && arms.iter().any(|arm| arm.policy.is_none()) {
            let text = format!(
                "metric `{text}` is not counted under `off`, where numad does not touch the program"
            );
            return Err(usage(text).remedy("name a cmd: metric, or `none` in place of `off`"));
        }
        metrics.push(metric);
    }
    if !(request.max_harm > 0.0 && request.max_harm < 1.0) {
        return Err(usage("`max_harm` is not between 0 and 1".to_owned()));
    }
    let timing = match request.time_constant_ms {
        Some(constant) => Some(timing(request.slice_ms, constant)?),
        None => None,
    };
    let experiment = Experiment {
        format: FORMAT,
        made_by: made_by.to_owned(),
        kind: Kind::Slices,
        subject: named(&request.target),
        directory: String::new(),
        machine,
        seed: request.seed,
        blocks: request.blocks,
        arms,
        metrics,
        margin: request.margin,
        looks: request.looks,
        slice_ms: timing.map(|timing| timing.slice_ms),
        washout_ms: timing.map(|timing| timing.washout_ms),
        same_output: false,
        ending: Ending::Running,
        why: String::new(),
        slices: Vec::new(),
        results: Vec::new(),
        sights: Vec::new(),
    };
    check(&experiment, "slices")?;
    Ok(experiment)
}

/// Length and washout of slices, given the time constant of a switch.
///
/// # Errors
/// Slices that are too short, with the length that would do.
pub fn timing(slice_ms: Option<u64>, time_constant_ms: u64) -> Result<Timing, Failure> {
    let long_enough = time_constant_ms.saturating_mul(10).max(SLICE_DEFAULT_MS);
    let slice_ms = slice_ms.unwrap_or(long_enough);
    if slice_ms > SLICE_MAX_MS {
        return Err(usage("slices of more than 24 h are refused".to_owned()));
    }
    Timing::for_slices(slice_ms, time_constant_ms).map_err(|error| {
        usage(error.to_string()).remedy(format!(
            "a switch takes {time_constant_ms} ms to be two thirds done; shorter slices measure what the one before left behind"
        ))
    })
}

/// Refuses what could not end in a verdict, or not be run. `pieces` is what one measured piece is called.
///
/// # Errors
/// Usage, with the number that would do.
pub fn check(experiment: &Experiment, pieces: &str) -> Result<(), Failure> {
    let blocks = usize::try_from(experiment.blocks).unwrap_or(usize::MAX);
    Design::draw(experiment.arms.len(), blocks, 0).map_err(|error| {
        usage(error.to_string()).remedy("name them with --policies, commas between")
    })?;
    let least = pairs_min(&results::rules(experiment, experiment.arms.len() - 1));
    if blocks < least {
        let pieces = match blocks {
            1 => pieces.trim_end_matches('s'),
            _ => pieces,
        };
        return Err(usage(format!(
            "{blocks} {pieces} of each policy cannot decide anything"
        ))
        .remedy(format!(
            "at least {least} can, 10 find an effect of 5 to 10 %, 20 one of 3 to 5 %"
        )));
    }
    if !(experiment.margin > 0.0 && experiment.margin <= 0.5) {
        return Err(usage(
            "the margin is not above 0 and up to 50 percent".to_owned(),
        ));
    }
    let mut names: Vec<&str> = experiment
        .metrics
        .iter()
        .map(|metric| metric.name.as_str())
        .collect();
    names.sort_unstable();
    let mut arms: Vec<&str> = experiment
        .arms
        .iter()
        .map(|arm| arm.name.as_str())
        .collect();
    arms.sort_unstable();
    if let Some(pair) = arms.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(usage(format!("two arms are called `{}`", pair[0])));
    }
    // Readers of the file refuse such a name.
    if arms.iter().any(|name| name.contains(changes_display)) {
        return Err(usage(
            "the name of an arm has a line break or another control character".to_owned(),
        ));
    }
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(usage(format!("metric `{}` is given twice", pair[0]))),
        None if !(1..=16).contains(&names.len()) => {
            Err(usage("not 1 to 16 metrics are given".to_owned()))
        }
        None => Ok(()),
    }
}

/// How the program of an experiment was named.
fn named(target: &Target) -> Vec<String> {
    match target {
        Target::Pids(pids) => pids.iter().map(|pid| format!("pid {pid}")).collect(),
        Target::Cgroup(path) => vec![format!("control group {path}")],
        Target::Unit(name) => vec![format!("unit {name}")],
        Target::Command(name) => vec![format!("command {name}")],
        Target::Job(name) => vec![format!("job {name}")],
    }
}

/// A value with twelve digits: more than anyone measures, and few enough that the file gives back the same number.
#[must_use]
pub fn kept(value: f64) -> f64 {
    // Where the last digit stands for less than 1e-22, the reader of JSON may be a bit off.
    format!("{value:.11e}").parse().unwrap_or(value)
}

fn usage(text: String) -> Failure {
    Failure::new(ErrorKind::Usage, text)
}

#[cfg(test)]
pub(crate) mod tests {
    use control::experiment::Arm;

    use super::*;

    pub(crate) fn request() -> ExperimentRequest {
        let arm = |name: &str| Arm {
            name: name.to_owned(),
            policy: Some(name.to_owned()),
            set: std::collections::BTreeMap::new(),
        };
        ExperimentRequest {
            target: Target::Pids(vec![100]),
            arms: vec![arm("linux"), arm("deloc")],
            metrics: vec!["instructions".to_owned()],
            blocks: 6,
            seed: 1,
            margin: 0.03,
            looks: false,
            slice_ms: Some(1_000),
            time_constant_ms: Some(100),
            max_harm: 0.5,
            attended: false,
        }
    }

    #[track_caller]
    fn refused(change: impl FnOnce(&mut ExperimentRequest), part: &str) {
        let mut request = request();
        change(&mut request);
        let failure = slices(&request, "", String::new()).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::Usage);
        assert!(failure.message.contains(part), "{failure}");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        slices(&request(), "", String::new()).unwrap();
        refused(|it| it.arms.truncate(1), "nothing to be compared");
        refused(|it| it.arms[1].policy = None, "under `off`");
        refused(|it| it.arms[1].name = "linux".to_owned(), "called `linux`");
        refused(|it| it.metrics.clear(), "1 to 16 metrics");
        refused(|it| it.metrics[0] = "speed".to_owned(), "is no metric");
        refused(|it| it.metrics[0] = "wall".to_owned(), "whole runs");
        refused(|it| it.metrics[0] = "cmd:x".to_owned(), "not be there");
        refused(|it| it.blocks = 5, "5 slices of each policy cannot decide");
        refused(|it| it.blocks = 1, "1 slice of each policy cannot decide");
        refused(|it| it.slice_ms = Some(499), "at least 500 ms");
        refused(|it| it.slice_ms = Some(u64::MAX), "24 h");
        refused(|it| it.margin = f64::NAN, "margin");
        refused(|it| it.max_harm = -5.0, "max_harm");
        refused(|it| it.max_harm = f64::NAN, "max_harm");
        refused(|it| it.arms[1].name = "a\nb".to_owned(), "line break");
    }

    #[test]
    fn slices_are_long_enough_where_nobody_says_how_long() {
        assert_eq!(timing(None, 1_000).unwrap().slice_ms, 60_000);
        assert_eq!(timing(None, 9_000).unwrap().slice_ms, 90_000);
        assert_eq!(timing(Some(45_000), 9_000).unwrap().washout_ms, 22_500);
    }

    #[test]
    fn kept_values_come_back_from_the_file() {
        let mut chance = crate::Chance::new(1);
        for _ in 0..20_000 {
            let exponent = i32::try_from(chance.below(20)).unwrap() - 9;
            let value = kept((1.0 + chance.bits() as f64 / 1e18) * 10f64.powi(exponent));
            let text = serde_json::to_string(&value).unwrap();
            let read: f64 = serde_json::from_str(&text).unwrap();
            assert_eq!(read.to_bits(), value.to_bits(), "{text}");
        }
    }
}
