//! Threads and processes of a program, as they come and go.

use std::sync::Arc;

use std::time::Duration;

use topology::{Pid, Tid};

use super::Seen;
use crate::engine::registry::Registry;
use crate::hold::Stay;
use crate::sample::Sample;
use crate::tables::index::{Index, Spot};
use crate::tables::spaces::{LocalSpace, Space};
use crate::tables::tasks::{Bond, Hot, Ran, Record};
use crate::time::Time;

impl Seen {
    /// Gives a process an address space here; none when there are too many.
    pub(in crate::engine) fn join(
        &mut self,
        registry: &mut Registry,
        pid: Pid,
    ) -> Option<LocalSpace> {
        let local = self.open(registry, Some(pid))?;
        registry
            .processes
            .insert(pid.0, self.spot(u32::from(local)));
        Some(local)
    }

    /// Makes a space for a process, or for an object that processes map; none when there are too
    /// many.
    pub(super) fn open(&mut self, registry: &mut Registry, pid: Option<Pid>) -> Option<LocalSpace> {
        self.spaces.add(Space {
            pid,
            id: registry.open(),
            joined: self.observations,
        })
    }

    /// Takes every number of this program out of the registry.
    pub(in crate::engine) fn leave(&mut self, registry: &mut Registry) {
        for (slot, _, record) in self.tasks.iter() {
            registry.threads.remove(record.tid.0, self.spot(slot));
        }
        for (local, space) in self.spaces.iter() {
            self.strike(registry, local, space);
        }
    }

    /// Takes the number of a process out of the registry.
    fn strike(&self, registry: &mut Registry, local: LocalSpace, space: &Space) {
        if let Some(pid) = space.pid {
            let spot = self.spot(u32::from(local));
            registry.processes.remove(pid.0, spot);
        }
    }

    /// Takes a process out whose threads are gone.
    pub(super) fn part(&mut self, registry: &mut Registry, local: LocalSpace) {
        if let Some(space) = self.spaces.remove(local) {
            self.strike(registry, local, &space);
            self.shares.clear(local);
            self.drop_unmapped();
        }
    }

    /// Takes a slot for a thread that was not known, of a process that is here; none when there are
    /// too many threads.
    pub(super) fn add(
        &mut self,
        registry: &mut Registry,
        (pid, tid): (Pid, Tid),
        now: Time,
    ) -> Option<u32> {
        let space = self
            .local_of(registry, pid)
            .filter(|_| Index::takes(tid.0))?;
        let hot = Hot {
            pid,
            space,
            seat: None,
            may_sit: true,
            node_plus_one: 0,
            samples: 0,
            ran: Ran::default(),
        };
        let record = Record {
            tid,
            pid,
            start: None,
            name: String::new(),
            cpu: None,
            ran: None,
            first_seen: now,
            began: None,
            homed: 0,
            base: None,
            cpu_time: Duration::ZERO,
            busy: None,
            takes_part: false,
            samples_last: 0,
            exited: None,
            observed: self.observations,
            original: Arc::default(),
            unlimited: false,
            cgroup: Arc::default(),
            bond: Bond::Free,
            order: None,
            stay: Stay::default(),
            stay_within: Stay::default(),
        };
        let slot = self.tasks.add(hot, record)?;
        registry.threads.insert(tid.0, self.spot(slot));
        Some(slot)
    }

    /// A new thread of a process that is here, or the first of one that a process of this program made.
    pub(in crate::engine) fn forked(
        &mut self,
        registry: &mut Registry,
        maker: Option<u32>,
        (pid, tid): (Pid, Tid),
        time: Time,
    ) {
        if let Some(maker) = maker {
            let Some(child) = self.join(registry, pid) else {
                self.window.ignored += 1;
                return;
            };
            self.inherit(maker, child);
        }
        // When there are too many threads, this one's samples are counted as they come.
        if let Some(slot) = self.add(registry, (pid, tid), time) {
            self.born(slot, time);
        }
    }

    /// Takes a sample of a thread that is not known; false when there are too many threads.
    pub(in crate::engine) fn fold_newcomer(
        &mut self,
        registry: &mut Registry,
        sample: &Sample,
        node_plus_one: u16,
    ) -> bool {
        let slot = self.add(registry, (sample.pid, sample.tid), sample.time);
        match slot {
            Some(slot) => _ = self.fold(slot, sample, node_plus_one),
            None => self.window.aside += 1,
        }
        slot.is_some()
    }

    /// Forgets a thread.
    pub(in crate::engine) fn retire(&mut self, registry: &mut Registry, slot: u32) {
        if let Some((hot, record)) = self.tasks.remove(slot) {
            registry.threads.remove(record.tid.0, self.spot(slot));
            if let Some(seat) = hot.seat {
                self.seats.give_back(seat);
            }
        }
    }

    /// Whether a thread that is known only by samples since then may be the one that began then.
    pub(in crate::engine) fn is_newborn(&self, slot: u32, pid: Pid, born: Time) -> bool {
        self.tasks.record(slot).is_some_and(|record| {
            record.pid == pid
                && record.start.is_none()
                && record.exited.is_none()
                && record.first_seen >= born
        })
    }

    /// A thread began then, and had used no processor time.
    pub(in crate::engine) fn born(&mut self, slot: u32, time: Time) {
        if let Some(record) = self.tasks.record_mut(slot) {
            record.base = Some((time, Duration::ZERO));
        }
    }

    /// A thread ended. Its slot stays until the next observation, for samples that are still under way.
    pub(in crate::engine) fn exited(&mut self, slot: u32, pid: Pid, time: Time) {
        let Some(record) = self.tasks.record_mut(slot) else {
            return;
        };
        if record.pid != pid || record.first_seen > time {
            return;
        }
        record.exited = Some(time);
        record.takes_part = false;
        self.unseat(slot);
    }

    /// A thread took a name; with `exec`, all addresses of its process mean something else now.
    pub(in crate::engine) fn renamed(
        &mut self,
        registry: &mut Registry,
        (pid, tid): (Pid, Tid),
        name: &str,
        exec: bool,
    ) {
        let slot = self.slot_of(registry, tid);
        if let Some(record) = slot.and_then(|slot| self.tasks.record_mut(slot)) {
            name.clone_into(&mut record.name);
        }
        let Some(local) = self.local_of(registry, pid).filter(|_| exec) else {
            return;
        };
        self.part(registry, local);
        let joined = self.join(registry, pid);
        if joined.is_none() {
            self.window.ignored += 1;
        }
        for slot in self.slots_where(|record| record.pid == pid) {
            match joined {
                Some(local) => {
                    self.unseat(slot);
                    self.tasks.hot[slot as usize].space = local;
                }
                None => self.retire(registry, slot),
            }
        }
    }

    /// Takes a thread's seat.
    pub(super) fn unseat(&mut self, slot: u32) {
        if let Some(seat) = self.tasks.hot[slot as usize].seat.take() {
            self.seats.give_back(seat);
        }
    }

    /// The slot of a thread of this program.
    pub(in crate::engine) fn slot_of(&self, registry: &Registry, tid: Tid) -> Option<u32> {
        let spot = registry.threads.find(tid.0)?;
        (spot.place == self.place).then_some(spot.slot)
    }

    /// The space of a process of this program.
    pub(super) fn local_of(&self, registry: &Registry, pid: Pid) -> Option<LocalSpace> {
        let spot = registry.processes.find(pid.0)?;
        let slot = (spot.place == self.place).then_some(spot.slot)?;
        LocalSpace::try_from(slot).ok()
    }

    const fn spot(&self, slot: u32) -> Spot {
        Spot {
            place: self.place,
            slot,
        }
    }

    /// The slots of threads of which a question says yes.
    pub(super) fn slots_where(&self, is: impl Fn(&Record) -> bool) -> Vec<u32> {
        let found = self.tasks.iter().filter(|(_, _, record)| is(record));
        found.map(|(slot, ..)| slot).collect()
    }
}
