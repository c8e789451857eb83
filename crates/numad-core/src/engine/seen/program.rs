//! Who takes part, and what a policy sees of a program at the end of a window.

use std::borrow::Cow;
use std::time::Duration;

use topology::{CpuSet, Node, Topology};

use super::Seen;
use super::pieces::Pieces;
use super::sizes::Sizes;
use crate::activity::{self, Candidate};
use crate::capacity::capacities;
use crate::cost::Prices;
use crate::engine::ordered::Placed;
use crate::engine::orders::allowed_cpus;
use crate::engine::window::Context;
use crate::figures::rounded;
use crate::matrix::CommMatrix;
use crate::policy::{ACCESSORS_MAX, Accessor, Page, PageKey, PageRecord, Program, Proposal, Task};
use crate::tables::pages::Entry;
use crate::tables::runs::Runs;
use crate::tables::talk::Said;
use crate::tables::tasks::{Bond, Record};
use crate::tables::{Seat, positions};
use crate::time::Time;

/// Buffers of a decision, kept between windows so that a window allocates little.
#[derive(Debug, Default)]
pub(in crate::engine) struct Scratch {
    /// How long, and by how many samples, all this was seen.
    pub window: Duration,
    pub samples: u64,
    /// Slots of the tasks that take part, by position.
    pub slots: Vec<u32>,
    pub tasks: Vec<Task>,
    pub capacity: Vec<usize>,
    pub free_bytes: Vec<u64>,
    pub nodes_allowed: Vec<bool>,
    pub live: CommMatrix,
    pub decayed: CommMatrix,
    /// What other cores' caches answered, where the source tells.
    pub handed: Option<CommMatrix>,
    /// Messages of this window, as samples.
    pub said: CommMatrix,
    pub pages: Vec<Page>,
    pub records: Vec<PageRecord>,
    /// What is behind those pages that stand for many.
    pub pieces: Pieces,
    pub proposals: Vec<Proposal>,
}

impl Scratch {
    /// What the policy sees.
    pub(in crate::engine) fn program<'a>(
        &'a self,
        context: &Context<'a>,
        prices: Prices,
    ) -> Program<'a> {
        Program {
            topology: context.topology,
            model: &context.traffic.model,
            tasks: &self.tasks,
            capacity: &self.capacity,
            free_bytes: &self.free_bytes,
            live: &self.live,
            decayed: &self.decayed,
            pages: &self.pages,
            page_bytes: context.page_bytes,
            window: self.window,
            samples: self.samples,
            prices,
            handed: self.handed.as_ref(),
            ipc: None,
            memory_per_weight: prices.accesses_per_amount,
            era: 0,
            records: &self.records,
        }
    }

    /// Share of the processor time of tasks that is of those which were sampled; 0 without tasks.
    pub(in crate::engine) fn coverage(&self) -> f64 {
        let all: f64 = self.tasks.iter().map(|task| task.busy).sum();
        let sampled = self.tasks.iter().filter(|task| task.samples > 0);
        let seen: f64 = sampled.map(|task| task.busy).sum();
        if all > 0.0 { seen / all } else { 0.0 }
    }
}

impl Seen {
    /// Judges how busy threads were and who takes part; the others lose their seats.
    pub(in crate::engine) fn choose(
        &mut self,
        context: &mut Context<'_>,
        busy_min: f64,
        slots: &mut Vec<u32>,
    ) {
        let (now, observations) = (context.now, self.observations);
        let mut candidates = Vec::new();
        for (slot, _, record) in self.tasks.iter_mut() {
            if record.observed != observations || record.start.is_none() {
                record.busy = None;
            } else {
                record.busy = busy(record, now);
                record.base = Some((now, record.cpu_time));
                candidates.push(Candidate {
                    slot,
                    tid: record.tid,
                    busy: record.busy,
                    took_part: record.takes_part,
                });
            }
            record.takes_part = false;
        }
        let records = candidates.iter();
        let records = records.filter_map(|candidate| self.tasks.record(candidate.slot));
        let cores = allowed_to_any(records, &context.usable);
        let limits = (context.tasks_max, context.topology.cores_in(&cores));
        activity::select(&mut candidates, busy_min, limits);
        slots.clear();
        slots.extend(candidates.iter().map(|candidate| candidate.slot));
        for &slot in slots.iter() {
            if let Some(record) = self.tasks.record_mut(slot) {
                record.takes_part = true;
            }
        }
        let mut unseated = Vec::new();
        let grew = self.unseen.grew();
        for (slot, hot, record) in self.tasks.iter_mut() {
            record.samples_last = std::mem::take(&mut hot.samples);
            record.ran = hot.ran.turn_over();
            let node = node_of(record, context.topology);
            let node = node.and_then(|node| u16::try_from(node).ok());
            hot.node_plus_one = node.map_or(0, |node| node + 1);
            if grew || record.began.is_none() {
                record.began = node;
            }
            // One whose share is not known yet keeps the benefit of the doubt.
            hot.may_sit = record.exited.is_none() && (record.takes_part || record.busy.is_none());
            if !hot.may_sit {
                unseated.push(slot);
            }
            context.others.take_core(record);
        }
        unseated.into_iter().for_each(|slot| self.unseat(slot));
    }

    /// Writes down what the policy will see; memory is where it was sampled, looked up or put.
    pub(in crate::engine) fn fill(
        &mut self,
        context: &Context<'_>,
        placed: &Runs<Placed>,
        scratch: &mut Scratch,
    ) {
        self.live.samples += std::mem::take(&mut self.window.kept);
        scratch.samples = self.live.samples;
        scratch.window = context.now.since(self.live.since);
        let topology = context.topology;
        let records = scratch.slots.iter();
        let records = records.filter_map(|&slot| self.tasks.record(slot));
        let allowed = allowed_to_any(records.clone(), &context.usable);
        scratch.tasks.clear();
        scratch.tasks.extend(records.map(|record| {
            let cpus = allowed_cpus(record, &context.usable);
            let node = node_of(record, topology);
            // One that someone else placed stays: no plan may count on its place.
            let stays = node.filter(|_| record.bond == Bond::HandsOff);
            let nodes = topology.nodes().iter().enumerate();
            let may = |(at, node): (usize, &Node)| match stays {
                Some(stays) => at == stays,
                None => node.cpus.intersects(&cpus),
            };
            Task {
                key: record.key().expect("only observed threads take part"),
                node,
                allowed: nodes.map(may).collect(),
                busy: record.busy.unwrap_or(0.0),
                samples: record.samples_last.into(),
            }
        }));
        let tasks = scratch.tasks.len();
        scratch.capacity = capacities(topology, &allowed, &context.others.held, tasks);
        scratch.nodes_allowed.clear();
        scratch.free_bytes.clear();
        for (node, &free) in topology.nodes().iter().zip(context.free.iter()) {
            let listed =
                context.nodes_allowed.is_empty() || context.nodes_allowed.contains(node.id);
            let may = listed && node.memory_bytes > 0;
            scratch.nodes_allowed.push(may);
            scratch.free_bytes.push(if may { free } else { 0 });
        }
        let seats: Vec<Option<Seat>> = self.seats_of(&scratch.slots);
        if self.of_faults {
            self.sizes = Sizes::of(&self.pages, self.page_shift);
        }
        let positions = Positions::new(&seats, self);
        let found = (&mut scratch.pieces, &mut scratch.pages);
        self.fill_pieces((&positions, &scratch.tasks), placed, found);
        self.note_shown(scratch.pieces.pages());
        self.fill_records(&positions, scratch);
        scratch.pieces.positions = positions;
        self.comm
            .read(&seats, &mut scratch.live, &mut scratch.decayed);
        scratch.said = self.said.read(&seats, |said| said.live.into());
        let all = |said: &Said| u64::from(said.live) + u64::from(said.past);
        let handed = || self.handed.read(&seats, all);
        scratch.handed = self.tells_handed.then(handed);
    }

    /// Writes down what papers keep of each page.
    fn fill_records(&self, positions: &Positions, scratch: &mut Scratch) {
        scratch.records.clear();
        let Some(paper) = &self.paper else {
            return;
        };
        scratch.records.extend(scratch.pages.iter().map(|page| {
            let kept = self.tag(page.key).and_then(|tag| paper.pages.get(&tag));
            let vector = kept.iter().flat_map(|kept| &kept.vector);
            let uses = kept.iter().flat_map(|kept| &kept.uses);
            PageRecord {
                vector: vector.filter_map(|&seat| positions.of(seat)).collect(),
                uses: uses
                    .filter_map(|&(seat, sum)| Some((positions.of(seat)?, sum)))
                    .collect(),
            }
        }));
    }

    pub(in crate::engine) fn seats_of(&self, slots: &[u32]) -> Vec<Option<Seat>> {
        slots
            .iter()
            .map(|&slot| self.tasks.hot[slot as usize].seat)
            .collect()
    }
}

/// From seats to positions.
#[derive(Debug, Default)]
pub(in crate::engine) struct Positions {
    pub(super) of_seats: Vec<Option<u32>>,
    /// What a sample weighs on average.
    pub(in crate::engine) weight_per_sample: f64,
    pub(super) sizes: Sizes,
}

impl Positions {
    pub(in crate::engine) fn new(seats: &[Option<Seat>], seen: &Seen) -> Self {
        Self {
            of_seats: positions(seats),
            weight_per_sample: seen.weight_per_sample(),
            sizes: seen.sizes,
        }
    }

    /// The position of a seat, if its thread takes part.
    pub(in crate::engine) fn of(&self, seat: Seat) -> Option<u32> {
        self.of_seats.get(usize::from(seat)).copied().flatten()
    }

    /// A page as the policy sees it: accessors that take no part are left out.
    ///
    /// Of a page that more tasks use than its entry has places for, those it remembers stand for all:
    /// together they weigh what all samples of the page do. Else what everyone uses would seem to be used
    /// least.
    pub(in crate::engine) fn page(&self, key: PageKey, slot: u32, entry: &Entry) -> Page {
        let mut page = Page {
            key,
            slot,
            home: entry.home(),
            samples: entry.samples(),
            span: 1,
            ..Page::default()
        };
        let stands_for = self.stands_for(entry);
        let mut own = 0;
        for (&seat, &weight) in entry.seats.iter().zip(&entry.weights).take(entry.count()) {
            if let Some(task) = self.of(seat) {
                own += u64::from(weight);
                let weight = match stands_for > 1.0 {
                    true => rounded(f64::from(weight) * stands_for).max(weight),
                    false => weight,
                };
                page.recent[usize::from(page.accessor_count)] = Accessor { task, weight };
                page.accessor_count += 1;
            }
        }
        page.forgotten = page.weight() - own;
        page
    }

    /// How many times their own weight the accessors of an entry stand for.
    fn stands_for(&self, entry: &Entry) -> f64 {
        let size = self.sizes.weight(entry.is_large());
        let known: f64 = entry.weights.iter().map(|&weight| f64::from(weight)).sum();
        if entry.count() < ACCESSORS_MAX || known <= 0.0 {
            return size;
        }
        (self.weight_per_sample * entry.exact_samples() / known).max(1.0) * size
    }
}

/// Processors on which any of these may run.
fn allowed_to_any<'a>(records: impl Iterator<Item = &'a Record>, usable: &CpuSet) -> CpuSet {
    let (mut allowed, mut last) = (CpuSet::new(), Cow::Owned(CpuSet::new()));
    for record in records {
        let cpus = allowed_cpus(record, usable);
        // Most threads are allowed the same.
        if cpus != last {
            allowed = allowed.union(&cpus);
            last = cpus;
        }
    }
    allowed
}

/// Where we placed it, else where it ran lately.
pub(in crate::engine) fn node_of(record: &Record, topology: &Topology) -> Option<usize> {
    let ran = record.ran.map(usize::from);
    record.placed().or(ran).or_else(|| {
        let node = topology.node_of(record.cpu?)?;
        topology.position(node)
    })
}

/// Share of one processor since the base; none when there is nothing to compare with.
fn busy(record: &Record, now: Time) -> Option<f64> {
    let (since, used) = record.base?;
    let span = now.since(since);
    if span.is_zero() {
        return None;
    }
    let used = record.cpu_time.saturating_sub(used);
    Some((used.as_secs_f64() / span.as_secs_f64()).clamp(0.0, 1.0))
}
