//! How fast threads get on where they are, and what they did so far.

use numad_core::Record;
use numad_core::cost::{ACCESS_BYTES, TRANSFER_WITHIN, TaskLoad, solve};

use super::{STEP_NS, World};

/// How fast a thread gets on while nothing changes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// Accesses per nanosecond.
    pub(super) rate: f64,
    /// Share of a processor it has; waiting at barriers is spinning.
    running: f64,
    /// Time of an access on an idle machine with everything local.
    pub(super) ideal_ns: f64,
    /// Part of its accesses that is answered on its own node.
    pub(super) local: f64,
    /// Mean latency of its accesses.
    pub(super) latency_ns: f64,
}

/// What became of everything so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Totals {
    /// For each thread of the blueprint, work done: the time in nanoseconds that it would have taken
    /// on an idle machine with everything local.
    pub work_ns: Vec<f64>,
    /// Accesses of all threads.
    pub accesses: f64,
    /// Those answered on the node of the thread.
    pub local_accesses: f64,
    /// Sum of the latencies of all accesses.
    pub latency_ns: f64,
    /// Bytes that each controller delivered, by position of the node.
    pub controller_bytes: Vec<f64>,
    /// Threads that changed node, for whatever reason.
    pub task_moves: u64,
    /// Pages that changed node.
    pub page_moves: u64,
    /// Samples delivered.
    pub samples: u64,
    /// Samples lost.
    pub lost: u64,
}

impl Totals {
    pub(super) fn new(threads: usize, nodes: usize) -> Self {
        Self {
            work_ns: vec![0.0; threads],
            accesses: 0.0,
            local_accesses: 0.0,
            latency_ns: 0.0,
            controller_bytes: vec![0.0; nodes],
            task_moves: 0,
            page_moves: 0,
            samples: 0,
            lost: 0,
        }
    }

    /// Work of all threads.
    #[must_use]
    pub fn work(&self) -> f64 {
        self.work_ns.iter().sum()
    }

    /// Mean latency of an access in nanoseconds; 0 before the first.
    #[must_use]
    pub fn mean_latency_ns(&self) -> f64 {
        ratio(self.latency_ns, self.accesses)
    }

    /// Part of accesses that was answered on the thread's node, 0 to 1; 0 before the first.
    #[must_use]
    pub fn local_share(&self) -> f64 {
        ratio(self.local_accesses, self.accesses)
    }

    /// The busiest controller's bytes over the mean of all; 1 is even, 0 means that there were none.
    #[must_use]
    pub fn imbalance(&self) -> f64 {
        let most = self.controller_bytes.iter().copied().fold(0.0, f64::max);
        let sum: f64 = self.controller_bytes.iter().sum();
        ratio(most * self.controller_bytes.len() as f64, sum)
    }

    /// What was added since an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let minus = |now: &[f64], then: &[f64]| now.iter().zip(then).map(|(n, t)| n - t).collect();
        Self {
            work_ns: minus(&self.work_ns, &earlier.work_ns),
            accesses: self.accesses - earlier.accesses,
            local_accesses: self.local_accesses - earlier.local_accesses,
            latency_ns: self.latency_ns - earlier.latency_ns,
            controller_bytes: minus(&self.controller_bytes, &earlier.controller_bytes),
            task_moves: self.task_moves - earlier.task_moves,
            page_moves: self.page_moves - earlier.page_moves,
            samples: self.samples - earlier.samples,
            lost: self.lost - earlier.lost,
        }
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Rounds in which threads that wait at barriers make room for those they wait for. Each round
/// halves what is left to agree on, or better.
const BARRIER_ROUNDS: usize = 4;

impl World {
    /// Finds the rates that demand and latency agree on for the present placement.
    pub(super) fn settle(&mut self) {
        self.warm_up();
        let fair = self.processor_shares();
        let detours: Vec<f64> = (0..self.threads.len())
            .map(|thread| self.detour_ns(thread))
            .collect();
        self.settle_with(&fair, &detours);
    }

    /// The same when each thread has this share of a processor, and loses so much of an access on ways
    /// between caches of its node.
    pub(super) fn settle_with(&mut self, fair: &[f64], detours: &[f64]) {
        let nodes = self.topology.nodes().len();
        let count = self.threads.len();
        let mut shares = vec![0.0; count * nodes];
        let mut transfers = vec![0.0; count * nodes];
        for thread in (0..count).filter(|&thread| self.threads[thread].alive) {
            let row = thread * nodes..(thread + 1) * nodes;
            self.spread_accesses(thread, &mut shares[row.clone()], &mut transfers[row]);
        }
        let ideal = self.ideal_times(&transfers);
        let asks_gbps = self.copied.asks_gbps();
        let busy = asks_gbps.map(|gbps| self.model.clone().with_background(&gbps));
        let mut waiting = vec![1.0; count];
        for round in 0..BARRIER_ROUNDS {
            let loads: Vec<TaskLoad<'_>> = (0..count)
                .map(|thread| TaskLoad {
                    node: self.threads[thread].node,
                    shares: &shares[thread * nodes..][..nodes],
                    transfers: &transfers[thread * nodes..][..nodes],
                    think_ns: self.plan.threads[thread].think_ns
                        + detours[thread] / self.plan.threads[thread].overlap,
                    overlap: self.plan.threads[thread].overlap,
                    running: fair[thread] * waiting[thread],
                })
                .collect();
            let found = solve(busy.as_ref().unwrap_or(&self.model), &loads);
            self.pace = (0..count)
                .map(|thread| Pace {
                    rate: found.rates()[thread],
                    running: fair[thread],
                    ideal_ns: ideal[thread],
                    local: {
                        let own = thread * nodes + self.threads[thread].node;
                        shares[own] + transfers[own]
                    },
                    latency_ns: found.task_latency_ns(thread) + detours[thread],
                })
                .collect();
            if !self.wait_at_barriers(&mut waiting) || round + 1 == BARRIER_ROUNDS {
                break;
            }
        }
        self.note_controllers(&shares);
    }

    /// Where a thread's accesses go: to memory by the homes of pages, to caches by the nodes of
    /// partners.
    fn spread_accesses(&self, thread: usize, shares: &mut [f64], transfers: &mut [f64]) {
        for &(region, part) in &self.plan.phases[self.phase].uses[thread] {
            let there = &self.regions[region];
            let partners = || {
                let alive = |&&user: &&usize| user != thread && self.threads[user].alive;
                there.users.iter().filter(alive)
            };
            let count = partners().count();
            let transfer = if count == 0 {
                0.0
            } else {
                part * self.plan.regions[region].transfer
            };
            for &partner in partners() {
                transfers[self.threads[partner].node] += transfer / count as f64;
            }
            let pages = there.present as f64;
            for (share, &heat) in shares.iter_mut().zip(&there.heat) {
                *share += (part - transfer) * heat / pages;
            }
        }
    }

    /// Time that an access of a thread takes longer, in the mean, because partners on its node have another
    /// last-level cache: a line from there comes no sooner than from memory.
    fn detour_ns(&self, thread: usize) -> f64 {
        let there = &self.threads[thread];
        let cache_of = |thread: usize| self.caches[self.threads[thread].runnable.cpu?];
        let Some(cache) = cache_of(thread).filter(|_| there.alive) else {
            return 0.0;
        };
        let mut part_apart = 0.0;
        for &(region, part) in &self.plan.phases[self.phase].uses[thread] {
            let users = self.regions[region].users.iter();
            let partners = || {
                let users = users.clone().copied();
                users.filter(|&user| user != thread && self.threads[user].alive)
            };
            let apart = |&user: &usize| {
                self.threads[user].node == there.node && cache_of(user) != Some(cache)
            };
            let count = partners().count().max(1) as f64;
            let transfer = self.plan.regions[region].transfer;
            part_apart += part * transfer * partners().filter(apart).count() as f64 / count;
        }
        part_apart * self.model.latency_ns(there.node, there.node) * (1.0 - TRANSFER_WITHIN)
    }

    /// How much the pages of each node are used, of regions whose pages are not used alike.
    fn warm_up(&mut self) {
        for (there, plan) in self.regions.iter_mut().zip(&self.plan.regions) {
            if plan.access.is_even() {
                for (heat, &on) in there.heat.iter_mut().zip(&there.on) {
                    *heat = on as f64;
                }
                continue;
            }
            there.heat.fill(0.0);
            for (run, home) in there.homes.iter() {
                there.heat[usize::from(home)] += plan.access.heat(&run, there.present);
            }
        }
    }

    /// Threads of one processor share it evenly.
    fn processor_shares(&self) -> Vec<f64> {
        let load = self.scheduler.load();
        self.threads
            .iter()
            .map(|thread| match thread.runnable.cpu {
                Some(cpu) if thread.alive => 1.0 / f64::from(load[cpu].max(1)),
                _ => 0.0,
            })
            .collect()
    }

    fn ideal_times(&self, transfers: &[f64]) -> Vec<f64> {
        let nodes = self.topology.nodes().len();
        let local = (0..nodes)
            .map(|node| self.model.latency_ns(node, node))
            .fold(f64::INFINITY, f64::min);
        self.plan
            .threads
            .iter()
            .zip(transfers.chunks(nodes))
            .map(|(plan, transfers)| {
                let transferred: f64 = transfers.iter().sum();
                let wait = local * (1.0 - transferred * (1.0 - TRANSFER_WITHIN));
                plan.think_ns + wait / plan.overlap
            })
            .collect()
    }

    /// Slows every thread to the slowest it goes in step with; true if anyone has to wait
    /// noticeably longer than in the last round.
    fn wait_at_barriers(&mut self, waiting: &mut [f64]) -> bool {
        let barriers = &self.plan.phases[self.phase].barriers;
        let speed = |pace: &Pace| pace.rate * pace.ideal_ns;
        let mut slowest = vec![f64::INFINITY; self.regions.len()];
        for (thread, barrier) in barriers.iter().enumerate() {
            if let Some(group) = barrier.filter(|_| self.threads[thread].alive) {
                slowest[group] = slowest[group].min(speed(&self.pace[thread]));
            }
        }
        let mut again = false;
        for (thread, barrier) in barriers.iter().enumerate() {
            let pace = &mut self.pace[thread];
            if let Some(group) = *barrier
                && speed(pace) > slowest[group]
            {
                let factor = slowest[group] / speed(pace);
                again |= factor < 0.999;
                waiting[thread] *= factor;
                pace.rate *= factor;
            }
        }
        again
    }

    fn note_controllers(&mut self, shares: &[f64]) {
        self.controller_rate.fill(0.0);
        self.asks.clear();
        let nodes = self.controller_rate.len();
        for (pace, shares) in self.pace.iter().zip(shares.chunks(nodes)) {
            for (rate, share) in self.controller_rate.iter_mut().zip(shares) {
                let asks = pace.rate * share * ACCESS_BYTES;
                *rate += asks;
                self.asks.push(asks);
            }
        }
    }

    /// Lets every thread work for a step, less what moves cost it, and takes samples.
    pub(super) fn advance(&mut self, records: &mut Vec<Record>) {
        let step = STEP_NS as f64;
        let available = self.available_parts(step);
        let mut by_thread = vec![0.0; available.len()];
        for (thread, part) in available.into_iter().enumerate() {
            let pace = self.pace[thread];
            let accesses = pace.rate * step * part;
            self.threads[thread].cpu_time_ns += pace.running * step;
            self.totals.work_ns[thread] += accesses * pace.ideal_ns;
            self.totals.accesses += accesses;
            self.totals.local_accesses += accesses * pace.local;
            self.totals.latency_ns += accesses * pace.latency_ns;
            let nodes = self.totals.controller_bytes.iter_mut();
            for (bytes, asks) in nodes.zip(&self.asks[thread * self.controller_rate.len()..]) {
                *bytes += asks * step * part;
            }
            if self.threads[thread].alive {
                by_thread[thread] = accesses;
            }
        }
        match self.faulting {
            Some(_) => self.fault(&by_thread, records),
            None => self.sample(&by_thread, records),
        }
        self.lose_some(records);
    }

    /// Part of the step that is left to each thread; whoever is held up holds up those who wait
    /// for it.
    fn available_parts(&mut self, step: f64) -> Vec<f64> {
        let mut parts: Vec<f64> = self
            .threads
            .iter_mut()
            .map(|thread| {
                let spent = thread.stall_ns.min(step);
                thread.stall_ns -= spent;
                1.0 - spent / step
            })
            .collect();
        let barriers = &self.plan.phases[self.phase].barriers;
        let mut least = vec![1.0_f64; self.regions.len()];
        for (part, barrier) in parts.iter().zip(barriers) {
            if let Some(group) = *barrier {
                least[group] = least[group].min(*part);
            }
        }
        for (part, barrier) in parts.iter_mut().zip(barriers) {
            if let Some(group) = *barrier {
                *part = part.min(least[group]);
            }
        }
        parts
    }
}
