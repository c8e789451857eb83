//! Samples without counters: the first write to each page since its mapping was write-protected.
//!
//! When that is done again is decided by the law that the daemon has, with its defaults and the costs it
//! begins with. Who writes to which page is not kept by page: of the pages of a region that nobody has
//! written to yet, a step takes as many as so many writes at random places would, the next in an
//! order that is another each time.

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
    orders: Vec<Order>,
}

/// In what order the units of a region are written to first: all of them once, as if by chance.
#[derive(Clone, Copy, Debug, Default)]
struct Order {
    units: u64,
    first: u64,
    step: u64,
}

impl Order {
    fn new(units: u64, random: &mut Random) -> Self {
        let below =
            |random: &mut Random| random.below(usize::try_from(units).unwrap_or(usize::MAX)) as u64;
        let first = below(random);
        let mut step = below(random).max(1);
        while divisor(units, step) > 1 {
            step += 1;
        }
        Self { units, first, step }
    }

    /// The unit that is written to after so many others.
    fn at(&self, after: u64) -> u64 {
        let at = u128::from(self.first) + u128::from(after) * u128::from(self.step);
        u64::try_from(at % u128::from(self.units)).expect("less than there are units")
    }
}

/// The greatest number that both can be divided by.
const fn divisor(mut one: u64, mut other: u64) -> u64 {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
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
            orders: vec![Order::default(); regions],
        }
    }
}

impl World {
    /// Something of a program is worth looking at sooner.
    pub(crate) fn stir(&mut self, pid: Pid) {
        if let Some(faulting) = &mut self.faulting {
            faulting.law.stirred(Time(self.clock_ns), pid);
        }
    }

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
            faulting.orders[region] = Order::new(units, &mut self.sampling);
        }
    }

    /// What the writes of this step fault on, given what each thread accesses. Threads write side
    /// by side: whoever writes more to a region is more often the first to write to a page of it.
    pub(super) fn fault(&mut self, accesses: &[f64], records: &mut Vec<Record>) {
        let mut written = vec![0.0; self.regions.len()];
        for (uses, accesses) in self.plan.phases[self.phase].uses.iter().zip(accesses) {
            for &(region, part) in uses {
                written[region] += accesses * part * STORES;
            }
        }
        let unit = self.conditions.unit_pages();
        let mut fresh = vec![0.0; self.regions.len()];
        for (region, fresh) in fresh.iter_mut().enumerate() {
            let units = self.regions[region].on.iter().sum::<u64>().div_ceil(unit);
            let clean = self.clean(region) as f64;
            *fresh = clean * -f64::exp_m1(-written[region] / units.max(1) as f64);
        }
        for (thread, accesses) in accesses.iter().enumerate() {
            for at in 0..self.plan.phases[self.phase].uses[thread].len() {
                let (region, part) = self.plan.phases[self.phase].uses[thread][at];
                if fresh[region] > 0.0 {
                    let own = fresh[region] * accesses * part * STORES / written[region];
                    self.fault_on((thread, region), own, records);
                }
            }
        }
    }

    fn clean(&self, region: usize) -> u64 {
        let faulting = self.faulting.as_ref();
        faulting.map_or(0, |faulting| faulting.clean[region])
    }

    /// A thread is the first to write to so many pages of a region.
    fn fault_on(
        &mut self,
        (thread, region): (usize, usize),
        pages: f64,
        records: &mut Vec<Record>,
    ) {
        let clean = self.clean(region);
        let Some(faulting) = &mut self.faulting else {
            return;
        };
        let wanted = self.threads[thread].sample_debt + pages;
        let count = whole(wanted).min(clean);
        self.threads[thread].sample_debt = (wanted - count as f64).clamp(0.0, 1.0);
        faulting.clean[region] = clean - count;
        faulting.law.faulted(Time(self.clock_ns), count);
        self.threads[thread].stall_ns += FAULT_NS * count as f64;
        let seen = count.min(SAMPLES_PER_STEP_MAX);
        self.totals.lost += count - seen;
        for index in 0..seen {
            let within = super::STEP_NS * (2 * index + 1) / (2 * seen);
            let address = self.clean_page(region, thread, clean - index);
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

    /// The page that a thread comes upon while so many units of a region are clean.
    fn clean_page(&mut self, region: usize, thread: usize, clean: u64) -> u64 {
        let user = (thread, self.threads.len());
        let present = self.regions[region].present;
        let access = self.plan.regions[region].access;
        let (mut page, within) = access.draw(present, user, &mut self.sampling);
        if let Some(faulting) = self.faulting.as_ref().filter(|_| access.is_even()) {
            let order = &faulting.orders[region];
            page = order.at(order.units - clean) * self.conditions.unit_pages();
        }
        self.space.address(&self.plan, region, page) + within
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_written_to_first_once() {
        let mut random = Random::new(5, 0);
        for units in [1, 2, 12, 97, 4096] {
            let order = Order::new(units, &mut random);
            let mut all: Vec<u64> = (0..units).map(|after| order.at(after)).collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..units), "{units}");
        }
    }
}
