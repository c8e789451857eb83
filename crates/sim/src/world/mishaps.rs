//! What goes wrong by itself, between steps and behind the engine's back.

use numad_core::{Lifecycle, Record, Time};
use topology::{CpuId, CpuSet, StartTicks, Tid};

use super::World;
use crate::fault::{
    CLOCK_CHANCE, CLOCK_JUMP_NS, Fault, LOSS_CHANCE, LOSS_STEPS, OFFLINE_CHANCE, RIVAL_CHANCE,
    VANISH_CHANCE,
};
use crate::random::Random;

/// Of the threads that end, this part is replaced, and of those this part under the same number.
const REPLACED: f64 = 0.6;
const SAME_NUMBER: f64 = 0.5;

/// Of the records of threads coming and going, this part gets lost.
const RECORD_LOST: f64 = 0.3;

/// Of the ends of a first thread, this part ends the whole program.
const PROGRAM_ENDS: f64 = 0.2;

impl World {
    /// Draws what goes wrong in this step: in worlds of one seed the same, whatever was done there.
    /// Which threads end comes last, since that depends on which there are.
    pub(super) fn mishap(&mut self, records: &mut Vec<Record>) {
        self.lots = Random::new(self.mishaps.bits(), 9);
        if self.happens(Fault::Offline, OFFLINE_CHANCE) {
            self.toggle_cpu();
        }
        if self.happens(Fault::Clock, CLOCK_CHANCE) {
            let jump = self.lots.bits() % CLOCK_JUMP_NS;
            self.clock_ns = if self.lots.chance(0.5) {
                self.clock_ns.saturating_add(jump)
            } else {
                self.clock_ns.saturating_sub(jump)
            };
        }
        if self.happens(Fault::Loss, LOSS_CHANCE) {
            self.losing_steps = LOSS_STEPS;
        }
        if self.happens(Fault::Rival, RIVAL_CHANCE) {
            self.rival();
        }
        if self.happens(Fault::Vanish, VANISH_CHANCE) {
            self.vanish(records);
        }
    }

    fn happens(&mut self, fault: Fault, chance: f64) -> bool {
        self.faults.has(fault) && self.lots.chance(chance)
    }

    fn vanish(&mut self, records: &mut Vec<Record>) {
        let Some(index) = self.end_some_thread() else {
            return;
        };
        let (pid, tid) = (self.threads[index].key.pid, self.threads[index].key.tid);
        let time = Time(self.clock_ns);
        if !self.lots.chance(RECORD_LOST) {
            records.push(Record::Lifecycle(Lifecycle::Exit { time, pid, tid }));
        }
        let program_lives = self
            .threads
            .iter()
            .any(|thread| thread.alive && thread.key.pid == pid);
        if program_lives && self.lots.chance(REPLACED) {
            let tid = self.replace(index);
            if !self.lots.chance(RECORD_LOST) {
                let parent = pid;
                let fork = Lifecycle::Fork {
                    time,
                    pid,
                    tid,
                    parent,
                };
                records.push(Record::Lifecycle(fork));
            }
        }
    }

    /// Ends a thread drawn by lot. When it is a program's first one, it may take the others along;
    /// else it stays, as first threads usually do.
    pub(super) fn end_some_thread(&mut self) -> Option<usize> {
        let index = self.lots.below(self.threads.len());
        let key = self.threads[index].key;
        if !self.threads[index].alive {
            return None;
        }
        if key.tid.0 == key.pid.0 {
            if !self.lots.chance(PROGRAM_ENDS) {
                return None;
            }
            for thread in self
                .threads
                .iter_mut()
                .filter(|thread| thread.key.pid == key.pid)
            {
                thread.alive = false;
                thread.runnable.cpu = None;
            }
        }
        self.threads[index].alive = false;
        self.threads[index].runnable.cpu = None;
        self.stale = true;
        Some(index)
    }

    /// A new thread takes the place of one that ended. It has the mask of the one that made it, the
    /// program's first, and owes the engine nothing else.
    fn replace(&mut self, index: usize) -> Tid {
        let pid = self.threads[index].key.pid;
        let parent = self
            .threads
            .iter()
            .position(|thread| thread.key.tid.0 == pid.0);
        let (mask, parent_key) = match parent {
            Some(parent) => (
                self.threads[parent].affinity.clone(),
                Some(self.threads[parent].key),
            ),
            None => (None, None),
        };
        self.next_start += 1;
        let highest = self.threads.iter().filter(|thread| thread.key.pid == pid);
        let fresh = highest
            .map(|thread| thread.key.tid.0)
            .max()
            .unwrap_or(pid.0)
            + 1;
        let same = self.lots.chance(SAME_NUMBER);
        let thread = &mut self.threads[index];
        if !same {
            thread.key.tid = Tid(fresh);
        }
        thread.key.start = StartTicks(self.next_start);
        thread.alive = true;
        thread.affinity = mask;
        thread.cpu_time_ns = 0.0;
        thread.stall_ns = 0.0;
        let key = thread.key;
        // What the parent's mask was before the engine is what the child would have had.
        if let Some(before) = parent_key
            .and_then(|parent| self.journal.masks.get(&parent))
            .cloned()
        {
            self.journal.masks.insert(key, before);
        }
        self.stale = true;
        key.tid
    }

    /// A processor goes offline, or one that was comes back. One always stays.
    fn toggle_cpu(&mut self) {
        let usable: Vec<CpuId> = self.topology.usable().iter().collect();
        let cpu = usable[self.lots.below(usable.len())];
        if !self.online.contains(cpu) {
            self.online.insert(cpu);
        } else if self.online.len() > 1 {
            self.online.remove(cpu);
        }
        self.stale = true;
    }

    /// Someone sets a mask; what was there before is no longer ours to put back.
    fn rival(&mut self) {
        let index = self.lots.below(self.threads.len());
        let nodes = self.topology.nodes();
        let cpus: &CpuSet = &nodes[self.lots.below(nodes.len())].cpus;
        if self.threads[index].alive && cpus.intersects(&self.online) {
            self.threads[index].affinity = Some(cpus.clone());
            self.journal.masks.remove(&self.threads[index].key);
            self.stale = true;
        }
    }
}
