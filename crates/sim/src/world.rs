//! A machine that is not there: threads, pages, nodes, and time in small steps.
//!
//! Order of calls: [`World::new`], then [`World::step`] again and again; [`World::observe`] and
//! `perform` (it is a [`numad_core::Host`]) between steps; [`World::undo`] at the end. The same calls with the same seed
//! do the same, bit for bit.

mod balancing;
mod host;
mod imagine;
mod mishaps;
mod pace;
mod samples;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use numad_core::cost::{MachineModel, Prices};
use numad_core::{Record, Time};
use topology::{CpuId, CpuSet, NodeId, Pid, StartTicks, TaskKey, Tid, Topology};

use crate::fault::Faults;
use crate::random::Random;
use crate::scheduler::{Runnable, Scheduler};
use crate::workload::{Blueprint, Workload};

use balancing::Balancing;
pub use host::Placement;
pub(crate) use imagine::{Imagined, Layout};
pub use pace::Totals;
pub(crate) use samples::whole;

/// Length of a step: a fifth of the shortest window of any interval law.
pub const STEP: Duration = Duration::from_millis(10);

/// [`STEP`] in nanoseconds.
const STEP_NS: u64 = 10_000_000;

/// Bytes in a page of every world.
pub const PAGE_BYTES: u64 = 4096;

/// Where the first region begins, and how far regions are apart: no region reaches the next, and all
/// addresses look like those of a real program.
const BASE: u64 = 0x7f00_0000_0000;
const REGION_SHIFT: u32 = 24;
const _: () = assert!((1 << REGION_SHIFT) / PAGE_BYTES >= 4096);

/// What a world is made of.
#[derive(Clone, Debug)]
pub struct WorldSpec {
    /// The machine.
    pub topology: Arc<Topology>,
    /// What runs on it.
    pub workload: Workload,
    /// How many threads.
    pub threads: usize,
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
    faults: Faults,
    cgroup_cpus: CpuSet,
    scheduler: Scheduler,
    threads: Vec<Thread>,
    regions: Vec<Region>,
    online: CpuSet,
    /// Memory in use on each node, by position.
    used_bytes: Vec<u64>,
    /// Time that passed, and what the clock shows.
    elapsed_ns: u64,
    clock_ns: u64,
    phase: usize,
    /// Placement changed since rates were computed.
    stale: bool,
    pace: Vec<pace::Pace>,
    controller_rate: Vec<f64>,
    totals: Totals,
    journal: Journal,
    sampling: Random,
    mishaps: Random,
    losing_steps: u32,
    next_start: u64,
    /// Regions in use in this phase, by program.
    in_use: Vec<Vec<usize>>,
    balancing: Option<Balancing>,
}

/// A thread, or the place of one that ended.
#[derive(Debug)]
struct Thread {
    key: TaskKey,
    name: String,
    program: usize,
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
    homes: Vec<Option<u16>>,
    /// Pages on each node, by position.
    on: Vec<u32>,
    /// Threads that use it in this phase.
    users: Vec<usize>,
}

/// What was there before the engine changed it.
#[derive(Debug, Default)]
struct Journal {
    masks: BTreeMap<TaskKey, Option<CpuSet>>,
    /// By region and page.
    homes: BTreeMap<(usize, usize), u16>,
}

impl World {
    /// A world at its beginning: threads are on processors, memory is touched.
    #[must_use]
    pub fn new(spec: &WorldSpec) -> Self {
        let topology = Arc::clone(&spec.topology);
        let plan = spec
            .workload
            .blueprint(spec.threads, &mut Random::new(spec.seed, 1));
        let nodes = topology.nodes().len();
        let regions = plan.regions.iter().map(|region| Region {
            homes: vec![None; region.pages],
            on: vec![0; nodes],
            users: Vec::new(),
        });
        let mut world = Self {
            model: MachineModel::new(&topology),
            prices: Prices::default(),
            faults: spec.faults,
            cgroup_cpus: spec.cgroup_cpus.clone(),
            scheduler: Scheduler::new(&topology),
            threads: Vec::new(),
            regions: regions.collect(),
            online: topology.usable(),
            used_bytes: vec![0; nodes],
            elapsed_ns: 0,
            // No clock starts at zero; a machine has been up for a while.
            clock_ns: 1_000_000_000,
            phase: 0,
            stale: true,
            pace: Vec::new(),
            controller_rate: vec![0.0; nodes],
            totals: Totals::new(plan.threads.len(), nodes),
            journal: Journal::default(),
            sampling: Random::new(spec.seed, 2),
            mishaps: Random::new(spec.seed, 3),
            losing_steps: 0,
            next_start: 100,
            in_use: Vec::new(),
            balancing: spec
                .balancing
                .then(|| Balancing::new(&plan, nodes, spec.seed)),
            topology,
            plan,
        };
        world.start_threads();
        world.schedule();
        world.enter_phase();
        world
    }

    /// Lets [`STEP`] pass. Records of what was seen are appended in the order of time.
    pub fn step(&mut self, records: &mut Vec<Record>) {
        if !self.faults.is_none() {
            self.mishap(records);
        }
        self.turn_phase();
        self.balance();
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

    fn start_threads(&mut self) {
        let mut started = vec![0_u32; self.plan.programs()];
        for plan in self.plan.threads.clone() {
            let pid = pid_of(plan.program);
            let number = started[plan.program];
            started[plan.program] += 1;
            self.next_start += 1;
            self.threads.push(Thread {
                key: TaskKey {
                    pid,
                    tid: Tid(pid.0 + number),
                    start: StartTicks(self.next_start),
                },
                name: format!("worker-{number}"),
                program: plan.program,
                alive: true,
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
        for region in 0..self.regions.len() {
            if !self.regions[region].users.is_empty() {
                self.touch(region);
            }
        }
    }

    /// First touch: pages without a home get one where the toucher runs, or as near as there is
    /// memory.
    fn touch(&mut self, region: usize) {
        let from = self.threads[self.plan.regions[region].toucher].node;
        for page in 0..self.regions[region].homes.len() {
            if self.regions[region].homes[page].is_none()
                && let Some(node) = self.nearest_memory(from)
            {
                self.settle_page(region, page, node);
            }
        }
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

    /// Puts a page on a node, wherever it was.
    fn settle_page(&mut self, region: usize, page: usize, node: usize) {
        let there = &mut self.regions[region];
        if let Some(home) = there.homes[page].map(usize::from) {
            there.on[home] -= 1;
            self.used_bytes[home] -= PAGE_BYTES;
        }
        there.homes[page] = u16::try_from(node).ok();
        there.on[node] += 1;
        self.used_bytes[node] += PAGE_BYTES;
        self.stale = true;
    }
}

fn pid_of(program: usize) -> Pid {
    let number = u32::try_from(program).unwrap_or(u32::MAX);
    Pid(number.saturating_add(1).saturating_mul(PID_GAP))
}

/// Pids of programs are this far apart, so that their threads' numbers do not meet.
const PID_GAP: u32 = 100_000;

/// The first address of a page.
fn address_of(region: usize, page: usize) -> u64 {
    BASE + ((region as u64) << REGION_SHIFT) + page as u64 * PAGE_BYTES
}

/// The region and page that an address lies in, if any region can reach there.
fn locate(address: u64) -> Option<(usize, usize)> {
    let offset = address.checked_sub(BASE)?;
    let region = usize::try_from(offset >> REGION_SHIFT).ok()?;
    let page = usize::try_from((offset & ((1 << REGION_SHIFT) - 1)) / PAGE_BYTES).ok()?;
    Some((region, page))
}

/// The processor of a thread, by number; the first where it never had one.
fn cpu_id(topology: &Topology, runnable: &Runnable) -> CpuId {
    topology.cpus()[runnable.cpu.unwrap_or(0)].id
}
