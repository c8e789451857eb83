//! The world as the engine meets it: observed, changed, and put back.

use std::ops::Range;
use std::time::Duration;

use numad_core::{
    Action, AttachmentId, Host, ObservedProgram, ObservedSharing, ObservedTask, Outcome, PageKey,
    PageOutcome, Progress, Refusal,
};
use topology::{CpuSet, NodeId, NodeSet, Pid, TaskKey};

use super::copied::{BATCH_PAGES, waits_for};
use super::samples::whole;
use super::{PAGE_BYTES, World, cpu_id};
use crate::fault::{Fault, REFUSALS, REFUSE_CHANCE, VANISH_CHANCE};

/// Where everything is and may be: what undo has to bring back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Masks of live threads; none where nobody set one.
    pub masks: Vec<(TaskKey, Option<CpuSet>)>,
    /// Homes of pages that have one, as runs of pages of a region.
    pub homes: Vec<(usize, Range<u64>, NodeId)>,
}

/// A piece of a program's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its first address.
    pub start: u64,
    /// The first address after it.
    pub end: u64,
    /// Bytes of a page of it.
    pub page_bytes: u64,
}

impl World {
    /// What is true of one program now.
    #[must_use]
    pub fn observe(
        &self,
        attachment: AttachmentId,
        pid: Pid,
        homes: Vec<(PageKey, Option<NodeId>)>,
    ) -> ObservedProgram {
        let possible: CpuSet = self.topology.cpus().iter().map(|cpu| cpu.id).collect();
        let tasks = self
            .threads
            .iter()
            .filter(|thread| thread.alive && thread.key.pid == pid)
            .map(|thread| ObservedTask {
                key: thread.key,
                name: thread.name.clone(),
                cpu: cpu_id(&self.topology, &thread.runnable),
                cpu_time: Duration::from_nanos(whole(thread.cpu_time_ns)),
                affinity: thread.affinity.clone().unwrap_or_else(|| possible.clone()),
                cgroup_cpus: self.cgroup_cpus.clone(),
            })
            .collect();
        let large = match self.conditions.huge {
            true => homes.iter().map(|(page, _)| *page).collect(),
            false => Vec::new(),
        };
        ObservedProgram {
            attachment,
            tasks,
            large,
            homes,
            nodes_allowed: NodeSet::new(),
            sharing: ObservedSharing::default(),
            resident_bytes: self.resident_bytes(pid),
        }
    }

    /// Memory of a process that was touched.
    fn resident_bytes(&self, pid: Pid) -> u64 {
        let regions = self.plan.regions.iter().zip(&self.regions);
        let own = regions.filter(|(plan, _)| super::pid_of(plan.program) == pid);
        let pages: u64 = own.flat_map(|(_, region)| &region.on).sum();
        pages * PAGE_BYTES
    }

    /// What counters say of a program since its beginning. An instruction is a nanosecond of the work
    /// that [`super::Totals`] counts, and a cycle one of processor time, so that an idle machine with
    /// everything local gives one per cycle. Waiting at barriers takes cycles and finishes nothing, as
    /// where threads wait in the kernel's or the hardware's arms; real ones that spin finish much, fast.
    #[must_use]
    pub fn progress(&self, pid: Pid) -> Progress {
        let mut progress = Progress::default();
        let done = self.threads.iter().zip(&self.totals.work_ns);
        for (thread, work) in done.filter(|(thread, _)| thread.key.pid == pid) {
            progress.instructions += whole(*work);
            progress.cycles += whole(thread.cpu_time_ns);
        }
        progress
    }

    /// The node of a page of a process, by its first address.
    #[must_use]
    pub fn home(&self, pid: Pid, address: u64) -> Option<NodeId> {
        let (region, page) = self.find_page(pid, address)?;
        let home = self.regions[region].homes.get(page)?;
        Some(self.topology.nodes()[usize::from(home)].id)
    }

    /// Free memory of every node.
    #[must_use]
    pub fn free_memory(&self) -> Vec<(NodeId, u64)> {
        let nodes = self.topology.nodes().iter().enumerate();
        nodes
            .map(|(position, node)| (node.id, self.free_bytes(position)))
            .collect()
    }

    /// Processors that are online and not isolated.
    #[must_use]
    pub const fn online(&self) -> &CpuSet {
        &self.online
    }

    /// Puts everything back that was changed through `perform`, and forgets that it was.
    pub fn undo(&mut self) {
        let journal = std::mem::take(&mut self.journal);
        for thread in self.threads.iter_mut().filter(|thread| thread.alive) {
            if let Some(mask) = journal.masks.get(&thread.key) {
                thread.affinity.clone_from(mask);
            }
        }
        for (region, homes) in journal.homes {
            for (pages, home) in homes.iter() {
                self.settle_pages(region, pages, usize::from(home));
            }
        }
        self.stale = true;
    }

    /// Whether every page is on the node where it was touched first.
    #[must_use]
    pub fn is_as_touched(&self) -> bool {
        self.regions
            .iter()
            .all(|region| region.homes == region.first_homes)
    }

    /// The memory of a process, ascending.
    #[must_use]
    pub fn mappings(&self, pid: Pid) -> Vec<Mapping> {
        let page_bytes = self.conditions.unit_pages() * PAGE_BYTES;
        let pieces = self.space.pieces().filter(|(region, _)| {
            super::pid_of(self.plan.regions[*region].program) == pid
                && self.regions[*region].homes.iter().next().is_some()
        });
        pieces
            .map(|(_, numbers)| Mapping {
                start: numbers.start * PAGE_BYTES,
                end: numbers.end * PAGE_BYTES,
                page_bytes,
            })
            .collect()
    }

    /// Where everything is and may be.
    #[must_use]
    pub fn placement(&self) -> Placement {
        let masks = self
            .threads
            .iter()
            .filter(|thread| thread.alive)
            .map(|thread| (thread.key, thread.affinity.clone()));
        let mut homes = Vec::new();
        for (index, region) in self.regions.iter().enumerate() {
            for (pages, home) in region.homes.iter() {
                let node = self.topology.nodes()[usize::from(home)].id;
                homes.push((index, pages, node));
            }
        }
        Placement {
            masks: masks.collect(),
            homes,
        }
    }

    fn find_page(&self, pid: Pid, address: u64) -> Option<(usize, u64)> {
        let (region, page) = self.space.locate(&self.plan, address)?;
        let plan = self.plan.regions.get(region)?;
        let present = self.regions[region].present;
        (super::pid_of(plan.program) == pid && page < present).then_some((region, page))
    }

    fn refusal(&mut self) -> Option<Refusal> {
        (self.faults.has(Fault::Refuse) && self.lots.chance(REFUSE_CHANCE))
            .then(|| REFUSALS[self.lots.below(REFUSALS.len())])
    }

    fn bind(&mut self, task: TaskKey, cpus: &CpuSet) -> Outcome {
        let found = self.threads.iter().position(|thread| thread.key == task);
        let Some(index) = found.filter(|&index| self.threads[index].alive) else {
            return Outcome::Refused(Refusal::Gone);
        };
        if let Some(refusal) = self.refusal() {
            return Outcome::Refused(refusal);
        }
        let usable = cpus.intersection(&self.online);
        let within = self.cgroup_cpus.is_empty() || usable.intersects(&self.cgroup_cpus);
        if usable.is_empty() || !within {
            return Outcome::Refused(Refusal::NotAllowed);
        }
        let thread = &mut self.threads[index];
        let before = thread.affinity.replace(cpus.clone());
        self.journal.masks.entry(task).or_insert(before);
        self.stale = true;
        Outcome::Bound
    }

    fn move_pages(&mut self, pid: Pid, addresses: &[u64], node: NodeId) -> Outcome {
        let alive = |pid| {
            self.threads
                .iter()
                .any(|thread| thread.alive && thread.key.pid == pid)
        };
        if !alive(pid) {
            return Outcome::Refused(Refusal::Gone);
        }
        let memory = |&to: &usize| self.topology.nodes()[to].memory_bytes > 0;
        let Some(to) = self.topology.position(node).filter(memory) else {
            return Outcome::Refused(Refusal::NoSuchNode);
        };
        let before = self.totals.page_moves;
        let homes = addresses.iter().map(|&address| self.home(pid, address));
        let homes: Vec<Option<NodeId>> = homes.collect();
        let pages = addresses.iter().zip(homes).map(|(&address, home)| {
            match self.move_page(pid, address, to) {
                // It came along with another page of its unit.
                PageOutcome::Stood(on) if home != Some(on) => PageOutcome::On(on),
                outcome => outcome,
            }
        });
        let pages = pages.collect();
        let moved = self.totals.page_moves - before;
        let spent_ns = whole(moved as f64 * self.page_move_ns);
        Outcome::Moved {
            pages,
            spent_ns,
            took_ns: spent_ns,
        }
    }

    fn move_page(&mut self, pid: Pid, address: u64, to: usize) -> PageOutcome {
        let Some((region, page)) = self.find_page(pid, address) else {
            return PageOutcome::Refused(Refusal::Gone);
        };
        let Some(home) = self.regions[region].homes.get(page) else {
            return PageOutcome::Refused(Refusal::Gone);
        };
        if let Some(refusal) = self.refusal() {
            return PageOutcome::Refused(refusal);
        }
        let node = self.topology.nodes()[to].id;
        if usize::from(home) == to {
            PageOutcome::Stood(node)
        } else if self.move_unit((region, page), to) {
            PageOutcome::On(node)
        } else {
            PageOutcome::Refused(Refusal::NoMemory)
        }
    }

    /// Moves the unit of memory that a page lies in, which is whole on one node; false where there is no
    /// room for it.
    fn move_unit(&mut self, (region, page): (usize, u64), to: usize) -> bool {
        let runs = self.units(region, page..page + 1);
        let pages: u64 = runs.iter().map(|(_, pages)| pages.end - pages.start).sum();
        if self.free_bytes(to) < pages * PAGE_BYTES {
            return false;
        }
        let price = self.page_move_ns;
        for (region, pages) in runs {
            let journal = self.journal.homes.entry(region).or_default();
            for (run, home) in self.regions[region].homes.within(pages.clone()) {
                self.copied
                    .note((run.end - run.start) * PAGE_BYTES, (home.into(), to));
                journal.fill(run, home);
            }
            let moved = pages.end - pages.start;
            self.totals.page_moves += moved;
            self.charge_users(region, &pages, price * moved as f64);
            self.settle_pages(region, pages, to);
        }
        true
    }

    /// The price of moved pages is paid by those who come upon them meanwhile, in equal parts.
    fn charge_users(&mut self, region: usize, pages: &Range<u64>, price_ns: f64) {
        let there = &self.regions[region];
        let uses = &self.plan.phases[self.phase].uses;
        let heat = self.plan.regions[region].access.heat(pages, there.present);
        let batch = BATCH_PAGES / (pages.end - pages.start) as f64 * heat / there.present as f64;
        let takes_ns = BATCH_PAGES * self.page_move_ns;
        let part_ns = price_ns / there.users.len().max(1) as f64;
        for &user in &there.users {
            let used = uses[user].iter().filter(|used| used.0 == region);
            let part: f64 = used.map(|used| used.1).sum();
            // Before the first step nothing is known.
            let rate = self.pace.get(user).map_or(f64::INFINITY, |pace| pace.rate);
            let times = rate * part * batch * takes_ns;
            self.copied.hold_up(user, part_ns * waits_for(times));
        }
    }

    fn perform_one(&mut self, action: &Action) -> Outcome {
        if self.faults.has(Fault::Vanish) && self.lots.chance(VANISH_CHANCE) {
            self.end_some_thread();
        }
        match action {
            Action::Bind { task, cpus, .. } => self.bind(*task, cpus),
            Action::MovePages {
                pid, pages, node, ..
            } => self.move_pages(*pid, pages, *node),
        }
    }
}

impl Host for World {
    fn perform(&mut self, action: &Action) -> Outcome {
        let mut all = self.perform_all(std::slice::from_ref(action));
        all.pop().unwrap_or(Outcome::Refused(Refusal::Gone))
    }

    /// As the daemon does it: as many side by side as nodes take part. Nobody waits for longer than that takes.
    fn perform_all(&mut self, actions: &[Action]) -> Vec<Outcome> {
        self.copied.clear();
        let each = actions.iter().map(|action| self.perform_one(action));
        let mut outcomes: Vec<Outcome> = each.collect();
        let (mut spent, mut longest) = (0.0, 0.0_f64);
        for outcome in &outcomes {
            if let Outcome::Moved { spent_ns, .. } = outcome {
                spent += *spent_ns as f64;
                longest = longest.max(*spent_ns as f64);
            }
        }
        let movers = self.copied.nodes().clamp(1, MOVERS_MAX);
        let took = (spent / movers as f64)
            .max(longest)
            .max(self.copied.least_ns(&self.model));
        for outcome in &mut outcomes {
            if let Outcome::Moved {
                spent_ns, took_ns, ..
            } = outcome
            {
                *took_ns = whole(*spent_ns as f64 * took / spent.max(1.0));
            }
        }
        for (thread, held_up_ns) in self.copied.held_up() {
            self.threads[thread].stall_ns += held_up_ns.min(took);
        }
        self.copied.takes(took, self.elapsed_ns);
        outcomes
    }
}

/// As in the daemon (`numad::start`).
const MOVERS_MAX: usize = 8;
