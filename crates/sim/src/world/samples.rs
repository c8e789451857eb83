//! What a source of samples would see: every so-manieth access, with noise and losses.

use numad_core::{AccessKind, Record, Sample, ServedBy, Time};

use numad_core::cost::MachineModel;

use super::faults::STORES;
use super::{STEP_NS, World, cpu_id};
use crate::fault::LOSS_PART;
use crate::workload::Blueprint;

/// Accesses per sample. An ordinary thread makes 24 million a second, so it yields about 700
/// samples a second: below the 1 kHz at which real sources are usually run.
const SAMPLE_PERIOD: u64 = 32_768;

/// Most samples of one thread in a step, as a real source throttles.
pub(super) const SAMPLES_PER_STEP_MAX: u64 = 256;

/// Part of samples that name a page by mistake: skid, stale addresses, the program's own rare
/// accesses elsewhere.
const NOISE: f64 = 0.02;

/// Part of samples that a healthy source loses.
const LOSS: f64 = 0.01;

/// Cycles per nanosecond that latencies are given in.
const CYCLES_PER_NS: f64 = 2.0;

/// Accesses per sample, so that there are so many a second when all threads find everything at home on
/// an idle machine.
pub(super) fn period(plan: &Blueprint, model: &MachineModel, samples_per_s: Option<u32>) -> u64 {
    let Some(samples_per_s) = samples_per_s else {
        return SAMPLE_PERIOD;
    };
    let local = (0..model.nodes())
        .map(|node| model.latency_ns(node, node))
        .fold(f64::INFINITY, f64::min);
    let threads = plan.threads.iter();
    let accesses_per_ns = threads.map(|thread| 1.0 / (thread.think_ns + local / thread.overlap));
    whole(accesses_per_ns.sum::<f64>() * 1e9 / f64::from(samples_per_s)).max(1)
}

impl World {
    /// Samples what each thread accesses in this step.
    pub(super) fn sample(&mut self, accesses: &[f64], records: &mut Vec<Record>) {
        for (thread, accesses) in accesses.iter().enumerate() {
            let debt = self.threads[thread].sample_debt + accesses / self.period as f64;
            let count = whole(debt);
            self.threads[thread].sample_debt = debt - count as f64;
            let count = count.min(SAMPLES_PER_STEP_MAX);
            for index in 0..count {
                let within = STEP_NS * (2 * index + 1) / (2 * count);
                if let Some(sample) = self.one_sample(thread, Time(self.clock_ns + within)) {
                    records.push(Record::Sample(sample));
                }
            }
        }
    }

    fn one_sample(&mut self, thread: usize, time: Time) -> Option<Sample> {
        let noise = self.sampling.chance(NOISE);
        let (region, transfer) = if noise {
            (self.any_region(thread)?, false)
        } else {
            self.used_region(thread)?
        };
        let user = (thread, self.threads.len());
        let present = self.regions[region].present;
        let access = self.plan.regions[region].access;
        let (page, within) = access.draw(present, user, &mut self.sampling);
        let kind = if self.sampling.chance(STORES) {
            AccessKind::Store
        } else {
            AccessKind::Load
        };
        let there = &self.threads[thread];
        let served = match self.regions[region].homes.get(page) {
            _ if transfer => ServedBy::OtherCache,
            Some(home) if usize::from(home) == there.node => ServedBy::LocalMemory,
            Some(_) => ServedBy::RemoteMemory,
            None => ServedBy::Unknown,
        };
        let latency = whole(self.pace[thread].latency_ns * CYCLES_PER_NS);
        Some(Sample {
            time,
            pid: there.key.pid,
            tid: there.key.tid,
            address: self.space.address(&self.plan, region, page) + within,
            physical: 0,
            cpu: cpu_id(&self.topology, &there.runnable),
            kind,
            served,
            weight: u32::try_from(latency).unwrap_or(u32::MAX),
            period: self.period,
        })
    }

    fn used_region(&mut self, thread: usize) -> Option<(usize, bool)> {
        let mut left = self.sampling.unit();
        let uses = &self.plan.phases[self.phase].uses[thread];
        let mut chosen = uses.first()?.0;
        for &(region, part) in uses {
            chosen = region;
            left -= part;
            if left < 0.0 {
                break;
            }
        }
        let transfer = self.plan.regions[chosen].transfer;
        Some((chosen, self.sampling.chance(transfer)))
    }

    /// Any region of the same program that is in use.
    fn any_region(&mut self, thread: usize) -> Option<usize> {
        let candidates = &self.in_use[self.threads[thread].program];
        candidates
            .get(self.sampling.below(candidates.len()))
            .copied()
    }

    /// Puts the records of this step into the order of time and loses some.
    pub(super) fn lose_some(&mut self, records: &mut Vec<Record>) {
        let part = if self.losing_steps > 0 {
            self.losing_steps -= 1;
            LOSS_PART
        } else {
            LOSS
        };
        let mut lost = 0;
        records.retain(|record| {
            let gone = matches!(record, Record::Sample(_)) && self.sampling.chance(part);
            lost += u64::from(gone);
            !gone
        });
        records.sort_by_key(order);
        let kept = records
            .iter()
            .filter(|record| matches!(record, Record::Sample(_)));
        self.totals.samples += kept.count() as u64;
        self.totals.lost += lost;
        if lost > 0 {
            records.push(Record::Lost(lost));
        }
    }
}

/// Lifecycle records come first: they happened at the beginning of the step.
fn order(record: &Record) -> (u64, u32) {
    match record {
        Record::Sample(sample) => (sample.time.0, sample.tid.0),
        Record::Lifecycle(_) | Record::Lost(_) | Record::Sent(_) => (0, 0),
    }
}

/// The whole part of a number that is not negative.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and callers pass counts far below 2^53"
)]
pub(crate) fn whole(value: f64) -> u64 {
    value as u64
}
