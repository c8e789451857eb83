//! Which memory is used alike, told from few samples: every space as a tree of blocks.
//!
//! A block is an aligned power of two of pages. Of one with `k` samples of each thread, `n` in all,
//! the evidence that one mixture of threads uses it is Dirichlet-multinomial, with `a` = 1 /
//! threads for each:
//!
//! ```text
//! ln E = ln G(1) - ln G(1 + n) + sum over threads with k > 0 of ( ln G(a + k) - ln G(a) )
//! ```
//!
//! So few threads are expected to use a block; with a larger `a` all memory becomes one block once
//! there are some dozens of threads. A block is split where its halves by themselves explain the
//! samples better than the whole, by more than [`SPLIT`]. The best of all such partitions comes out
//! of one pass from single pages up, as dyadic CART and context-tree weighting find it. Pages that
//! nobody has sampled belong to their block.
//!
//! Kept are samples by page and thread, which count half as much with each window. The partition is
//! made anew when a window ends, for it costs no more than to look at them. Time grows with
//! samples, never with memory; space is bounded by [`POINTS_MAX`], and by how many samples of a
//! window are noted, 2 MiB with what a pass needs beside them.
//!
//! Only `+ - * /` and comparisons on `f64`, so that results are the same bits on every platform.

use std::ops::Range;

use super::Seat;
use super::bits::Bits;
use super::pages::Tag;
use crate::evidence::ln;

/// Price of a split and of not splitting, in nats: 3 bits and a twentieth of one.
const SPLIT: f64 = 3.0 * std::f64::consts::LN_2;
/// See [`SPLIT`].
const WHOLE: f64 = 0.05 * std::f64::consts::LN_2;

/// What one sample counts: in sixteenths, so that it is still known four windows later.
pub(crate) const SAMPLE: u16 = 16;

/// Pages times threads that are remembered; of more, those whose samples have faded most are
/// dropped. Twice what a window brings.
const POINTS_MAX: usize = 1 << 14;

/// Samples of one thread on one page, in parts of [`SAMPLE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    tag: u64,
    seat: Seat,
    /// Since the last fading.
    live: u16,
    /// Before, faded.
    past: u16,
}

impl Point {
    pub(crate) const fn tag(self) -> Tag {
        Tag::from_word(self.tag)
    }

    pub(crate) const fn seat(self) -> Seat {
        self.seat
    }

    /// All samples of it, faded.
    pub(crate) fn samples(self) -> u32 {
        u32::from(self.live) + u32::from(self.past)
    }
}

/// The samples of one program, by page and thread.
#[derive(Debug, Default)]
pub(crate) struct Forest {
    fresh: Vec<(u64, Seat)>,
    /// In order of page and seat.
    points: Vec<Point>,
    gammas: Gammas,
}

/// Memory that the same threads use in the same proportions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Its samples, by place in [`Forest::points`].
    pub points: Range<usize>,
    /// What each thread has of them, by seat.
    pub users: Vec<User>,
}

/// A thread's samples on a block, in parts of [`SAMPLE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub seat: Seat,
    /// Of all windows, faded.
    pub all: u32,
    /// Of these, since the last fading.
    pub live: u32,
}

impl Block {
    /// All samples, in parts of [`SAMPLE`].
    pub(crate) fn samples(&self) -> u64 {
        self.users.iter().map(|user| u64::from(user.all)).sum()
    }
}

impl Forest {
    /// Notes one sample.
    #[inline]
    pub(crate) fn note(&mut self, tag: Tag, seat: Seat) {
        self.fresh.push((tag.word(), seat));
    }

    /// Keeps those samples of this window of which a question says yes; tells how many went.
    pub(crate) fn thin(&mut self, mut stays: impl FnMut() -> bool) -> u64 {
        let before = self.fresh.len();
        self.fresh.retain(|_| stays());
        (before - self.fresh.len()) as u64
    }

    /// Samples by page and thread, in this order.
    pub(crate) fn points(&self) -> &[Point] {
        &self.points
    }

    /// Brings in what was noted, and tells the best partition into blocks, by page, for so many
    /// threads.
    pub(crate) fn blocks(&mut self, threads: usize) -> Vec<Block> {
        self.settle();
        self.gammas.fit(threads.max(2));
        let mut search = Search {
            points: &self.points,
            own: Own::of(&self.points),
            gammas: &self.gammas,
            blocks: Vec::new(),
            counts: Vec::new(),
            spare: Vec::new(),
        };
        if !self.points.is_empty() {
            search.best(0..self.points.len());
        }
        let mut tally = Tally::default();
        let found = search.blocks.into_iter();
        found
            .map(|points| Block {
                users: tally.of(&self.points[points.clone()]),
                points,
            })
            .collect()
    }

    /// Ends a window: what was live joins the past, and the past counts half.
    pub(crate) fn fade(&mut self) {
        self.settle();
        for point in &mut self.points {
            point.past = point.past.saturating_add(point.live) / 2;
            point.live = 0;
        }
        self.points.retain(|point| point.past > 0);
    }

    /// Forgets seats and spaces that are void.
    pub(crate) fn forget(&mut self, seats: &Bits, spaces: &Bits) {
        if seats.is_empty() && spaces.is_empty() {
            return;
        }
        self.settle();
        self.points.retain(|point| {
            !seats.contains(usize::from(point.seat))
                && !spaces.contains(usize::from(point.tag().space()))
        });
    }

    /// Sorts what was noted in among the rest.
    fn settle(&mut self) {
        if self.fresh.is_empty() {
            return;
        }
        self.fresh.sort_unstable();
        let mut merged: Vec<Point> = Vec::with_capacity(self.points.len() + self.fresh.len());
        let mut old = self.points.iter().copied().peekable();
        for &(tag, seat) in &self.fresh {
            while let Some(point) = old.next_if(|point| (point.tag, point.seat) <= (tag, seat)) {
                merged.push(point);
            }
            match merged.last_mut() {
                Some(last) if (last.tag, last.seat) == (tag, seat) => {
                    last.live = last.live.saturating_add(SAMPLE);
                }
                _ => merged.push(Point {
                    tag,
                    seat,
                    live: SAMPLE,
                    past: 0,
                }),
            }
        }
        merged.extend(old);
        self.fresh.clear();
        let mut least = 0;
        while merged.len() > POINTS_MAX {
            least = (least * 2).max(1);
            merged.retain(|point| point.samples() > least);
        }
        self.points = merged;
    }
}

/// Where one aligned block ends and the other begins, of two that have these pages.
pub(crate) const fn border(low: u64, high: u64) -> u64 {
    let bits = 63 - (low ^ high).leading_zeros();
    high >> bits << bits
}

/// Runs of points that are one thread's: most of what many programs have.
#[derive(Debug)]
struct Own {
    /// By point, where its run ends.
    ends: Vec<u32>,
    /// Samples of all points before.
    before: Vec<u64>,
}

impl Own {
    fn of(points: &[Point]) -> Self {
        let alike = |a: &Point, b: &Point| (a.seat, a.tag().space()) == (b.seat, b.tag().space());
        let mut ends: Vec<u32> = Vec::with_capacity(points.len());
        let mut before = Vec::with_capacity(points.len() + 1);
        before.push(0);
        for run in points.chunk_by(alike) {
            let end = ends.len() + run.len();
            ends.resize(end, u32::try_from(end).unwrap_or(u32::MAX));
        }
        for point in points {
            before.push(before[before.len() - 1] + u64::from(point.samples()));
        }
        Self { ends, before }
    }
}

/// The pass that finds the best partition.
struct Search<'a> {
    points: &'a [Point],
    own: Own,
    gammas: &'a Gammas,
    blocks: Vec<Range<usize>>,
    /// Samples by seat of the parts that are being looked at, one after the other.
    counts: Vec<(Seat, u32)>,
    spare: Vec<(Seat, u32)>,
}

/// The best partition of some memory.
struct Best {
    score: f64,
    samples: u64,
    /// Sum over threads, of the whole as one block.
    uses: f64,
}

impl Search<'_> {
    /// Finds the best partition of these points, at least one; its blocks are appended, and what
    /// threads have of it.
    fn best(&mut self, range: Range<usize>) -> Best {
        let (first, last) = (self.points[range.start].tag, self.points[range.end - 1].tag);
        if first == last {
            return self.leaf(range);
        }
        if self.own.ends[range.start] as usize >= range.end {
            return self.own(range);
        }
        let split = 63 - (first ^ last).leading_zeros();
        let right = |point: &Point| point.tag >> split & 1 == 0;
        let middle = range.start + self.points[range.clone()].partition_point(right);
        let (blocks, counts) = (self.blocks.len(), self.counts.len());
        let one = self.best(range.start..middle);
        let between = self.counts.len();
        let other = self.best(middle..range.end);
        let samples = one.samples + other.samples;
        let uses = one.uses + other.uses + self.merge(counts, between);
        let whole = uses - self.gammas.all(samples) - WHOLE;
        let split_up = one.score + other.score - SPLIT;
        let same_space = Tag::from_word(first).space() == Tag::from_word(last).space();
        let score = if same_space && whole >= split_up {
            self.blocks.truncate(blocks);
            self.blocks.push(range);
            whole
        } else {
            split_up
        };
        Best {
            score,
            samples,
            uses,
        }
    }

    /// Pages of one thread: the more of its samples are together, the more likely they are.
    fn own(&mut self, range: Range<usize>) -> Best {
        let samples = self.own.before[range.end] - self.own.before[range.start];
        let count = u32::try_from(samples).unwrap_or(u32::MAX);
        self.counts.push((self.points[range.start].seat, count));
        self.blocks.push(range);
        let uses = self.gammas.one(samples);
        Best {
            score: uses - self.gammas.all(samples) - WHOLE,
            samples,
            uses,
        }
    }

    /// One page.
    fn leaf(&mut self, range: Range<usize>) -> Best {
        let (mut samples, mut uses) = (0, 0.0);
        for point in &self.points[range.clone()] {
            self.counts.push((point.seat, point.samples()));
            samples += u64::from(point.samples());
            uses += self.gammas.one(u64::from(point.samples()));
        }
        self.blocks.push(range);
        Best {
            score: uses - self.gammas.all(samples),
            samples,
            uses,
        }
    }

    /// Makes one list of two that lie side by side from `first` on; tells by how much the sum over
    /// threads changes.
    fn merge(&mut self, first: usize, middle: usize) -> f64 {
        let mut change = 0.0;
        self.spare.clear();
        let (mut at, mut beside) = (first, middle);
        while at < middle && beside < self.counts.len() {
            let (one, other) = (self.counts[at], self.counts[beside]);
            let next = match one.0.cmp(&other.0) {
                std::cmp::Ordering::Less => {
                    at += 1;
                    one
                }
                std::cmp::Ordering::Greater => {
                    beside += 1;
                    other
                }
                std::cmp::Ordering::Equal => {
                    (at, beside) = (at + 1, beside + 1);
                    let [a, b] = [one.1, other.1].map(u64::from);
                    change += self.gammas.one(a + b) - self.gammas.one(a) - self.gammas.one(b);
                    (one.0, one.1.saturating_add(other.1))
                }
            };
            self.spare.push(next);
        }
        self.spare.extend_from_slice(&self.counts[at..middle]);
        self.spare.extend_from_slice(&self.counts[beside..]);
        self.counts.truncate(first);
        self.counts.extend_from_slice(&self.spare);
        change
    }
}

/// Adds up samples by seat.
#[derive(Debug, Default)]
struct Tally {
    of_seats: Vec<(u32, u32)>,
    seen: Vec<Seat>,
}

impl Tally {
    fn of(&mut self, points: &[Point]) -> Vec<User> {
        for point in points {
            let seat = usize::from(point.seat);
            if self.of_seats.len() <= seat {
                self.of_seats.resize(seat + 1, (0, 0));
            }
            let counts = &mut self.of_seats[seat];
            if counts.0 == 0 {
                self.seen.push(point.seat);
            }
            counts.0 = counts.0.saturating_add(point.samples());
            counts.1 = counts.1.saturating_add(u32::from(point.live));
        }
        self.seen.sort_unstable();
        let users = self.seen.drain(..).map(|seat| {
            let (all, live) = std::mem::take(&mut self.of_seats[usize::from(seat)]);
            User { seat, all, live }
        });
        users.collect()
    }
}

/// Logarithms of the gamma function, as the evidence needs them, by samples in parts of [`SAMPLE`].
#[derive(Debug, Default)]
struct Gammas {
    threads: usize,
    /// ln G(a + k) - ln G(a).
    one: Vec<f64>,
    /// ln G(1 + n).
    all: Vec<f64>,
}

/// Counts below this are looked up: 256 samples.
const TABLE: u64 = 4096;

impl Gammas {
    fn fit(&mut self, threads: usize) {
        if self.threads == threads {
            return;
        }
        self.threads = threads;
        let prior = self.prior();
        self.one = rising(prior);
        if self.all.is_empty() {
            self.all = rising(1.0);
        }
    }

    fn prior(&self) -> f64 {
        1.0 / self.threads as f64
    }

    #[inline]
    fn one(&self, count: u64) -> f64 {
        match usize::try_from(count).ok().and_then(|at| self.one.get(at)) {
            Some(&known) => known,
            None => ln_gamma(self.prior() + samples(count)) - ln_gamma(self.prior()),
        }
    }

    #[inline]
    fn all(&self, count: u64) -> f64 {
        match usize::try_from(count).ok().and_then(|at| self.all.get(at)) {
            Some(&known) => known,
            None => ln_gamma(1.0 + samples(count)),
        }
    }
}

/// ln G(from + k) - ln G(from) for all counts that are looked up: each is a logarithm more than
/// that of a sample less, for G(x + 1) = x G(x).
fn rising(from: f64) -> Vec<f64> {
    let mut all = Vec::with_capacity(usize::try_from(TABLE).unwrap_or_default());
    let at_rest = ln_gamma(from);
    all.extend((0..u64::from(SAMPLE)).map(|part| ln_gamma(from + samples(part)) - at_rest));
    for count in 0..TABLE - u64::from(SAMPLE) {
        let less = all[all.len() - usize::from(SAMPLE)];
        all.push(less + ln_positive(from + samples(count)));
    }
    all
}

fn samples(count: u64) -> f64 {
    count as f64 / f64::from(SAMPLE)
}

/// The logarithm of the gamma function of a positive number, by Stirling's series from 8 on, which
/// is right to ten digits there; smaller ones are brought there by G(x) = G(x + 1) / x.
fn ln_gamma(number: f64) -> f64 {
    /// ln of the square root of 2 pi.
    const HALF_LN_TAU: f64 = 0.918_938_533_204_672_7;
    let (mut number, mut product) = (number, 1.0);
    while number < 8.0 {
        product *= number;
        number += 1.0;
    }
    let square = number * number;
    let series = (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / (1260.0 * square)) / square) / number;
    (number - 0.5) * ln(number) - number + HALF_LN_TAU + series - ln_positive(product)
}

/// The logarithm of a number that may be below 1, if not below 2^-40.
fn ln_positive(number: f64) -> f64 {
    /// Brings it above 1, where `ln` is told for.
    const TWOS: u32 = 40;
    ln(number * (1u64 << TWOS) as f64) - f64::from(TWOS) * std::f64::consts::LN_2
}

#[cfg(test)]
#[path = "forest_tests.rs"]
#[expect(
    clippy::cast_possible_truncation,
    reason = "threads and nodes of a test are few"
)]
mod tests;
