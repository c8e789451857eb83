//! `compare`: whole runs of a command under several policies, in randomised order.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use control::experiment::{Arm, Ending, Experiment, FORMAT, Kind, Metric, Moved, Sight, Slice};
use control::rows::{AttachRequest, Attachment, NodeAccesses, Target};
use control::story::Story;
use control::{ErrorKind, Failure};
use experiment::metric::{self, Figure, Source};
use experiment::plan::{self, kept};
use experiment::{Design, results};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use procfs::{Energy, EnergyMeter, Presence};

use super::attach::find_program;
use super::history;
use crate::cli::experiment::Compare;
use crate::client::Client;
use crate::output::Output;
use crate::trial::{self, command};
use crate::waiting::{Waiting, Woken};
use crate::{render, stopped, terminal};

/// How long a program that is asked to end may take.
const END_WAIT: Duration = Duration::from_secs(5);

const KNOWN: &str = "wall, cpu, energy, cmd:PROGRAM and prom:URL QUERY";

/// Everything that runs need.
struct Runs<'a, 'o, 'w> {
    client: &'a Client,
    waiting: Waiting<'a>,
    experiment: Experiment,
    file: Option<PathBuf>,
    /// Whether the file has all that there is.
    saved: bool,
    ignore_failure: bool,
    /// Digest of the first output.
    output: Option<String>,
    /// Time that earlier sittings took.
    before: Duration,
    begun: Instant,
    quiet: bool,
    err: &'o mut Output<'w>,
}

/// One run.
struct Run {
    measured: Measured,
    output: Option<String>,
    /// Share of time in which some thread of the machine waited for a processor.
    pressure: Option<f64>,
    /// What its policy saw and did.
    story: Option<Story>,
}

/// A run as it was measured.
struct Measured {
    at: Instant,
    wall: Duration,
    cpu: Duration,
    status: ExitStatus,
    /// Joules of the processor packages, where a metric needs them.
    energy: Option<f64>,
}

pub(super) fn compare(
    client: &Client,
    arguments: &Compare,
    out: &mut Output<'_>,
    err: &mut Output<'_>,
) -> Result<(), Failure> {
    let (experiment, file) = match &arguments.go_on {
        Some(file) => (gone_on(file)?, Some(file.clone())),
        None => (planned(arguments)?, arguments.output.clone()),
    };
    must_start(&experiment, arguments.go_on.as_deref())?;
    if experiment.arms.iter().any(|arm| arm.policy.is_some()) {
        // Before the first run, not after the first hour.
        let _status: control::rows::Status = client.get("/v1/status")?;
    }
    if metric::needs_energy(&experiment.metrics) {
        energy()?;
    }
    if let Some(file) = &file {
        trial::save(&experiment, file)?;
    }
    let last = experiment
        .slices
        .last()
        .map_or(0.0, |slice| slice.at_s + slice.length_s);
    let mut runs = Runs {
        client,
        waiting: Waiting::new(client.runtime())?,
        output: experiment
            .slices
            .first()
            .and_then(|slice| slice.output.clone()),
        experiment,
        file,
        saved: true,
        ignore_failure: arguments.ignore_failure,
        before: Duration::try_from_secs_f64(last).unwrap_or_default(),
        begun: Instant::now(),
        quiet: arguments.plain.json,
        err,
    };
    let failed = runs.all(arguments.warm_up).err();
    let Runs {
        experiment,
        file,
        saved,
        ..
    } = runs;
    if arguments.plain.json {
        out.json(&experiment)?;
    } else if !experiment.slices.is_empty() {
        out.text(&render::experiment::text(&experiment, terminal::prose()))?;
        if let Some(file) = file.as_ref().filter(|_| saved) {
            let file = file.display();
            out.text(&format!(
                "\nkept in `{file}`; `numadctl report {file}` shows it\n"
            ))?;
        }
    }
    match (failed, file) {
        (Some(failure), Some(file)) if failure.remedy.is_empty() => Err(failure.remedy(format!(
            "go on with `numadctl compare --continue {}`",
            file.display()
        ))),
        (Some(failure), _) => Err(failure),
        (None, _) => Ok(()),
    }
}

fn planned(arguments: &Compare) -> Result<Experiment, Failure> {
    let questions = &arguments.questions;
    let usage = |text: String, remedy: String| Failure::new(ErrorKind::Usage, text).remedy(remedy);
    if let Some(file) = &arguments.output {
        trial::must_be_new(file)?;
    }
    let words = arguments
        .command
        .iter()
        .map(|word| word.to_str().map(ToOwned::to_owned));
    let subject: Option<Vec<String>> = words.collect();
    let subject = subject.ok_or_else(|| {
        usage(
            "the command is not UTF-8".to_owned(),
            "rename the file".to_owned(),
        )
    })?;
    let metrics = arguments.metric.iter().map(|text| {
        let metric = metric::parse(text, KNOWN)?;
        match metric::source(&metric.name) {
            Some(Source::Wall | Source::Cpu | Source::Gauge(_) | Source::Query { .. }) => {
                Ok(metric)
            }
            Some(Source::Daemon(Figure::Energy)) => Ok(Metric {
                unit: "J".to_owned(),
                ..metric
            }),
            _ => Err(usage(
                format!("metric `{text}` is not for whole runs"),
                format!("known are {KNOWN}"),
            )),
        }
    });
    let directory = std::env::current_dir().map_err(|error| {
        Failure::new(
            ErrorKind::Kernel,
            format!("cannot tell the present directory: {error}"),
        )
    })?;
    let arms = trial::arms(&questions.policies, &questions.set)?;
    trial::must_tell_apart(&arms)?;
    let experiment = Experiment {
        format: FORMAT,
        made_by: trial::MADE_BY.to_owned(),
        kind: Kind::Runs,
        subject,
        directory: directory.display().to_string(),
        machine: trial::machine(),
        seed: questions.seed.unwrap_or_else(trial::any_seed),
        blocks: arguments.runs,
        arms,
        metrics: metrics.collect::<Result<_, Failure>>()?,
        margin: questions.margin,
        looks: !questions.to_the_end,
        slice_ms: None,
        washout_ms: None,
        same_output: arguments.same_output,
        ending: Ending::Running,
        why: String::new(),
        slices: Vec::new(),
        results: Vec::new(),
        sights: Vec::new(),
    };
    plan::check(&experiment, "runs")?;
    Ok(experiment)
}

fn gone_on(file: &Path) -> Result<Experiment, Failure> {
    let experiment = trial::load(file)?;
    let shown = file.display();
    if experiment.kind != Kind::Runs {
        let text = format!("`{shown}` is of slices of time, which cannot go on later");
        return Err(Failure::new(ErrorKind::Conflict, text).remedy("begin a new experiment"));
    }
    if matches!(experiment.ending, Ending::Complete | Ending::Decided) {
        let text = format!("the experiment in `{shown}` is over");
        return Err(Failure::new(ErrorKind::Conflict, text)
            .remedy(format!("`numadctl report {shown}` shows it")));
    }
    Ok(Experiment {
        ending: Ending::Running,
        why: String::new(),
        ..experiment
    })
}

/// Refuses a command that cannot be started in the directory of the experiment, whatever the
/// present one is.
fn must_start(experiment: &Experiment, go_on: Option<&Path>) -> Result<(), Failure> {
    let named = experiment.subject.first().map_or("", String::as_str);
    let mut program = PathBuf::from(named);
    if let Some(file) = go_on {
        let directory = Path::new(&experiment.directory);
        if !directory.is_dir() {
            let text = format!(
                "directory `{}`, in which the runs of `{}` are, is not there",
                directory.display(),
                file.display()
            );
            return Err(Failure::new(ErrorKind::NotFound, text)
                .remedy("make it again, or begin a new experiment"));
        }
        if named.contains('/') {
            program = directory.join(program);
        }
    }
    find_program(program.as_os_str()).map(|_| ())
}

impl Runs<'_, '_, '_> {
    /// Runs what is left, and says in the experiment how it ended.
    fn all(&mut self, warm_up: u32) -> Result<(), Failure> {
        let ran = self.rounds(warm_up);
        let (ending, why) = match &ran {
            Ok(ending) => (*ending, String::new()),
            // The daemon may be busy as well.
            Err(_) if self.waiting.signal().is_some() => (Ending::Interrupted, String::new()),
            Err(failure) => (Ending::Failed, failure.message.clone()),
        };
        self.experiment = results::ended(self.experiment.clone(), ending, &why);
        self.save()?;
        ran.map(|_| ())
    }

    fn rounds(&mut self, warm_up: u32) -> Result<Ending, Failure> {
        let (arms, blocks) = (self.experiment.arms.len(), self.experiment.blocks as usize);
        let design = Design::draw(arms, blocks, u64::from(self.experiment.seed))
            .map_err(|error| Failure::new(ErrorKind::Usage, error.to_string()))?;
        for number in 0..warm_up {
            let control = self.experiment.arms[0].clone();
            let run = self.run(&control)?;
            self.must_succeed(&run, &control)?;
            self.say(&format!(
                "warm-up {}: {:.3} s",
                number + 1,
                run.measured.wall.as_secs_f64()
            ))?;
        }
        self.begun = Instant::now();
        for (block, order) in design.blocks().iter().enumerate() {
            for &arm in order {
                if results::slice(&self.experiment, block, arm).is_none() {
                    self.counted(block, arm)?;
                }
            }
            if results::decided(&self.experiment) && block + 1 < blocks {
                return Ok(Ending::Decided);
            }
        }
        Ok(Ending::Complete)
    }

    /// A run that counts, with what it measured.
    fn counted(&mut self, block: usize, arm: usize) -> Result<(), Failure> {
        let named = self.experiment.arms[arm].clone();
        let run = self.run(&named)?;
        self.must_succeed(&run, &named)?;
        if self.experiment.same_output {
            let output = self
                .output
                .get_or_insert_with(|| run.output.clone().unwrap_or_default());
            if run.output.as_ref() != Some(output) {
                let text = format!(
                    "`{}` prints something else under {}",
                    self.experiment.subject[0], named.name
                );
                return Err(
                    Failure::new(ErrorKind::Program, text).remedy("compare without --same-output")
                );
            }
        }
        let wall = run.measured.wall.as_secs_f64();
        let mut values = Vec::new();
        for metric in &self.experiment.metrics {
            let value = match metric::source(&metric.name) {
                Some(Source::Cpu) => Some(run.measured.cpu.as_secs_f64()),
                source @ Some(Source::Gauge(_) | Source::Query { .. }) => {
                    trial::number(source, &mut self.waiting)?
                }
                Some(Source::Daemon(_)) => run.measured.energy,
                _ => Some(wall),
            };
            values.push(value.map(kept));
        }
        let number = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
        self.experiment.slices.push(Slice {
            block: number(block),
            arm: number(arm),
            at_s: kept((self.before + (run.measured.at - self.begun)).as_secs_f64()),
            length_s: kept(wall),
            values,
            exit_code: Some(exit_code(run.measured.status)),
            output: run.output,
            pressure: run.pressure,
            disturbed: None,
            moved: run.story.as_ref().map(moved),
        });
        if let Some(story) = run.story {
            self.experiment.saw(Sight {
                arm: number(arm),
                accesses: NodeAccesses::of(&story.detail.threads),
                matrix: story.matrix,
            });
        }
        self.save()?;
        self.must_have_a_value()?;
        let (done, all) = (
            self.experiment.slices.len(),
            self.experiment.blocks as usize * self.experiment.arms.len(),
        );
        let left = render::experiment::remaining(&self.experiment).unwrap_or_default();
        self.say(&format!(
            "run {done} of {all}, {}: {wall:.3} s; about {left} left",
            named.name
        ))
    }

    /// Refuses a primary metric that has no value in the first run: no other would decide anything.
    fn must_have_a_value(&self) -> Result<(), Failure> {
        let [first] = &self.experiment.slices[..] else {
            return Ok(());
        };
        if matches!(first.values.first(), Some(Some(value)) if *value > 0.0) {
            return Ok(());
        }
        let name = &self.experiment.metrics[0].name;
        let text = format!("metric `{name}` {}", metric::NO_VALUE);
        Err(Failure::new(ErrorKind::Program, text)
            .remedy("numbers must be above 0, as effects are shares of them"))
    }

    fn must_succeed(&self, run: &Run, arm: &Arm) -> Result<(), Failure> {
        if run.measured.status.success() || self.ignore_failure {
            return Ok(());
        }
        let (command, status) = (&self.experiment.subject[0], run.measured.status);
        let text = format!("`{command}` ended with {status} under {}", arm.name);
        Err(Failure::new(ErrorKind::Program, text)
            .remedy("mend it, or count such runs too with --ignore-failure"))
    }

    /// Runs the command once, attached to nothing or to the policy of an arm.
    fn run(&mut self, arm: &Arm) -> Result<Run, Failure> {
        let command = self.experiment.subject.clone();
        let shown = &command[0];
        let cannot = |error: io::Error| {
            Failure::new(
                ErrorKind::Kernel,
                format!("cannot start `{shown}`: {error}"),
            )
        };
        let output = match self.experiment.same_output {
            true => Some(command::nameless_file().map_err(cannot)?),
            false => None,
        };
        let stdout = match &output {
            Some(file) => Stdio::from(file.try_clone().map_err(cannot)?),
            None => Stdio::null(),
        };
        let mut child = stopped::command(Path::new(shown), &command[1..])
            .current_dir(&self.experiment.directory)
            .stdin(Stdio::null())
            .stdout(stdout)
            .spawn()
            .map_err(cannot)?;
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
        let waited = trial::waited();
        let ran = self.attached(&child, pid, arm).and_then(|id| {
            let measured = self.released(&mut child, pid)?;
            Ok((id, measured))
        });
        if ran.is_err() {
            end(&mut child, pid, &mut self.waiting);
        }
        let (id, measured) = ran?;
        let story = id.and_then(|id| history::ended(self.client, id));
        let output = match output {
            Some(file) => Some(digest(file).map_err(cannot)?),
            None => None,
        };
        Ok(Run {
            output,
            pressure: trial::pressure(waited, measured.wall),
            measured,
            story,
        })
    }

    /// Attaches the stopped shell, where the arm has a policy.
    fn attached(&mut self, child: &Child, pid: Pid, arm: &Arm) -> Result<Option<u32>, Failure> {
        stopped::wait(pid, &mut self.waiting)?;
        let Some(policy) = &arm.policy else {
            return Ok(None);
        };
        let request = AttachRequest {
            target: Target::Pids(vec![child.id()]),
            policy: Some(policy.clone()),
            set: BTreeMap::from_iter(arm.set.clone()),
            dry_run: false,
            for_ms: None,
        };
        let row: Attachment = self.client.post("/v1/attachments", &request)?;
        Ok(Some(row.id))
    }

    /// Lets the stopped shell go, and waits for its end.
    fn released(&mut self, child: &mut Child, pid: Pid) -> Result<Measured, Failure> {
        let before = children_time()?;
        let mut meter = match metric::needs_energy(&self.experiment.metrics) {
            true => Some(EnergyMeter::new(energy()?, Duration::ZERO)),
            false => None,
        };
        let at = Instant::now();
        stopped::let_go(pid)?;
        loop {
            // Counters of energy go round while nobody reads them.
            let pause = meter.as_ref().map(EnergyMeter::pause);
            match self.waiting.child(child, pause)? {
                Woken::Ended(status) => {
                    let wall = at.elapsed();
                    if let Some(meter) = &mut meter {
                        meter.take(energy()?, wall);
                    }
                    let cpu = children_time()?.saturating_sub(before);
                    if self.waiting.interrupted() {
                        return Err(command::interrupted());
                    }
                    return Ok(Measured {
                        at,
                        wall,
                        cpu,
                        status,
                        energy: meter.and_then(|meter| meter.joules()),
                    });
                }
                Woken::Late => {
                    if let Some(meter) = &mut meter {
                        meter.take(energy()?, at.elapsed());
                    }
                }
                Woken::Interrupted(_) => return Err(command::interrupted()),
            }
        }
    }

    fn save(&mut self) -> Result<(), Failure> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let saved = trial::save(&self.experiment, file);
        self.saved = saved.is_ok();
        saved
    }

    fn say(&mut self, what: &str) -> Result<(), Failure> {
        match self.quiet {
            true => Ok(()),
            false => self.err.text(&format!("numadctl: {what}\n")),
        }
    }
}

/// What the policy of a run did.
fn moved(story: &Story) -> Moved {
    Moved {
        threads: story.row.thread_moves,
        pages: story.row.pages_moved,
        undo_ms: None,
    }
}

/// What the processor packages have used.
fn energy() -> Result<Energy, Failure> {
    match procfs::Reader::new("/").energy() {
        Ok(Presence::Here(energy)) => Ok(energy),
        Ok(Presence::Gone) => Err(metric::no_energy()),
        Err(error) => Err(Failure::new(
            ErrorKind::NotPermitted,
            format!("{error}, which counts energy"),
        )
        .remedy("run it as root: what a machine uses tells of everybody's programs")),
    }
}

/// Ends a program that nobody waits for any more.
fn end(child: &mut Child, pid: Pid, waiting: &mut Waiting<'_>) {
    if !matches!(child.try_wait(), Ok(None)) {
        return;
    }
    // Continued too, since one that stands still does not hear.
    let _gone_already = kill(pid, Signal::SIGTERM);
    let _gone_already = kill(pid, Signal::SIGCONT);
    if !matches!(waiting.child(child, Some(END_WAIT)), Ok(Woken::Ended(_))) {
        drop(child.kill());
        drop(child.wait());
    }
}

/// Processor time of all children that have ended and were waited for.
fn children_time() -> Result<Duration, Failure> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|error| {
        Failure::new(
            ErrorKind::Kernel,
            format!("cannot read processor times: {error}"),
        )
    })?;
    let part = |time: nix::sys::time::TimeVal| {
        let micros = time.tv_sec() * 1_000_000 + time.tv_usec();
        Duration::from_micros(u64::try_from(micros).unwrap_or_default())
    };
    Ok(part(usage.user_time()) + part(usage.system_time()))
}

/// As shells say it: 128 and the signal for what a signal ended.
pub(super) fn exit_code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

/// Length and FNV-1a of an output: enough to tell two runs apart, no protection against malice.
fn digest(mut file: File) -> io::Result<String> {
    file.rewind()?;
    let mut buffer = vec![0; 1 << 16];
    let (mut hash, mut length) = (0xcbf2_9ce4_8422_2325u64, 0u64);
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(format!("{length}:{hash:016x}"));
        }
        length += count as u64;
        for byte in &buffer[..count] {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
