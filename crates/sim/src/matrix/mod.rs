//! Every policy on every workload on every machine, against the kernel and against the best that a
//! search finds.
//!
//! A [`Plan`] says what to run. Its jobs are independent of each other and may be run in any order, by
//! any number of threads, which are the caller's; [`Plan::finish`] makes the [`Matrix`] of what they
//! gave, and that depends on the plan alone.

mod checks;
mod html;
mod machines;
mod markdown;
mod measure;
mod oracle;
mod papers;
mod rows;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use numad_core::{AttachOptions, IntervalLaw, Method, PolicyFactory, Settings};
use topology::{CpuSet, Topology};

use crate::conditions::{Conditions, Size};
use crate::driver::{self, Setup, WindowRow};
use crate::fault::Faults;
use crate::report::{LINUX, RunError, RunErrorKind, builder, check_room, unset};
use crate::scenario::Bandwidth;
use crate::stage::Simulation;
use crate::workload::Workload;
use crate::world::{PAGE_BYTES, World, WorldSpec};

pub use checks::{Check, Verdict};
pub use machines::{MACHINES, Machine};
pub use measure::{Follow, Measured};
pub use oracle::Best;
pub use rows::{ROWS, Row};

/// What is asked for, as typed. Lists are names joined by commas; none means all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Which policies; `linux` and `none` always take part.
    pub policies: Option<String>,
    /// Which workloads.
    pub workloads: Option<String>,
    /// Which machines.
    pub machines: Option<String>,
    /// How much memory threads have; none means [`Size::SMALL`] alone.
    pub memory: Option<String>,
    /// What else holds for every run; its memory is not asked for.
    pub conditions: Conditions,
    /// What is known of the machines' bandwidth; where it is unknown, nothing is counted either.
    pub bandwidth: Bandwidth,
    /// How many seeds, from 1.
    pub seeds: u64,
    /// How many windows a program that stands still goes through.
    pub windows: u32,
    /// Windows are as long as programs get them by default, and not by the papers' law.
    pub calm: bool,
}

/// The windows of a full matrix: five to settle in, and as many after the change half-way as it takes
/// to see whether it is followed within three.
pub const WINDOWS: u32 = 12;
/// The windows of a quick one.
pub const WINDOWS_QUICK: u32 = 8;
/// The machines of a quick one: one that saturates easily, and one whose links differ.
pub const MACHINES_QUICK: &str = "2x16,interlagos";

/// Fewest and most windows; phases need a few on either side of the change.
const WINDOWS_MIN: u32 = 6;
const WINDOWS_MAX: u32 = 100;
/// Most seeds.
const SEEDS_MAX: u64 = 100;

/// How windows get longer unless they are as programs get them: by the papers' law, as figures are
/// counted in windows, and five times as many take as much longer.
const PAPERS_LAW: IntervalLaw = IntervalLaw::OnDeLoc {
    min: Duration::from_millis(500),
    max: Duration::from_secs(2),
    factor: 2.0,
};

/// What to run.
#[derive(Debug)]
pub struct Plan {
    machines: Vec<Site>,
    bandwidth: Bandwidth,
    rows: Vec<&'static Row>,
    policies: Vec<&'static PolicyFactory>,
    seeds: u64,
    windows: u32,
    law: IntervalLaw,
    jobs: Vec<Job>,
}

/// A machine with programs of a size on it.
#[derive(Debug)]
struct Site {
    machine: &'static Machine,
    conditions: Conditions,
    topology: Arc<Topology>,
}

/// One run.
#[derive(Clone, Copy, Debug)]
struct Job {
    machine: usize,
    row: usize,
    /// None for the oracle.
    policy: Option<usize>,
    seed: u64,
}

/// What came of a job.
#[derive(Debug)]
pub struct Done(Outcome);

#[derive(Debug)]
enum Outcome {
    Measured(Measured, Vec<WindowRow>),
    Best(Best),
}

/// What came of a plan.
#[derive(Debug)]
pub struct Matrix {
    plan: Plan,
    /// By machine, row and policy.
    cells: Vec<Measured>,
    /// By machine and row.
    best: Vec<Best>,
    /// Windows of every run, by machine, row, policy and seed.
    windows: Vec<Vec<WindowRow>>,
}

impl Plan {
    /// The plan for a choice.
    ///
    /// # Errors
    /// When there is no such policy, workload or machine, or a number is out of its bounds.
    pub fn new(choice: &Choice) -> Result<Self, RunError> {
        within("seeds", choice.seeds, 1, SEEDS_MAX)?;
        let (windows, least, most) = (choice.windows, WINDOWS_MIN, WINDOWS_MAX);
        within(
            "windows",
            u64::from(windows),
            u64::from(least),
            u64::from(most),
        )?;
        let machines = chosen(choice.machines.as_deref(), "machine", MACHINES, |one| {
            one.name
        })?;
        let rows = rows(choice.workloads.as_deref())?;
        let wanted = names(choice.policies.as_deref());
        for name in &wanted {
            policies::find(name).map_err(|reason| RunError::new(RunErrorKind::NotFound, reason))?;
        }
        let takes_part = |factory: &&&'static PolicyFactory| {
            let name = factory.name;
            wanted.is_empty() || [LINUX, "none"].contains(&name) || wanted.contains(&name)
        };
        let sizes = match choice.memory.as_deref() {
            None => vec![Size::SMALL],
            Some(list) => {
                let sizes: Result<_, _> = names(Some(list)).into_iter().map(str::parse).collect();
                sizes.map_err(|error: String| RunError::new(RunErrorKind::Usage, error))?
            }
        };
        let site = |machine: &'static Machine, memory: Size| Site {
            machine,
            conditions: Conditions {
                memory,
                ..choice.conditions
            },
            topology: machine.topology(),
        };
        let machines = machines.into_iter();
        let mut plan = Self {
            machines: machines
                .flat_map(|one| sizes.iter().map(move |&size| site(one, size)))
                .collect(),
            bandwidth: choice.bandwidth,
            rows,
            policies: policies::registry()
                .iter()
                .filter(takes_part)
                .copied()
                .collect(),
            seeds: choice.seeds,
            windows,
            law: if choice.calm {
                IntervalLaw::CALM
            } else {
                PAPERS_LAW
            },
            jobs: Vec::new(),
        };
        plan.jobs = plan.list_jobs();
        for job in plan.jobs.iter().filter(|job| job.policy.is_none()) {
            check_room(&plan.world(*job, false))?;
        }
        Ok(plan)
    }

    fn list_jobs(&self) -> Vec<Job> {
        let mut jobs = Vec::new();
        for (machine, row) in self.places() {
            let policies = (0..self.policies.len()).map(Some);
            for policy in policies.chain([None]) {
                jobs.extend((1..=self.seeds).map(|seed| Job {
                    machine,
                    row,
                    policy,
                    seed,
                }));
            }
        }
        jobs
    }

    /// Every machine with every workload, in the order of the table.
    fn places(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let rows = self.rows.len();
        (0..self.machines.len() * rows).map(move |place| (place / rows, place % rows))
    }

    /// How many jobs there are.
    #[must_use]
    pub fn jobs(&self) -> usize {
        self.jobs.len()
    }

    /// The jobs, those that take longest first, so that none is left alone at the end.
    #[must_use]
    pub fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.jobs.len()).collect();
        let threads = |job: &Job| self.rows[job.row].threads(&self.machines[job.machine].topology);
        order.sort_by_key(|&job| (usize::MAX - threads(&self.jobs[job]), job));
        order
    }

    /// What a job is, for people.
    #[must_use]
    pub fn describe(&self, job: usize) -> String {
        let job = self.jobs[job];
        let (machine, row) = (self.machines[job.machine].name(), self.rows[job.row].name);
        let policy = job
            .policy
            .map_or("oracle", |policy| self.policies[policy].name);
        format!("{machine} {row} {policy} seed {}", job.seed)
    }

    /// Runs a job.
    ///
    /// # Errors
    /// When the policy cannot be built with its defaults or the engine takes no program, which are
    /// mistakes of ours.
    pub fn run(&self, job: usize) -> Result<Done, RunError> {
        let job = self.jobs[job];
        let internal =
            |error: &dyn fmt::Display| RunError::new(RunErrorKind::Internal, error.to_string());
        let Some(policy) = job.policy else {
            let best = oracle::search(&self.world(job, false));
            return Ok(Done(Outcome::Best(best)));
        };
        let factory = self.policies[policy];
        let settings = Settings::defaults(factory.settings);
        let build = builder(factory, &settings, job.seed, Method::Ours)?;
        let world = self.world(job, factory.name == LINUX);
        let stage = Simulation::new(World::new(&world), world.threads, self.duration());
        let mut stage = stage.counted(self.bandwidth == Bandwidth::Measured);
        let setup = Setup {
            topology: driver::known(&world.topology, self.bandwidth),
            page_bytes: PAGE_BYTES,
            programs: stage.programs(),
            options: AttachOptions {
                interval: self.law,
                ..driver::attach_options_for(factory, &[], world.conditions.source)
                    .map_err(unset)?
            },
            // As the daemon does.
            look_first: true,
            policy: &build,
        };
        let run = driver::run(&mut stage, &setup).map_err(|error| internal(&error))?;
        let phase = match world.workload {
            Workload::Phases(seconds) if self.rows[job.row].changes() => {
                Some(Duration::from_secs(u64::from(seconds)))
            }
            _ => None,
        };
        let ran = measure::Ran {
            run: &run,
            world: &stage.world,
            duration: self.duration(),
            phase,
        };
        let measured = ran.measured();
        Ok(Done(Outcome::Measured(measured, run.windows)))
    }

    fn world(&self, job: Job, balancing: bool) -> WorldSpec {
        let site = &self.machines[job.machine];
        let topology = &site.topology;
        let row = self.rows[job.row];
        WorldSpec {
            topology: site.conditions.machine(topology),
            conditions: site.conditions,
            workload: row.workload(self.duration().as_secs_f64()),
            threads: row.threads(topology),
            faults: Faults::NONE,
            cgroup_cpus: if row.confined {
                topology.nodes()[0].cpus.clone()
            } else {
                CpuSet::new()
            },
            seed: job.seed,
            balancing,
        }
    }

    /// How long a run takes: the windows of a program whose mapping never changes.
    fn duration(&self) -> Duration {
        let growing = Duration::from_millis(500 + 1000);
        growing + Duration::from_secs(2) * self.windows.saturating_sub(2)
    }

    /// Makes the matrix of what the jobs gave, by number of the job.
    ///
    /// # Panics
    /// When there is not one for each job, in order.
    #[must_use]
    pub fn finish(self, done: Vec<Done>) -> Matrix {
        assert_eq!(done.len(), self.jobs.len(), "one outcome for each job");
        let seeds = usize::try_from(self.seeds).unwrap_or(usize::MAX);
        let (mut cells, mut best, mut windows) = (Vec::new(), Vec::new(), Vec::new());
        let mut done = done.into_iter();
        while done.len() > 0 {
            let (mut measured, mut found) = (Vec::new(), Vec::new());
            for one in done.by_ref().take(seeds) {
                match one.0 {
                    Outcome::Measured(one, rows) => {
                        measured.push(one);
                        windows.push(rows);
                    }
                    Outcome::Best(one) => found.push(one),
                }
            }
            assert!(
                measured.is_empty() || found.is_empty(),
                "one kind for each cell"
            );
            if found.is_empty() {
                cells.push(Measured::mean(&measured));
            } else {
                best.push(Best::mean(&found));
            }
        }
        Matrix {
            plan: self,
            cells,
            best,
            windows,
        }
    }
}

impl Site {
    fn about(&self) -> String {
        let (about, memory) = (self.machine.about, self.conditions.memory);
        match memory {
            Size::SMALL => about.to_owned(),
            _ => format!("{about}; {memory} for each thread"),
        }
    }

    /// The word for people; with the memory of a thread where it is not the small one.
    fn name(&self) -> String {
        match self.conditions.memory {
            Size::SMALL => self.machine.name.to_owned(),
            memory => format!("{} {memory}", self.machine.name),
        }
    }
}

impl Matrix {
    /// Whether no run broke a rule. What policies promise is another matter, see [`Self::checks`].
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.cells.iter().all(|cell| cell.violations == 0)
    }

    fn cell(&self, machine: usize, row: usize, policy: usize) -> &Measured {
        let place = machine * self.plan.rows.len() + row;
        &self.cells[place * self.plan.policies.len() + policy]
    }

    fn best(&self, machine: usize, row: usize) -> &Best {
        &self.best[machine * self.plan.rows.len() + row]
    }

    /// Position of a policy, if it takes part.
    fn policy(&self, name: &str) -> Option<usize> {
        let mut policies = self.plan.policies.iter();
        policies.position(|factory| factory.name == name)
    }

    /// Work done compared to `linux`: 1 is as much.
    fn over_linux(&self, machine: usize, row: usize, policy: usize) -> f64 {
        let linux = self.policy(LINUX).unwrap_or(policy);
        self.cell(machine, row, policy).speed / self.cell(machine, row, linux).speed
    }

    /// Work done compared to the best that the search found.
    fn of_best(&self, machine: usize, row: usize, policy: usize) -> f64 {
        self.cell(machine, row, policy).speed / self.best(machine, row).speed
    }

    /// The least and the mean (geometric) of a figure over some cells of a policy.
    fn least_and_mean(
        places: impl Iterator<Item = (usize, usize)>,
        figure: impl Fn(usize, usize) -> f64,
    ) -> (f64, f64) {
        let (mut least, mut product, mut count) = (f64::INFINITY, 0.0, 0.0);
        for (machine, row) in places {
            let value = figure(machine, row);
            least = least.min(value);
            product += value.ln();
            count += 1.0;
        }
        (least, f64::exp(product / f64::max(count, 1.0)))
    }

    /// What was run, in one line.
    fn head(&self) -> String {
        let plan = &self.plan;
        let seconds = plan.duration().as_secs_f64();
        format!(
            "{} policies, {} workloads, {} machines, seeds 1 to {}; {seconds} s each, {} windows of a \
             program that stands still",
            plan.policies.len(),
            plan.rows.len(),
            plan.machines.len(),
            plan.seeds,
            plan.windows,
        )
    }
}

fn names(list: Option<&str>) -> Vec<&str> {
    list.map_or_else(Vec::new, |list| list.split(',').map(str::trim).collect())
}

/// The workloads of a list: those that have a name, and after them those that are drawn by number.
fn rows(list: Option<&str>) -> Result<Vec<&'static Row>, RunError> {
    let made = |name: &&str| Row::made(name);
    let (drawn, named): (Vec<&str>, Vec<&str>) = names(list)
        .into_iter()
        .partition(|name| made(name).is_some());
    let mut rows = Vec::new();
    if drawn.is_empty() || !named.is_empty() {
        let named = list.map(|_| named.join(","));
        rows = chosen(named.as_deref(), "workload", ROWS, |one| one.name)?;
    }
    rows.extend(drawn.iter().filter_map(made).flatten());
    Ok(rows)
}

fn chosen<T>(
    list: Option<&str>,
    what: &str,
    all: &'static [T],
    name: fn(&T) -> &'static str,
) -> Result<Vec<&'static T>, RunError> {
    let wanted = names(list);
    if let Some(unknown) = wanted
        .iter()
        .find(|word| !all.iter().any(|one| name(one) == **word))
    {
        let known: Vec<&str> = all.iter().map(name).collect();
        let known = known.join(", ");
        let message = format!("the matrix has no {what} `{unknown}`; it has {known}");
        return Err(RunError::new(RunErrorKind::NotFound, message));
    }
    let takes_part = |one: &&T| wanted.is_empty() || wanted.contains(&name(one));
    Ok(all.iter().filter(takes_part).collect())
}

fn within(what: &str, value: u64, least: u64, most: u64) -> Result<(), RunError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let message = format!("`{value}` {what}: must be from {least} to {most}");
    Err(RunError::new(RunErrorKind::Usage, message))
}

#[cfg(test)]
mod tests;
