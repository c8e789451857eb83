//! Methods as their papers have them: no gain is asked for, nothing stands because it stood.
//!
//! Each file is one method, written from its paper; how ours differs is in `differences.txt`. What they
//! share is here: proposals for a whole mapping, and mappings down to cores.

use std::collections::BTreeMap;
use std::time::Duration;

use numad_core::{CommMatrix, IntervalLaw, Program, Proposal, Reason, Time};
use topology::{CoreId, CpuId, TaskKey, Topology};

use crate::fixed::cores;
use crate::history::{History, began, positions};
use crate::kernel::{Edges, Effort, Kernel, Problem, Workspace};
use crate::rounds;
use crate::seats::may_run;

pub(crate) mod autopin;
pub(crate) mod azimi;
pub(crate) mod balance;
pub(crate) mod cdsm;
pub(crate) mod deloc;
pub(crate) mod lapt;
pub(crate) mod marathe;
pub(crate) mod ptb;
pub(crate) mod rclb;
#[cfg(test)]
mod references_tests;
#[cfg(test)]
mod whole_references_tests;

/// Windows of one length.
pub(crate) const fn every(length: Duration) -> IntervalLaw {
    IntervalLaw::Calm {
        min: length,
        max: length,
    }
}

/// How long methods that map once look at a program before: their papers have a run of its own for that.
const PROFILE: Duration = Duration::from_secs(2);

/// Windows of which the methods that map once make their profile.
pub(crate) const PROFILE_LAW: IntervalLaw = every(Duration::from_millis(100));

/// A profile at the start of a program.
#[derive(Debug, Default)]
struct Profile {
    began: Option<Time>,
    done: bool,
}

impl Profile {
    /// Whether this window is the last of the profile, after which the program is mapped.
    fn ends(&mut self, now: Time, window: Duration) -> bool {
        let began = *self.began.get_or_insert(began(now, window));
        let ends = !self.done && now.since(began) >= PROFILE;
        self.done |= ends;
        ends
    }
}

/// A mapping that is made once, of a profile, and stands.
#[derive(Debug, Default)]
struct Once {
    profile: Profile,
    history: History,
    plan: BTreeMap<TaskKey, usize>,
}

impl Once {
    /// Goes on with the profile, and maps it at its end; the nodes that were mapped then.
    fn nodes(
        &mut self,
        now: Time,
        program: &Program<'_>,
        map: impl FnOnce(&History) -> Vec<Option<usize>>,
    ) -> Vec<Option<usize>> {
        if !self.profile.done {
            self.history.note(now, program);
        }
        let keys = program.tasks.iter().map(|task| task.key);
        if self.profile.ends(now, program.window) {
            let mut nodes = map(&self.history);
            let takes = |task: usize, node: usize| may_run(&program.tasks[task], node);
            rounds::fill(&mut nodes, program.capacity, takes);
            let placed = keys.clone().zip(nodes);
            self.plan = placed
                .filter_map(|(key, node)| Some((key, node?)))
                .collect();
        }
        keys.map(|key| self.plan.get(&key).copied()).collect()
    }
}

/// Asks for these nodes, of those tasks that have one.
fn place(
    nodes: &[Option<usize>],
    out: &mut Vec<Proposal>,
    mut reason: impl FnMut(usize) -> Reason,
) {
    for (task, node) in nodes.iter().enumerate() {
        if let Some(node) = *node {
            out.push(Proposal::place_task(task, node, reason(task)));
        }
    }
}

/// What was said in the whole run, which nothing clears, and the cores that tasks have by that.
#[derive(Debug, Default)]
struct WholeRun {
    said: BTreeMap<(TaskKey, TaskKey), u64>,
    cores: BTreeMap<TaskKey, CoreId>,
}

impl WholeRun {
    /// Adds this window, and gives the matrix of the tasks that are there.
    fn with(&mut self, program: &Program<'_>) -> CommMatrix {
        let key = |task: usize| program.tasks[task].key;
        for (one, other, amount) in program.live.pairs() {
            let sum = self.said.entry((key(one), key(other))).or_default();
            *sum = sum.saturating_add(amount);
        }
        let positions = positions(program);
        self.said
            .retain(|(one, other), _| positions.contains_key(one) && positions.contains_key(other));
        let mut matrix = CommMatrix::new(program.tasks.len());
        for ((one, other), &amount) in &self.said {
            matrix.add(positions[one], positions[other], amount);
        }
        matrix
    }

    /// Adds this window, maps the tasks to cores by the kernel if anything was said, and asks for
    /// the nodes of those; that of a task that may not run there is not asked for.
    fn map(&mut self, program: &Program<'_>, kernel: Kernel, out: &mut Vec<Proposal>) {
        let matrix = self.with(program);
        if matrix.pairs().next().is_none() {
            return;
        }
        let cores = Cores::of(program.topology);
        let plan = cores.map(program, &matrix, kernel);
        let at = |core: &Option<usize>| core.map(|core| cores.all[core]);
        let tasks = program.tasks.iter().zip(&plan);
        self.cores = tasks
            .filter_map(|(task, core)| Some((task.key, at(core)?.1)))
            .collect();
        let nodes: Vec<Option<usize>> = plan.iter().map(|core| Some(at(core)?.0)).collect();
        place(&nodes, out, |task| partner(program, &matrix, task));
    }
}

/// The partner to whom a task says most, as a reason.
fn partner(program: &Program<'_>, matrix: &CommMatrix, task: usize) -> Reason {
    let row = matrix.row(task).iter().enumerate();
    let most = row.max_by_key(|&(other, &amount)| (amount, std::cmp::Reverse(other)));
    match most {
        Some((with, &amount)) if amount > 0 => Reason::Partner {
            with: program.tasks[with].key,
            amount,
        },
        _ => Reason::Order,
    }
}

/// Cores with the nodes that they are on, and how far apart two of them are.
#[derive(Debug)]
struct Cores {
    all: Vec<(usize, CoreId, CpuId)>,
    distance: Vec<u32>,
}

/// How many times farther apart than the farthest of one node two nodes are.
const NODES: u32 = 10;

impl Cores {
    /// Distances in the tree: one for each level of caches up to the one that two cores share, and beyond
    /// those the distance of the nodes.
    fn of(topology: &Topology) -> Self {
        let all = cores(topology);
        let levels = topology.caches().iter().map(|cache| u32::from(cache.level));
        let last = levels.max().unwrap_or(0) + 1;
        let nodes = topology.distances();
        let mut distance = Vec::with_capacity(all.len() * all.len());
        for (home, core, cpu) in &all {
            for (node, partner, other) in &all {
                let caches = topology.caches().iter();
                let shared =
                    caches.filter(|cache| cache.cpus.contains(*cpu) && cache.cpus.contains(*other));
                let level = shared.map(|cache| u32::from(cache.level)).min();
                distance.push(match (core == partner, home == node) {
                    (true, _) => 0,
                    (_, true) => level.unwrap_or(last),
                    _ => {
                        NODES * last * nodes.between(*home, *node)
                            / nodes.between(*home, *home).max(1)
                    }
                });
            }
        }
        Self { all, distance }
    }

    /// A core for each task, by the kernel; none for a task that may not run there, which stays
    /// where it is.
    fn map(
        &self,
        program: &Program<'_>,
        matrix: &CommMatrix,
        kernel: Kernel,
    ) -> Vec<Option<usize>> {
        let tasks = program.tasks.len();
        let mut capacity = Vec::with_capacity(self.all.len());
        for same in self.all.chunk_by(|one, other| one.0 == other.0) {
            // As many on each core as the node takes, dealt out evenly.
            let (room, cores) = (program.capacity[same[0].0], same.len());
            let each = (0..cores).map(|core| (room + cores - 1 - core) / cores);
            capacity.extend(each.map(|room| u32::try_from(room).unwrap_or(u32::MAX)));
        }
        let edges = Edges::from_matrix(matrix);
        let Ok(problem) = Problem::new(&edges, &self.distance, &capacity) else {
            return vec![None; tasks];
        };
        let mut workspace = Workspace::default();
        let mapping = kernel(&problem, Effort::ONLINE, &mut workspace);
        let cores = mapping.iter().map(|&core| usize::from(core));
        let cores = cores.zip(program.tasks);
        cores
            .map(|(core, task)| may_run(task, self.all[core].0).then_some(core))
            .collect()
    }
}
