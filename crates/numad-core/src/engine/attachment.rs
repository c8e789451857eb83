//! One program: its tables, and its threads coming and going.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use topology::{CpuSet, Pid, TaskKey, Tid};

use super::era::Era;
use super::options::{AttachError, AttachOptions, EngineOptions, Totals};
use super::pace::Pace;
use super::registry::Registry;
use super::thin::Thin;
use super::trial::Trial;
use crate::action::AttachmentId;
use crate::evidence::Certainty;
use crate::hold::Stay;
use crate::interval::Interval;
use crate::observation::AttachSpec;
use crate::policy::{PageKey, Policy, Reason, SpaceId};
use crate::published::Method;
use crate::sample::{Sample, ServedBy};
use crate::tables::Seat;
use crate::tables::comm::CommTable;
use crate::tables::forest::Forest;
use crate::tables::index::Spot;
use crate::tables::pages::{PageTable, Tag};
use crate::tables::paper::Paper;
use crate::tables::runs::Runs;
use crate::tables::seats::Seats;
use crate::tables::shares::Shares;
use crate::tables::spaces::{LocalSpace, Space, Spaces};
use crate::tables::tasks::{Bond, Hot, Record, TaskTable};
use crate::time::Time;

/// One program under a policy.
#[derive(Debug)]
pub(super) struct Attachment {
    pub id: AttachmentId,
    pub place: u32,
    pub policy: Box<dyn Policy>,
    pub options: AttachOptions,
    /// How sure moves must be: as `options` say, worked out once.
    pub certainty: Certainty,
    pub interval: Interval,
    pub window_start: Time,
    /// None once the program has ended.
    pub window_end: Option<Time>,
    /// Since when the live tables collect: more than one window when samples are few.
    pub live_since: Time,
    pub live_samples: u64,
    /// Their weights, which are their periods.
    pub live_weight: u64,
    /// Of these, the weights of what memory answered; 0 where the source does not tell what answers.
    pub live_memory: u64,
    /// Samples and weights of the windows before, faded like the tables.
    pub past_samples: u64,
    pub past_weight: u64,
    /// GB/s that the program took from each node's memory in its last window, by position, as its
    /// samples tell; empty where they do not.
    pub takes_gbps: Vec<f64>,
    /// Samples lost and taken, of all programs, when the live tables began.
    pub live_lost: u64,
    pub live_taken: u64,
    /// Samples of the window, and those of them that were kept.
    pub window_samples: u64,
    pub window_kept: u64,
    pub thin: Thin,
    /// Windows in a row that had too few samples.
    pub quiet: u32,
    pub spaces: Spaces,
    pub shares: Shares,
    pub tasks: TaskTable,
    pub seats: Seats,
    pub pages: PageTable,
    pub comm: CommTable,
    /// What papers keep; for methods as published alone.
    pub paper: Option<Box<Paper>>,
    /// Present once the source tells loads from stores.
    /// What other cores' caches answered; none before a sample told what answered it.
    pub handed: Option<Box<CommTable>>,
    /// Messages between threads, as the samples that would have shown as much sharing; none before there was one.
    pub said: Option<Box<CommTable>>,
    pub page_shift: u32,
    pub seat_count: usize,
    /// Observations so far.
    pub observations: u64,
    /// Affinities that we set and what stood there before, for threads that inherit ours.
    pub masks: Vec<(CpuSet, CpuSet)>,
    /// Samples by page and thread, for blocks of memory that are used alike.
    pub forest: Forest,
    pub page_moves: Runs<PageMove>,
    /// Where pages were put, or found when they were to be moved.
    pub placed: Runs<Placed>,
    pub page_orders: PageOrders,
    /// Windows in a row that pages waited for threads.
    pub pages_waited: u32,
    /// Windows in which pages may follow others, or threads, that went, for less than the first.
    pub sweeps: u32,
    /// Judged windows in a row in which no thread moved.
    pub still: u32,
    /// Judged windows in a row in which the program did not do what it did before.
    pub changing: u32,
    pub era: Era,
    pub trial: Option<Trial>,
    pub pace: Pace,
    pub revert_strikes: u32,
    /// Until then no thread moves, because the last placement had to be put back.
    pub threads_held_until: Time,
    /// Tasks that were apart and that the last judged window wanted together, each pair in order.
    pub sought: BTreeSet<(TaskKey, TaskKey)>,
    /// Where the last judged window wanted tasks, those included that were there.
    pub planned: BTreeMap<TaskKey, usize>,
    pub lost_seen: u64,
    pub pages_dropped_seen: u64,
    pub totals: Totals,
}

/// What is remembered of a page that was moved, or could not be.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PageMove {
    pub stay: Stay,
    /// Node another than its own that the last judged window wanted it on.
    pub wanted: Option<usize>,
}

/// Where a page is since it was moved, or found when it was to be moved.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Placed {
    /// None if it was not there.
    pub home: Option<u16>,
    /// Where it was taken to be before.
    pub from: Option<u16>,
}

/// Page moves that were ordered and not yet answered.
#[derive(Debug, Default)]
pub(super) struct PageOrders {
    /// Pages by the space, process and first address of their action, each with what it was granted for.
    pub batches: BTreeMap<(SpaceId, Pid, u64), Vec<(u64, u32)>>,
    pub granted: Vec<PageOrder>,
}

/// Pages that were granted together.
#[derive(Clone, Debug)]
pub(super) struct PageOrder {
    /// The page that the policy called them by.
    pub page: PageKey,
    pub node: usize,
    pub from: Option<usize>,
    pub reason: Reason,
    /// Pages of it that are not answered yet.
    pub open: usize,
    /// Whether any of them is where it was to go.
    pub is_done: bool,
}

/// A thread that was not known before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Newcomer {
    pub pid: Pid,
    pub tid: Tid,
    pub seen: Time,
    /// When it began, if that was seen; it has used no processor time then.
    pub born: Option<Time>,
}

impl Attachment {
    pub(super) fn new(
        id: AttachmentId,
        place: u32,
        now: Time,
        spec: AttachSpec,
        limits: &EngineOptions,
    ) -> Result<Self, AttachError> {
        let interval = Interval::new(spec.options.interval).map_err(AttachError::Interval)?;
        // A quarter more than take part, for threads that come within a window.
        let seat_count = limits.tasks_max + limits.tasks_max / 4 + 16;
        let mut options = spec.options;
        options.accessors = options.accessors.clamp(1, crate::policy::ACCESSORS_MAX);
        Ok(Self {
            id,
            place,
            policy: spec.policy,
            certainty: Certainty::of(options.confidence_min),
            interval,
            window_start: now,
            window_end: Some(now.after(interval.current())),
            live_since: now,
            live_samples: 0,
            live_weight: 0,
            live_memory: 0,
            takes_gbps: Vec::new(),
            past_samples: 0,
            past_weight: 0,
            live_lost: 0,
            live_taken: 0,
            window_samples: 0,
            window_kept: 0,
            thin: Thin::new(),
            quiet: 0,
            spaces: Spaces::new(),
            shares: Shares::default(),
            tasks: TaskTable::default(),
            seats: Seats::new(seat_count),
            pages: PageTable::new(limits.page_slots, options.accessors),
            comm: CommTable::new(seat_count),
            paper: (options.method == Method::Published)
                .then(|| Box::new(Paper::new(limits.page_slots))),
            handed: None,
            said: None,
            page_shift: limits.page_bytes.trailing_zeros(),
            seat_count,
            observations: 0,
            masks: Vec::new(),
            forest: Forest::default(),
            page_moves: Runs::default(),
            placed: Runs::default(),
            page_orders: PageOrders::default(),
            pages_waited: 0,
            sweeps: 0,
            still: 0,
            changing: 0,
            era: Era::default(),
            trial: None,
            pace: Pace::default(),
            revert_strikes: 0,
            threads_held_until: Time::default(),
            sought: BTreeSet::new(),
            planned: BTreeMap::new(),
            lost_seen: 0,
            pages_dropped_seen: 0,
            totals: Totals::default(),
            options,
        })
    }

    pub(super) fn is_due(&self, now: Time) -> bool {
        self.window_end.is_some_and(|end| end <= now)
    }

    /// Takes one sample; false if the slot's thread is not the one that was sampled.
    #[inline]
    pub(super) fn fold(&mut self, slot: u32, sample: &Sample) -> bool {
        let hot = &mut self.tasks.hot[slot as usize];
        if hot.pid != sample.pid {
            return false;
        }
        let Some(seat) = hot.seat else {
            return self.fold_unseated(slot, sample);
        };
        hot.samples += 1;
        self.fold_seated(slot, seat, sample);
        true
    }

    /// The page that a sample of this slot's thread falls on, if it is to be found in the table.
    #[inline]
    pub(super) fn tag_of(&self, slot: u32, sample: &Sample) -> Option<Tag> {
        let space = self.tasks.hot[slot as usize].space;
        // The upper half of all addresses is the kernel's; what a thread does there is not its own.
        let user = sample.address >> 63 == 0;
        let (space, page) = self
            .shares
            .translate(space, sample.address >> self.page_shift);
        Tag::new(space, page).filter(|_| user)
    }

    #[inline]
    fn fold_seated(&mut self, slot: u32, seat: Seat, sample: &Sample) {
        self.window_samples += 1;
        let weight = u32::try_from(sample.period).unwrap_or(u32::MAX).max(1);
        self.live_weight = self.live_weight.saturating_add(u64::from(weight));
        let tag = self.tag_of(slot, sample);
        let stands_for = self.thin.take();
        if let Some(tag) = tag.filter(|_| stands_for.is_some()) {
            self.forest.note(tag, seat);
        }
        let weight = match stands_for {
            // A policy that goes by single pages sees all that is known of them.
            _ if !self.goes_by_blocks() => weight,
            Some(stands_for) => weight.saturating_mul(stands_for),
            None => return,
        };
        self.window_kept += 1;
        if self.thin.is_full() {
            let gone = self.forest.thin(self.thin.halve());
            if self.goes_by_blocks() {
                self.window_kept = self.window_kept.saturating_sub(gone);
            }
        }
        let Some(tag) = tag else {
            self.totals.samples_aside += 1;
            return;
        };
        let others = self.pages.touch(tag, seat, weight);
        match &mut self.paper {
            Some(paper) => {
                for other in paper.note(tag, seat, u64::from(weight)) {
                    self.comm.add(seat, other, 1);
                }
            }
            None => {
                for (other, amount) in others.amounts(weight) {
                    self.comm.add(seat, other, amount);
                }
            }
        }
        if matches!(
            sample.served,
            ServedBy::LocalMemory | ServedBy::RemoteMemory
        ) {
            self.live_memory = self.live_memory.saturating_add(u64::from(weight));
        }
        if sample.served != ServedBy::Unknown {
            let seats = self.seat_count;
            let handed = &mut self.handed;
            let handed = handed.get_or_insert_with(|| Box::new(CommTable::new(seats)));
            if sample.served == ServedBy::OtherCache {
                for (other, amount) in others.amounts(weight) {
                    handed.add(seat, other, amount);
                }
            }
        }
    }

    /// Whether memory is decided about by blocks: else by single pages, each by its own samples.
    #[inline]
    pub(super) const fn goes_by_blocks(&self) -> bool {
        self.options.by_blocks && self.options.require_gain
    }

    /// A thread without a seat takes one if it may. One that has ended is still meant by samples
    /// from before; later ones are of another thread with its number.
    fn fold_unseated(&mut self, slot: u32, sample: &Sample) -> bool {
        let ended = self.tasks.record(slot).and_then(|record| record.exited);
        if ended.is_some_and(|ended| sample.time > ended) {
            return false;
        }
        let hot = &mut self.tasks.hot[slot as usize];
        hot.samples += 1;
        if hot.may_sit && ended.is_none() {
            hot.seat = self.seats.take();
        }
        match hot.seat {
            Some(seat) => self.fold_seated(slot, seat, sample),
            None => {
                self.window_samples += 1;
                self.window_kept += 1;
                self.live_weight = self.live_weight.saturating_add(sample.period.max(1));
                self.totals.samples_aside += 1;
            }
        }
        true
    }

    /// Gives a process an address space here; none when there are too many.
    pub(super) fn join(&mut self, registry: &mut Registry, pid: Pid) -> Option<LocalSpace> {
        let space = Space {
            pid: Some(pid),
            id: registry.open(pid),
            joined: self.observations,
        };
        let Some(local) = self.spaces.add(space) else {
            registry.shut(space.id);
            return None;
        };
        registry
            .processes
            .insert(pid.0, self.spot(u32::from(local)));
        Some(local)
    }

    /// Takes every number of this program out of the registry.
    pub(super) fn leave(&mut self, registry: &mut Registry) {
        for (slot, _, record) in self.tasks.iter() {
            registry.threads.remove(record.tid.0, self.spot(slot));
        }
        for (local, space) in self.spaces.iter() {
            if let Some(pid) = space.pid {
                let spot = self.spot(u32::from(local));
                registry.processes.remove(pid.0, spot);
            }
            registry.shut(space.id);
        }
    }

    /// Takes a process out whose threads are gone.
    pub(super) fn part(&mut self, registry: &mut Registry, local: LocalSpace) {
        if let Some(space) = self.spaces.remove(local) {
            if let Some(pid) = space.pid {
                let spot = self.spot(u32::from(local));
                registry.processes.remove(pid.0, spot);
            }
            registry.shut(space.id);
            self.forget_pages_of(space.id);
            self.shares.clear(local);
            self.drop_unmapped(registry);
        }
    }

    /// Takes a slot for a thread of a process that is here; none when there are too many threads.
    pub(super) fn add(&mut self, registry: &mut Registry, newcomer: Newcomer) -> Option<u32> {
        let process = registry.processes.find(newcomer.pid.0)?;
        if process.place != self.place || newcomer.tid.0 == 0 {
            return None;
        }
        let hot = Hot {
            pid: newcomer.pid,
            space: LocalSpace::try_from(process.slot).ok()?,
            seat: None,
            may_sit: true,
            samples: 0,
        };
        let record = Record {
            tid: newcomer.tid,
            pid: newcomer.pid,
            start: None,
            name: String::new(),
            cpu: None,
            first_seen: newcomer.seen,
            base: newcomer.born.map(|born| (born, Duration::ZERO)),
            cpu_time: Duration::ZERO,
            busy: None,
            takes_part: false,
            samples_last: 0,
            exited: None,
            observed: self.observations,
            original: CpuSet::new(),
            unlimited: false,
            cgroup: CpuSet::new(),
            bond: Bond::Free,
            order: None,
            stay: Stay::default(),
            stay_within: Stay::default(),
            wanted: None,
        };
        let slot = self.tasks.add(hot, record)?;
        registry.threads.insert(newcomer.tid.0, self.spot(slot));
        Some(slot)
    }

    /// Forgets a thread.
    pub(super) fn retire(&mut self, registry: &mut Registry, slot: u32) {
        if let Some((hot, record)) = self.tasks.remove(slot) {
            registry.threads.remove(record.tid.0, self.spot(slot));
            if let Some(seat) = hot.seat {
                self.seats.give_back(seat);
            }
        }
    }

    /// Whether a thread that is known only by samples since then may be the one that began then.
    pub(super) fn is_newborn(&self, slot: u32, pid: Pid, born: Time) -> bool {
        self.tasks.record(slot).is_some_and(|record| {
            record.pid == pid
                && record.start.is_none()
                && record.exited.is_none()
                && record.first_seen >= born
        })
    }

    /// A thread began then.
    pub(super) fn born(&mut self, slot: u32, time: Time) {
        if let Some(record) = self.tasks.record_mut(slot) {
            record.base = Some((time, Duration::ZERO));
        }
    }

    /// A thread ended. Its slot stays until the next observation, for samples that are still under way.
    pub(super) fn exited(&mut self, slot: u32, pid: Pid, time: Time) {
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
    pub(super) fn renamed(
        &mut self,
        registry: &mut Registry,
        (pid, tid): (Pid, Tid),
        name: &str,
        exec: bool,
    ) {
        let spot = registry
            .threads
            .find(tid.0)
            .filter(|spot| spot.place == self.place);
        if let Some(record) = spot.and_then(|spot| self.tasks.record_mut(spot.slot)) {
            name.clone_into(&mut record.name);
        }
        let process = registry.processes.find(pid.0);
        let Some(process) = process.filter(|spot| exec && spot.place == self.place) else {
            return;
        };
        if let Ok(local) = LocalSpace::try_from(process.slot) {
            self.part(registry, local);
        }
        let joined = self.join(registry, pid);
        if joined.is_none() {
            self.totals.processes_ignored += 1;
        }
        let slots: Vec<u32> = self.slots_of(pid).collect();
        for slot in slots {
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

    pub(super) const fn spot(&self, slot: u32) -> Spot {
        Spot {
            place: self.place,
            slot,
        }
    }

    /// Mean period of the samples lately; 0 while there are none.
    pub(super) fn weight_per_sample(&self) -> f64 {
        let samples = self.live_samples.saturating_add(self.past_samples);
        let weight = self.live_weight.saturating_add(self.past_weight);
        match samples {
            0 => 0.0,
            samples => weight as f64 / samples as f64,
        }
    }

    /// The table's name for a page of this program.
    pub(super) fn tag(&self, page: PageKey) -> Option<Tag> {
        Tag::new(self.spaces.local_of(page.space)?, page.page)
    }

    /// What everyone calls a page of the table.
    pub(super) fn key(&self, tag: Tag) -> Option<PageKey> {
        let space = self.spaces.at(tag.space())?.id;
        Some(PageKey {
            space,
            page: tag.page(),
        })
    }

    fn slots_of(&self, pid: Pid) -> impl Iterator<Item = u32> {
        self.tasks
            .iter()
            .filter(move |(_, hot, _)| hot.pid == pid)
            .map(|(slot, ..)| slot)
    }

    pub(super) fn forget_pages_of(&mut self, space: SpaceId) {
        self.page_moves.retain(|of, _| of != space);
        self.placed.retain(|of, _| of != space);
        self.page_orders.batches.retain(|(of, ..), _| *of != space);
    }
}
