//! What comes to be while a program runs: threads that start later, and memory that grows.

use numad_core::{Lifecycle, Record, Time};

use super::World;
use crate::workload::RegionPlan;

/// Memory grows in so many steps.
const STEPS: u64 = 64;

/// Part of a region that is there in the beginning.
const AT_FIRST: u64 = 8;

/// Pages of a region at a time.
pub(crate) fn pages_at(plan: &RegionPlan, elapsed_ns: u64) -> u64 {
    let Some(within) = plan.grows else {
        return plan.pages;
    };
    let within_ns = u64::try_from(within.as_nanos()).unwrap_or(u64::MAX).max(1);
    let steps = (elapsed_ns / (within_ns / STEPS).max(1)).min(STEPS);
    let first = plan.pages.div_ceil(AT_FIRST);
    first + (plan.pages - first) * steps / STEPS
}

impl World {
    /// Threads whose time has come.
    pub(super) fn start_threads(&mut self, records: &mut Vec<Record>) {
        if !self.conditions.staggered {
            return;
        }
        let before = self.elapsed_ns.saturating_sub(super::STEP_NS);
        let mut started = false;
        for thread in &mut self.threads {
            if thread.start_ns <= before || thread.start_ns > self.elapsed_ns {
                continue;
            }
            started = true;
            thread.alive = true;
            records.push(Record::Lifecycle(Lifecycle::Fork {
                time: Time(self.clock_ns),
                pid: thread.key.pid,
                tid: thread.key.tid,
                parent: thread.key.pid,
            }));
        }
        if started {
            self.schedule();
            self.touch_all();
            self.stale = true;
        }
    }

    /// More memory for regions that grow.
    pub(super) fn grow(&mut self) {
        for region in 0..self.regions.len() {
            let plan = &self.plan.regions[region];
            if plan.grows.is_none() || self.regions[region].users.is_empty() {
                continue;
            }
            let pages = pages_at(plan, self.elapsed_ns);
            if pages > self.regions[region].present {
                self.regions[region].present = pages;
                self.touch(region);
            }
        }
    }
}
