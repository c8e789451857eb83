//! From what was granted to actions: masks, cores, batches.

use std::borrow::Cow;
use std::mem::discriminant;
use std::ops::Range;

use topology::{CoreId, CpuId, CpuSet, Pid, Topology};

use super::attachment::Attachment;
use super::options::Bind;
use super::ordered::PageOrder;
use super::seen::sharing::Place;
use super::window::Context;
use crate::action::{Action, MOVE_BATCH_MAX};
use crate::event::EventKind;
use crate::evidence::{Evidence, Scale};
use crate::policy::{PageKey, Reason, SpaceId};
use crate::tables::tasks::{Binding, Bond, Order, Record};

/// A task that may be bound.
#[derive(Clone, Debug)]
pub(super) struct TaskGrant {
    /// In the program that the policy saw.
    pub position: usize,
    pub node: usize,
    /// One of the node's last-level caches.
    pub cache: Option<usize>,
    /// Node it is on.
    pub from: Option<usize>,
    pub reason: Reason,
    pub evidence: Option<Evidence>,
}

/// A page that may move.
#[derive(Clone, Debug)]
pub(super) struct PageGrant {
    pub page: PageKey,
    pub node: usize,
    pub from: Option<usize>,
    pub reason: Reason,
    /// Its uses, by how much they get nearer.
    pub scale: Scale,
    /// The pages that go.
    pub ranges: Vec<Range<u64>>,
}

/// Pages side by side that are ordered.
#[derive(Clone, Copy, Debug)]
struct Going {
    space: SpaceId,
    pid: Pid,
    /// Number of the first page in the process's address space, and in the space.
    place: u64,
    page: u64,
    count: u64,
    /// What they were granted for, by position.
    grant: usize,
}

impl Going {
    const fn end(&self) -> u64 {
        self.place + self.count
    }

    /// Takes the first pages away, at most `count`.
    fn split_off(&mut self, count: u64) -> Self {
        let first = Self {
            count: self.count.min(count),
            ..*self
        };
        self.place += first.count;
        self.page += first.count;
        self.count -= first.count;
        first
    }
}

/// Processors a thread may run on: usable ones, within its cgroup and within the affinity it had
/// before ours, if that was its own. Sets that are not known limit nothing.
pub(super) fn allowed_cpus<'a>(record: &Record, usable: &'a CpuSet) -> Cow<'a, CpuSet> {
    let mut allowed = Cow::Borrowed(usable);
    let own = (!record.unlimited).then_some(&record.original);
    for limit in [Some(&record.cgroup), own].into_iter().flatten() {
        if !limit.is_empty() && !allowed.is_subset(limit) {
            allowed = Cow::Owned(allowed.intersection(limit));
        }
    }
    allowed
}

impl Attachment {
    /// Orders a task onto a node. False when no processor is left for it there.
    pub(super) fn order_bind(
        &mut self,
        context: &mut Context<'_>,
        slot: u32,
        grant: TaskGrant,
    ) -> bool {
        let Some(record) = self.seen.record_mut(slot) else {
            return false;
        };
        let named = record.key().and_then(|task| self.policy.core_of(task));
        let place = &context.topology.nodes()[grant.node];
        let whole = allowed_cpus(record, &context.usable).intersection(&place.cpus);
        let Some(task) = record.key().filter(|_| !whole.is_empty()) else {
            return false;
        };
        let (cache, mut cpus) = context.part_of(&whole, (grant.node, grant.cache));
        let mut core = None;
        let named =
            named.filter(|&core| !cpus_of_core(context.topology, &cpus, Some(core)).is_empty());
        if self.options.bind == Bind::Core || named.is_some() {
            let cores = &mut context.others.cores;
            core = named.or_else(|| pick_core(context.topology, &cpus, record.cpu, cores));
            cpus = cpus_of_core(context.topology, &cpus, core);
            if let Some(taken) = core.and_then(|core| cores.get_mut(core.index())) {
                *taken += 1;
            }
        }
        assert!(!cpus.is_empty(), "a bind order names a processor");
        record.order = Some(Box::new(Order {
            binding: Binding {
                node: grant.node,
                cpus: cpus.clone(),
                cache,
                core,
                seen: false,
            },
            position: grant.position,
            reason: grant.reason.clone(),
            from: grant.from,
        }));
        let action = Action::Bind {
            attachment: self.id,
            task,
            node: place.id,
            cpus,
            reason: grant.reason,
            evidence: grant.evidence,
        };
        self.push(context, action);
        true
    }

    /// Gives threads what has come to their place since: a cpuset grew, or a processor is back.
    /// What was taken away from it the kernel has taken off their masks. At most `most` threads.
    pub(super) fn widen(&mut self, context: &mut Context<'_>, slots: &[u32], most: usize) {
        let slots = slots.iter().enumerate();
        let wider = slots.filter_map(|(position, &slot)| {
            let (node, cache) = self.grown(context, slot)?;
            let grant = TaskGrant {
                position,
                node,
                cache,
                from: Some(node),
                reason: Reason::Wider,
                evidence: None,
            };
            Some((slot, grant))
        });
        let wider: Vec<(u32, TaskGrant)> = wider.take(most).collect();
        for (slot, grant) in wider {
            self.order_bind(context, slot, grant);
        }
    }

    /// Node and cache of a thread that is not held and bound to less of them than it might be.
    fn grown(&self, context: &Context<'_>, slot: u32) -> Option<(usize, Option<usize>)> {
        let may_move = |it: &&Record| it.order.is_none() && it.stay.is_over(context.now);
        let record = self.seen.record(slot).filter(may_move)?;
        let binding = record.binding().filter(|it| it.core.is_none())?;
        let place = (binding.node, binding.cache);
        let (_, all) = context.part_of(&context.topology.nodes()[place.0].cpus, place);
        if all.is_subset(&binding.cpus) {
            return None;
        }
        let may = allowed_cpus(record, &context.usable).intersection(&all);
        (!may.is_subset(&binding.cpus)).then_some(place)
    }

    /// Gives threads another core of their node where one has two fewer: cores come and go with
    /// cpusets and hotplug, threads end, and no policy speaks of cores. One fewer is no reason, or
    /// threads would change places for ever. At most `most` threads.
    pub(super) fn spread_over_cores(
        &mut self,
        context: &mut Context<'_>,
        slots: &[u32],
        most: usize,
    ) {
        if self.options.bind != Bind::Core {
            return;
        }
        let mut ordered = 0;
        for (position, &slot) in slots.iter().enumerate() {
            if ordered >= most {
                return;
            }
            let Some((node, cache, core)) = self.crowded(context, slot) else {
                continue;
            };
            if let Some(taken) = context.others.cores.get_mut(core.index()) {
                *taken = taken.saturating_sub(1);
            }
            let grant = TaskGrant {
                position,
                node,
                cache,
                from: Some(node),
                reason: Reason::Crowded,
                evidence: None,
            };
            ordered += usize::from(self.order_bind(context, slot, grant));
        }
    }

    /// Node, cache and core of a bound thread that is not held, if there is a core with two fewer there.
    fn crowded(&self, context: &Context<'_>, slot: u32) -> Option<(usize, Option<usize>, CoreId)> {
        let record = self.seen.record(slot)?;
        let (None, Bond::Bound(binding)) = (&record.order, &record.bond) else {
            return None;
        };
        let core = binding.core.filter(|_| record.stay.is_over(context.now))?;
        if self.policy.core_of(record.key()?).is_some() {
            return None;
        }
        let place = &context.topology.nodes()[binding.node];
        let whole = allowed_cpus(record, &context.usable).intersection(&place.cpus);
        let (cache, cpus) = context.part_of(&whole, (binding.node, binding.cache));
        let cores = &context.others.cores;
        let best = pick_core(context.topology, &cpus, None, cores)?;
        (tasks_on(cores, core) >= tasks_on(cores, best) + 2).then_some((binding.node, cache, core))
    }

    /// Orders pages, those of one process, space, node and kind of reason together.
    pub(super) fn order_pages(&mut self, context: &mut Context<'_>, grants: &[PageGrant]) {
        let users = self.seen.users();
        let mut going: Vec<Going> = Vec::new();
        for (index, grant) in grants.iter().enumerate() {
            if let Some(place) = self.seen.place_of(&users, grant.page) {
                going.extend(self.going(place, index, grant));
            }
        }
        // A page that is granted twice, as part of a piece and as what was looked up in it, goes once.
        going.sort_unstable_by_key(|one| (one.space, one.pid, one.place, one.grant));
        let mut end = 0_u64;
        let mut of = None;
        going.retain_mut(|one| {
            if of.replace((one.space, one.pid)) != Some((one.space, one.pid)) {
                end = 0;
            }
            one.split_off(end.saturating_sub(one.place));
            end = end.max(one.end());
            one.count > 0
        });
        // Reasons of one kind may share an action.
        let mut kinds = Vec::new();
        for grant in grants {
            let kind = discriminant(&grant.reason);
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        let run = |one: &Going| {
            let grant = &grants[one.grant];
            let kind = discriminant(&grant.reason);
            let kind = kinds.iter().position(|known| *known == kind);
            (one.space, one.pid, grant.node, kind)
        };
        going.sort_unstable_by_key(|one| (run(one), one.place));
        for grant in grants {
            self.ordered.grant(PageOrder {
                page: grant.page,
                node: grant.node,
                from: grant.from,
                reason: grant.reason.clone(),
                open: 0,
                is_done: false,
            });
        }
        let runs = going.chunk_by(|a, b| run(a) == run(b));
        let mut turns = vec![0; grants.len()];
        let in_turn = |batch: Vec<Going>| {
            let turn = &mut turns[batch[0].grant];
            *turn += 1;
            (*turn, batch)
        };
        let mut batches: Vec<(u32, Vec<Going>)> = runs.flat_map(batches_of).map(in_turn).collect();
        // Of each grant the first, then of each the second: what goes side by side comes from and
        // goes to different nodes, and holds up different threads, each as long as a batch takes.
        batches.sort_by_key(|&(turn, _)| turn);
        for (_, batch) in batches {
            self.order_batch(context, grants, &batch);
        }
    }

    /// The pages of a grant, as the process has them.
    fn going<'a>(
        &'a self,
        place: Place,
        grant: usize,
        granted: &'a PageGrant,
    ) -> impl Iterator<Item = Going> + 'a {
        let ranges = granted.ranges.iter().cloned();
        let found = ranges.flat_map(move |range| self.seen.runs_at(place, granted.page, range));
        found.map(move |(place_there, pages)| Going {
            space: granted.page.space,
            pid: place.pid,
            place: place_there,
            page: pages.start,
            count: pages.end - pages.start,
            grant,
        })
    }

    fn order_batch(&mut self, context: &mut Context<'_>, grants: &[PageGrant], batch: &[Going]) {
        let (one, first) = (batch[0], &grants[batch[0].grant]);
        let granted = batch.iter().map(|each| {
            let grant = u32::try_from(each.grant).unwrap_or(u32::MAX);
            (each.page..each.page + each.count, grant)
        });
        let key = (one.space, one.pid, one.place * context.page_bytes);
        self.ordered.send(key, granted.collect());
        let places = batch.iter().flat_map(|each| each.place..each.end());
        let action = Action::MovePages {
            attachment: self.id,
            pid: one.pid,
            space: one.space,
            pages: places.map(|place| place * context.page_bytes).collect(),
            node: context.topology.nodes()[first.node].id,
            reason: first.reason.clone(),
            evidence: self.weigh_batch(grants, batch),
            reach: self.seen.reach_of(one.space),
            object: self.seen.object_of(one.space).map(|object| object.id),
        };
        self.push(context, action);
    }

    fn push(&self, context: &mut Context<'_>, action: Action) {
        let kind = EventKind::Ordered(action.clone());
        context.events.push(context.now, self.id, kind);
        context.actions.push_back(action);
    }

    /// How sure it is that the uses of these pages get nearer.
    fn weigh_batch(&self, grants: &[PageGrant], batch: &[Going]) -> Option<Evidence> {
        let mut all = Scale::default();
        // Those of one grant may lie among others.
        let mut of_batch: Vec<usize> = batch.iter().map(|one| one.grant).collect();
        of_batch.sort_unstable();
        of_batch.dedup();
        of_batch
            .iter()
            .for_each(|&grant| all.add(&grants[grant].scale));
        let found = self.options.certainty.weigh(&all);
        Some(found).filter(|evidence| evidence.samples > 0.0)
    }
}

/// Parts of what goes together that are small enough for an action each.
fn batches_of(run: &[Going]) -> Vec<Vec<Going>> {
    let mut batches = Vec::new();
    let (mut batch, mut room) = (Vec::new(), MOVE_BATCH_MAX as u64);
    for &(mut one) in run {
        while one.count > 0 {
            let first = one.split_off(room);
            room -= first.count;
            batch.push(first);
            if room == 0 {
                batches.push(std::mem::take(&mut batch));
                room = MOVE_BATCH_MAX as u64;
            }
        }
    }
    batches.extend(Some(batch).filter(|batch| !batch.is_empty()));
    batches
}

/// The core with the fewest tasks among those of `cpus`; the present one, then the lowest, where equal.
fn pick_core(
    topology: &Topology,
    cpus: &CpuSet,
    now: Option<CpuId>,
    taken: &[usize],
) -> Option<CoreId> {
    let current = now
        .filter(|&cpu| cpus.contains(cpu))
        .and_then(|cpu| topology.cpu(cpu));
    let current = current.map(|cpu| cpu.core);
    cpus.iter()
        .filter_map(|cpu| topology.cpu(cpu))
        .map(|cpu| cpu.core)
        .min_by_key(|&core| (tasks_on(taken, core), Some(core) != current, core))
}

fn tasks_on(taken: &[usize], core: CoreId) -> usize {
    taken.get(core.index()).copied().unwrap_or(0)
}

fn cpus_of_core(topology: &Topology, cpus: &CpuSet, core: Option<CoreId>) -> CpuSet {
    cpus.iter()
        .filter(|&cpu| topology.cpu(cpu).map(|cpu| cpu.core) == core)
        .collect()
}
