//! LAPT's data mapping: a page goes to the node whose threads use it most.
//!
//! Every page has a counter per node, its row of the NUMA access table. A call adds one for the node of
//! each accessor the page remembers, and proposes the page for the node with the most if that has at
//! least `pages_ratio` times the mean, memory free, and is not where the page is. After a move all
//! counters of the page are halved, if they are one or more on average.
//!
//! A call is made in every window. The paper's comes each 500 ms: then what a program of 8 GiB has to move takes four
//! times as long.
//!
//! # Reading
//!
//! - The mean is over the nodes that have processors. Tasks run on no other, and counting those too would
//!   make the bar lower the more memory-only nodes a machine has.
//! - If several nodes have the most, a page that is on one of them is where it should be; else the
//!   first of them is meant.
//! - An accessor counts for no node if its node is not known, or if its weight is below a quarter of
//!   the greatest: it used the page once, and the vector has not yet dropped it. Where all weights have
//!   decayed to nothing all count, as a page seen once is still known to be theirs.
//! - Three quarters of all uses are enough, whatever the ratio asks: on two nodes twice the mean is everything.
//! - A page whose home is not known is counted but not proposed.
//! - The page's move is taken for done when its fate says so, not when it is proposed.
//!
//! # Forgetting
//!
//! The paper's counters only saturate. Then on two nodes, where twice the mean is everything, one use
//! from the other node holds a page back for ever, and pages do not follow when threads move, which
//! is what the paper calls the data mapping for. So the past fades in two ways: when a counter is to pass
//! `pages_history`, the counters of its page are halved first; and when one of a page's accessors has
//! changed nodes since the page was last counted, its counters start from nothing, because they are
//! about where threads were. While no thread moves and no counter passes `pages_history`, all is as in
//! the paper, whose counters take a byte: 255.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::num::NonZeroU32;

use numad_core::{
    Accessor, Fate, Page, PageKey, Policy, Program, Proposal, Reason, SettingKind, SettingSpec,
    Settings, Time,
};
use topology::TaskKey;

use crate::even;

/// Whether pages follow; shared by the policies that gather threads.
pub(crate) const PAGES: SettingSpec = SettingSpec {
    name: "pages",
    kind: SettingKind::Bool(true),
    help: "Let pages follow the threads that use them.",
};

/// How much more often than the mean the best node must use a page.
pub(crate) const RATIO: SettingSpec = SettingSpec {
    name: "pages_ratio",
    kind: SettingKind::Float((1.0, 64.0), 2.0),
    help: "A page moves to the node that uses it most if that uses it this many times as often as \
           nodes do on average.",
};

/// How far back counters remember. At 16 a thread that alone uses a page has outweighed an old use
/// after 16 calls, two seconds of the shortest windows; the least, 8, still holds two calls of four accessors.
pub(crate) const HISTORY: SettingSpec = SettingSpec {
    name: "pages_history",
    kind: SettingKind::Integer((8, 255), 16),
    help: "Highest count of uses of a page from a node; beyond it all counts of the page are halved, \
           so that old uses fade.",
};

/// Pages proposed in one call. The engine's budget is far below it, and what is left out comes again.
const PROPOSALS_MAX: usize = 16_384;

/// Slots that are remembered: pages beyond are not proposed. At 64 nodes the table is then 352 MiB,
/// for 16 GiB tracked in pages of 4 KiB; the engine's own table ends long before.
const SLOTS_MAX: usize = 1 << 22;

/// How many times less than the one who uses a page most someone must use it to be overlooked. Weights
/// halve with every window, so an even use by two is overlooked some two windows after one of them stops; and a
/// stray sample counts for nothing beside a few.
const OUTWEIGHED: u32 = 4;

/// What is remembered of the pages of one program.
#[derive(Debug)]
pub(crate) struct DataMapping {
    ratio: f64,
    table: AccessTable,
    tasks: BTreeMap<TaskKey, Seat>,
    /// Numbers the calls.
    call: NonZeroU32,
    /// Slots of the pages last proposed, by key.
    proposed: Vec<(PageKey, u32)>,
    /// Whether pages that all use alike are spread, see [`crate::even`].
    pub(crate) even: bool,
}

/// Where a task was seen last, and in which call it first was there after having been elsewhere.
#[derive(Clone, Copy, Debug)]
struct Seat {
    node: Option<usize>,
    since: Option<NonZeroU32>,
}

/// A page that should be elsewhere.
#[derive(Clone, Copy, Debug)]
struct Candidate<'a> {
    page: &'a Page,
    node: usize,
    there: u8,
    mean: f64,
}

impl DataMapping {
    /// Nothing is remembered yet.
    pub(crate) fn new(settings: &Settings) -> Self {
        let history = settings.integer(HISTORY.name);
        Self {
            ratio: settings.float(RATIO.name),
            table: AccessTable::new(u8::try_from(history).unwrap_or(u8::MAX)),
            tasks: BTreeMap::new(),
            call: NonZeroU32::MIN,
            proposed: Vec::new(),
            even: false,
        }
    }

    /// The same where pages are to follow threads.
    pub(crate) fn if_wanted(settings: &Settings) -> Option<Self> {
        settings.bool(PAGES.name).then(|| Self::new(settings))
    }
}

impl Policy for DataMapping {
    /// Appends page moves, the most used pages first.
    fn propose(&mut self, _now: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        let (seats, moved) = self.seats(program);
        self.table.fit(program.topology.nodes().len());
        let mut candidates = self.count(program, &seats);
        keep_hottest(&mut candidates, PROPOSALS_MAX);
        self.call = self.call.saturating_add(1);
        let mut free = program.free_bytes.to_vec();
        self.proposed.clear();
        for one in candidates {
            let (page, node) = (one.page, one.node);
            // Of what stands for many pages as many go as there is room for.
            if free[node] < program.page_bytes {
                continue;
            }
            let bytes = page.span.saturating_mul(program.page_bytes);
            free[node] = free[node].saturating_sub(bytes);
            self.proposed.push((page.key, page.slot));
            let (there, mean) = (u32::from(one.there), one.mean);
            let reason = Reason::Accesses { there, mean };
            out.push(Proposal::move_page(page.key, node, reason));
        }
        // Who uses a page alike with whom shows when threads are where they are to be. If any goes now, pages wait.
        if self.even && !moved {
            let everyones = even::everyones(program);
            let alike = |page: &Page| everyones(page) || self.table.is_used_alike(page, self.ratio);
            let evened = even::propose(program, (alike, free), out);
            self.proposed.extend(evened);
        }
        self.proposed.sort_unstable();
    }

    /// Halves the counters of a page that was moved.
    fn on_fate(&mut self, _now: Time, proposal: &Proposal, fate: Fate) {
        let Proposal::MovePage { page, .. } = proposal else {
            return;
        };
        let found = self.proposed.binary_search_by_key(page, |&(key, _)| key);
        if let (Fate::Done, Ok(index)) = (fate, found) {
            self.table.note_move(self.proposed[index].1);
        }
    }
}

impl DataMapping {
    /// Where tasks are, in the order of the program, and whether any is elsewhere than before.
    fn seats(&mut self, program: &Program<'_>) -> (Vec<Seat>, bool) {
        let nodes = program.topology.nodes().len();
        let mut moved = false;
        let mut known = BTreeMap::new();
        let seats = program.tasks.iter().map(|task| {
            let before = self.tasks.get(&task.key).copied();
            let now = match (before, task.node) {
                (Some(before), Some(node)) if before.node != Some(node) => {
                    moved = true;
                    let (node, since) = (Some(node), Some(self.call));
                    Seat { node, since }
                }
                (Some(before), _) => before,
                (None, node) => Seat { node, since: None },
            };
            known.extend(now.node.map(|_| (task.key, now)));
            let node = task.node.filter(|&node| node < nodes);
            Seat { node, ..now }
        });
        let seats = seats.collect();
        self.tasks = known;
        (seats, moved)
    }

    /// Counts every page once, and returns those that should be elsewhere.
    fn count<'a>(&mut self, program: &Program<'a>, seats: &[Seat]) -> Vec<Candidate<'a>> {
        self.table.runners = runners(program).max(1);
        self.table.firsts = !program.prices.tell_how_often();
        let everyones = even::everyones(program);
        let mut candidates = Vec::new();
        for page in program.pages {
            let Some(slot) = self.table.count(page, self.call, seats) else {
                continue;
            };
            if self.even && everyones(page) {
                continue;
            }
            let Some((node, there)) = self.table.best(slot, page.home) else {
                continue;
            };
            let free = program.free_bytes.get(node);
            let room = free.is_some_and(|&free| free >= program.page_bytes);
            let sum = self.table.sum(slot);
            let mean = sum / self.table.runners as f64;
            if room && is_enough(f64::from(there), self.ratio * mean, sum) {
                candidates.push(Candidate {
                    page,
                    node,
                    there,
                    mean,
                });
            }
        }
        candidates
    }
}

/// How many nodes have processors.
pub(crate) fn runners(program: &Program<'_>) -> usize {
    let nodes = program.topology.nodes().iter();
    nodes.filter(|node| !node.cpus.is_empty()).count()
}

/// Share of all uses that is enough in any case: on two nodes twice the mean is everything, and one stray sample
/// would hold a page back for as long as it is remembered.
const ENOUGH: f64 = 0.75;

/// Whether so many uses from a node are so many times the mean, or most of all.
pub(crate) fn is_enough(there: f64, asked: f64, all: f64) -> bool {
    there >= asked.min(ENOUGH * all)
}

/// What the counts of a page tell of the use that nodes make of it.
///
/// A page fault tells who came first, not how often: of threads that sweep the same memory it is always the one in
/// front, though all use it alike. So of nodes that came first at least a quarter as often as another, each counts as
/// much.
fn told(counts: &[u8], firsts: bool) -> impl Iterator<Item = u8> + Clone {
    let most = counts.iter().copied().max().unwrap_or(0);
    counts.iter().map(move |&count| match firsts {
        true => u8::from(count > 0 && u32::from(count) * OUTWEIGHED >= u32::from(most)),
        false => count,
    })
}

/// The accessors that still use a page, as far as weights tell.
pub(crate) fn current(accessors: &[Accessor]) -> impl Iterator<Item = &Accessor> + Clone {
    let greatest = accessors.iter().map(|accessor| accessor.weight).max();
    let least = greatest.unwrap_or(0).div_ceil(OUTWEIGHED);
    accessors
        .iter()
        .filter(move |accessor| accessor.weight >= least)
}

/// Brings the most used pages to the front, in order, and drops what is beyond the limit.
fn keep_hottest(candidates: &mut Vec<Candidate<'_>>, limit: usize) {
    let order = |one: &Candidate<'_>| (Reverse(one.page.samples), one.page.key);
    if candidates.len() > limit {
        candidates.select_nth_unstable_by_key(limit, order);
        candidates.truncate(limit);
    }
    candidates.sort_unstable_by_key(order);
}

/// The NUMA access table: how often each page was used from each node.
#[derive(Debug, Default)]
struct AccessTable {
    nodes: usize,
    /// How many of the nodes have processors.
    runners: usize,
    /// Whether samples tell only who came to a page first, see [`told`].
    firsts: bool,
    history: u8,
    owners: Vec<Owner>,
    /// A row of `nodes` counters per slot.
    counts: Vec<u8>,
}

/// Whose row a slot holds; by default nobody's, for no space has the number 0.
#[derive(Clone, Copy, Debug, Default)]
struct Owner {
    key: PageKey,
    /// The call in which it was last counted; none while nobody had the slot.
    counted: Option<NonZeroU32>,
    /// How often the page was moved; all before its threads last moved count as once.
    moves: u8,
}

impl AccessTable {
    fn new(history: u8) -> Self {
        Self {
            runners: 1,
            history,
            ..Self::default()
        }
    }

    /// Starts anew if the machine has another number of nodes.
    fn fit(&mut self, nodes: usize) {
        if self.nodes != nodes {
            self.nodes = nodes;
            self.owners.clear();
            self.counts.clear();
        }
    }

    /// Adds one for the node of each user of a page; its slot, none if that is beyond the limit.
    fn count(&mut self, page: &Page, call: NonZeroU32, seats: &[Seat]) -> Option<usize> {
        let seat = |user: &Accessor| seats.get(user.task as usize);
        let slot = Some(page.slot as usize).filter(|&slot| slot < SLOTS_MAX)?;
        if slot >= self.owners.len() {
            self.owners.resize(slot + 1, Owner::default());
            self.counts.resize((slot + 1) * self.nodes, 0);
        }
        let owner = &mut self.owners[slot];
        let counts = &mut self.counts[slot * self.nodes..][..self.nodes];
        let mut seen = page.accessors().iter().filter_map(seat);
        let moved = seen.any(|user| user.since > owner.counted);
        if owner.key != page.key || moved {
            counts.fill(0);
        }
        let moves = match owner.key == page.key {
            true if moved => owner.moves.min(1),
            true => owner.moves,
            false => 0,
        };
        *owner = Owner {
            key: page.key,
            counted: Some(call),
            moves,
        };
        let users = current(page.accessors()).filter_map(seat);
        for node in users.filter_map(|user| user.node) {
            if counts[node] >= self.history {
                halve(counts);
            }
            counts[node] += 1;
        }
        Some(slot)
    }

    fn told(&self, slot: usize) -> impl Iterator<Item = u8> + Clone + '_ {
        told(&self.counts[slot * self.nodes..][..self.nodes], self.firsts)
    }

    /// All that the counters of a slot tell.
    fn sum(&self, slot: usize) -> f64 {
        f64::from(self.told(slot).map(u32::from).sum::<u32>())
    }

    /// The node to which the page of a slot should go, and what is told of that; none if nobody
    /// uses it, or if it is where it should be, or if nobody knows where it is.
    fn best(&self, slot: usize, home: Option<u16>) -> Option<(usize, u8)> {
        let home = usize::from(home?);
        let told = self.told(slot);
        let most = told.clone().max().filter(|&most| most > 0)?;
        let stays = told.clone().nth(home) == Some(most);
        let node = told.clone().position(|count| count == most)?;
        (!stays).then_some((node, most))
    }

    /// Whether a page is used from several nodes and belongs on none of them. One that was moved again and again is
    /// left alone: what is known of it does not last.
    fn is_used_alike(&self, page: &Page, ratio: f64) -> bool {
        let slot = page.slot as usize;
        let owner = self.owners.get(slot);
        if !owner.is_some_and(|owner| owner.key == page.key && owner.moves < 2) {
            return false;
        }
        let all = self.sum(slot);
        let most = self.told(slot).max().map_or(0.0, f64::from);
        most < all && !is_enough(most, ratio * all / self.runners as f64, all)
    }

    /// Halves the counters of a page that was moved, if they are one or more on average. Nobody else
    /// has its slot: slots change hands only when pages are counted, and then all is proposed anew.
    fn note_move(&mut self, slot: u32) {
        let slot = slot as usize;
        let Some(owner) = self.owners.get_mut(slot) else {
            return;
        };
        owner.moves = owner.moves.saturating_add(1);
        let counts = &mut self.counts[slot * self.nodes..][..self.nodes];
        if counts.iter().copied().map(usize::from).sum::<usize>() >= self.runners {
            halve(counts);
        }
    }
}

fn halve(counts: &mut [u8]) {
    counts.iter_mut().for_each(|count| *count /= 2);
}

#[cfg(test)]
mod tests;
