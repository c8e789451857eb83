//! The end of a window: who takes part, what the policy sees, what it gets.

use std::collections::BTreeMap;
use std::time::Duration;

use topology::{CpuSet, NodeSet, TaskKey, Topology};

use super::attachment::{Attachment, PageOrders};
use super::judge::{Decision, milli};
use super::orders::allowed_cpus;
use super::pieces::Pieces;
use super::queue::Events;
use super::traffic::Memory;
use super::trial::Trial;
use super::within::Within;
use crate::action::Action;
use crate::activity::{self, Candidate};
use crate::capacity::capacities;
use crate::event::{EventKind, WindowSummary};
use crate::interval::Change;
use crate::matrix::CommMatrix;
use crate::policy::{
    ACCESSORS_MAX, Accessor, Fate, Page, PageKey, PageRecord, Proposal, Task, Veto,
};
use crate::published::Method;
use crate::tables::Seat;
use crate::tables::pages::Entry;
use crate::tables::runs::Runs;
use crate::tables::tasks::Record;
use crate::time::Time;

/// What a decision is made in.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub now: Time,
    pub topology: &'a Topology,
    /// Processors that are online and not isolated.
    pub usable: CpuSet,
    pub others: Others,
    /// Empty means all.
    pub nodes_allowed: &'a NodeSet,
    /// Free memory by position, less what was granted in this observation.
    pub free: &'a mut [u64],
    pub page_bytes: u64,
    pub tasks_max: usize,
    /// Samples lost so far.
    pub lost: u64,
    /// How busy memory is, where that is known.
    pub memory: Memory<'a>,
    /// Samples taken so far, of all programs.
    pub taken: u64,
    /// The machines within nodes, where some have several last-level caches.
    pub within: Option<&'a mut Within>,
    pub actions: &'a mut std::collections::VecDeque<Action>,
    pub events: &'a mut Events,
}

/// What other programs hold.
#[derive(Debug)]
pub(super) struct Others {
    /// Tasks of other programs placed on each node.
    pub held: Vec<usize>,
    /// Tasks bound to each core, by number; at the end those of the program itself as well.
    pub cores: Vec<usize>,
    /// Tasks of other programs on each last-level cache of nodes that have several.
    pub caches: BTreeMap<(usize, usize), usize>,
}

impl Others {
    pub(super) fn of<'a>(
        others: impl Iterator<Item = &'a Attachment>,
        topology: &Topology,
        within: Option<&Within>,
    ) -> Self {
        let cores = topology.cpus().iter().map(|cpu| cpu.core.index() + 1).max();
        let mut all = Self {
            held: vec![0; topology.nodes().len()],
            cores: vec![0; cores.unwrap_or(0)],
            caches: BTreeMap::new(),
        };
        for (_, hot, record) in others.flat_map(|other| other.tasks.iter()) {
            // One that nobody placed needs a core all the same.
            let runs = record.takes_part || hot.samples > 0;
            if let Some(node) = node_of(record, topology).filter(|_| runs) {
                all.held[node] += 1;
            }
            let cache = within.and_then(|within| within.place_of(record, topology));
            if let Some(cache) = cache.filter(|_| runs) {
                *all.caches.entry(cache).or_default() += 1;
            }
            all.take_core(record);
        }
        all
    }

    fn take_core(&mut self, record: &Record) {
        let core = record
            .binding()
            .and_then(|binding| binding.core)
            .and_then(|core| self.cores.get_mut(core.index()));
        if let Some(held) = core {
            *held += 1;
        }
    }
}

/// Buffers of a decision, kept between windows so that a window allocates little.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Slots of the tasks that take part, by position.
    pub slots: Vec<u32>,
    pub tasks: Vec<Task>,
    pub capacity: Vec<usize>,
    pub free_bytes: Vec<u64>,
    pub nodes_allowed: Vec<bool>,
    pub live: CommMatrix,
    pub decayed: CommMatrix,
    /// What other cores' caches answered, and whether the source tells.
    pub handed: CommMatrix,
    pub tells_handed: bool,
    /// Messages of this window, as samples.
    pub said: CommMatrix,
    pub pages: Vec<Page>,
    pub records: Vec<PageRecord>,
    /// What is behind those pages that stand for many.
    pub pieces: Pieces,
    pub proposals: Vec<Proposal>,
}

/// Windows that are joined for want of samples; after that the tables fade even so.
const QUIET_MAX: u32 = 8;
/// Pages that are still known one by one when a window has ended: as many as the samples that blocks are found by.
const PAGES_KEPT: usize = 1 << 14;
/// Runs of pages whose moves are remembered; the ones that rest shortest are forgotten first.
const PAGE_MOVES_MAX: usize = 65_536;

impl Attachment {
    /// Ends the window: decides, orders, and begins the next.
    pub(super) fn close(&mut self, context: &mut Context<'_>, scratch: &mut Scratch) {
        self.drop_stale_orders(context);
        self.choose(context, &mut scratch.slots);
        self.live_samples += std::mem::take(&mut self.window_kept);
        self.fill(context, scratch);
        let lost = self.lost_share(context);
        let confident =
            self.live_samples >= self.options.samples_min && lost <= self.options.lost_max;
        let evidence = confident || !self.options.require_gain;
        let mut decision = self.decide(context, scratch, evidence);
        // Of a window with holes it is not known whether anything changed.
        decision.undecided |= lost > self.options.lost_max;
        let mut summary = self.summary(context, scratch, &decision);
        summary.lost_permille = rounded(lost * 1000.0);
        summary.confident = confident;
        let going = decision.pages.iter().flat_map(|grant| &grant.ranges);
        let going = going.map(|range| range.end - range.start).sum();
        let change = self.order(context, scratch, decision, &mut summary);
        self.turn_over(context, &scratch.slots, confident);
        let last = context.now.since(self.window_start);
        let mut next = self.interval.next(change, last);
        // What is left goes on as soon as these have gone.
        if summary.pages_left > 0
            && let Some(takes) = self.totals.takes(going)
        {
            next = self.interval.shorten(takes);
        }
        let times = next.as_secs_f64() / last.as_secs_f64().max(0.001);
        self.thin.begin(times, scratch.tasks.len());
        self.window_start = context.now;
        self.window_end = Some(context.now.after(next));
        self.lost_seen = context.lost;
        self.pages_dropped_seen = self.pages.dropped();
        self.totals.windows += 1;
        self.totals.samples += std::mem::take(&mut self.window_samples);
        self.totals.pages_dropped = self.pages.dropped();
        summary.next_ms = millis(next);
        context
            .events
            .push(context.now, self.id, EventKind::Window(summary));
    }

    /// What was ordered in an earlier window and never polled or answered is void.
    fn drop_stale_orders(&mut self, context: &mut Context<'_>) {
        context
            .actions
            .retain(|action| action.attachment() != self.id);
        self.page_orders = PageOrders::default();
        for (_, _, record) in self.tasks.iter_mut() {
            record.order = None;
        }
    }

    /// Judges how busy threads were and who takes part; the others lose their seats.
    fn choose(&mut self, context: &mut Context<'_>, slots: &mut Vec<u32>) {
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
        let cores = self.cores_for(&candidates, context);
        let limits = (context.tasks_max, cores);
        activity::select(&mut candidates, self.options.busy_min, limits);
        slots.clear();
        slots.extend(candidates.iter().map(|candidate| candidate.slot));
        for &slot in slots.iter() {
            if let Some(record) = self.tasks.record_mut(slot) {
                record.takes_part = true;
            }
        }
        let mut unseated = Vec::new();
        for (slot, hot, record) in self.tasks.iter_mut() {
            record.samples_last = std::mem::take(&mut hot.samples);
            // One whose share is not known yet keeps the benefit of the doubt.
            hot.may_sit = record.exited.is_none() && (record.takes_part || record.busy.is_none());
            if !hot.may_sit {
                unseated.push(slot);
            }
            context.others.take_core(record);
        }
        unseated.into_iter().for_each(|slot| self.unseat(slot));
    }

    /// Cores on which any of these may run.
    fn cores_for(&self, candidates: &[Candidate], context: &Context<'_>) -> usize {
        let (mut allowed, mut last) = (CpuSet::new(), CpuSet::new());
        for candidate in candidates {
            let record = self.tasks.record(candidate.slot);
            let cpus = record.map(|record| allowed_cpus(record, &context.usable));
            // Most threads are allowed the same.
            if let Some(cpus) = cpus.filter(|cpus| *cpus != last) {
                allowed = allowed.union(&cpus);
                last = cpus;
            }
        }
        context.topology.cores_in(&allowed)
    }

    /// Writes down what the policy will see.
    fn fill(&mut self, context: &Context<'_>, scratch: &mut Scratch) {
        let topology = context.topology;
        let mut allowed = CpuSet::new();
        let mut last = CpuSet::new();
        let records = scratch
            .slots
            .iter()
            .filter_map(|&slot| self.tasks.record(slot));
        scratch.tasks.clear();
        for record in records {
            let cpus = allowed_cpus(record, &context.usable);
            // Most threads are allowed the same; the union is made once for each run of them.
            if cpus != last {
                allowed = allowed.union(&cpus);
                last = cpus;
            }
            let nodes = topology.nodes().iter();
            scratch.tasks.push(Task {
                key: record.key().expect("only observed threads take part"),
                node: node_of(record, topology),
                cpu: record.cpu,
                allowed: nodes.map(|node| node.cpus.intersects(&last)).collect(),
                busy: record.busy.unwrap_or(0.0),
                samples: record.samples_last,
            });
        }
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
        let positions = Positions::new(&seats, self);
        self.fill_pieces(&positions, &mut scratch.pieces, &mut scratch.pages);
        self.fill_records(&positions, scratch);
        self.comm
            .read(&seats, &mut scratch.live, &mut scratch.decayed);
        scratch.said = CommMatrix::new(seats.len());
        if let Some(said) = &self.said {
            said.read(&seats, &mut scratch.said, &mut CommMatrix::default());
        }
        scratch.tells_handed = self.handed.is_some();
        if let Some(handed) = &self.handed {
            let mut live = CommMatrix::default();
            handed.read(&seats, &mut live, &mut scratch.handed);
        }
    }

    /// Writes down what papers keep of each page.
    fn fill_records(&self, positions: &Positions, scratch: &mut Scratch) {
        scratch.records.clear();
        let Some(paper) = &self.paper else {
            return;
        };
        scratch.records.extend(scratch.pages.iter().map(|page| {
            let kept = self.tag(page.key).and_then(|tag| paper.of(tag));
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

    pub(super) fn seats_of(&self, slots: &[u32]) -> Vec<Option<Seat>> {
        slots
            .iter()
            .map(|&slot| self.tasks.hot[slot as usize].seat)
            .collect()
    }

    /// Orders what was decided: threads before pages.
    fn order(
        &mut self,
        context: &mut Context<'_>,
        scratch: &Scratch,
        decision: Decision,
        summary: &mut WindowSummary,
    ) -> Change {
        let before = context.actions.len();
        let mut old: Vec<(TaskKey, usize)> = Vec::new();
        let (mut moved, mut bound) = (false, false);
        let mut rooms = self.settle_within(context, scratch, &decision);
        for mut grant in decision.threads {
            grant.cache = rooms.remove(&grant.position).map(|room| room.cache);
            let (position, node, from) = (grant.position, grant.node, grant.from);
            let proposal = Proposal::PlaceTask {
                task: position,
                node,
                reason: grant.reason.clone(),
            };
            if self.order_bind(context, grant) {
                bound = true;
                moved |= from != Some(node);
                let key = scratch.tasks[position].key;
                old.extend(from.filter(|&from| from != node).map(|from| (key, from)));
            } else {
                *self.totals.vetoes.entry(Veto::NotAllowed).or_default() += 1;
                self.policy
                    .on_fate(context.now, &proposal, Fate::Dropped(Veto::NotAllowed));
            }
        }
        let most = before + self.options.task_moves_max;
        let room = most.saturating_sub(context.actions.len());
        self.order_rooms(context, &scratch.slots, rooms, room);
        let room = most.saturating_sub(context.actions.len());
        self.spread_over_cores(context, &scratch.slots, room);
        if let Some(trial) = self.trial.as_mut().filter(|_| decision.arriving) {
            trial.postpone();
        }
        // Where pages come, the program gets faster and is seen anew: what is left can be judged soon.
        self.still = match moved {
            true => 0,
            false => self.still.saturating_add(u32::from(summary.confident)),
        };
        let arriving = decision.arriving;
        self.order_pages(context, &decision.pages);
        summary.actions = count(context.actions.len() - before);
        if !old.is_empty() && self.options.require_gain && !decision.reverting {
            match &mut self.trial {
                Some(trial) => trial.extend(old),
                None => {
                    let pace = self.pace.before();
                    self.trial = Trial::new(decision.measure, pace, old);
                }
            }
            self.pace.begin_anew();
        }
        if self.options.method == Method::Published {
            // The papers ask whether the mapping that was worked out is another than the one before.
            return if bound { Change::Changed } else { Change::Same };
        }
        let wanted = moved || decision.undecided;
        if wanted && self.changing > 0 {
            Change::Anew
        } else if moved {
            Change::Changed
        } else if decision.undecided || arriving {
            Change::Undecided
        } else {
            Change::Same
        }
    }

    /// Share of samples that were lost since the tables were last judged. What was lost may be of any
    /// program of the machine, so this is the most that it can be of this one's.
    fn lost_share(&self, context: &Context<'_>) -> f64 {
        let lost = context.lost.saturating_sub(self.live_lost);
        let taken = context.taken.saturating_sub(self.live_taken);
        if lost == 0 {
            return 0.0;
        }
        lost as f64 / lost.saturating_add(taken) as f64
    }

    fn summary(
        &self,
        context: &Context<'_>,
        scratch: &Scratch,
        decision: &Decision,
    ) -> WindowSummary {
        WindowSummary {
            window_ms: millis(context.now.since(self.window_start)),
            next_ms: 0,
            samples: self.window_samples,
            lost: context.lost.saturating_sub(self.lost_seen),
            lost_permille: 0,
            samples_judged: self.live_samples,
            coverage_permille: rounded(coverage(&scratch.tasks) * 1000.0),
            confident: false,
            plan: decision.plan,
            tasks: count(scratch.tasks.len()),
            pages: count(self.pages.used()),
            pages_dropped: self.pages.dropped() - self.pages_dropped_seen,
            proposals: count(scratch.proposals.len()),
            actions: 0,
            pages_left: decision.pages_left,
            distance_centi: decision.measure.talk_centi().map(rounded),
            local_permille: decision
                .measure
                .local_share()
                .map(|share| rounded(share * 1000.0)),
            ipc_milli: decision.ipc.map(milli),
        }
    }

    /// Lets the tables fade if the window had samples enough, and cleans them of who is gone.
    fn turn_over(&mut self, context: &Context<'_>, slots: &[u32], enough: bool) {
        let fade = (enough && self.live_samples > 0) || self.quiet + 1 >= QUIET_MAX;
        let (seats, spaces) = (self.seats.dirty(), self.spaces.dirty());
        let most = match self.goes_by_blocks() {
            true => PAGES_KEPT,
            false => usize::MAX,
        };
        self.pages.sweep(seats, spaces, fade.then_some(most));
        self.comm.forget(seats);
        if let Some(paper) = &mut self.paper {
            paper.forget(seats, spaces);
            if fade {
                paper.begin();
            }
        }
        if let Some(said) = &mut self.said {
            said.forget(seats);
            if fade {
                said.roll();
            }
        }
        self.forest.forget(seats, spaces);
        if fade {
            self.forest.fade();
        }
        if let Some(handed) = &mut self.handed {
            handed.forget(seats);
            if fade {
                handed.roll();
            }
        }
        self.seats.cleaned();
        self.spaces.cleaned();
        if fade {
            self.comm.roll();
            self.past_samples = self
                .past_samples
                .saturating_add(self.live_samples)
                .div_ceil(2);
            self.past_weight = self
                .past_weight
                .saturating_add(self.live_weight)
                .div_ceil(2);
            (self.live_samples, self.live_weight) = (0, 0);
            self.live_memory = 0;
            self.live_since = context.now;
            (self.live_lost, self.live_taken) = (context.lost, context.taken);
            self.quiet = 0;
        } else {
            self.quiet += 1;
        }
        for &slot in slots {
            let hot = &mut self.tasks.hot[slot as usize];
            if hot.seat.is_none() {
                hot.seat = self.seats.take();
            }
        }
        self.forget_page_moves();
    }

    fn forget_page_moves(&mut self) {
        if self.placed.count() > PAGE_MOVES_MAX {
            // What is not known is asked anew.
            self.placed = Runs::default();
        }
        if self.page_moves.count() <= PAGE_MOVES_MAX {
            return;
        }
        let mut ends: Vec<Time> = self
            .page_moves
            .values()
            .map(|history| history.stay.until())
            .collect();
        ends.sort_unstable();
        let middle = ends[ends.len() / 2];
        self.page_moves
            .retain(|_, history| history.stay.until() > middle);
    }
}

/// From seats to positions.
pub(super) struct Positions {
    of_seats: Vec<Option<u32>>,
    /// What a sample weighs on average.
    pub(super) weight_per_sample: f64,
    /// Accessors that an entry has places for.
    depth: usize,
}

impl Positions {
    pub(super) fn new(seats: &[Option<Seat>], attachment: &Attachment) -> Self {
        let end = seats
            .iter()
            .flatten()
            .max()
            .map_or(0, |&seat| usize::from(seat) + 1);
        let mut positions = vec![None; end];
        for (position, seat) in (0u32..).zip(seats) {
            if let Some(seat) = seat {
                positions[usize::from(*seat)] = Some(position);
            }
        }
        Self {
            of_seats: positions,
            weight_per_sample: attachment.weight_per_sample(),
            depth: attachment.options.accessors,
        }
    }

    /// The position of a seat, if its thread takes part.
    pub(super) fn of(&self, seat: Seat) -> Option<u32> {
        self.of_seats.get(usize::from(seat)).copied().flatten()
    }

    /// A page as the policy sees it: accessors that take no part are left out.
    ///
    /// Of a page that more tasks use than its entry has places for, those it remembers stand for all:
    /// together they weigh what all samples of the page do. Else what everyone uses would seem to be used
    /// least.
    pub(super) fn page(&self, key: PageKey, slot: u32, entry: &Entry) -> Page {
        let mut page = Page {
            key,
            slot,
            home: entry.home(),
            recent: [Accessor::default(); ACCESSORS_MAX],
            accessor_count: 0,
            samples: entry.samples(),
            forgotten: 0,
            span: 1,
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
        let known: f64 = entry.weights.iter().map(|&weight| f64::from(weight)).sum();
        if entry.count() < self.depth || known <= 0.0 {
            return 1.0;
        }
        (self.weight_per_sample * entry.exact_samples() / known).max(1.0)
    }
}

/// Where we placed it, else where it ran last.
fn node_of(record: &Record, topology: &Topology) -> Option<usize> {
    record.placed().or_else(|| {
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

/// Share of the processor time of tasks that is of those which were sampled; 0 without tasks.
fn coverage(tasks: &[Task]) -> f64 {
    let all: f64 = tasks.iter().map(|task| task.busy).sum();
    let sampled = tasks.iter().filter(|task| task.samples > 0);
    let seen: f64 = sampled.map(|task| task.busy).sum();
    if all > 0.0 { seen / all } else { 0.0 }
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "distances and shares are small and not negative; `as` saturates"
)]
fn rounded(figure: f64) -> u32 {
    (figure + 0.5) as u32
}
