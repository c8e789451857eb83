//! A machine that is not there: threads, pages, nodes, and time in small steps.
//!
//! Order of calls: [`World::new`], then [`World::step`] again and again; [`World::observe`] and
//! `perform` (it is a [`numad_core::Host`]) between steps; [`World::undo`] at the end. The same calls with the same seed
//! do the same, bit for bit.

mod balancing;
mod copied;
mod extents;
mod faults;
mod growth;
mod host;
mod imagine;
mod mishaps;
mod pace;
mod samples;
mod space;
#[cfg(test)]
mod tests;
mod wander;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use numad_core::cost::{MachineModel, Prices};
use numad_core::{Record, Time};
use topology::{CpuId, CpuSet, NodeId, Pid, StartTicks, TaskKey, Tid, Topology};

use crate::conditions::{Conditions, STARTS_S, Source};
use crate::fault::Faults;
use crate::random::Random;
use crate::scheduler::{Runnable, Scheduler};
use crate::workload::{Blueprint, Workload};

use balancing::Balancing;
use copied::Copied;
use extents::Extents;
use faults::Faulting;
pub(crate) use growth::pages_at;
pub use host::{Mapping, Placement};
pub(crate) use imagine::{Imagined, Layout};
pub use pace::Totals;
pub(crate) use samples::whole;
use space::Space;

/// Length of a step: a fifth of the shortest window of any interval law.
pub const STEP: Duration = Duration::from_millis(10);

/// [`STEP`] in nanoseconds.
const STEP_NS: u64 = 10_000_000;

/// Bytes in a page of every world.
pub const PAGE_BYTES: u64 = 4096;

/// Moving a page of 2 MiB: copying at 5 GB/s, which is also behind the price of a small one.
const HUGE_MOVE_NS: f64 = 420_000.0;

/// What a world is made of.
#[derive(Clone, Debug)]
pub struct WorldSpec {
    /// The machine.
    pub topology: Arc<Topology>,
    /// What runs on it.
    pub workload: Workload,
    /// How many threads.
    pub threads: usize,
    /// How much memory it has, and how that is touched and sampled.
    pub conditions: Conditions,
    /// What goes wrong.
    pub faults: Faults,
    /// Processors that the programs' cgroup allows; empty means all.
    pub cgroup_cpus: CpuSet,
    /// All randomness comes from here.
    pub seed: u64,
    /// The kernel's own NUMA balancing is on, as far as it is modelled: a hint fault on every page per
    /// scan, pages that follow two faults from one node, threads that follow most of their pages.
    pub balancing: bool,
}

/// The machine, its programs, and what became of them so far.
#[derive(Debug)]
pub struct World {
    topology: Arc<Topology>,
    model: MachineModel,
    prices: Prices,
    plan: Blueprint,
    conditions: Conditions,
    space: Space,
    faults: Faults,
    cgroup_cpus: CpuSet,
    scheduler: Scheduler,
    threads: Vec<Thread>,
    regions: Vec<Region>,
    online: CpuSet,
    /// Last-level cache of each processor, by position, where a node has several.
    caches: Vec<Option<usize>>,
    /// Memory in use on each node, by position.
    used_bytes: Vec<u64>,
    /// Time that passed, and what the clock shows.
    elapsed_ns: u64,
    clock_ns: u64,
    phase: usize,
    /// Placement changed since rates were computed.
    stale: bool,
    pace: Vec<pace::Pace>,
    /// What each controller is asked for, and by whom: a row for each thread, in bytes per
    /// nanosecond.
    controller_rate: Vec<f64>,
    asks: Vec<f64>,
    totals: Totals,
    /// What moves of one turn copy.
    copied: Copied,
    journal: Journal,
    sampling: Random,
    wandering: Random,
    /// One number for each step, from which all that goes wrong in it and after it is drawn.
    mishaps: Random,
    lots: Random,
    losing_steps: u32,
    /// Accesses per sample.
    period: u64,
    /// Time that moving one page takes from its program.
    page_move_ns: f64,
    next_start: u64,
    /// Regions in use in this phase, by program.
    in_use: Vec<Vec<usize>>,
    balancing: Option<Balancing>,
    /// Set where faults are the source of samples.
    faulting: Option<Faulting>,
}

/// A thread, or the place of one that ended.
#[derive(Debug)]
struct Thread {
    key: TaskKey,
    name: String,
    program: usize,
    /// When it starts.
    start_ns: u64,
    alive: bool,
    /// The mask that was set; none where nobody set one.
    affinity: Option<CpuSet>,
    runnable: Runnable,
    /// Time it is still busy with the consequences of moves.
    stall_ns: f64,
    cpu_time_ns: f64,
    /// Part of the next sample that has gathered.
    sample_debt: f64,
    node: usize,
}

/// A region's pages.
#[derive(Debug)]
struct Region {
    /// Position of the node of each page; none until it is touched.
    homes: Extents<u16>,
    /// The same when each was touched, whoever moved it since.
    first_homes: Extents<u16>,
    /// Pages that there are so far.
    present: u64,
    /// Pages on each node, by position.
    on: Vec<u64>,
    /// How much they are used: out of date once homes changed, until rates are computed.
    heat: Vec<f64>,
    /// Threads that use it in this phase.
    users: Vec<usize>,
}

/// What was there before the engine changed it.
#[derive(Debug, Default)]
struct Journal {
    masks: BTreeMap<TaskKey, Option<CpuSet>>,
    /// By region.
    homes: BTreeMap<usize, Extents<u16>>,
}

impl World {
    /// Whether the memory of its programs has room among addresses; without that there is no such
    /// world.
    pub(crate) fn has_room(spec: &WorldSpec) -> bool {
        Space::has_room(&plan_of(spec))
    }

    /// A world at its beginning: threads are on processors, memory is touched.
    #[must_use]
    pub fn new(spec: &WorldSpec) -> Self {
        let topology = Arc::clone(&spec.topology);
        let plan = plan_of(spec);
        let nodes = topology.nodes().len();
        let regions = plan.regions.iter().map(|region| Region {
            homes: Extents::default(),
            first_homes: Extents::default(),
            present: pages_at(region, 0),
            on: vec![0; nodes],
            heat: vec![0.0; nodes],
            users: Vec::new(),
        });
        let model = MachineModel::new(&topology);
        let mut world = Self {
            space: Space::new(
                &plan,
                spec.conditions.sparse,
                &mut Random::new(spec.seed, 6),
            ),
            conditions: spec.conditions,
            period: samples::period(&plan, &model, spec.conditions.samples_per_s),
            model,
            prices: Prices::default(),
            page_move_ns: if spec.conditions.huge {
                HUGE_MOVE_NS / spec.conditions.unit_pages() as f64
            } else {
                Prices::default().page_move_ns
            },
            faults: spec.faults,
            cgroup_cpus: spec.cgroup_cpus.clone(),
            scheduler: Scheduler::new(&topology),
            threads: Vec::new(),
            regions: regions.collect(),
            online: topology.usable(),
            caches: caches_within_nodes(&topology),
            used_bytes: vec![0; nodes],
            elapsed_ns: 0,
            // No clock starts at zero; a machine has been up for a while.
            clock_ns: 1_000_000_000,
            phase: 0,
            stale: true,
            pace: Vec::new(),
            controller_rate: vec![0.0; nodes],
            asks: Vec::new(),
            totals: Totals::new(plan.threads.len(), nodes),
            copied: Copied::new(nodes),
            journal: Journal::default(),
            sampling: Random::new(spec.seed, 2),
            wandering: Random::new(spec.seed, 8),
            mishaps: Random::new(spec.seed, 3),
            lots: Random::new(spec.seed, 9),
            losing_steps: 0,
            next_start: 100,
            in_use: Vec::new(),
            balancing: spec
                .balancing
                .then(|| Balancing::new(&plan, &spec.conditions, nodes, spec.seed)),
            faulting: (spec.conditions.source == Source::Faults)
                .then(|| Faulting::new(plan.regions.len())),
            topology,
            plan,
        };
        world.list_threads(&mut Random::new(spec.seed, 7));
        world.schedule();
        world.enter_phase();
        world
    }

    /// Lets [`STEP`] pass. Records of what was seen are appended in the order of time.
    pub fn step(&mut self, records: &mut Vec<Record>) {
        if !self.faults.is_none() {
            self.mishap(records);
        }
        self.start_threads(records);
        self.turn_phase();
        self.grow();
        self.protect();
        self.balance();
        self.stale |= self.copied.end(self.elapsed_ns);
        self.wander();
        if self.stale {
            self.stale = false;
            self.schedule();
            self.settle();
        }
        self.advance(records);
        self.elapsed_ns += STEP_NS;
        self.clock_ns += STEP_NS;
    }

    /// What the clock shows. It jumps when clocks are among the faults.
    #[must_use]
    pub const fn now(&self) -> Time {
        Time(self.clock_ns)
    }

    /// Time that has really passed.
    #[must_use]
    pub const fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.elapsed_ns)
    }

    /// The machine.
    #[must_use]
    pub fn topology(&self) -> &Arc<Topology> {
        &self.topology
    }

    /// What runs, in full; an oracle for tests.
    #[must_use]
    pub const fn blueprint(&self) -> &Blueprint {
        &self.plan
    }

    /// Which phase of the blueprint it is in.
    #[must_use]
    pub const fn phase(&self) -> usize {
        self.phase
    }

    /// The processes, one per program.
    #[must_use]
    pub fn pids(&self) -> Vec<Pid> {
        (0..self.plan.programs()).map(pid_of).collect()
    }

    /// Node of each thread by position in the blueprint; none where it has ended.
    #[must_use]
    pub fn thread_nodes(&self) -> Vec<Option<NodeId>> {
        let id = |thread: &Thread| self.topology.nodes()[thread.node].id;
        self.threads
            .iter()
            .map(|thread| thread.alive.then(|| id(thread)))
            .collect()
    }

    /// Who each thread of the blueprint is now; none where it has ended.
    #[must_use]
    pub fn thread_keys(&self) -> Vec<Option<TaskKey>> {
        self.threads
            .iter()
            .map(|thread| thread.alive.then_some(thread.key))
            .collect()
    }

    /// What goes wrong.
    #[must_use]
    pub const fn faults(&self) -> Faults {
        self.faults
    }

    /// Processors that the programs' cgroup allows; empty means all.
    #[must_use]
    pub const fn cgroup_cpus(&self) -> &CpuSet {
        &self.cgroup_cpus
    }

    /// What became of everything so far.
    #[must_use]
    pub const fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Whether the kernel moves threads and pages as well.
    #[must_use]
    pub const fn balances(&self) -> bool {
        self.balancing.is_some()
    }

    fn list_threads(&mut self, random: &mut Random) {
        let mut started = vec![0_u32; self.plan.programs()];
        for plan in self.plan.threads.clone() {
            let pid = pid_of(plan.program);
            let number = started[plan.program];
            started[plan.program] += 1;
            self.next_start += 1;
            // A program begins with its first thread.
            let start_ns = if self.conditions.staggered && number > 0 {
                random.bits() % (u64::from(STARTS_S) * 1_000_000_000)
            } else {
                0
            };
            self.threads.push(Thread {
                key: TaskKey {
                    pid,
                    tid: Tid(pid.0 + number),
                    start: StartTicks(self.next_start),
                },
                name: format!("worker-{number}"),
                program: plan.program,
                start_ns,
                alive: start_ns == 0,
                affinity: None,
                runnable: Runnable {
                    cpu: None,
                    allowed: Vec::new(),
                },
                stall_ns: 0.0,
                cpu_time_ns: 0.0,
                // A fresh start would make all threads sample at once.
                sample_debt: self.sampling.unit(),
                node: 0,
            });
        }
    }

    /// Gives every thread a processor among those it may use, and charges those that change node.
    fn schedule(&mut self) {
        for index in 0..self.threads.len() {
            let allowed = self.effective_mask(index);
            self.threads[index].runnable.allowed = self.scheduler.members(&allowed);
        }
        let mut runnable: Vec<&mut Runnable> = self
            .threads
            .iter_mut()
            .filter(|thread| thread.alive)
            .map(|thread| &mut thread.runnable)
            .collect();
        self.scheduler.place(&mut runnable);
        let fresh = self.elapsed_ns == 0;
        for thread in &mut self.threads {
            let node = thread
                .runnable
                .cpu
                .and_then(|cpu| self.topology.cpus()[cpu].node)
                .and_then(|node| self.topology.position(node))
                .unwrap_or(0);
            if node != thread.node && thread.alive && !fresh {
                thread.stall_ns += self.prices.task_move_ns;
                self.totals.task_moves += 1;
            }
            thread.node = node;
        }
    }

    /// The processors a thread may really use. A mask of which nothing is left is thrown away, as
    /// the kernel does when the last processor of a mask goes offline.
    fn effective_mask(&mut self, index: usize) -> CpuSet {
        let within = if self.cgroup_cpus.is_empty() || !self.cgroup_cpus.intersects(&self.online) {
            self.online.clone()
        } else {
            self.online.intersection(&self.cgroup_cpus)
        };
        let thread = &mut self.threads[index];
        if let Some(mask) = &thread.affinity {
            let left = mask.intersection(&within);
            if !left.is_empty() {
                return left;
            }
            thread.affinity = None;
        }
        within
    }

    fn turn_phase(&mut self) {
        let Some(length) = self.plan.phase else {
            return;
        };
        let length_ns = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX).max(1);
        let turn = usize::try_from(self.elapsed_ns / length_ns).unwrap_or(usize::MAX);
        let phase = turn % self.plan.phases.len();
        if phase != self.phase {
            self.phase = phase;
            self.enter_phase();
            self.stale = true;
        }
    }

    /// Notes who uses what, and touches what was not touched before.
    fn enter_phase(&mut self) {
        for region in &mut self.regions {
            region.users.clear();
        }
        let uses = &self.plan.phases[self.phase].uses;
        for (thread, uses) in uses.iter().enumerate() {
            for &(region, _) in uses {
                self.regions[region].users.push(thread);
            }
        }
        self.in_use = vec![Vec::new(); self.plan.programs()];
        for (region, plan) in self.plan.regions.iter().enumerate() {
            if !self.regions[region].users.is_empty() {
                self.in_use[plan.program].push(region);
            }
        }
        self.touch_all();
    }

    fn touch_all(&mut self) {
        for region in 0..self.regions.len() {
            if !self.regions[region].users.is_empty() {
                self.touch(region);
            }
        }
    }

    /// First touch: pages without a home get one where the toucher runs, or as near as there is
    /// memory.
    fn touch(&mut self, region: usize) {
        let there = &self.regions[region];
        let (pages, plan) = (0..there.present, &self.plan.regions[region]);
        if there.homes.gaps(pages.clone()).is_empty() {
            return;
        }
        let node_of = |thread: usize| {
            let there = &self.threads[thread];
            there.alive.then_some(there.node)
        };
        let parts: Vec<(Range<u64>, usize)> = if plan.by_all {
            let (users, end) = (there.users.len() as u64, pages.end);
            let users = (0..).zip(&there.users).map(|(part, &user)| {
                let from = end * part / users..end * (part + 1) / users;
                Some((from, node_of(user)?))
            });
            users.flatten().collect()
        } else {
            // Whoever comes first, while the one that was to touch it has not started.
            let someone = || there.users.iter().find_map(|&user| node_of(user));
            let node = node_of(plan.toucher).or_else(someone);
            node.map(|node| (pages, node)).into_iter().collect()
        };
        for (pages, node) in parts {
            self.touch_pages(region, pages, node);
        }
    }

    fn touch_pages(&mut self, region: usize, pages: Range<u64>, from: usize) {
        for gap in self.regions[region].homes.gaps(pages) {
            for (region, pages) in self.units(region, gap) {
                self.fill(region, pages, from);
            }
        }
    }

    /// Gives pages without a home one as near to a node as there is memory.
    fn fill(&mut self, region: usize, pages: Range<u64>, from: usize) {
        for gap in self.regions[region].homes.gaps(pages) {
            let mut left = gap;
            while !left.is_empty()
                && let Some(node) = self.nearest_memory(from)
            {
                let room = self.free_bytes(node) / PAGE_BYTES;
                let end = left.end.min(left.start.saturating_add(room));
                let here = left.start..end;
                self.settle_pages(region, here.clone(), node);
                if let Ok(home) = u16::try_from(node) {
                    self.regions[region].first_homes.fill(here, home);
                }
                left.start = end;
            }
        }
    }

    /// The pages that are in one unit of memory with some of these: all huge pages they lie in, also
    /// those of regions that are dealt out in turn with this one.
    fn units(&self, region: usize, pages: Range<u64>) -> Vec<(usize, Range<u64>)> {
        let unit = self.conditions.unit_pages();
        if unit == 1 {
            return vec![(region, pages)];
        }
        let step = self.plan.regions[region]
            .lane
            .map_or(pages.end, |lane| lane.pages);
        let mut runs = Vec::new();
        let mut done = 0;
        let mut at = pages.start;
        while at < pages.end {
            let end = pages.end.min((at / step + 1) * step);
            let number = |page| self.space.number(&self.plan, region, page);
            let first = number(at) / unit * unit;
            let last = (number(end - 1) + 1).next_multiple_of(unit);
            runs.extend(self.space.runs(&self.plan, first.max(done)..last));
            (at, done) = (end, last.max(done));
        }
        for (region, pages) in &mut runs {
            pages.end = pages.end.min(self.regions[*region].present);
        }
        runs.retain(|(_, pages)| !pages.is_empty());
        runs
    }

    fn nearest_memory(&self, from: usize) -> Option<usize> {
        (0..self.topology.nodes().len())
            .filter(|&node| self.free_bytes(node) >= PAGE_BYTES)
            .min_by_key(|&node| (self.topology.distances().between(from, node), node))
    }

    fn free_bytes(&self, node: usize) -> u64 {
        self.topology.nodes()[node]
            .memory_bytes
            .saturating_sub(self.used_bytes[node])
    }

    /// Puts pages on a node, wherever they were.
    fn settle_pages(&mut self, region: usize, pages: Range<u64>, node: usize) {
        let Ok(home) = u16::try_from(node) else {
            return;
        };
        let there = &mut self.regions[region];
        let count = pages.end - pages.start;
        for (run, home) in there.homes.within(pages.clone()) {
            let (home, count) = (usize::from(home), run.end - run.start);
            there.on[home] -= count;
            self.used_bytes[home] -= count * PAGE_BYTES;
        }
        there.homes.set(pages, home);
        there.on[node] += count;
        self.used_bytes[node] += count * PAGE_BYTES;
        self.stale = true;
    }
}

/// The last-level cache of each processor, by position; none where all processors of its node share it, or
/// nothing is known.
fn caches_within_nodes(topology: &Topology) -> Vec<Option<usize>> {
    let nodes = topology.nodes().iter();
    let caches: Vec<&CpuSet> = nodes
        .flat_map(|node| topology.caches_within(node))
        .collect();
    let cpus = topology.cpus().iter();
    cpus.map(|cpu| caches.iter().position(|cache| cache.contains(cpu.id)))
        .collect()
}

fn plan_of(spec: &WorldSpec) -> Blueprint {
    let mut random = Random::new(spec.seed, 1);
    spec.workload
        .blueprint(spec.threads, &spec.conditions, &mut random)
}

fn pid_of(program: usize) -> Pid {
    let number = u32::try_from(program).unwrap_or(u32::MAX);
    Pid(number.saturating_add(1).saturating_mul(PID_GAP))
}

/// Pids of programs are this far apart, so that their threads' numbers do not meet.
const PID_GAP: u32 = 100_000;

/// The processor of a thread, by number; the first where it never had one.
fn cpu_id(topology: &Topology, runnable: &Runnable) -> CpuId {
    topology.cpus()[runnable.cpu.unwrap_or(0)].id
}
