//! The file of an experiment: what was planned, what each slice gave, what follows from it.
//!
//! docs/experiments.md describes the fields for people. The page of `numadctl report` is a rendering of this file.

use serde::{Deserialize, Serialize};

use crate::error::{ErrorKind, Failure, changes_display};
use crate::rows::{Matrix, NodeAccesses, Target};

/// Version of the format that this program writes.
pub const FORMAT: u32 = 1;

/// Most blocks that an experiment may have.
pub const BLOCKS_MAX: u32 = 500;
/// Most arms, metrics and slices that a file may have.
const ARMS_MAX: usize = 16;
const METRICS_MAX: usize = 16;
const SLICES_MAX: usize = 8_000;

/// Most bytes of a file: 8,000 slices of 16 metrics take 4 MiB.
pub const BYTES_MAX: usize = 32 << 20;

/// An experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// Version of the format, [`FORMAT`].
    pub format: u32,
    /// The program that wrote it, with its version.
    pub made_by: String,
    /// What was compared.
    pub kind: Kind,
    /// Command line of the program, or how a running one was named.
    pub subject: Vec<String>,
    /// Directory that the command runs in; empty for a running program.
    #[serde(default)]
    pub directory: String,
    /// The machine in one line.
    pub machine: String,
    /// What the order of arms follows from.
    pub seed: u32,
    /// Blocks planned; each has one slice of every arm.
    pub blocks: u32,
    /// Policies compared. The first is the control.
    pub arms: Vec<Arm>,
    /// Metrics. The first is the primary one, which the verdict goes by.
    pub metrics: Vec<Metric>,
    /// Effects below this share are called the same, as in 0.03.
    pub margin: f64,
    /// Whether it may end as soon as it is decided.
    pub looks: bool,
    /// Length of a slice in milliseconds; absent for whole runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice_ms: Option<u64>,
    /// The first part of a slice that is not measured, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub washout_ms: Option<u64>,
    /// Whether the outputs of all runs must be equal.
    #[serde(default)]
    pub same_output: bool,
    /// How it ended.
    pub ending: Ending,
    /// One sentence on why, where there is more to say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Slices in order of time.
    pub slices: Vec<Slice>,
    /// What follows from the slices: of the primary metric first. Computed anew by whoever reads the file.
    #[serde(default)]
    pub results: Vec<ResultRow>,
    /// What was last seen of the program under arms that numad saw it under.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sights: Vec<Sight>,
}

/// The program as it was at the end of an arm's last slice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sight {
    /// Arm, from 0.
    pub arm: u32,
    /// What was accessed from which node.
    pub accesses: Vec<NodeAccesses>,
    /// Who shared memory with whom in that slice; absent for programs of very many threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matrix: Option<Matrix>,
}

impl Experiment {
    /// Keeps what was last seen of the program under an arm, in place of what was seen before.
    pub fn saw(&mut self, sight: Sight) {
        self.sights.retain(|other| other.arm != sight.arm);
        self.sights.push(sight);
        self.sights.sort_by_key(|sight| sight.arm);
    }
}

/// An experiment on a running program, asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentRequest {
    /// Which program.
    pub target: Target,
    /// Policies to compare. The first is the control.
    pub arms: Vec<Arm>,
    /// Metrics as on the command line. The first is the primary one.
    pub metrics: Vec<String>,
    /// Slices under each policy.
    pub blocks: u32,
    /// What the order of arms follows from.
    pub seed: u32,
    /// Effects below this share are called the same.
    pub margin: f64,
    /// Whether it may end as soon as it is decided.
    pub looks: bool,
    /// Length of a slice in milliseconds; 60 s when absent, or as long as the pilot says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice_ms: Option<u64>,
    /// How long a switch takes to be two thirds done, in milliseconds; a pilot measures it when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_constant_ms: Option<u64>,
    /// A slice that is worse than usual under the control by this share ends early.
    pub max_harm: f64,
    /// Whether the caller stays, to give the numbers that commands print.
    #[serde(default)]
    pub attended: bool,
}

/// An experiment of the daemon, in short.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExperimentRow {
    /// Its number.
    pub id: u32,
    /// Who asked for it.
    pub uid: u32,
    /// `waiting`, `pilot`, `running` or `over`.
    pub state: String,
    /// The experiment that it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<u32>,
    /// How the program was named.
    pub subject: Vec<String>,
    /// Names of the policies.
    pub arms: Vec<String>,
    /// The primary metric.
    pub metric: String,
    /// Slices done.
    pub slices: u32,
    /// Slices planned.
    pub planned: u32,
    /// The policy of the last slice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_arm: Option<String>,
    /// What the primary metric was in it; absent without a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_value: Option<f64>,
    /// Seconds that the rest takes, as far as one can tell; absent when it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_s: Option<f64>,
    /// How it ended.
    pub ending: Ending,
    /// One sentence on why, where there is more to say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Grows with all that happens to it.
    pub turn: u64,
    /// Whether it waits for the numbers that commands print.
    #[serde(default)]
    pub asks: bool,
}

/// Numbers that the daemon does not read itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadingRequest {
    /// The turn in which they were asked for.
    pub turn: u64,
    /// In the order of the metrics; null for those that are read by the daemon.
    pub values: Vec<Option<f64>>,
    /// Why there is none; ends the experiment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// What was compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Whole runs of a command.
    Runs,
    /// Slices of time of a running program.
    Slices,
}

/// A policy with its settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arm {
    /// What it is called in this experiment; no two arms alike.
    pub name: String,
    /// The policy; absent when numad is not to touch the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Its settings, where they are not as configured.
    #[serde(default)]
    pub set: std::collections::BTreeMap<String, String>,
}

/// The setting that has the kernel balance under one arm and not under another: `cooperate` or `leave`.
pub const BALANCING: &str = "engine.balancing";

impl Arm {
    /// Whether the kernel is to balance under it.
    #[must_use]
    pub fn has_kernel_balance(&self) -> bool {
        self.set
            .get(BALANCING)
            .is_some_and(|how| how == "cooperate")
    }
}

/// Why arms with and without the kernel's balancing cannot be told apart.
#[must_use]
pub fn balances_anyway() -> Failure {
    let text = "the kernel balances already, so arms without its balancing cannot be had";
    Failure::new(ErrorKind::Conflict, text)
        .remedy("`sysctl kernel.numa_balancing=0` for as long as the experiment takes")
}

/// Whether an experiment with these arms switches the kernel's balancing on and off, which concerns the whole machine.
#[must_use]
pub fn is_machine_wide(arms: &[Arm]) -> bool {
    arms.iter().any(Arm::has_kernel_balance)
}

/// A metric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metric {
    /// As it is given on the command line: `wall`, `cpu`, `cmd:PROGRAM`.
    pub name: String,
    /// Its unit; empty where it is not known.
    #[serde(default)]
    pub unit: String,
    /// Whether more is better.
    pub higher_is_better: bool,
}

/// How an experiment ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// It has not; or whoever ran it was killed.
    Running,
    /// All blocks were run.
    Complete,
    /// A look decided it.
    Decided,
    /// Its user ended it.
    Interrupted,
    /// The program ended by itself.
    ProgramEnded,
    /// Something failed.
    Failed,
}

/// A slice of time under one arm, or a whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// Block, from 0.
    pub block: u32,
    /// Arm, from 0.
    pub arm: u32,
    /// Seconds from the beginning of the experiment; time in which it stood still between two sittings counts not.
    pub at_s: f64,
    /// Length in seconds.
    pub length_s: f64,
    /// Values, in the order of the metrics; absent where there is none.
    pub values: Vec<Option<f64>>,
    /// Exit code of a run; 128 and the signal for one that a signal ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Digest of a run's output, where outputs must be equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Share of time in which some thread of the machine waited for a processor, 0 to 1, where the kernel tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pressure: Option<f64>,
    /// What else disturbed the slice, or was disturbed by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbed: Option<Disturbed>,
    /// Threads that the policy bound, and pages that it moved, in this slice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<Moved>,
}

/// What disturbed a slice beside the policy, and who was disturbed; each absent where the kernel does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Disturbed {
    /// Share of time in which some thread of the machine waited for memory, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_pressure: Option<f64>,
    /// Share of processor time that a hypervisor gave to others, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen: Option<f64>,
    /// Pages that the kernel's own balancing moved, on the whole machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub balanced_pages: Option<u64>,
    /// Of the neighbouring control group that waited most for a processor: the share of time, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbour_cpu: Option<f64>,
    /// Of the one that waited most for memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbour_memory: Option<f64>,
}

/// What a policy did in a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// Times a thread was given another affinity.
    pub threads: u64,
    /// Pages moved.
    pub pages: u64,
    /// Milliseconds that it took to undo them; absent where the program ended first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo_ms: Option<u64>,
}

/// What follows for an arm and a metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultRow {
    /// Name of the arm; the control is the first arm.
    pub arm: String,
    /// Name of the metric.
    pub metric: String,
    /// Pairs of slices that have a value in both arms.
    pub pairs: u32,
    /// By which share the arm is better than the control (worse, below 0); absent without pairs.
    pub gain: Option<f64>,
    /// Lower bound of the true gain; absent where nothing bounds it.
    pub low: Option<f64>,
    /// Upper bound.
    pub high: Option<f64>,
    /// Confidence of the bounds.
    pub confidence: f64,
    /// Two-sided probability of such differences by chance.
    pub p: f64,
    /// The same, adjusted for the number of questions (Holm).
    pub p_adjusted: f64,
    /// The same, valid however often one looked.
    pub p_anytime: f64,
    /// The verdict.
    pub verdict: Verdict,
    /// About how many more pairs would decide; absent when it is decided, or nobody can tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more_pairs: Option<u64>,
}

/// A verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Better than the control.
    Better,
    /// Worse.
    Worse,
    /// Neither by more than the margin.
    Same,
    /// Not known.
    Undecided,
}

/// Reads a file of an experiment, and checks that its parts fit together. Takes any bytes.
///
/// # Errors
/// What is wrong, on one line.
pub fn read(bytes: &[u8]) -> Result<Experiment, Failure> {
    if bytes.len() > BYTES_MAX {
        return Err(no_experiment("it is too large"));
    }
    let value: serde_json::Value =
        serde_json::from_slice(bytes).map_err(|error| no_experiment(&error.to_string()))?;
    match value.get("format").and_then(serde_json::Value::as_u64) {
        None => return Err(no_experiment("it has no `format`")),
        Some(format) if format > u64::from(FORMAT) => {
            let text = format!("the file has format {format}, this program reads {FORMAT}");
            return Err(Failure::new(ErrorKind::Usage, text)
                .remedy("use the version of numadctl that wrote it, or a later one"));
        }
        Some(_) => {}
    }
    let experiment: Experiment =
        serde_json::from_value(value).map_err(|error| no_experiment(&error.to_string()))?;
    check(&experiment).map_err(no_experiment)?;
    plainly_named(&experiment.arms).map_err(no_experiment)?;
    Ok(experiment)
}

/// An experiment as the daemon keeps it: a line of JSON when it begins, one for each slice, one when it ends. So nothing that
/// was measured is lost when the daemon is killed.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptExperiment {
    /// Its number.
    pub id: u32,
    /// Who asked for it.
    pub uid: u32,
    /// What it is, with the slices that there are; its results are not kept.
    pub experiment: Experiment,
}

/// One line of that file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Begun {
        id: u32,
        uid: u32,
        experiment: Box<Experiment>,
    },
    Timing {
        slice_ms: u64,
        washout_ms: u64,
    },
    Slice(Slice),
    Sight(Sight),
    Ended {
        ending: Ending,
        why: String,
    },
}

impl KeptExperiment {
    /// The line with which its file begins.
    ///
    /// # Errors
    /// None that is known: numbers and texts always become JSON.
    pub fn begun(&self) -> Result<String, serde_json::Error> {
        line(&Line::Begun {
            id: self.id,
            uid: self.uid,
            experiment: Box::new(Experiment {
                slices: Vec::new(),
                results: Vec::new(),
                sights: Vec::new(),
                ..self.experiment.clone()
            }),
        })
    }

    /// The line of a slice; `timing` is its length and washout, where a pilot has just told them.
    ///
    /// # Errors
    /// As [`Self::begun`].
    pub fn slice(slice: &Slice, timing: Option<(u64, u64)>) -> Result<String, serde_json::Error> {
        let timing = timing.map(|(slice_ms, washout_ms)| Line::Timing {
            slice_ms,
            washout_ms,
        });
        let timing = timing.as_ref().map(line).transpose()?;
        Ok(timing.unwrap_or_default() + &line(&Line::Slice(slice.clone()))?)
    }

    /// The lines of what was last seen.
    ///
    /// # Errors
    /// As [`Self::begun`].
    pub fn sights(sights: &[Sight]) -> Result<String, serde_json::Error> {
        let lines = sights.iter().map(|sight| line(&Line::Sight(sight.clone())));
        lines.collect()
    }

    /// The line with which it ends.
    ///
    /// # Errors
    /// As [`Self::begun`].
    pub fn ended(ending: Ending, why: &str) -> Result<String, serde_json::Error> {
        line(&Line::Ended {
            ending,
            why: why.to_owned(),
        })
    }

    /// Reads such a file. Takes any bytes; a last line that is cut off is ignored, and without an end it is `running`.
    ///
    /// # Errors
    /// What is wrong, on one line.
    pub fn read(bytes: &[u8]) -> Result<Self, Failure> {
        if bytes.len() > BYTES_MAX {
            return Err(no_experiment("it is too large"));
        }
        let whole = bytes
            .iter()
            .rposition(|byte| *byte == b'\n')
            .unwrap_or_default();
        let mut kept: Option<Self> = None;
        for text in bytes[..whole].split(|byte| *byte == b'\n') {
            let line =
                serde_json::from_slice(text).map_err(|error| no_experiment(&error.to_string()))?;
            match (line, &mut kept) {
                (
                    Line::Begun {
                        id,
                        uid,
                        experiment,
                    },
                    None,
                ) => {
                    if experiment.format > FORMAT {
                        return Err(no_experiment("a later numad wrote it"));
                    }
                    kept = Some(Self {
                        id,
                        uid,
                        experiment: *experiment,
                    });
                }
                (Line::Slice(slice), Some(kept)) => kept.experiment.slices.push(slice),
                (Line::Sight(sight), Some(kept)) => kept.experiment.sights.push(sight),
                (
                    Line::Timing {
                        slice_ms,
                        washout_ms,
                    },
                    Some(kept),
                ) => {
                    kept.experiment.slice_ms = Some(slice_ms);
                    kept.experiment.washout_ms = Some(washout_ms);
                }
                (Line::Ended { ending, why }, Some(kept)) => {
                    kept.experiment.ending = ending;
                    kept.experiment.why = why;
                }
                (Line::Begun { .. }, Some(_)) | (_, None) => {
                    return Err(no_experiment("its lines are out of order"));
                }
            }
        }
        let kept = kept.ok_or_else(|| no_experiment("it is empty"))?;
        check(&kept.experiment).map_err(no_experiment)?;
        Ok(kept)
    }
}

fn line(line: &Line) -> Result<String, serde_json::Error> {
    serde_json::to_string(line).map(|text| text + "\n")
}

/// What does not fit together.
fn check(experiment: &Experiment) -> Result<(), &'static str> {
    let Experiment {
        arms,
        metrics,
        slices,
        ..
    } = experiment;
    // Results look at every block, whether it has slices or not.
    if !(1..=BLOCKS_MAX).contains(&experiment.blocks) {
        return Err("it has not 1 to 500 blocks");
    }
    if !(2..=ARMS_MAX).contains(&arms.len()) {
        return Err("it has not 2 to 16 arms");
    }
    if !(1..=METRICS_MAX).contains(&metrics.len()) {
        return Err("it has not 1 to 16 metrics");
    }
    if slices.len() > SLICES_MAX {
        return Err("it has more than 8000 slices");
    }
    if !(experiment.margin > 0.0 && experiment.margin < 1.0) {
        return Err("its margin is not between 0 and 1");
    }
    let mut names: Vec<&str> = arms.iter().map(|arm| arm.name.as_str()).collect();
    names.sort_unstable();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err("two arms have one name");
    }
    let is_arm = |arm: u32| usize::try_from(arm).is_ok_and(|arm| arm < arms.len());
    if experiment.sights.iter().any(|sight| !is_arm(sight.arm)) {
        return Err("something was seen of no arm");
    }
    let mut seen = std::collections::BTreeSet::new();
    for slice in slices {
        if !is_arm(slice.arm) || slice.block >= experiment.blocks {
            return Err("a slice is of no arm or block");
        }
        if !seen.insert((slice.block, slice.arm)) {
            return Err("a block has two slices of one arm");
        }
        if slice.values.len() != metrics.len() {
            return Err("a slice has not a value for each metric");
        }
    }
    Ok(())
}

/// Names that numadctl writes are one line, and say on a terminal what they are.
fn plainly_named(arms: &[Arm]) -> Result<(), &'static str> {
    let policies = arms.iter().filter_map(|arm| arm.policy.as_deref());
    let mut names = arms.iter().map(|arm| arm.name.as_str()).chain(policies);
    match names.any(|name| name.contains(changes_display)) {
        true => Err("the name of an arm or policy has a line break or another control character"),
        false => Ok(()),
    }
}

fn no_experiment(why: &str) -> Failure {
    let why: String = why
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .take(200)
        .collect();
    Failure::new(
        ErrorKind::Usage,
        format!("the file is no experiment: {why}"),
    )
    .remedy("name a file that an experiment of numadctl wrote")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment() -> Experiment {
        let arm = |name: &str| Arm {
            name: name.to_owned(),
            policy: Some(name.to_owned()),
            set: std::collections::BTreeMap::new(),
        };
        Experiment {
            format: FORMAT,
            made_by: "numadctl 0.1.0".to_owned(),
            kind: Kind::Runs,
            subject: vec!["./solver".to_owned()],
            directory: "/tmp".to_owned(),
            machine: "4 nodes".to_owned(),
            seed: 1,
            blocks: 6,
            arms: vec![arm("linux"), arm("deloc")],
            metrics: vec![Metric {
                name: "wall".to_owned(),
                unit: "s".to_owned(),
                higher_is_better: false,
            }],
            margin: 0.03,
            looks: true,
            slice_ms: None,
            washout_ms: None,
            same_output: false,
            ending: Ending::Running,
            why: String::new(),
            slices: vec![Slice {
                block: 0,
                arm: 1,
                at_s: 0.0,
                length_s: 1.5,
                values: vec![Some(1.5)],
                exit_code: Some(0),
                output: None,
                pressure: None,
                disturbed: None,
                moved: None,
            }],
            results: Vec::new(),
            sights: Vec::new(),
        }
    }

    fn bytes(change: impl FnOnce(&mut Experiment)) -> Vec<u8> {
        let mut experiment = experiment();
        change(&mut experiment);
        serde_json::to_vec(&experiment).unwrap()
    }

    #[track_caller]
    fn refused(bytes: &[u8], part: &str) {
        let failure = read(bytes).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::Usage);
        assert!(failure.message.contains(part), "{failure}");
        assert!(!failure.to_string().contains('\n'));
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(read(&bytes(|_| {})).unwrap(), experiment());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        refused(b"", "no experiment");
        refused(b"{}", "no `format`");
        refused(b"{\"format\":1}", "missing field");
        refused(b"[1]", "no `format`");
        refused(&bytes(|it| it.format = 2), "format 2, this program reads 1");
        refused(&bytes(|it| it.blocks = u32::MAX), "1 to 500 blocks");
        refused(&bytes(|it| it.arms.truncate(1)), "2 to 16 arms");
        refused(&bytes(|it| it.metrics.clear()), "1 to 16 metrics");
        refused(&bytes(|it| it.margin = 0.0), "margin");
        refused(
            &bytes(|it| it.arms[1].name = "linux".to_owned()),
            "one name",
        );
        for name in ["li\nnux", "linux\u{1b}[1m", "linux\u{2028}"] {
            refused(&bytes(|it| it.arms[0].name = name.to_owned()), "line break");
            let policy = Some(name.to_owned());
            refused(&bytes(|it| it.arms[0].policy = policy), "line break");
        }
        refused(&bytes(|it| it.slices[0].arm = 2), "no arm or block");
        refused(&bytes(|it| it.slices[0].block = 6), "no arm or block");
        refused(&bytes(|it| it.slices.extend_from_within(..)), "two slices");
        refused(&bytes(|it| it.slices[0].values.clear()), "each metric");
        refused("[".repeat(10_000).as_bytes(), "");
    }

    #[test]
    fn every_beginning_is_taken_without_panic() {
        let bytes = bytes(|_| {});
        for length in 0..bytes.len() {
            drop(read(&bytes[..length]));
        }
    }

    #[test]
    fn what_is_kept_is_read_wherever_it_is_cut_off() {
        let whole = KeptExperiment {
            id: 3,
            uid: 1000,
            experiment: Experiment {
                slice_ms: Some(60_000),
                washout_ms: Some(15_000),
                ending: Ending::Complete,
                sights: vec![Sight {
                    arm: 1,
                    accesses: vec![NodeAccesses {
                        node: Some(2),
                        threads: 4,
                        samples: 77,
                    }],
                    matrix: None,
                }],
                ..experiment()
            },
        };
        let begun = KeptExperiment {
            experiment: Experiment {
                slice_ms: None,
                washout_ms: None,
                slices: Vec::new(),
                sights: Vec::new(),
                ending: Ending::Running,
                ..whole.experiment.clone()
            },
            ..whole.clone()
        };
        let slice = &whole.experiment.slices[0];
        let text = begun.begun().unwrap()
            + &KeptExperiment::slice(slice, Some((60_000, 15_000))).unwrap()
            + &KeptExperiment::sights(&whole.experiment.sights).unwrap()
            + &KeptExperiment::ended(Ending::Complete, "").unwrap();
        assert_eq!(KeptExperiment::read(text.as_bytes()).unwrap(), whole);
        let first = begun.begun().unwrap().len();
        for length in 0..text.len() {
            let read = KeptExperiment::read(&text.as_bytes()[..length]);
            assert_eq!(read.is_ok(), length >= first, "{length}");
            assert!(read.is_err() || read.unwrap().experiment.ending == Ending::Running);
        }
        let of_no_arm = Sight {
            arm: 2,
            ..whole.experiment.sights[0].clone()
        };
        for wrong in [
            begun.begun().unwrap() + &KeptExperiment::sights(&[of_no_arm]).unwrap(),
            KeptExperiment::ended(Ending::Complete, "").unwrap(),
            begun.begun().unwrap() + &begun.begun().unwrap(),
            begun.begun().unwrap() + "{}\n",
        ] {
            assert!(KeptExperiment::read(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
