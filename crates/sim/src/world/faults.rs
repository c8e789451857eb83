//! Samples without counters: the first write to each page since its mapping was write-protected.
//!
//! When that is done again is decided by the law that the daemon has, with its defaults and the costs it
//! begins with. Who writes to which page is not kept by page: of the pages of a region that nobody has
//! written to yet, a step takes as many as so many writes at random places would.

use std::time::Duration;

use numad_core::{AccessKind, Record, Sample, ServedBy, Time};
use sampler::law::{ClearLaw, ClearOptions};
use topology::Pid;

use super::samples::SAMPLES_PER_STEP_MAX;
use super::{World, cpu_id, pid_of, whole};
use crate::random::Random;

/// What is known of pages that will fault.
#[derive(Debug)]
pub(super) struct Faulting {
    law: ClearLaw,
    /// Units of memory that nobody has written to since they were protected, by region.
    clean: Vec<u64>,
}

/// What protecting a page takes, in nanoseconds: 70 instructions with some misses, as the law has it.
const PROTECT_NS: u64 = 25;

/// What a fault costs its thread, in nanoseconds: 3,200 instructions at three per nanosecond.
const FAULT_NS: f64 = 1_000.0;

/// Part of accesses that are writes.
pub(super) const STORES: f64 = 0.3;

impl Faulting {
    pub(super) fn new(regions: usize) -> Self {
        Self {
            law: ClearLaw::new(ClearOptions::default()),
            clean: vec![0; regions],
        }
    }

    /// Something of a program was changed: it is worth looking at sooner.
    pub(super) fn stirred(&mut self, now: Time, pid: Pid) {
        self.law.stirred(now, pid);
    }
}

impl World {
    /// Protects the memory of the program whose turn it is.
    pub(super) fn protect(&mut self) {
        let now = Time(self.clock_ns);
        let unit = self.conditions.unit_pages();
        let Some(faulting) = &mut self.faulting else {
            return;
        };
        for program in 0..self.plan.programs() {
            faulting.law.add(now, pid_of(program));
        }
        let Some(pid) = faulting.law.due(now) else {
            return;
        };
        let regions = self.regions.iter().zip(&self.plan.regions).enumerate();
        let of_program: Vec<(usize, u64)> = regions
            .filter(|(_, (_, plan))| pid_of(plan.program) == pid)
            .map(|(region, (there, _))| (region, there.on.iter().sum::<u64>().div_ceil(unit)))
            .collect();
        let units = of_program.iter().map(|(_, units)| units).sum();
        if !faulting.law.admit(now, pid, units) {
            return;
        }
        let took = Duration::from_nanos(units.saturating_mul(PROTECT_NS));
        faulting.law.cleared(now, pid, units, took);
        for (region, units) in of_program {
            faulting.clean[region] = units;
        }
    }

    /// What a thread's writes in this step fault on.
    pub(super) fn fault(&mut self, thread: usize, accesses: f64, records: &mut Vec<Record>) {
        let unit = self.conditions.unit_pages();
        for at in 0..self.plan.phases[self.phase].uses[thread].len() {
            let (region, part) = self.plan.phases[self.phase].uses[thread][at];
            let units = self.regions[region].on.iter().sum::<u64>().div_ceil(unit);
            let Some(faulting) = &mut self.faulting else {
                return;
            };
            let clean = faulting.clean[region];
            if clean == 0 {
                continue;
            }
            let writes = accesses * part * STORES;
            let share = -f64::exp_m1(-writes / units.max(1) as f64);
            let wanted = self.threads[thread].sample_debt + clean as f64 * share;
            let count = whole(wanted).min(clean);
            self.threads[thread].sample_debt = (wanted - count as f64).clamp(0.0, 1.0);
            faulting.clean[region] = clean - count;
            let now = Time(self.clock_ns);
            faulting.law.faulted(now, count);
            self.threads[thread].stall_ns += FAULT_NS * count as f64;
            let seen = count.min(SAMPLES_PER_STEP_MAX);
            self.totals.lost += count - seen;
            for index in 0..seen {
                let within = super::STEP_NS * (2 * index + 1) / (2 * seen);
                let address = self.clean_page(region, thread);
                let there = &self.threads[thread];
                records.push(Record::Sample(Sample {
                    time: Time(self.clock_ns + within),
                    pid: there.key.pid,
                    tid: there.key.tid,
                    address,
                    physical: 0,
                    cpu: cpu_id(&self.topology, &there.runnable),
                    kind: AccessKind::Unknown,
                    served: ServedBy::Unknown,
                    weight: 0,
                    period: 0,
                }));
            }
        }
    }

    /// A page that a thread comes upon, by chance.
    fn clean_page(&mut self, region: usize, thread: usize) -> u64 {
        let user = (thread, self.threads.len());
        let present = self.regions[region].present;
        let random: &mut Random = &mut self.sampling;
        let (page, within) = self.plan.regions[region].access.draw(present, user, random);
        self.space.address(&self.plan, region, page) + within
    }
}
