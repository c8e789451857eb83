//! Replays a recording: the same engine and policy, on a machine on paper. What would have been done?
//!
//! The same file and the same request give the same report, bit for bit.

mod show;
#[cfg(test)]
mod tests;

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use numad_core::{AttachError, AttachOptions, IntervalLaw, PolicyFactory};
use sampler::Replay;
use sampler::recording::{Ending, RecordingError, Survey, THREADS_MAX};
use topology::{Pid, TaskKey, Topology};

use crate::driver::{self, Setup, Snapshot, WindowRow};
use crate::paper::{Ground, Paper};
use crate::report::{RunError, RunErrorKind, builder, find, load, settings_of, unset};
use crate::stage::Stage as _;
use crate::story::Story;

pub use show::Table;

/// Most threads of a recording that is replayed.
const REPLAYED_THREADS_MAX: usize = 65_536;
const _: () = assert!(REPLAYED_THREADS_MAX <= THREADS_MAX);

/// Longest recording. A day is the longest that is made; times beyond this are damage.
const LENGTH_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// Batches of recordings without marks: a fifth of the shortest window.
const SLICE: Duration = Duration::from_millis(10);

/// Sizes that pages have anywhere.
const PAGE_BYTES_MIN: u64 = 4096;
const PAGE_BYTES_MAX: u64 = 1 << 30;

/// What to replay, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplaySpec {
    /// What errors call the recording: its file.
    pub name: String,
    /// Name of the policy.
    pub policy: String,
    /// Settings of the policy, as typed.
    pub settings: Vec<(String, String)>,
    /// A machine, as [`topology::load()`] reads it. None means the one that was recorded.
    pub machine: Option<String>,
    /// Length of all windows. None means what the engine does by default.
    pub window: Option<Duration>,
}

/// What came of a replay.
#[derive(Debug)]
pub struct ReplayReport {
    /// What was asked for.
    pub spec: ReplaySpec,
    /// What the recording holds.
    pub survey: Survey,
    /// The machine.
    pub topology: Arc<Topology>,
    /// Whether it is another than the recorded one, so that threads were spread anew.
    pub other_machine: bool,
    /// Window by window.
    pub windows: Vec<WindowRow>,
    /// What was seen before anything was changed; none if threads never talked.
    pub before: Option<Snapshot>,
    /// What was seen in the end, and where threads are then; none if they have ended.
    pub after: Option<Snapshot>,
    /// Where each thread that lived to the end is then.
    pub placement: Vec<(TaskKey, Option<topology::NodeId>)>,
    /// What was done and why.
    pub story: Story,
    /// Part of uses of pages that was local on paper: as replayed, and had nothing been done. None where
    /// nothing had a place.
    pub local_shares: Option<(f64, f64)>,
    /// Samples of pages that were too many to be followed on paper.
    pub pages_untold: u64,
    /// What broke a rule; must be empty.
    pub violations: Vec<String>,
}

/// Replays a recording, which `open` gives from its beginning, twice.
///
/// # Errors
/// When the recording, the machine, the policy or its settings make no sense. A recording that is cut
/// off or damaged later on is replayed up to there; see [`Survey::ending`] and [`Survey::damage`].
pub fn replay<R: Read + Send>(
    spec: &ReplaySpec,
    open: &mut dyn FnMut() -> std::io::Result<R>,
) -> Result<ReplayReport, RunError> {
    let factory = find(&spec.policy)?;
    let settings = settings_of(factory, &spec.settings)?;
    let mut input = || open().map_err(|error| unreadable(spec, &error));
    let survey = Survey::of(input()?).map_err(|error| no_recording(spec, &error))?;
    check(spec, &survey)?;
    let (topology, ground) = machine(spec, &survey)?;
    let pids = program(&survey);
    let Some(first) = pids.first() else {
        let why = match (&survey.damage, survey.ending) {
            (Some(damage), _) => format!(": {damage}"),
            (None, Ending::CutOff { .. }) => format!(": {}", survey.ending),
            (None, Ending::Complete) => String::new(),
        };
        return Err(usage(format!("`{}` holds no thread{why}", spec.name)));
    };
    let options = options(spec, &survey, factory)?;
    let build = builder(factory, &settings, u64::from(first.0), options.method)?;
    let mut feed = Replay::open(input()?).map_err(|error| no_recording(spec, &error))?;
    if survey.marks == 0 {
        feed = feed.sliced(SLICE);
    }
    let mut paper = Paper::new(Arc::clone(&topology), ground, feed, &survey);
    let setup = Setup {
        topology: Arc::clone(&topology),
        page_bytes: survey.header.page_bytes,
        programs: vec![pids],
        options,
        look_first: true,
        policy: &build,
    };
    let run = driver::run(&mut paper, &setup).map_err(|error| refused(spec, &error))?;
    // The file may have changed under us; what was counted first stays the word on it.
    let changed = paper.feed().error().is_some() != survey.damage.is_some()
        || (survey.damage.is_none() && paper.feed().ending() != Some(survey.ending));
    if changed {
        let text = format!("`{}` was changed while it was read", spec.name);
        return Err(usage(text));
    }
    Ok(ReplayReport {
        spec: spec.clone(),
        topology,
        other_machine: ground == Ground::Other,
        windows: run.windows,
        before: run.before.into_iter().next(),
        after: run.after.into_iter().next(),
        placement: paper.nodes().into_iter().collect(),
        story: run.story,
        local_shares: paper.tally().shares(),
        pages_untold: paper.pages_untold(),
        violations: run.violations,
        survey,
    })
}

impl ReplayReport {
    /// Whether the recording was read to its last word.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.survey.damage.is_none() && self.survey.ending == Ending::Complete
    }

    /// Changes that were made on paper: threads bound, and pages moved.
    #[must_use]
    pub fn changes(&self) -> (u64, u64) {
        self.windows.iter().fold((0, 0), |(bound, moved), row| {
            (bound + row.bound, moved + row.moved_pages)
        })
    }
}

/// What would break the model, or the engine.
fn check(spec: &ReplaySpec, survey: &Survey) -> Result<(), RunError> {
    let name = &spec.name;
    let bytes = survey.header.page_bytes;
    if !bytes.is_power_of_two() || !(PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&bytes) {
        return Err(usage(format!(
            "`{name}` tells of pages of `{bytes}` bytes, which no machine has"
        )));
    }
    if survey.untold > 0 || survey.threads.len() > REPLAYED_THREADS_MAX {
        return Err(usage(format!(
            "`{name}` has more threads than the {REPLAYED_THREADS_MAX} that can be replayed"
        )));
    }
    let span = survey
        .span
        .map_or(Duration::ZERO, |(first, last)| last.since(first));
    if span > LENGTH_MAX {
        return Err(usage(format!(
            "`{name}` spans `{}` days, so its times cannot be right",
            span.as_secs() / 86_400
        )));
    }
    Ok(())
}

/// The machine to replay on, and whether it is the recorded one.
fn machine(spec: &ReplaySpec, survey: &Survey) -> Result<(Arc<Topology>, Ground), RunError> {
    let name = &spec.name;
    let text = &survey.header.topology;
    let recorded = (!text.is_empty()).then(|| topology::load_text(text, "its machine"));
    let named = spec.machine.as_deref().map(load).transpose()?;
    let (machine, ground) = match (named, recorded) {
        (None, None) => {
            let text = format!("`{name}` does not tell of its machine; name it with --machine");
            return Err(usage(text));
        }
        (None, Some(recorded)) => {
            let recorded = recorded.map_err(|error| {
                usage(format!(
                    "`{name}`: {error}; name the machine with --machine"
                ))
            })?;
            (recorded, Ground::Recorded)
        }
        (Some(named), Some(Ok(recorded))) if named.fingerprint() != recorded.fingerprint() => {
            (named, Ground::Other)
        }
        // One whose machine is not known, or cannot be read, was made on the one that is named.
        (Some(named), _) => (named, Ground::Recorded),
    };
    if machine.usable().is_empty() {
        return Err(usage(format!(
            "the machine of `{name}` has no cpu that is online and not isolated"
        )));
    }
    let lacks = |cpu: &&topology::CpuId| machine.cpu(**cpu).is_none();
    if let (Ground::Recorded, Some(cpu)) = (ground, survey.cpus.iter().find(lacks)) {
        let all: topology::CpuSet = machine.cpus().iter().map(|cpu| cpu.id).collect();
        return Err(usage(format!(
            "`{name}` has samples of cpu `{cpu}`, but the machine has cpus {all} alone; name the \
             machine that it was made on with --machine"
        )));
    }
    Ok((Arc::new(machine), ground))
}

/// The processes that make up the program: all but those that others of them made.
fn program(survey: &Survey) -> Vec<Pid> {
    let all = survey.processes();
    let made = |pid: Pid| {
        let first = survey.threads.get(&(pid, topology::Tid(pid.0)));
        let born = first.and_then(|thread| thread.born);
        born.is_some_and(|(_, parent)| parent != pid && all.contains(&parent))
    };
    let named = all.iter().copied();
    named.filter(|&pid| pid.0 != 0 && !made(pid)).collect()
}

/// As the daemon would attach it.
fn options(
    spec: &ReplaySpec,
    survey: &Survey,
    factory: &PolicyFactory,
) -> Result<AttachOptions, RunError> {
    let mut options = driver::attach_options(factory, &spec.settings).map_err(unset)?;
    if let Some(window) = spec.window {
        options.interval = IntervalLaw::Lapt {
            start: window,
            min: window,
            max: window,
        };
    }
    if survey.header.of_faults() {
        driver::priced_by_faults(&mut options.prices, survey.header.page_bytes);
    }
    Ok(options)
}

fn usage(message: String) -> RunError {
    RunError::new(RunErrorKind::Usage, message)
}

fn unreadable(spec: &ReplaySpec, error: &std::io::Error) -> RunError {
    let kind = match error.kind() {
        std::io::ErrorKind::NotFound => RunErrorKind::NotFound,
        std::io::ErrorKind::PermissionDenied => RunErrorKind::NotPermitted,
        _ => RunErrorKind::Usage,
    };
    let why = error.to_string().to_lowercase();
    let why = why.split(" (os error").next().unwrap_or_default();
    let text = format!(
        "cannot read `{}`: {why}; name a file that is there and that you may read",
        spec.name
    );
    RunError::new(kind, text)
}

fn no_recording(spec: &ReplaySpec, error: &RecordingError) -> RunError {
    match error {
        RecordingError::Read { source, .. } => unreadable(spec, source),
        other => usage(format!(
            "`{}`: {other}; name a whole file that `numadctl record` or `import` wrote",
            spec.name
        )),
    }
}

fn refused(spec: &ReplaySpec, error: &AttachError) -> RunError {
    match error {
        AttachError::TooManyProcesses | AttachError::NoProcess => {
            usage(format!("`{}`: {error}", spec.name))
        }
        AttachError::Interval(error) => usage(format!("window: {error}")),
        AttachError::AlreadyAttached { .. } => {
            RunError::new(RunErrorKind::Internal, error.to_string())
        }
    }
}
