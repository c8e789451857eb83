//! What was seen of one program: the tables, and what folds into them.
//!
//! Its rooms: threads and processes [`coming`] and going, by records and by what a look ([`sync`]) says; memory that
//! processes share ([`sharing`]); [`messages`]; who takes part and what a policy sees of all this
//! ([`program`]), of memory in [`pieces`], whether that is used as before ([`lasting`]), and how much
//! of it nobody sees ([`unseen`]); and what people see of it ([`show`]).

use std::ops::Range;

use super::judgement::rest::Ways;
use super::options::{AttachOptions, EngineOptions, Totals};
use crate::event::{NoRoom, WindowSummary};
use crate::figures::whole;
use crate::likeness::Said;
use crate::policy::{PageKey, SpaceId};
use crate::published::Method;
use crate::sample::{Sample, ServedBy};
use crate::tables::Seat;
use crate::tables::bits::Bits;
use crate::tables::comm::CommTable;
use crate::tables::forest::{Forest, Point, SAMPLE};
use crate::tables::large::LargePages;
use crate::tables::pages::{PageTable, Tag};
use crate::tables::paper::Paper;
use crate::tables::seats::Seats;
use crate::tables::shares::Shares;
use crate::tables::spaces::Spaces;
use crate::tables::talk::Talk;
use crate::tables::tasks::{Record, THREADS_MAX, TaskTable};
use crate::time::Time;

mod apart;
mod coming;
mod extents;
mod homing;
mod lasting;
mod messages;
pub(super) mod pieces;
pub(super) mod program;
pub(super) mod sharing;
mod show;
mod sizes;
mod sync;
pub(super) mod thin;
mod unseen;

use lasting::Lasting;
use messages::Messages;
use sizes::Sizes;
use thin::Thin;
use unseen::Unseen;

pub(super) use sync::{Found, Look};

/// The tables of one program.
#[derive(Debug)]
pub(super) struct Seen {
    /// The place of its attachment, which numbers of the kernel are registered with.
    place: u32,
    /// Whether memory is decided about by blocks: else by single pages, each by its own samples.
    by_blocks: bool,
    /// Whether that goes by page faults, of which a large page has no more than a small one.
    of_faults: bool,
    page_shift: u32,
    /// What they count by that.
    sizes: Sizes,
    spaces: Spaces,
    shares: Shares,
    tasks: TaskTable,
    seats: Seats,
    pages: PageTable,
    comm: CommTable,
    /// What papers keep; for methods as published alone.
    paper: Option<Box<Paper>>,
    /// What other cores' caches answered, and whether a sample told yet what answered it.
    handed: Talk,
    tells_handed: bool,
    /// What processes sent each other, and between threads, as the samples that would have shown as
    /// much sharing.
    messages: Messages,
    said: Talk,
    /// Samples by page and thread, for blocks of memory that are used alike.
    forest: Forest,
    /// Pages that move as one, where memory is decided about by blocks.
    large: LargePages,
    /// How its memory lasted with those who used it: in windows before, and in this one.
    lasted: Lasting,
    lasts: Option<Lasting>,
    unseen: Unseen,
    thin: Thin,
    /// Blocks of memory that were told apart in the last window.
    blocks: usize,
    /// Observations so far.
    observations: u64,
    live: Live,
    /// Samples and weights of the windows before, faded like the tables.
    past: (u64, u64),
    window: Window,
}

/// What stands behind the live tables: more than one window when samples are few.
#[derive(Debug, Default)]
struct Live {
    since: Time,
    samples: u64,
    /// Their weights, which are their periods.
    weight: u64,
    /// Of these, the weights of what memory answered; 0 where the source does not tell what answers.
    answered: u64,
    /// Samples of all programs before.
    before: Stream,
}

/// Samples of all programs so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stream {
    pub lost: u64,
    pub taken: u64,
}

/// What is counted of one window.
#[derive(Debug, Default)]
struct Window {
    samples: u64,
    /// Those of them that were kept.
    kept: u64,
    ways: Ways,
    /// In no table: of threads that take no part, have ended, or are too many, or with an address that no process has.
    aside: u64,
    /// Processes that did not join because there are too many.
    ignored: u64,
    /// Pages that were looked up and are not there.
    nowhere: u64,
    /// Samples of all programs that were lost before, and pages that were dropped from the table.
    lost_before: u64,
    dropped_before: u64,
}

/// Pages that are still known one by one when a window has ended: as many as the samples that blocks are found by.
const PAGES_KEPT: usize = 1 << 14;

impl Seen {
    pub(super) fn new(
        (place, now): (u32, Time),
        limits: &EngineOptions,
        options: &AttachOptions,
        stream: Stream,
    ) -> Self {
        // A quarter more than take part, for threads that come within a window.
        let seat_count = limits.tasks_max + limits.tasks_max / 4 + 16;
        let by_blocks = options.by_blocks && options.require_gain;
        Self {
            place,
            by_blocks,
            page_shift: limits.page_bytes.trailing_zeros(),
            of_faults: by_blocks && !options.prices.tell_how_often(),
            sizes: Sizes::default(),
            spaces: Spaces::new(),
            shares: Shares::default(),
            tasks: TaskTable::default(),
            seats: Seats::new(seat_count),
            pages: PageTable::new(limits.page_slots),
            comm: CommTable::default(),
            paper: (options.method == Method::Published)
                .then(|| Box::new(Paper::new(limits.page_slots))),
            handed: Talk::default(),
            tells_handed: false,
            messages: Messages::default(),
            said: Talk::default(),
            forest: Forest::default(),
            large: LargePages::new(limits.page_bytes.trailing_zeros()),
            lasted: Lasting::default(),
            lasts: None,
            unseen: Unseen::default(),
            thin: Thin::new(),
            blocks: 0,
            observations: 0,
            live: Live {
                since: now,
                before: stream,
                ..Live::default()
            },
            past: (0, 0),
            window: Window {
                lost_before: stream.lost,
                ..Window::default()
            },
        }
    }

    /// Takes one sample, from this node; false if the slot's thread is not the one that was
    /// sampled.
    #[inline]
    pub(super) fn fold(&mut self, slot: u32, sample: &Sample, node_plus_one: u16) -> bool {
        let hot = &mut self.tasks.hot[slot as usize];
        if hot.pid != sample.pid {
            return false;
        }
        let Some(seat) = hot.seat else {
            return self.fold_unseated(slot, sample, node_plus_one);
        };
        hot.samples = hot.samples.saturating_add(1);
        self.fold_seated((slot, seat), sample, node_plus_one);
        true
    }

    /// The page that a sample of this slot's thread falls on, if it is to be found in the table.
    #[inline]
    fn tag_of(&self, slot: u32, sample: &Sample) -> Option<Tag> {
        let space = self.tasks.hot[slot as usize].space;
        // The upper half of all addresses is the kernel's; what a thread does there is not its own.
        let user = sample.address >> 63 == 0;
        let (space, page) = self
            .shares
            .translate(space, sample.address >> self.page_shift);
        Tag::new(space, page).filter(|_| user)
    }

    /// The same, with the table.
    #[inline]
    pub(super) fn page_of(&self, slot: u32, sample: &Sample) -> Option<(&PageTable, Tag)> {
        Some((&self.pages, self.tag_of(slot, sample)?))
    }

    #[inline]
    fn fold_seated(&mut self, (slot, seat): (u32, Seat), sample: &Sample, node_plus_one: u16) {
        self.window.samples += 1;
        let weight = u32::try_from(sample.period).unwrap_or(u32::MAX).max(1);
        self.live.weight = self.live.weight.saturating_add(u64::from(weight));
        let tag = self.tag_of(slot, sample);
        let stands_for = self.thin.take();
        if let Some(tag) = tag.filter(|_| stands_for.is_some()) {
            self.forest.note(tag, seat);
        }
        let weight = match stands_for {
            // A policy that goes by single pages sees all that is known of them.
            _ if !self.by_blocks => weight,
            Some(stands_for) => weight.saturating_mul(stands_for),
            None => return,
        };
        self.window.kept += 1;
        if self.thin.is_full() {
            let gone = self.forest.thin(self.thin.halve());
            if self.by_blocks {
                self.window.kept = self.window.kept.saturating_sub(gone);
            }
        }
        let Some(tag) = tag else {
            self.window.aside += 1;
            return;
        };
        let others = self.pages.touch(tag, seat, weight);
        let hot = &mut self.tasks.hot[slot as usize];
        hot.ran.note(node_plus_one);
        let node = hot.node_plus_one;
        self.window.ways.note(match others.home_plus_one {
            0 => self.forest.knows(tag, seat),
            home => home == node,
        });
        let is_told = self.shares.is_told(tag.space());
        match &mut self.paper {
            _ if is_told => {}
            Some(paper) => {
                for other in paper.note(tag, seat, u64::from(weight)) {
                    self.comm.add(seat, other, 1);
                }
            }
            None => {
                for (other, amount) in others.amounts(weight) {
                    self.comm.add(seat, other, amount.into());
                }
            }
        }
        if matches!(
            sample.served,
            ServedBy::LocalMemory | ServedBy::RemoteMemory
        ) {
            self.live.answered = self.live.answered.saturating_add(u64::from(weight));
        }
        self.tells_handed |= sample.served != ServedBy::Unknown;
        if sample.served == ServedBy::OtherCache {
            for (other, amount) in others.amounts(weight) {
                self.handed.add(seat, other, amount.into());
            }
        }
    }

    /// A thread without a seat takes one if it may. One that has ended is still meant by samples
    /// from before; later ones are of another thread with its number.
    fn fold_unseated(&mut self, slot: u32, sample: &Sample, node_plus_one: u16) -> bool {
        let ended = self.tasks.record(slot).and_then(|record| record.exited);
        if ended.is_some_and(|ended| sample.time > ended) {
            return false;
        }
        let hot = &mut self.tasks.hot[slot as usize];
        hot.samples = hot.samples.saturating_add(1);
        if hot.may_sit && ended.is_none() {
            hot.seat = self.seats.take();
        }
        match hot.seat {
            Some(seat) => self.fold_seated((slot, seat), sample, node_plus_one),
            None => {
                self.window.samples += 1;
                self.window.kept += 1;
                self.live.weight = self.live.weight.saturating_add(sample.period.max(1));
                self.window.aside += 1;
            }
        }
        true
    }

    /// Mean period of the samples lately; 0 while there are none.
    pub(super) fn weight_per_sample(&self) -> f64 {
        let samples = self.samples_to_judge().saturating_add(self.past.0);
        let weight = self.live.weight.saturating_add(self.past.1);
        match samples {
            0 => 0.0,
            samples => weight as f64 / samples as f64,
        }
    }

    /// Weights of the samples of this window, by the memory that they show.
    pub(super) fn weight(&self) -> f64 {
        self.live.weight as f64 * self.sizes.mean
    }

    /// See [`Sizes::mean`].
    pub(super) const fn mean_size(&self) -> f64 {
        self.sizes.mean
    }

    /// Weights of the samples that memory answered; 0 where the source does not tell what answers.
    pub(super) const fn answered(&self) -> u64 {
        self.live.answered
    }

    /// Most samples that a decision can use.
    pub(super) const fn samples_enough(&self) -> u32 {
        match self.by_blocks {
            true => self.thin.most,
            // Of single pages nothing is known but what was seen of each.
            false => thin::SAMPLES_KEPT,
        }
    }

    /// Whether a decision could use more samples than the window has.
    pub(super) const fn more_tells(&self) -> bool {
        self.thin.keeps_all()
    }

    /// Samples that a decision goes by, of windows before among them that had too few.
    pub(super) const fn samples_to_judge(&self) -> u64 {
        self.live.samples + self.window.kept
    }

    /// Since when those came.
    pub(super) const fn since(&self) -> Time {
        self.live.since
    }

    /// How near those are that came since the window was looked at last.
    pub(super) const fn ways(&self) -> Ways {
        self.window.ways
    }

    /// Whether what threads share tells something: not where who uses shared memory next is anyone.
    pub(super) fn lasts(&self) -> bool {
        self.lasted.mixed.lasts()
    }

    /// The window goes on.
    pub(super) fn look_on(&mut self) {
        self.window.ways = Ways::default();
    }

    /// Seats of threads that were sampled in this window.
    pub(super) fn sampled(&self) -> Bits {
        let mut seats = Bits::new(THREADS_MAX);
        let sampled = self.tasks.iter().filter(|(_, hot, _)| hot.samples > 0);
        sampled
            .filter_map(|(_, hot, _)| hot.seat)
            .for_each(|seat| seats.insert(usize::from(seat)));
        seats
    }

    /// What pairs of threads on these seats said in this window by single pages, and before.
    pub(super) fn talk<'a>(&'a self, seats: &'a Bits) -> impl Iterator<Item = Said> + Clone + 'a {
        self.comm.pairs(|seat| seats.contains(seat))
    }

    /// Samples of the window.
    pub(super) const fn samples(&self) -> u64 {
        self.window.samples
    }

    /// Share of samples that were lost since the live tables began. What was lost may be of any program of the machine,
    /// so this is the most that it can be of this one's.
    pub(super) fn lost_share(&self, stream: Stream) -> f64 {
        let lost = stream.lost.saturating_sub(self.live.before.lost);
        let taken = stream.taken.saturating_sub(self.live.before.taken);
        match lost {
            0 => 0.0,
            lost => lost as f64 / lost.saturating_add(taken) as f64,
        }
    }

    pub(super) fn record(&self, slot: u32) -> Option<&Record> {
        self.tasks.record(slot)
    }

    pub(super) fn record_mut(&mut self, slot: u32) -> Option<&mut Record> {
        self.tasks.record_mut(slot)
    }

    /// All threads, and whether each was sampled in this window.
    pub(super) fn threads(&self) -> impl Iterator<Item = (&Record, bool)> {
        let all = self.tasks.iter();
        all.map(|(_, hot, record)| (record, hot.samples > 0))
    }

    /// What was ordered of threads and not answered is void.
    pub(super) fn void_orders(&mut self) {
        for (_, _, record) in self.tasks.iter_mut() {
            record.order = None;
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

    /// Whether a space is one of this program's still.
    pub(super) fn has(&self, space: SpaceId) -> bool {
        self.spaces.local_of(space).is_some()
    }

    /// The place of a page in the table, if it is tracked.
    pub(super) fn slot_of_page(&self, tag: Tag) -> Option<u32> {
        Some(self.pages.place(tag)?.slot)
    }

    /// Samples by page and thread, as pieces count them.
    pub(super) fn points(&self) -> &[Point] {
        &self.forest.points
    }

    /// Pages are on that node now.
    pub(super) fn set_homes(&mut self, space: SpaceId, pages: Range<u64>, home: Option<u16>) {
        if let Some(local) = self.spaces.local_of(space) {
            let tags = pages.filter_map(|page| Tag::new(local, page));
            tags.for_each(|tag| {
                self.pages.set_home(tag, home);
                self.large.set_home(tag, home);
            });
        }
    }

    /// What the program does is something else since this window: of memory that threads share it
    /// is forgotten who used it before, and so is what was said. Else who comes to a page would
    /// share it with those who left it.
    pub(super) fn begin_era(&mut self, threads: usize) {
        let mut each = self.weight_per_sample() / f64::from(SAMPLE);
        if !self.by_blocks {
            // All samples count there, and the forest has some of them.
            each *= f64::from(self.thin.stands_for());
        }
        let changed = self.forest.begin_anew(threads);
        let (forest, shares, comm) = (&self.forest, &self.shares, &mut self.comm);
        self.pages.retain_accessors(|tag, seat| {
            let after = changed.partition_point(|(first, _)| *first <= tag);
            let within = changed[..after]
                .last()
                .is_some_and(|(_, last)| tag <= *last);
            !within || forest.is_used(tag, seat)
        });
        comm.begin_anew();
        let shared = forest.shared();
        for (_, users) in shared.filter(|(tag, _)| !shares.is_told(tag.space())) {
            for (index, &(one, uses)) in users.iter().enumerate() {
                for &(other, others) in &users[..index] {
                    // As often as one uses it after the other, where they do in random order.
                    let (uses, others) = (f64::from(uses), f64::from(others));
                    let turns = 2.0 * uses * others / (uses + others);
                    comm.add(one, other, whole(turns * each + 0.5));
                }
            }
        }
        for talk in [&mut self.said, &mut self.handed] {
            talk.begin_anew();
        }
    }

    /// Lets the tables fade if they are to, and cleans them of who is gone.
    ///
    /// Tells whether spaces are gone.
    pub(super) fn turn_over(
        &mut self,
        now: Time,
        stream: Stream,
        slots: &[u32],
        fade: bool,
    ) -> bool {
        let (seats, spaces) = (&self.seats.dirty, &self.spaces.numbers.dirty);
        let most = match self.by_blocks {
            true => PAGES_KEPT,
            false => usize::MAX,
        };
        self.pages.sweep(seats, spaces, fade.then_some(most));
        if let Some(paper) = &mut self.paper {
            paper.forget(seats, spaces);
            if fade {
                paper.begin();
            }
        }
        self.forest.forget(seats, spaces);
        let lasts = self.lasts.take();
        if fade {
            self.forest.fade();
            self.lasted.take(lasts.unwrap_or_default());
        }
        self.large.retain(&self.forest.points);
        self.comm.forget(seats);
        match fade {
            true => self.comm.roll(),
            false => self.comm.forget_inferred(),
        }
        for talk in [&mut self.said, &mut self.handed] {
            talk.forget(seats);
            if fade {
                talk.roll();
            }
        }
        let gone = !spaces.is_empty();
        self.seats.cleaned();
        self.spaces.numbers.cleaned();
        if fade {
            self.messages.sent.clear();
            let (samples, weight) = self.past;
            self.past = (
                samples.saturating_add(self.live.samples).div_ceil(2),
                weight.saturating_add(self.live.weight).div_ceil(2),
            );
            self.live = Live {
                since: now,
                before: stream,
                ..Live::default()
            };
        }
        for &slot in slots {
            let hot = &mut self.tasks.hot[slot as usize];
            if hot.seat.is_none() {
                hot.seat = self.seats.take();
            }
        }
        gone
    }

    /// What was counted in the window.
    pub(super) fn summary(&self, lost: u64) -> WindowSummary {
        WindowSummary {
            samples: self.window.samples,
            lost: lost.saturating_sub(self.window.lost_before),
            samples_judged: self.live.samples,
            pages: u32::try_from(self.pages.used()).unwrap_or(u32::MAX),
            pages_dropped: self.pages.dropped - self.window.dropped_before,
            aside: self.window.aside,
            nowhere: self.window.nowhere,
            no_room: NoRoom {
                processes: self.window.ignored,
                mappings: self.shares.left_out() as u64,
                objects: self.shares.without_space() as u64,
                talk: self.messages.dropped + self.said.dropped + self.handed.dropped,
                moves: 0,
            },
            ..WindowSummary::default()
        }
    }

    /// Begins a window that is so many times as long as the last, of so many threads; what was counted of the one
    /// before joins the totals.
    pub(super) fn begin(&mut self, times: f64, threads: usize, lost: u64, totals: &mut Totals) {
        self.thin.begin(times, (threads, self.blocks));
        self.unseen.before = Some(self.unseen.resident);
        self.messages.dropped = 0;
        for talk in [&mut self.said, &mut self.handed] {
            talk.dropped = 0;
        }
        let window = Window {
            lost_before: lost,
            dropped_before: self.pages.dropped,
            ..Window::default()
        };
        let ended = std::mem::replace(&mut self.window, window);
        totals.windows += 1;
        totals.samples += ended.samples;
        totals.samples_aside += ended.aside;
        totals.processes_ignored += ended.ignored;
        totals.pages_dropped = self.pages.dropped;
    }
}
