//! The kernel's own NUMA balancing, as far as placement is concerned.
//!
//! After kernel/sched/fair.c and mm/memory.c of Linux 6.x, with these simplifications. A scan takes
//! back the mapping of up to 256 MiB of a program at once, and each page has one hint fault, by one of
//! its users, by chance and as often as they use it. A page moves to the node of the fault when the
//! fault before came from there too, or when there was none before and it is one of the first four
//! passes. A thread prefers the node of most of its faults, halved at each pass; it goes there if a
//! processor is idle, else it changes places with the thread that gains most together with it, if both
//! together gain a sixteenth. Passes come every second, half as often each time that 7 of 10 faults were
//! local and nothing moved, up to every 60 s. A program of more than 256 MiB takes several scans for a
//! pass, at most ten a second, and each scan takes some of every piece of memory: since 6.4 threads scan
//! what they use themselves. Groups of threads are not kept, and pages that are shared are not spread
//! over a group's nodes. In a piece of more than 1,024 pages neighbours have their faults together, and
//! all that lies in a huge page has.

use std::ops::Range;

use super::space::pages_from_first;
use super::{PAGE_BYTES, World};
use crate::conditions::Conditions;
use crate::random::Random;
use crate::workload::Blueprint;

/// The state of the scans.
#[derive(Debug)]
pub(super) struct Balancing {
    /// By program.
    scans: Vec<Scan>,
    /// Faults of each thread on pages of each node.
    faults: Vec<f64>,
    nodes: usize,
    /// Of the regions that lie in the same pages, which have their faults together: those that are dealt
    /// out in turn in huge pages. Any other stands alone.
    together: Vec<Range<usize>>,
    /// Node of the last fault on each grain, by region.
    last: Vec<Vec<Option<u16>>>,
    /// Pages of a grain, by region.
    grains: Vec<u64>,
    random: Random,
}

#[derive(Clone, Copy, Debug)]
struct Scan {
    due_ns: u64,
    /// Of whole passes.
    period_ns: u64,
    /// Passes that are done.
    done: u32,
    /// Scans of the present pass that are done.
    scans: u64,
    /// What came of the pass so far.
    pass: Pass,
}

/// What a pass over a program's pages came to.
#[derive(Clone, Copy, Debug, Default)]
struct Pass {
    faults: u64,
    local: u64,
    moved: u64,
}

/// `sysctl_numa_balancing_scan_delay` and `_scan_period_min`, and `_scan_period_max`.
const PERIOD_MIN_NS: u64 = 1_000_000_000;
const PERIOD_MAX_NS: u64 = 60_000_000_000;

/// `sysctl_numa_balancing_scan_size`.
const SCAN_BYTES: u64 = 256 << 20;

/// Shortest time between two scans: `task_scan_min` lets no more than 2,560 MiB a second be scanned.
const SCAN_MIN_NS: u64 = 100_000_000;

/// Most grains of a region: what a small one has pages.
const GRAINS_MAX: u64 = 1024;

/// Passes in which a first fault is enough: `should_numa_migrate_memory` says so.
const EARLY_PASSES: u32 = 4;

/// A hint fault with its part of the scan: 8,000 instructions, counted in the testbed, at three per
/// nanosecond.
const HINT_FAULT_NS: f64 = 2_700.0;

/// `NUMA_PERIOD_THRESHOLD`: tenths of faults that are local when scans may be fewer.
const LOCAL_TENTHS: u64 = 7;

impl Balancing {
    pub(super) fn new(plan: &Blueprint, conditions: &Conditions, nodes: usize, seed: u64) -> Self {
        let first = Scan {
            due_ns: PERIOD_MIN_NS,
            period_ns: PERIOD_MIN_NS,
            done: 0,
            scans: 0,
            pass: Pass::default(),
        };
        let unit = conditions.unit_pages();
        let regions = || plan.regions.iter().enumerate();
        let together = regions().map(|(at, region)| match &region.lane {
            Some(lane) if unit > 1 => at - lane.at..at - lane.at + lane.of,
            _ => at..at + 1,
        });
        let together: Vec<Range<usize>> = together.collect();
        let pages = regions().map(|(at, region)| match together[at].len() {
            1 => region.pages,
            _ => pages_from_first(region),
        });
        let pages: Vec<u64> = pages.collect();
        let grain = |pages: u64| pages.div_ceil(GRAINS_MAX).next_multiple_of(unit);
        let grains: Vec<u64> = pages.iter().map(|&pages| grain(pages)).collect();
        let last = pages.iter().zip(&grains).map(|(pages, &grain)| {
            let count = usize::try_from(pages.div_ceil(grain)).unwrap_or(usize::MAX);
            vec![None; count]
        });
        Self {
            scans: vec![first; plan.programs()],
            faults: vec![0.0; plan.threads.len() * nodes],
            nodes,
            together,
            last: last.collect(),
            grains,
            random: Random::new(seed, 4),
        }
    }

    fn faults(&self, thread: usize) -> &[f64] {
        &self.faults[thread * self.nodes..][..self.nodes]
    }
}

impl Scan {
    /// Sooner or later next time.
    fn end_pass(&mut self, moved_threads: u64) {
        let pass = std::mem::take(&mut self.pass);
        self.scans = 0;
        let moved = pass.moved + moved_threads;
        let calm = moved == 0 && pass.local * 10 >= pass.faults * LOCAL_TENTHS;
        self.period_ns = if calm {
            (self.period_ns * 2).min(PERIOD_MAX_NS)
        } else {
            (self.period_ns / 2).max(PERIOD_MIN_NS)
        };
        self.done += 1;
    }
}

impl World {
    /// Scans the programs that are due.
    pub(super) fn balance(&mut self) {
        let Some(mut balancing) = self.balancing.take() else {
            return;
        };
        for program in 0..balancing.scans.len() {
            if balancing.scans[program].due_ns > self.elapsed_ns {
                continue;
            }
            let scans = self.bytes_in_use(program).div_ceil(SCAN_BYTES).max(1);
            self.copied.clear();
            self.scan(&mut balancing, program, scans);
            balancing.scans[program].scans += 1;
            if balancing.scans[program].scans >= scans {
                let moved = self.follow_pages(&mut balancing, program);
                balancing.scans[program].end_pass(moved);
            }
            let scan = &mut balancing.scans[program];
            let gap = (scan.period_ns / scans).max(SCAN_MIN_NS);
            scan.due_ns = self.elapsed_ns + gap;
            // Threads come upon what was scanned until then.
            self.copied.takes(gap as f64, self.elapsed_ns);
        }
        self.balancing = Some(balancing);
    }

    fn bytes_in_use(&self, program: usize) -> u64 {
        let regions = self.in_use[program].iter();
        let pages = regions.map(|&region| self.regions[region].present);
        pages.sum::<u64>() * PAGE_BYTES
    }

    /// One of so many scans of a pass: the next part of every region in use has its faults.
    fn scan(&mut self, balancing: &mut Balancing, program: usize, scans: u64) {
        let Scan {
            scans: scan,
            mut pass,
            done,
            ..
        } = balancing.scans[program];
        if scan == 0 {
            for (thread, faults) in balancing.faults.chunks_mut(balancing.nodes).enumerate() {
                if self.threads[thread].program == program {
                    faults.iter_mut().for_each(|count| *count /= 2.0);
                }
            }
        }
        let mut last = None;
        for region in self.in_use[program].clone() {
            let together = balancing.together[region].clone();
            let first = together.start;
            if last.replace(first) == Some(first) {
                continue;
            }
            let weights = self.use_of(together.clone());
            let present: u64 = together.map(|one| self.regions[one].present).sum();
            let pages = balancing.grains[first];
            let grains = present.div_ceil(pages);
            for grain in grains * scan / scans..grains * (scan + 1) / scans {
                let Some(thread) = drawn(&weights, &mut balancing.random) else {
                    break;
                };
                let run = grain * pages..((grain + 1) * pages).min(present);
                let early = done < EARLY_PASSES;
                self.fault_grain(balancing, (first, run), (thread, early), &mut pass);
            }
        }
        balancing.scans[program].pass = pass;
    }

    /// Pages that have their faults together.
    fn fault_grain(
        &mut self,
        balancing: &mut Balancing,
        (region, pages): (usize, Range<u64>),
        (thread, early): (usize, bool),
        pass: &mut Pass,
    ) {
        let grain = usize::try_from(pages.start / balancing.grains[region]).unwrap_or(usize::MAX);
        let runs = match balancing.together[region].len() {
            1 => vec![(region, pages)],
            _ => {
                let first = self.space.number(&self.plan, region, 0);
                let numbers = first + pages.start..first + pages.end;
                self.space.runs(&self.plan, numbers)
            }
        };
        let homes = runs.into_iter().flat_map(|(region, pages)| {
            let homes = self.regions[region].homes.within(pages);
            homes.map(move |(run, home)| (region, run, home))
        });
        let homes: Vec<(usize, Range<u64>, u16)> = homes.collect();
        if homes.is_empty() {
            return;
        }
        let node = self.threads[thread].node;
        let here = u16::try_from(node).ok();
        let last = std::mem::replace(&mut balancing.last[region][grain], here);
        for (region, run, home) in homes {
            let (home, count) = (usize::from(home), run.end - run.start);
            let units = count as f64 / self.conditions.unit_pages() as f64;
            self.threads[thread].stall_ns += HINT_FAULT_NS * units;
            balancing.faults[thread * balancing.nodes + home] += count as f64;
            pass.faults += count;
            if home == node {
                pass.local += count;
            } else if (last == here || (last.is_none() && early))
                && self.free_bytes(node) >= count * PAGE_BYTES
            {
                self.copied.note(count * PAGE_BYTES, (home, node));
                self.settle_pages(region, run, node);
                self.totals.page_moves += count;
                self.threads[thread].stall_ns += self.page_move_ns * count as f64;
                pass.moved += count;
            }
        }
    }

    /// Live users of regions and how much of their time goes there, added up from the first.
    fn use_of(&self, regions: Range<usize>) -> Vec<(usize, f64)> {
        let uses = &self.plan.phases[self.phase].uses;
        let mut sum = 0.0;
        let mut users = Vec::new();
        for region in regions {
            for &user in &self.regions[region].users {
                if self.threads[user].alive {
                    let parts = uses[user].iter().filter(|(one, _)| *one == region);
                    sum += parts.map(|(_, part)| part).sum::<f64>();
                    users.push((user, sum));
                }
            }
        }
        users
    }

    /// Threads go to the node of most of their faults; says how many went.
    fn follow_pages(&mut self, balancing: &mut Balancing, program: usize) -> u64 {
        let mut moved = 0;
        for thread in 0..self.threads.len() {
            let there = &self.threads[thread];
            // A thread that someone bound stays.
            if there.program != program || !there.alive || there.affinity.is_some() {
                continue;
            }
            let from = there.node;
            let faults = balancing.faults(thread);
            let best = (0..balancing.nodes)
                .rev()
                .max_by(|&one, &other| faults[one].total_cmp(&faults[other]));
            if let Some(to) = best.filter(|&to| faults[to] > faults[from])
                && self.change_places(balancing, thread, to)
            {
                moved += 1;
            }
        }
        moved
    }

    /// To an idle processor of the node, or for a thread there that loses less than this one gains.
    fn change_places(&mut self, balancing: &Balancing, thread: usize, to: usize) -> bool {
        let from = self.threads[thread].node;
        let load = self.scheduler.load();
        let position = |cpu: &topology::Cpu| cpu.node.and_then(|id| self.topology.position(id));
        let idle = self
            .topology
            .cpus()
            .iter()
            .enumerate()
            .position(|(index, cpu)| {
                position(cpu) == Some(to)
                    && load[index] == 0
                    && self.threads[thread].runnable.allowed[index]
            });
        let gain = |one: usize, to: usize, from: usize| {
            let faults = balancing.faults(one);
            (faults[to] - faults[from]) / faults.iter().sum::<f64>().max(1.0)
        };
        let mine = gain(thread, to, from);
        if let Some(cpu) = idle {
            let Some(left) = self.threads[thread].runnable.cpu.replace(cpu) else {
                return false;
            };
            self.scheduler.note_move(left, cpu);
        } else {
            let partner = (0..self.threads.len())
                .filter(|&one| self.threads[one].node == to && self.threads[one].alive)
                .filter(|&one| self.threads[one].affinity.is_none())
                .map(|one| (one, mine + gain(one, from, to)))
                .filter(|&(_, sum)| sum - sum / 16.0 > 0.0625)
                .max_by(|one, other| one.1.total_cmp(&other.1).then(other.0.cmp(&one.0)));
            let Some((partner, _)) = partner else {
                return false;
            };
            let theirs = self.threads[partner].runnable.cpu;
            let ours = std::mem::replace(&mut self.threads[thread].runnable.cpu, theirs);
            self.threads[partner].runnable.cpu = ours;
            self.arrive(partner, from);
        }
        self.arrive(thread, to);
        true
    }

    fn arrive(&mut self, thread: usize, node: usize) {
        self.threads[thread].node = node;
        self.threads[thread].stall_ns += self.prices.task_move_ns;
        self.totals.task_moves += 1;
        self.stale = true;
    }
}

/// One of them by chance, as often as their shares say.
fn drawn(users: &[(usize, f64)], random: &mut Random) -> Option<usize> {
    let (last, sum) = *users.last()?;
    let at = random.unit() * sum;
    let found = users.iter().find(|(_, until)| at < *until);
    Some(found.map_or(last, |(user, _)| *user))
}
