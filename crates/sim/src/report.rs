//! Runs a scenario and says what came of it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use numad_core::{Method, Policy, PolicyFactory, SettingValue, Settings, SettingsError, published};
use topology::{Reason, Topology};

use crate::driver::{self, Run, Setup, Snapshot, WindowRow};
use crate::fault::Faults;
use crate::scenario::{MEMORY_MAX, SECONDS_MAX, Scenario, THREADS_MAX};
use crate::stage::Simulation;
use crate::story::Story;
use crate::world::{PAGE_BYTES, Totals, World, WorldSpec};

/// What came of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// What was simulated, with the number of threads filled in.
    pub scenario: Scenario,
    /// The machine.
    pub topology: Arc<Topology>,
    /// Window by window.
    pub windows: Vec<WindowRow>,
    /// At the end.
    pub outcome: Summary,
    /// The same world under `none`; equal to `outcome` where that was the policy.
    pub none: Summary,
    /// What was seen of each program before anything was changed.
    pub before: Vec<Snapshot>,
    /// What was seen of each program in the end, and where its threads are then.
    pub after: Vec<Snapshot>,
    /// What was done and why.
    pub story: Story,
    /// Whether the undo at the end put everything back.
    pub undo_complete: bool,
    /// What broke a rule; must be empty.
    pub violations: Vec<String>,
}

/// A run in figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Work done, in seconds that one thread would have needed on an idle machine with everything
    /// local.
    pub work_s: f64,
    /// The same, as part of what all threads could have done at best.
    pub speed: f64,
    /// Mean latency of an access in nanoseconds.
    pub latency_ns: f64,
    /// Part of accesses that was answered on the thread's own node.
    pub local_share: f64,
    /// The busiest memory controller's traffic over the mean; 1 is even.
    pub imbalance: f64,
    /// Threads that changed node, whoever moved them.
    pub task_moves: u64,
    /// Pages that changed node.
    pub page_moves: u64,
    /// Samples delivered.
    pub samples: u64,
    /// Samples lost.
    pub lost: u64,
}

/// Why a scenario cannot be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunError {
    /// What kind of reason.
    pub kind: RunErrorKind,
    /// One line that names the object.
    pub message: String,
}

/// What kind of reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunErrorKind {
    /// A mistake of ours.
    Internal,
    /// The request makes no sense.
    Usage,
    /// A setting of the policy is wrong.
    Configuration,
    /// There is no such file, policy or scenario.
    NotFound,
    /// The file may not be read.
    NotPermitted,
}

impl RunErrorKind {
    /// The exit code of a command that ends in it; the same as everywhere in numad.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Internal => 1,
            Self::Usage => 2,
            Self::Configuration => 3,
            Self::NotPermitted => 5,
            Self::NotFound => 6,
        }
    }
}

impl RunError {
    /// An error of a kind.
    #[must_use]
    pub fn new(kind: RunErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RunError {}

/// Runs a scenario, and the same under `none` for comparison.
///
/// # Errors
/// When the machine, the policy, its settings or the size of the run make no sense.
pub fn run(scenario: &Scenario) -> Result<Report, RunError> {
    let topology = Arc::new(load(&scenario.topology)?);
    let topology = scenario.conditions.machine(&topology);
    let usable = topology.usable().len();
    let mut scenario = scenario.clone();
    let threads = *scenario.threads.get_or_insert(usable);
    check_size(&scenario, threads, &topology)?;
    let factory = find(&scenario.policy)?;
    let settings = settings_of(factory, &scenario.settings)?;
    let simulate = |scenario: &Scenario, factory: &'static PolicyFactory, settings: &Settings| {
        let world = WorldSpec {
            topology: Arc::clone(&topology),
            workload: scenario.workload,
            threads,
            conditions: scenario.conditions,
            faults: scenario.faults,
            cgroup_cpus: scenario.cgroup_cpus.clone(),
            seed: scenario.seed,
            balancing: factory.name == LINUX || scenario.balancing && factory.name != "none",
        };
        simulate(scenario, &world, factory, settings)
    };
    let (run, totals, undo_complete) = simulate(&scenario, factory, &settings)?;
    let outcome = summary(&totals, threads, &scenario);
    let none = if factory.name == "none" {
        outcome
    } else {
        let factory = find("none")?;
        let settings = Settings::defaults(factory.settings);
        let mut plain = scenario.clone();
        plain.settings.retain(|(name, _)| name != published::METHOD);
        let (_, totals, _) = simulate(&plain, factory, &settings)?;
        summary(&totals, threads, &scenario)
    };
    Ok(Report {
        windows: run.windows,
        outcome,
        none,
        before: run.before,
        after: run.after,
        story: run.story,
        undo_complete,
        violations: run.violations,
        topology,
        scenario,
    })
}

/// The policy that stands for the kernel's own balancing, which is modelled for it, and beside
/// others where the scenario says so.
pub(crate) const LINUX: &str = "linux";

/// What came of a run, of the world, and whether undo put everything back.
fn simulate(
    scenario: &Scenario,
    world: &WorldSpec,
    factory: &'static PolicyFactory,
    settings: &Settings,
) -> Result<(Run, Totals, bool), RunError> {
    check_room(world)?;
    let duration = Duration::from_secs(u64::from(scenario.seconds));
    let topology = driver::known(&world.topology, scenario.bandwidth);
    let stage = Simulation::new(World::new(world), world.threads, duration);
    let mut stage = stage.counted(scenario.counters);
    let options =
        driver::attach_options_for(factory, &scenario.settings, scenario.conditions.source);
    let options = options.map_err(unset)?;
    let build = builder(factory, settings, scenario.seed, options.method)?;
    let setup = Setup {
        topology,
        page_bytes: PAGE_BYTES,
        programs: stage.programs(),
        options,
        look_first: false,
        policy: &build,
    };
    let run = driver::run(&mut stage, &setup).map_err(|error| {
        RunError::new(
            RunErrorKind::Internal,
            format!("the engine takes no program: {error:?}"),
        )
    })?;
    let totals = stage.world.totals().clone();
    Ok((run, totals, stage.undo()))
}

/// What makes policies with these settings.
pub(crate) fn builder(
    factory: &'static PolicyFactory,
    settings: &Settings,
    seed: u64,
    method: Method,
) -> Result<impl Fn() -> Box<dyn Policy>, RunError> {
    // Building once tells whether the settings fit together; then it cannot fail.
    drop(published::build(factory, settings, seed, method).map_err(unset)?);
    let settings = settings.clone();
    Ok(move || {
        published::build(factory, &settings, seed, method)
            .expect("the same settings were built before")
    })
}

pub(crate) fn load(spec: &str) -> Result<Topology, RunError> {
    topology::load(spec).map_err(|error| {
        let kind = match error.reason {
            Reason::Unknown | Reason::Missing => RunErrorKind::NotFound,
            _ => RunErrorKind::Usage,
        };
        RunError::new(kind, error.to_string())
    })
}

pub(crate) fn find(name: &str) -> Result<&'static PolicyFactory, RunError> {
    policies::find(name).map_err(|reason| RunError::new(RunErrorKind::NotFound, reason))
}

pub(crate) fn settings_of(
    factory: &PolicyFactory,
    typed: &[(String, String)],
) -> Result<Settings, RunError> {
    let specs = factory.settings;
    let values: Result<Vec<(String, SettingValue)>, _> = typed
        .iter()
        .filter(|(name, _)| !driver::is_of_engine(name))
        .map(|(name, text)| {
            let spec = numad_core::setting::find(specs, name)?;
            Ok((name.clone(), spec.parse(text)?))
        })
        .collect();
    values
        .and_then(|values| Settings::with(specs, values))
        .map_err(unset)
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub(crate) fn unset(error: SettingsError) -> RunError {
    RunError::new(RunErrorKind::Configuration, error.to_string())
}

fn check_size(scenario: &Scenario, threads: usize, topology: &Topology) -> Result<(), RunError> {
    let usage = |message: String| Err(RunError::new(RunErrorKind::Usage, message));
    if topology.usable().is_empty() {
        return usage(format!(
            "topology `{}` has no cpu that is online and not isolated",
            scenario.topology
        ));
    }
    if threads == 0 || threads > THREADS_MAX {
        return usage(format!(
            "`{threads}` threads: must be from 1 to {THREADS_MAX}"
        ));
    }
    if scenario.seconds == 0 || scenario.seconds > SECONDS_MAX {
        let seconds = scenario.seconds;
        return usage(format!(
            "`{seconds}` seconds: must be from 1 to {SECONDS_MAX}"
        ));
    }
    let memory = scenario.conditions.memory;
    if memory.bytes().saturating_mul(threads as u64) > MEMORY_MAX {
        return usage(format!(
            "memory `{memory}` for each of {threads} threads: must be at most {} TiB in all",
            MEMORY_MAX >> 40
        ));
    }
    let cpus = &scenario.cgroup_cpus;
    if !cpus.is_empty() && !cpus.intersects(&topology.usable()) {
        return usage(format!("cpus `{cpus}`: the machine has none of them"));
    }
    Ok(())
}

/// Beside what threads have for themselves there is what they share.
pub(crate) fn check_room(world: &WorldSpec) -> Result<(), RunError> {
    if World::has_room(world) {
        return Ok(());
    }
    let (memory, threads, workload) = (world.conditions.memory, world.threads, world.workload);
    let message = format!(
        "memory `{memory}` for each of {threads} threads of {workload}: more in all than a program has addresses for; \
         give less"
    );
    Err(RunError::new(RunErrorKind::Usage, message))
}

fn summary(totals: &Totals, threads: usize, scenario: &Scenario) -> Summary {
    let most = threads as f64 * f64::from(scenario.seconds) * 1e9;
    Summary {
        work_s: totals.work() / 1e9,
        speed: totals.work() / most,
        latency_ns: totals.mean_latency_ns(),
        local_share: totals.local_share(),
        imbalance: totals.imbalance(),
        task_moves: totals.task_moves,
        page_moves: totals.page_moves,
        samples: totals.samples,
        lost: totals.lost,
    }
}

impl Report {
    /// Work done compared to `none`, in percent: 0 is the same, 10 is a tenth more.
    #[must_use]
    pub fn gain_percent(&self) -> f64 {
        (self.outcome.work_s / self.none.work_s - 1.0) * 100.0
    }

    /// Whether nothing was wrong with it; a gain is not asked for.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.violations.is_empty() && (self.undo_complete || self.masks_are_disturbed())
    }

    /// Processors that go offline make the kernel throw masks away, and new threads inherit masks;
    /// then what undo has to bring back is not known beforehand.
    fn masks_are_disturbed(&self) -> bool {
        use crate::fault::Fault;
        let faults: Faults = self.scenario.faults;
        faults.has(Fault::Vanish) || faults.has(Fault::Offline)
    }
}
