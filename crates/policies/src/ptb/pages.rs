//! The page phase: bandwidth is given out page by page until it is used up.
//!
//! `avail[n][m]` is what the processors of n have left of their bandwidth to the memory of m, `b[n][p]`
//! what they ask of page p. Pages in order of total accesses, most first (ties: the order of the
//! program); a page with fewer than `Min_Acc` samples is skipped. `score(m, p) = sum_n avail[n][m] *
//! b[n][p]`, times C2 where the page is now; the best m takes the page, and its demand is taken off. Equal
//! scores leave a page where it is, then the lowest id counts. Every page stays in question whose home
//! is known; memory that is full, or forbidden to the program, takes no page.
//!
//! # Two ways
//!
//! [`Listing::by_the_listing`] starts every time from unused bandwidth. A page then finds all that the pages
//! before it left, so the same demand in another order, which is what the next samples are, sends other
//! pages away: it never stands still near saturation.
//!
//! [`Listing::standing_still`] starts from the bandwidth that pages take where they are. Each page in turn is
//! taken out and finds what all *others* leave; it moves if that is more than C2 times as much somewhere
//! else. What is left may be negative, which is by how much a path is overdrawn: when all is used
//! up, the rest goes where least is overdrawn, so every path ends overdrawn by about the same amount, as
//! when the listing deals out what is left evenly. What others take of a memory counts as well, see
//! `Paths`. A page's own demand counts on neither side, so that it does not flee from itself, and with every move the
//! fuller of two ways gets emptier: pages do not run in circles, and a placement that is settled stays so while
//! demand stays about the same, whatever pages it comes from.
//!
//! And where latencies were measured it moves to no memory that is farther for its users, idle, than the one where it
//! is with all the waiting there.
//! Where nobody lacks bandwidth pages are then as near as threads and first touches left them.
//!
//! # Interleaving
//!
//! In the listing to the letter "every avail is used up" is asked for each page: if nothing is left from
//! where it is used to anywhere, it belongs to the rest. The rest is dealt out by accesses, in
//! proportion to what each memory can deliver, and a page stays if its memory has not got its part yet.

use numad_core::cost::{MachineModel, queue};
use numad_core::policy::ACCESSORS_MAX;
use numad_core::{Page, Program, Proposal, Reason};
use topology::Topology;

use super::paths::Paths;

/// Pages proposed in one call. The engine's budget is far below it, and what is left out comes again.
const PROPOSALS_MAX: usize = 16_384;

/// How uneven the overdraft may be, as a share of what a path carries on average, before a page moves:
/// a thousand samples over four nodes come out this uneven by chance.
const UNEVEN: f64 = 0.1;

/// Once any page is to move, pages move until differences are this part of what began it. Else the
/// placement would be left on the brink, and the next samples would push pages over it.
const GO_ON: f64 = 0.6;

/// Share of what is left that makes no difference: bandwidth is not measured better than to a percent.
const EQUAL: f64 = 0.01;

/// When a page stays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stickiness {
    /// How many times more bandwidth must be left elsewhere.
    pub c2: f64,
    /// Samples below which a page is not looked at.
    pub samples_min: u32,
}

/// Free memory, as it is given to pages.
#[derive(Clone, Debug)]
pub struct Room {
    bytes: Vec<u64>,
    page_bytes: u64,
}

impl Room {
    /// What the program may still use of each node.
    #[must_use]
    pub fn of(program: &Program<'_>) -> Self {
        let nodes = program.topology.nodes().iter();
        let bytes = nodes.zip(program.free_bytes.iter().chain(std::iter::repeat(&0)));
        Self {
            bytes: bytes
                .map(|(node, &free)| if node.memory_bytes > 0 { free } else { 0 })
                .collect(),
            page_bytes: program.page_bytes,
        }
    }

    fn is_for_one(&self, node: usize) -> bool {
        self.bytes[node] >= self.page_bytes
    }

    fn take(&mut self, node: usize) {
        self.bytes[node] = self.bytes[node].saturating_sub(self.page_bytes);
    }
}

/// By how much a page must score better elsewhere.
#[derive(Clone, Copy, Debug)]
struct Margin {
    more: f64,
    uneven: f64,
}

impl Margin {
    fn new(stickiness: Stickiness, part: f64) -> Self {
        Self {
            more: f64::max((stickiness.c2 - 1.0) * part, EQUAL),
            uneven: UNEVEN * part,
        }
    }

    fn is_exceeded(&self, rated: &Rated, asked: &Asked, carried: &[f64]) -> bool {
        let carried: f64 = asked.users().map(|(node, gbps)| gbps * carried[node]).sum();
        let sticky = f64::max(rated.home * self.more, rated.home.abs() * EQUAL);
        rated.best - rated.home > f64::max(sticky, carried * self.uneven)
    }
}

/// Bandwidth that is left, and who asks for it.
#[derive(Debug)]
pub struct Listing {
    nodes: usize,
    left: Paths,
    /// What each memory can deliver.
    memory: Vec<f64>,
    /// Where each task is, `NOWHERE` where that is not known, and what one unit of weight asks for.
    users: Vec<(u16, f32)>,
    /// Scores of the page in question.
    scores: Vec<f64>,
    chance: Chance,
    /// Row by row, how long an access takes when the machine is idle; 0 where that is not told.
    latency_ns: Vec<f64>,
}

/// How much of the difference between pages is chance.
///
/// Pages with most accesses come first, and of many that are used alike these are the ones that a few
/// samples happened to see more often. Taken at their word, moving two in five of them seems to move half of all
/// accesses. So a page is taken to be used as much as the mean, and of what it was seen to be used more or less
/// only that part counts by which pages differ more than counts do by chance, whose variance is their mean.
#[derive(Clone, Copy, Debug)]
struct Chance {
    mean: f64,
    /// Part of a difference that counts, 0 to 1.
    real: f64,
}

impl Chance {
    /// Pages are as different as they were seen to be.
    const NONE: Self = Self {
        mean: 0.0,
        real: 1.0,
    };

    fn of(pages: &[Page]) -> Self {
        let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
        for page in pages.iter().filter(|page| page.samples > 0) {
            let samples = f64::from(page.samples);
            count += 1.0;
            sum += samples;
            squares += samples * samples;
        }
        let mean = sum / f64::max(count, 1.0);
        let variance = squares / f64::max(count, 1.0) - mean * mean;
        let real = if variance > mean {
            1.0 - mean / variance
        } else {
            0.0
        };
        Self { mean, real }
    }

    /// How often a use of this page counts.
    #[inline]
    fn factor(self, page: &Page) -> f32 {
        let samples = f64::from(page.samples.max(1));
        #[expect(clippy::cast_possible_truncation, reason = "an estimate")]
        let factor = (self.real + (1.0 - self.real) * self.mean / samples) as f32;
        factor
    }
}

const NOWHERE: u16 = u16::MAX;

/// What one page is asked for, small because there are many: GB/s for each node it is used from.
#[derive(Clone, Copy, Debug)]
struct Asked {
    at: u32,
    home: u16,
    count: u16,
    nodes: [u16; ACCESSORS_MAX],
    gbps: [f32; ACCESSORS_MAX],
}

/// Scores of one page at its home and at the best other node.
#[derive(Clone, Copy, Debug)]
struct Rated {
    home: f64,
    best: f64,
    node: usize,
}

impl Listing {
    /// A listing for tasks on these nodes; one unit of a page's weight asks for so many GB/s.
    #[must_use]
    pub fn new(model: &MachineModel, node_of: &[Option<usize>], gbps_per_weight: f64) -> Self {
        let nodes = model.nodes();
        let pairs = (0..nodes * nodes).map(|pair| model.link_gbps(pair / nodes, pair % nodes));
        let memory = (0..nodes).map(|memory| model.controller_gbps(memory));
        Self::over(pairs.collect(), memory.collect(), node_of, gbps_per_weight)
    }

    /// The same that minds detours, where the machine tells how long an access takes. A guess from distances is no
    /// ground to stay: firmware puts fast memory far away so that nobody takes it unasked.
    #[must_use]
    pub fn minding_detours(mut self, topology: &Topology) -> Self {
        let nodes = || topology.nodes().iter();
        let pairs = nodes().flat_map(|from| nodes().map(move |to| (from, to)));
        let told = pairs.map(|(from, to)| {
            if from.cpus.is_empty() {
                return Some(0.0);
            }
            let figure = topology.bandwidth().link(from.id, to.id).latency_ns?;
            (figure.value > 0).then_some(figure.value as f64)
        });
        let told: Option<Vec<f64>> = told.collect();
        if let Some(told) = told.filter(|told| told.len() == self.latency_ns.len()) {
            self.latency_ns = told;
        }
        self
    }

    fn over(
        links: Vec<f64>,
        memory: Vec<f64>,
        node_of: &[Option<usize>],
        gbps_per_weight: f64,
    ) -> Self {
        let nodes = memory.len();
        let known = |node: &Option<usize>| {
            let node = node.filter(|&node| node < nodes);
            node.and_then(|node| u16::try_from(node).ok())
                .unwrap_or(NOWHERE)
        };
        #[expect(clippy::cast_possible_truncation, reason = "an estimate")]
        let each = gbps_per_weight as f32;
        Self {
            nodes,
            left: Paths::new(links, memory.clone()),
            users: node_of.iter().map(|node| (known(node), each)).collect(),
            scores: vec![0.0; nodes],
            chance: Chance::NONE,
            latency_ns: vec![0.0; nodes * nodes],
            memory,
        }
    }

    /// The same where each task would ask for so many times what it was seen to ask.
    #[must_use]
    pub fn with_appetite(mut self, factors: &[f64]) -> Self {
        for ((_, each), &factor) in self.users.iter_mut().zip(factors) {
            #[expect(clippy::cast_possible_truncation, reason = "an estimate")]
            let factor = factor as f32;
            *each *= factor;
        }
        self
    }

    /// The listing, from unused bandwidth. Appends page moves.
    pub fn by_the_listing(
        mut self,
        program: &Program<'_>,
        mut room: Room,
        stickiness: Stickiness,
        out: &mut Vec<Proposal>,
    ) {
        let first = out.len();
        let mut rest = Vec::new();
        for asked in self.in_order(program.pages, stickiness) {
            let home = usize::from(asked.home);
            let rated = self.rate(&asked, &room);
            if rated.best <= 0.0 && rated.home <= 0.0 {
                rest.push(asked);
                continue;
            }
            let moves = rated.best > rated.home * stickiness.c2;
            let to = if moves { rated.node } else { home };
            for (node, gbps) in asked.users() {
                self.left.take_by_the_listing(node, to, gbps);
            }
            if moves {
                room.take(to);
            }
            if moves && out.len() - first < PROPOSALS_MAX {
                let page = &program.pages[asked.at as usize];
                push(out, first, page, to, bandwidth_reason(&asked, rated));
            }
        }
        self.interleave(program, &rest, &mut room, (out, first));
    }

    /// Deals out pages for which nothing is left.
    fn interleave(
        &self,
        program: &Program<'_>,
        rest: &[Asked],
        room: &mut Room,
        (out, first): (&mut Vec<Proposal>, usize),
    ) {
        let all: f64 = self.memory.iter().sum();
        let even = 1.0 / self.nodes.max(1) as f64;
        let share = |node: usize| {
            if all > 0.0 {
                self.memory[node] / all
            } else {
                even
            }
        };
        // At least one each, so that pages nobody counted are dealt out too.
        let weight = |asked: &Asked| (program.pages[asked.at as usize].weight() as f64).max(1.0);
        let whole: f64 = rest.iter().map(weight).sum();
        let mut held = vec![0.0; self.nodes];
        for asked in rest {
            let (home, weight) = (usize::from(asked.home), weight(asked));
            let filled = |node: usize| held[node] / share(node).max(f64::MIN_POSITIVE);
            let mut to = home;
            if held[home] + weight > whole * share(home) {
                let open = (0..self.nodes).filter(|&node| node != home && room.is_for_one(node));
                let open = open.filter(|&node| share(node) > 0.0);
                to = open.fold(home, |best, node| {
                    if filled(node) < filled(best) {
                        node
                    } else {
                        best
                    }
                });
            }
            held[to] += weight;
            if to != home {
                room.take(to);
                let page = &program.pages[asked.at as usize];
                push(out, first, page, to, Reason::Interleave);
            }
        }
    }

    /// The same from the bandwidth that pages take where they are. Appends page moves.
    pub fn standing_still(
        mut self,
        program: &Program<'_>,
        mut room: Room,
        stickiness: Stickiness,
        out: &mut Vec<Proposal>,
    ) {
        let first = out.len();
        self.chance = Chance::of(program.pages);
        let mut carried = vec![0.0; self.nodes];
        let even = 1.0 / self.nodes.max(1) as f64;
        for (at, page) in (0..).zip(program.pages) {
            let Some(asked) = self.asked(at, page) else {
                continue;
            };
            for (node, gbps) in asked.users() {
                carried[node] += gbps * even;
                self.left.take(node, usize::from(asked.home), gbps);
            }
        }
        for memory in 0..self.nodes {
            self.left.count(memory);
        }
        let begin = Margin::new(stickiness, 1.0);
        let enough = (0..)
            .zip(program.pages)
            .filter(|(_, page)| page.samples >= stickiness.samples_min);
        let mut exceeded = false;
        for (at, page) in enough {
            if let Some(asked) = self.asked(at, page) {
                let rated = self.rate_alone(&asked, &room);
                exceeded = begin.is_exceeded(&rated, &asked, &carried);
            }
            if exceeded {
                break;
            }
        }
        if !exceeded {
            return;
        }
        let go_on = Margin::new(stickiness, GO_ON);
        for asked in self.in_order(program.pages, stickiness) {
            let rated = self.rate_alone(&asked, &room);
            if !go_on.is_exceeded(&rated, &asked, &carried) {
                continue;
            }
            self.carry(&asked, rated.node);
            room.take(rated.node);
            let reason = if rated.best > 0.0 {
                bandwidth_reason(&asked, rated)
            } else {
                Reason::Interleave
            };
            let page = &program.pages[asked.at as usize];
            push(out, first, page, rated.node, reason);
            if out.len() - first >= PROPOSALS_MAX {
                break;
            }
        }
    }

    /// Pages that are looked at, those with most accesses first.
    fn in_order(
        &self,
        pages: &[Page],
        stickiness: Stickiness,
    ) -> impl Iterator<Item = Asked> + use<> {
        let mut asked: Vec<Asked> = Vec::with_capacity(pages.len());
        let mut keys: Vec<u64> = Vec::with_capacity(pages.len());
        let enough = (0_u32..)
            .zip(pages)
            .filter(|(_, page)| page.samples >= stickiness.samples_min);
        for (at, page) in enough {
            if let Some(one) = self.asked(at, page) {
                let total = u32::try_from(page.weight()).unwrap_or(u32::MAX);
                keys.push(u64::from(u32::MAX - total) << 32 | asked.len() as u64);
                asked.push(one);
            }
        }
        keys.sort_unstable();
        #[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
        let places = keys.into_iter().map(|key| (key as u32) as usize);
        places.map(move |place| asked[place])
    }

    /// What a page is asked for, node by node; accessors whose node is not known do not count. None if
    /// it is not known where the page is.
    #[inline]
    fn asked(&self, at: u32, page: &Page) -> Option<Asked> {
        let mut asked = Asked {
            at,
            home: page.home.filter(|&home| usize::from(home) < self.nodes)?,
            count: 0,
            nodes: [0; ACCESSORS_MAX],
            gbps: [0.0; ACCESSORS_MAX],
        };
        let factor = self.chance.factor(page);
        for accessor in page.accessors() {
            let user = self.users.get(accessor.task as usize).copied();
            let Some((node, each)) = user.filter(|&(node, _)| node != NOWHERE) else {
                continue;
            };
            #[expect(clippy::cast_precision_loss, reason = "a share of an estimate")]
            let gbps = accessor.weight as f32 * each * factor;
            let count = usize::from(asked.count);
            let place = (0..count).find(|&place| asked.nodes[place] == node);
            let place = place.unwrap_or_else(|| {
                asked.count += 1;
                asked.nodes[count] = node;
                count
            });
            asked.gbps[place] += gbps;
        }
        Some(asked)
    }

    /// The scores of a page's home and of the best other node that takes it; home again if none does.
    #[inline]
    fn rate(&mut self, asked: &Asked, room: &Room) -> Rated {
        let scores = &mut self.scores[..];
        scores.fill(0.0);
        for (node, gbps) in asked.users() {
            for (score, &left) in scores.iter_mut().zip(self.left.row(node)) {
                *score += left * gbps;
            }
        }
        let home = usize::from(asked.home);
        let mut rated = Rated {
            home: scores[home],
            best: f64::NEG_INFINITY,
            node: home,
        };
        for (node, (&score, &bytes)) in scores.iter().zip(&room.bytes).enumerate() {
            if score > rated.best && bytes >= room.page_bytes && node != home {
                (rated.best, rated.node) = (score, node);
            }
        }
        if rated.node == home {
            rated.best = rated.home;
        }
        rated
    }

    /// The scores of a page that is taken out of what is used, without a floor.
    #[inline]
    fn rate_alone(&mut self, asked: &Asked, room: &Room) -> Rated {
        let mut rated = self.rate(asked, room);
        let home = usize::from(asked.home);
        let all: f64 = asked.users().map(|(_, gbps)| gbps).sum();
        let alone = |(node, gbps)| gbps * self.left.without((node, home), gbps, all);
        rated.home = asked.users().map(alone).sum();
        if rated.best > rated.home {
            return self.without_detour(asked, room, rated);
        }
        if rated.node == home {
            rated.best = rated.home;
        }
        rated
    }

    /// The best node that is no detour: the way there alone takes the page's users no longer than way and wait
    /// together where it is. More bandwidth is no gain to who lacks none.
    fn without_detour(&self, asked: &Asked, room: &Room, rated: Rated) -> Rated {
        let home = usize::from(asked.home);
        let waits = 1.0 + queue(self.left.used(home, self.memory[home]));
        let is_detour = |to: usize| {
            let longer = asked.users().map(|(node, gbps)| {
                let row = &self.latency_ns[node * self.nodes..][..self.nodes];
                gbps * (row[to] - row[home] * waits)
            });
            longer.sum::<f64>() > 0.0
        };
        if !is_detour(rated.node) {
            return rated;
        }
        let mut straight = Rated {
            best: rated.home,
            node: home,
            ..rated
        };
        for (node, &score) in self.scores.iter().enumerate() {
            if score > straight.best && node != home && room.is_for_one(node) && !is_detour(node) {
                (straight.best, straight.node) = (score, node);
            }
        }
        straight
    }

    /// Has a page's demand carried from another memory than its home.
    fn carry(&mut self, asked: &Asked, to: usize) {
        let home = usize::from(asked.home);
        for (node, gbps) in asked.users() {
            self.left.take(node, home, -gbps);
            self.left.take(node, to, gbps);
        }
        self.left.count(home);
        self.left.count(to);
    }
}

impl Asked {
    fn users(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        let both = self.nodes.iter().zip(&self.gbps);
        both.take(usize::from(self.count))
            .map(|(&node, &gbps)| (usize::from(node), f64::from(gbps)))
    }
}

fn bandwidth_reason(asked: &Asked, rated: Rated) -> Reason {
    let all: f64 = asked.users().map(|(_, gbps)| gbps).sum();
    let mbps = |score: f64| {
        if all > 0.0 {
            whole_mbps(score / all)
        } else {
            0
        }
    };
    Reason::Bandwidth {
        there_mbps: mbps(rated.best),
        here_mbps: mbps(rated.home),
    }
}

fn push(out: &mut Vec<Proposal>, first: usize, page: &Page, node: usize, reason: Reason) {
    if out.len() - first < PROPOSALS_MAX {
        out.push(Proposal::MovePage {
            page: page.key,
            node,
            reason,
        });
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, at 0 for what is overdrawn"
)]
fn whole_mbps(gbps: f64) -> u64 {
    (gbps * 1000.0) as u64
}

#[cfg(test)]
#[path = "pages_tests.rs"]
mod tests;
