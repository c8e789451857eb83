//! The kernel's own NUMA balancing, as far as placement is concerned.
//!
//! After kernel/sched/fair.c and mm/memory.c of Linux 6.x, with these simplifications. A scan takes
//! back the mapping of every page of a program at once (programs here are smaller than the 256 MiB of
//! a real scan), and each page has one hint fault, by one of its users, by chance and as often as they
//! use it. A page moves to the node of the fault when the fault before came from there too, or when
//! there was none before and it is one of the first four scans. A thread prefers the node of most of its
//! faults, halved at each scan; it goes there if a processor is idle, else it changes places with the
//! thread that gains most together with it, if both together gain a sixteenth. Scans come every second,
//! half as often each time that 7 of 10 faults were local and nothing moved, up to every 60 s. Groups of
//! threads are not kept, and pages that are shared are not spread over a group's nodes.

use super::{PAGE_BYTES, World};
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
    /// Node of the last fault on each page, by region.
    last: Vec<Vec<Option<u16>>>,
    random: Random,
}

#[derive(Clone, Copy, Debug)]
struct Scan {
    due_ns: u64,
    period_ns: u64,
    done: u32,
}

/// What a pass over a program's pages came to.
#[derive(Default)]
struct Pass {
    faults: u64,
    local: u64,
    moved: u64,
}

/// `sysctl_numa_balancing_scan_delay` and `_scan_period_min`, and `_scan_period_max`.
const PERIOD_MIN_NS: u64 = 1_000_000_000;
const PERIOD_MAX_NS: u64 = 60_000_000_000;

/// Scans in which a first fault is enough: `should_numa_migrate_memory` says so.
const EARLY_SCANS: u32 = 4;

/// A hint fault with its part of the scan: 8,000 instructions, counted in the testbed, at three per
/// nanosecond.
const HINT_FAULT_NS: f64 = 2_700.0;

/// `NUMA_PERIOD_THRESHOLD`: tenths of faults that are local when scans may be fewer.
const LOCAL_TENTHS: u64 = 7;

impl Balancing {
    pub(super) fn new(plan: &Blueprint, nodes: usize, seed: u64) -> Self {
        let first = Scan {
            due_ns: PERIOD_MIN_NS,
            period_ns: PERIOD_MIN_NS,
            done: 0,
        };
        let regions = plan.regions.iter();
        Self {
            scans: vec![first; plan.programs()],
            faults: vec![0.0; plan.threads.len() * nodes],
            nodes,
            last: regions.map(|region| vec![None; region.pages]).collect(),
            random: Random::new(seed, 4),
        }
    }

    fn faults(&self, thread: usize) -> &[f64] {
        &self.faults[thread * self.nodes..][..self.nodes]
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
            let mut pass = self.fault_pages(&mut balancing, program);
            pass.moved += self.follow_pages(&mut balancing, program);
            let scan = &mut balancing.scans[program];
            let calm = pass.moved == 0 && pass.local * 10 >= pass.faults * LOCAL_TENTHS;
            scan.period_ns = if calm {
                (scan.period_ns * 2).min(PERIOD_MAX_NS)
            } else {
                (scan.period_ns / 2).max(PERIOD_MIN_NS)
            };
            scan.due_ns = self.elapsed_ns + scan.period_ns;
            scan.done += 1;
        }
        self.balancing = Some(balancing);
    }

    /// Every page in use has its fault.
    fn fault_pages(&mut self, balancing: &mut Balancing, program: usize) -> Pass {
        let early = balancing.scans[program].done < EARLY_SCANS;
        for (thread, faults) in balancing.faults.chunks_mut(balancing.nodes).enumerate() {
            if self.threads[thread].program == program {
                faults.iter_mut().for_each(|count| *count /= 2.0);
            }
        }
        let mut pass = Pass::default();
        for region in self.in_use[program].clone() {
            let weights = self.use_of(region);
            for page in 0..self.regions[region].homes.len() {
                let Some(thread) = drawn(&weights, &mut balancing.random) else {
                    break;
                };
                let Some(home) = self.regions[region].homes[page].map(usize::from) else {
                    continue;
                };
                let node = self.threads[thread].node;
                self.threads[thread].stall_ns += HINT_FAULT_NS;
                balancing.faults[thread * balancing.nodes + home] += 1.0;
                pass.faults += 1;
                let here = u16::try_from(node).ok();
                let last = std::mem::replace(&mut balancing.last[region][page], here);
                if home == node {
                    pass.local += 1;
                } else if (last == here || (last.is_none() && early))
                    && self.free_bytes(node) >= PAGE_BYTES
                {
                    self.settle_page(region, page, node);
                    self.totals.page_moves += 1;
                    self.threads[thread].stall_ns += self.prices.page_move_ns;
                    pass.moved += 1;
                }
            }
        }
        pass
    }

    /// Live users of a region and how much of their time goes there, added up from the first.
    fn use_of(&self, region: usize) -> Vec<(usize, f64)> {
        let uses = &self.plan.phases[self.phase].uses;
        let mut sum = 0.0;
        let mut users = Vec::new();
        for &user in &self.regions[region].users {
            if self.threads[user].alive {
                let parts = uses[user].iter().filter(|(one, _)| *one == region);
                sum += parts.map(|(_, part)| part).sum::<f64>();
                users.push((user, sum));
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
