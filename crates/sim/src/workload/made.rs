//! Programs that are drawn by number: what policies meet that nobody had in mind.
//!
//! A number is a program, whatever the seed of the run. Everything that other workloads hold fixed is
//! drawn: how busy threads are, how much memory they have and who touched it, who shares with whom,
//! who waits for whom, and whether that changes.

use std::time::Duration;

use super::{
    Access, Builder, GROWS, HOG_OVERLAP, Lane, PIECE_PAGES, SHARED_PAGES, SLICE_PAGES, THINK_NS,
};
use crate::random::Random;

/// What the stream of random numbers is for: no run has it.
const PURPOSE: u64 = 0x6d61_6465;

/// Most layers of sharing, and most phases.
const LAYERS_MAX: usize = 3;
const PHASES_MAX: usize = 4;

/// Longest phase in seconds.
const PHASE_MAX_S: usize = 20;

/// How often a program has what few have: two processes, phases, memory in lanes or that grows.
const SELDOM: f64 = 0.15;

impl Builder {
    pub(super) fn made(&mut self, number: u32) {
        let mut random = Random::new(u64::from(number), PURPOSE);
        let threads = self.plan.threads.len();
        if threads > 1 && random.chance(SELDOM) {
            let second = random.below(threads - 1) + 1;
            for thread in &mut self.plan.threads[second..] {
                thread.program = 1;
            }
        }
        self.busy(&mut random);
        self.own(&mut random);
        let phases = if random.chance(2.0 * SELDOM) {
            self.plan.phase = Some(Duration::from_secs(random.below(PHASE_MAX_S) as u64 + 1));
            random.below(PHASES_MAX - 1) + 2
        } else {
            1
        };
        for _ in 0..phases {
            self.begin_phase();
            self.layers(&mut random);
        }
    }

    /// One, two or four kinds of threads, from those that wait most of the time to those that
    /// stream.
    fn busy(&mut self, random: &mut Random) {
        let kinds: Vec<(f64, f64)> = (0..doubled(random, 1, 3))
            .map(|_| match random.below(8) {
                0 => (0.0, HOG_OVERLAP),
                1 => (THINK_NS * 100.0, 1.0),
                _ => (power(random, THINK_NS / 2.0), power(random, 1.0)),
            })
            .collect();
        for thread in &mut self.plan.threads {
            (thread.think_ns, thread.overlap) = kinds[random.below(kinds.len())];
        }
    }

    /// What each thread has for itself.
    fn own(&mut self, random: &mut Random) {
        let threads = self.plan.threads.len();
        let (by_first, in_lanes, grows) = (
            random.chance(0.3),
            random.chance(SELDOM),
            random.chance(SELDOM),
        );
        let uneven = random.chance(0.3);
        let pages = doubled(random, SLICE_PAGES / 4, 5);
        let access = access(random);
        for thread in 0..threads {
            let pages = if uneven && !in_lanes {
                doubled(random, pages / 4, 5)
            } else {
                pages
            };
            let first = self.first_of(thread);
            let region = self.region(pages, if by_first { first } else { thread }, 0.0);
            let plan = &mut self.plan.regions[region];
            plan.access = access;
            plan.grows = grows.then_some(GROWS);
            plan.lane = in_lanes.then_some(Lane {
                at: thread - first,
                of: self
                    .plan
                    .threads
                    .iter()
                    .filter(|one| one.program == plan.program)
                    .count(),
                pages: PIECE_PAGES,
            });
            self.own[thread] = Some(region);
        }
    }

    fn first_of(&self, thread: usize) -> usize {
        let program = self.plan.threads[thread].program;
        let same = |one: &super::ThreadPlan| one.program == program;
        self.plan.threads.iter().position(same).unwrap_or(thread)
    }

    /// Who shares with whom in the phase that is being built.
    fn layers(&mut self, random: &mut Random) {
        let layers = random.below(LAYERS_MAX + 1);
        let threads = self.plan.threads.len();
        let mut shared = vec![Vec::new(); threads];
        for _ in 0..layers {
            let weight = power(random, 0.25);
            let pages = doubled(random, SHARED_PAGES / 4, 5);
            let transfer = random.below(3) as f64 / 4.0;
            let access = access(random);
            for group in self.sets(random) {
                let toucher = group.iter().copied().min().unwrap_or(0);
                let region = self.region(pages, toucher, transfer);
                self.plan.regions[region].access = access;
                for &thread in &group {
                    shared[thread].push((region, weight));
                }
            }
        }
        let in_step = random.below(3);
        for (thread, shares) in shared.into_iter().enumerate() {
            let first = self.first_of(thread);
            let phase = self.plan.phases.last_mut().expect("one is being built");
            let sum: f64 = 1.0 + shares.iter().map(|(_, weight)| weight).sum::<f64>();
            phase.uses[thread][0].1 = 1.0 / sum;
            phase.barriers[thread] = match in_step {
                0 => None,
                1 => shares.first().map(|(region, _)| *region),
                _ => Some(first),
            };
            let shares = shares
                .into_iter()
                .map(|(region, weight)| (region, weight / sum));
            phase.uses[thread].extend(shares);
        }
    }

    /// Sets of threads of one program that share something: groups, a ring, a hub or everyone.
    fn sets(&self, random: &mut Random) -> Vec<Vec<usize>> {
        let kind = random.below(6);
        let size = random.below(11) + 2;
        let shuffled = random.chance(0.5);
        let mut sets = Vec::new();
        for program in 0..2 {
            let mut threads: Vec<usize> = (0..self.plan.threads.len())
                .filter(|&thread| self.plan.threads[thread].program == program)
                .collect();
            if shuffled {
                random.shuffle(&mut threads);
            }
            match kind {
                0 => sets.extend((1..threads.len()).map(|at| vec![threads[at - 1], threads[at]])),
                1 => sets.extend((1..threads.len()).map(|at| vec![threads[0], threads[at]])),
                2 => sets.push(threads),
                3 => sets.extend(threads.chunks(2).map(<[usize]>::to_vec)),
                _ => sets.extend(threads.chunks(size).map(<[usize]>::to_vec)),
            }
        }
        sets.retain(|set| set.len() > 1);
        sets
    }
}

/// A figure, or two, four or eight times that.
fn power(random: &mut Random, least: f64) -> f64 {
    least * doubled(random, 1, 4) as f64
}

/// A figure, doubled less often than so many times.
fn doubled(random: &mut Random, least: u64, times: usize) -> u64 {
    least << random.below(times)
}

fn access(random: &mut Random) -> Access {
    match random.below(5) {
        0 | 1 => Access::HotAndCold,
        2 => Access::Objects,
        _ => Access::Even,
    }
}
