//! A scheduler that does not keep threads where they are.

use super::{STEP_NS, World};

/// A thread that nobody has bound changes places once within so long, in the mean. On a real kernel
/// eight threads that wait at a barrier each second, on four nodes of two processors, came from 97 %
/// of local accesses to 58 in three seconds and to 35 in thirty (docs/measurements.md, "Programs
/// with barriers").
const WANDERS_NS: f64 = 4e9;

impl World {
    /// Has threads change places that may run anywhere; all of them as soon as they have touched
    /// their memory, for programs have run before numad comes.
    pub(super) fn wander(&mut self) {
        if !self.conditions.wander {
            return;
        }
        let free = |&thread: &usize| {
            let thread = &self.threads[thread];
            thread.alive && thread.affinity.is_none()
        };
        let free: Vec<usize> = (0..self.threads.len()).filter(free).collect();
        let often = match self.elapsed_ns == STEP_NS {
            true => 1.0,
            // Two change places at a time.
            false => STEP_NS as f64 / WANDERS_NS / 2.0,
        };
        for &one in &free {
            if self.wandering.chance(often) {
                let other = free[self.wandering.below(free.len())];
                let theirs = self.threads[other].runnable.cpu;
                let ours = std::mem::replace(&mut self.threads[one].runnable.cpu, theirs);
                self.threads[other].runnable.cpu = ours;
                self.stale = true;
            }
        }
    }
}
