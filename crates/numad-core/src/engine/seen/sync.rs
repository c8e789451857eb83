//! What an observation says of a program's threads and pages.

use std::collections::BTreeSet;
use std::sync::Arc;

use topology::{CpuSet, Pid, TaskKey, Topology};

use super::Seen;
use crate::engine::registry::Registry;
use crate::observation::{ObservedProgram, ObservedTask};
use crate::tables::index::Spot;
use crate::tables::pages::Tag;
use crate::tables::spaces::LocalSpace;
use crate::tables::tasks::{Bond, Record};
use crate::time::Time;

/// The machine as it was looked at.
#[derive(Debug)]
pub(in crate::engine) struct Look<'a> {
    pub now: Time,
    pub topology: &'a Topology,
    pub online: &'a CpuSet,
    /// Other processors than at the look before.
    pub online_changed: bool,
    /// The kernel moves pages between nodes by itself.
    pub kernel_balances: bool,
}

/// What a look found out.
#[derive(Debug, Default)]
pub(in crate::engine) struct Found {
    /// Threads of which someone else has changed an affinity that was ours.
    pub handed_off: Vec<TaskKey>,
    /// No thread is left.
    pub ended: bool,
}

impl Seen {
    /// Brings threads and pages up to date; of a thread with one of our `masks` it is known what stood there before.
    pub(in crate::engine) fn sync(
        &mut self,
        registry: &mut Registry,
        program: &ObservedProgram,
        look: &Look<'_>,
        masks: &[(CpuSet, CpuSet)],
    ) -> Found {
        let mut found = Found::default();
        let mut last = Sets::default();
        self.observations += 1;
        self.retire_all(registry, |record| record.exited.is_some());
        for task in &program.tasks {
            let Some(slot) = self.slot_for(registry, task, look.now) else {
                continue;
            };
            if let Some(record) = self.tasks.record_mut(slot) {
                record.observed = self.observations;
                if update(record, task, (look, &mut last), masks) {
                    found.handed_off.push(task.key);
                }
            }
        }
        let current = self.observations;
        // One that is known by samples alone may have come while we looked: it gets a second look.
        self.retire_all(registry, |record| {
            let grace = u64::from(record.start.is_none());
            record.observed + grace < current
        });
        self.part_from_the_gone(registry);
        self.note_resident(program.resident_bytes);
        self.learn_sharing(registry, &program.sharing);
        self.learn_homes(program, look.topology);
        found.ended = program.tasks.is_empty();
        if found.ended {
            self.retire_all(registry, |_| true);
        }
        found
    }

    /// The slot of an observed thread; a new one if it is new, none if it belongs to another program
    /// or there are too many.
    fn slot_for(&mut self, registry: &mut Registry, task: &ObservedTask, now: Time) -> Option<u32> {
        let key = task.key;
        match registry.processes.find(key.pid.0) {
            Some(process) if process.place != self.place => return None,
            Some(_) => {}
            None if key.pid.0 == 0 || key.tid.0 == 0 => return None,
            None => {
                // Its fork was not seen, but whoever looked says that it belongs to us.
                self.join(registry, key.pid)?;
            }
        }
        if let Some(Spot { place, slot }) = registry.threads.find(key.tid.0) {
            if place != self.place {
                return None;
            }
            let record = self.tasks.record(slot)?;
            let same = record.pid == key.pid && record.start.is_none_or(|start| start == key.start);
            if same {
                return Some(slot);
            }
            self.retire(registry, slot);
        }
        self.add(registry, (key.pid, key.tid), now)
    }

    /// Takes out a process that is still there.
    pub(in crate::engine) fn expel(&mut self, registry: &mut Registry, pid: Pid) {
        self.retire_all(registry, |record| record.pid == pid);
        if let Some(local) = self.local_of(registry, pid) {
            self.part(registry, local);
        }
    }

    fn retire_all(&mut self, registry: &mut Registry, gone: impl Fn(&Record) -> bool) {
        for slot in self.slots_where(gone) {
            self.retire(registry, slot);
        }
    }

    /// Processes without threads leave, except those that joined after the look began.
    fn part_from_the_gone(&mut self, registry: &mut Registry) {
        let alive: BTreeSet<LocalSpace> = self.tasks.iter().map(|(_, hot, _)| hot.space).collect();
        let gone: Vec<LocalSpace> = self
            .spaces
            .iter()
            .filter(|(local, space)| {
                space.pid.is_some()
                    && space.joined + 1 < self.observations
                    && !alive.contains(local)
            })
            .map(|(local, _)| local)
            .collect();
        for local in gone {
            self.part(registry, local);
        }
    }

    fn learn_homes(&mut self, program: &ObservedProgram, topology: &Topology) {
        let mut large = program.large.iter().peekable();
        // Thousands of pages of a few spaces, one behind the other.
        let mut last = None;
        for (page, node) in &program.homes {
            let is_large = large.next_if_eq(&page).is_some();
            let known = last.filter(|(space, _)| *space == page.space);
            let (_, local) =
                known.unwrap_or_else(|| (page.space, self.spaces.local_of(page.space)));
            last = Some((page.space, local));
            if let Some(tag) = local.and_then(|local| Tag::new(local, page.page)) {
                let position = node.and_then(|node| topology.position(node));
                let home = position.and_then(|position| u16::try_from(position).ok());
                self.pages.set_place(tag, home, is_large);
                self.large.learn(tag, home, is_large && self.by_blocks);
                self.window.nowhere += u64::from(node.is_none());
            }
        }
    }
}

/// What the last thread has that was looked at: mostly all threads of a program have the same, and
/// keep it together.
#[derive(Debug, Default)]
struct Sets {
    original: Arc<CpuSet>,
    cgroup: Arc<CpuSet>,
}

/// Another's set where it is the same.
fn shared(set: &CpuSet, last: &mut Arc<CpuSet>) -> Arc<CpuSet> {
    if **last != *set {
        *last = Arc::new(set.clone());
    }
    Arc::clone(last)
}

/// Takes what was observed; true when someone else has changed an affinity that was ours.
fn update(
    record: &mut Record,
    task: &ObservedTask,
    (look, last): (&Look<'_>, &mut Sets),
    masks: &[(CpuSet, CpuSet)],
) -> bool {
    record.start = Some(task.key.start);
    if record.name != task.name {
        record.name.clone_from(&task.name);
    }
    record.cpu = Some(task.cpu);
    record.cpu_time = task.cpu_time;
    if record.base.is_none() {
        record.base = Some((look.now, task.cpu_time));
    }
    let cgroup_changed = !record.cgroup.is_empty() && *record.cgroup != task.cgroup_cpus;
    record.cgroup = shared(&task.cgroup_cpus, &mut last.cgroup);
    let limits_changed = cgroup_changed || look.online_changed;
    let taken = judge_affinity(record, &task.affinity, look.online, limits_changed);
    let trusted = !limits_changed || record.original.is_empty();
    if matches!(record.bond, Bond::Free) && trusted && *record.original != task.affinity {
        // A thread inherits the affinity of the one that made it. If that is ours, what counts is
        // what stood there before.
        let inherited = masks.iter().find(|(ours, _)| *ours == task.affinity);
        let before = inherited.map_or(&task.affinity, |(_, original)| original);
        record.original = shared(before, &mut last.original);
        let cgroup = record.cgroup.intersection(look.online);
        record.unlimited = !cgroup.is_empty() && cgroup.is_subset(&record.original);
    }
    taken
}

/// Whether the affinity is still ours. What a cpuset or the loss of a processor made of it counts as
/// ours as long as something of it is left; when those changed and nothing of ours is left, the thread
/// is free again. Anything else was someone who knew better.
fn judge_affinity(
    record: &mut Record,
    affinity: &CpuSet,
    online: &CpuSet,
    limits_changed: bool,
) -> bool {
    let Bond::Bound(binding) = &mut record.bond else {
        return false;
    };
    if affinity.is_empty() {
        return false;
    }
    let mut clipped = binding.cpus.intersection(online);
    if !record.cgroup.is_empty() {
        clipped = clipped.intersection(&record.cgroup);
    }
    if *affinity == binding.cpus || *affinity == clipped {
        binding.seen = true;
        return false;
    }
    // Until our affinity was seen in force, what stood there before proves nothing: a dry run never
    // sets any.
    if !binding.seen && *affinity == *record.original {
        return false;
    }
    if limits_changed {
        record.bond = Bond::Free;
        return false;
    }
    record.bond = Bond::HandsOff;
    record.order = None;
    true
}
