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
//! nobody has sampled belong to their block. Where a program deals its memory out to threads in
//! small chunks of one size, samples of neighbours say so long before each chunk has some of its
//! own, and no block is larger than such a chunk ([`Grain`]).
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
use super::grain::{Grain, Grains};
use super::large::LargePages;
use super::pages::{PAGE_BITS, Tag};
use crate::evidence::ln;

/// Price of a split and of not splitting, in nats: 3 bits and a twentieth of one.
const SPLIT: f64 = 3.0 * std::f64::consts::LN_2;
/// See [`SPLIT`].
const WHOLE: f64 = 0.05 * std::f64::consts::LN_2;

/// What one sample counts: in sixteenths, so that it is still known four windows later.
pub(crate) const SAMPLE: u16 = 16;

/// One sample of so many may be of a thread that uses a block by chance, or named by mistake.
const STRAY: u64 = 8;

/// Samples to either side of a page among which those who use its memory are: of eight who use it
/// alike seven are.
const AROUND: usize = 8;

/// Pages times threads that are remembered; of more, those whose samples have faded most are
/// dropped, and where none has faded some by chance. Twice what a window brings.
const POINTS_MAX: usize = 1 << 14;

/// Samples of one thread on one page, in parts of [`SAMPLE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    pub tag: Tag,
    pub seat: Seat,
    /// Since the last fading.
    pub live: u16,
    /// Before, faded.
    pub past: u16,
}

impl Point {
    /// All samples of it, faded.
    pub(crate) fn samples(self) -> u32 {
        u32::from(self.live) + u32::from(self.past)
    }
}

/// The samples of one program, by page and thread.
#[derive(Debug, Default)]
pub(crate) struct Forest {
    fresh: Vec<(Tag, Seat)>,
    /// Samples by page and thread, in this order.
    pub points: Vec<Point>,
    gammas: Gammas,
}

/// Memory that the same threads use in the same proportions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block<'a> {
    /// Its samples, by place in [`Forest::points`].
    pub points: Range<usize>,
    /// What each thread has of them, by seat.
    pub users: &'a [User],
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

impl Block<'_> {
    /// All samples, in parts of [`SAMPLE`].
    pub(crate) fn samples(&self) -> u64 {
        self.users.iter().map(|user| u64::from(user.all)).sum()
    }

    /// Whether several threads use it, but for one sample of [`STRAY`].
    fn is_shared(&self) -> bool {
        let most = self.users.iter().map(|user| u64::from(user.all)).max();
        let all = self.samples();
        (all - most.unwrap_or(0)) * STRAY > all
    }
}

/// Blocks in order of page, one behind the other.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Blocks {
    /// Where the points and the users of each end.
    ends: Vec<(usize, usize)>,
    /// Users of all blocks, those of one after those of the other.
    pub users: Vec<User>,
    /// Where the user of a seat was put last, before its block was sorted.
    places: Vec<usize>,
    pub grains: Grains,
}

impl Blocks {
    pub(crate) const fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn at(&self, index: usize) -> Block<'_> {
        let start = index.checked_sub(1).map_or((0, 0), |last| self.ends[last]);
        let end = self.ends[index];
        Block {
            points: start.0..end.0,
            users: &self.users[start.1..end.1],
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Block<'_>> {
        (0..self.len()).map(|index| self.at(index))
    }

    /// Appends a block of the points from the end of the last block to this one.
    fn push(&mut self, points: &[Point], end: usize) {
        let (start, first) = self.ends.last().copied().unwrap_or_default();
        for point in &points[start..end] {
            let seat = usize::from(point.seat);
            if seat >= self.places.len() {
                self.places.resize(seat + 1, usize::MAX);
            }
            let place = &mut self.places[seat];
            // Users of the blocks before come first.
            let known = self.users.get_mut(*place).filter(|_| *place >= first);
            if let Some(user) = known {
                user.all = user.all.saturating_add(point.samples());
                user.live = user.live.saturating_add(u32::from(point.live));
            } else {
                *place = self.users.len();
                self.users.push(User {
                    seat: point.seat,
                    all: point.samples(),
                    live: u32::from(point.live),
                });
            }
        }
        self.users[first..].sort_unstable_by_key(|user| user.seat);
        self.ends.push((end, self.users.len()));
    }
}

impl Forest {
    /// Notes one sample.
    #[inline]
    pub(crate) fn note(&mut self, tag: Tag, seat: Seat) {
        self.fresh.push((tag, seat));
    }

    /// Keeps those samples of this window of which a question says yes; tells how many went.
    pub(crate) fn thin(&mut self, mut stays: impl FnMut() -> bool) -> u64 {
        let before = self.fresh.len();
        self.fresh.retain(|_| stays());
        (before - self.fresh.len()) as u64
    }

    /// Whether a thread was seen before on memory around a page: there by one of the next samples
    /// to either side.
    pub(crate) fn knows(&self, tag: Tag, seat: Seat) -> bool {
        let at = self.points.partition_point(|point| point.tag < tag);
        let around = at.saturating_sub(AROUND)..(at + AROUND).min(self.points.len());
        let mut around = self.points[around].iter();
        around.any(|point| point.seat == seat && point.tag.space() == tag.space())
    }

    /// Brings in what was noted, each sample of a small page as one of the large page that this is
    /// part of.
    pub(crate) fn gather(&mut self, large: &LargePages) {
        self.settle();
        if large.is_empty() || !large.gather(&mut self.points) {
            return;
        }
        self.points
            .sort_unstable_by_key(|point| (point.tag, point.seat));
        self.points.dedup_by(|next, kept| {
            let same = (next.tag, next.seat) == (kept.tag, kept.seat);
            if same {
                kept.live = kept.live.saturating_add(next.live);
                kept.past = kept.past.saturating_add(next.past);
            }
            same
        });
    }

    /// Brings in what was noted, and tells the best partition into blocks, by page, for so many
    /// threads.
    pub(crate) fn blocks(&mut self, threads: usize) -> Blocks {
        self.settle();
        self.gammas.fit(threads.max(2));
        let grains = Grains::of(&self.points);
        let mut search = Search::new(&self.gammas, self.points.len());
        let mut stretches = grains.0.iter().peekable();
        for page in self.points.chunk_by(|one, other| one.tag == other.tag) {
            if let Some((_, grain)) = stretches.next_if(|(first, _)| *first <= page[0].tag) {
                search.grain = *grain;
            }
            search.add(page);
        }
        let ends = search.finish();
        let mut found = Blocks {
            grains,
            ..Blocks::default()
        };
        for end in ends {
            found.push(&self.points, end);
        }
        found
    }

    /// Ends a window: what was live joins the past, and the past counts half.
    pub(crate) fn fade(&mut self) {
        self.settle();
        self.points.retain_mut(|point| {
            point.past = point.past.saturating_add(point.live) / 2;
            point.live = 0;
            point.past > 0
        });
    }

    /// Forgets what was before this window of memory that threads share, and tells which that is:
    /// from one page to another, with what lies between.
    pub(crate) fn begin_anew(&mut self, threads: usize) -> Vec<(Tag, Tag)> {
        let blocks = self.blocks(threads);
        let mut changed = Vec::new();
        for block in blocks.iter().filter(Block::is_shared) {
            let points = &mut self.points[block.points];
            points.iter_mut().for_each(|point| point.past = 0);
            changed.push((points[0].tag, points[points.len() - 1].tag));
        }
        self.points.retain(|point| point.samples() > 0);
        changed
    }

    /// Pages that several threads used, with their samples in this window, in parts of [`SAMPLE`].
    pub(crate) fn shared(&self) -> impl Iterator<Item = (Tag, Vec<(Seat, u32)>)> {
        let pages = self.points.chunk_by(|one, other| one.tag == other.tag);
        let users = |page: &[Point]| {
            let used = page.iter().filter(|point| point.live > 0);
            let used = used.map(|point| (point.seat, u32::from(point.live)));
            (page[0].tag, used.collect())
        };
        pages.filter(|page| page.len() > 1).map(users)
    }

    /// Whether a thread used a page in this window.
    pub(crate) fn is_used(&self, tag: Tag, seat: Seat) -> bool {
        let key = |point: &Point| (point.tag, point.seat);
        let at = self.points.binary_search_by_key(&(tag, seat), key);
        at.is_ok_and(|at| self.points[at].live > 0)
    }

    /// Forgets seats and spaces that are void.
    pub(crate) fn forget(&mut self, seats: &Bits, spaces: &Bits) {
        if seats.is_empty() && spaces.is_empty() {
            return;
        }
        self.settle();
        self.points.retain(|point| {
            !seats.contains(usize::from(point.seat))
                && !spaces.contains(usize::from(point.tag.space()))
        });
    }

    /// Sorts what was noted in among the rest.
    fn settle(&mut self) {
        if self.fresh.is_empty() {
            return;
        }
        sort(&mut self.fresh);
        let mut merged: Vec<Point> = Vec::with_capacity(self.points.len() + self.fresh.len());
        let (old, fresh) = (&self.points, &self.fresh);
        let (mut at, mut next) = (0, 0);
        while next < fresh.len() {
            let (tag, seat) = fresh[next];
            while at < old.len() && (old[at].tag, old[at].seat) < (tag, seat) {
                merged.push(old[at]);
                at += 1;
            }
            let mut point = Point {
                tag,
                seat,
                live: 0,
                past: 0,
            };
            if at < old.len() && (old[at].tag, old[at].seat) == (tag, seat) {
                point = old[at];
                at += 1;
            }
            while next < fresh.len() && fresh[next] == (tag, seat) {
                point.live = point.live.saturating_add(SAMPLE);
                next += 1;
            }
            merged.push(point);
        }
        merged.extend_from_slice(&old[at..]);
        self.fresh.clear();
        if merged.len() > POINTS_MAX {
            make_way(&mut merged);
        }
        self.points = merged;
    }
}

/// Leaves no more points than are remembered.
fn make_way(points: &mut Vec<Point>) {
    // Those go that have no more samples than 1, 2, 4, and so on, until it is enough.
    let rank = |point: &Point| u32::BITS - (point.samples().max(1) - 1).leading_zeros();
    let mut counts = [0; 1 + u32::BITS as usize];
    points
        .iter()
        .for_each(|point| counts[rank(point) as usize] += 1);
    let (mut least, mut left) = (0_u32, points.len());
    while left > POINTS_MAX && least < SAMPLE.ilog2() {
        left -= counts[least as usize];
        least += 1;
    }
    let enough = 1 << least >> 1;
    points.retain(|point| point.samples() > enough);
    if points.len() > POINTS_MAX {
        // Windows that were joined have more without any that has faded. All of it would go at
        // once, so chance says which stay: the same for as long as they are joined.
        let chance =
            |point: &Point| Tag::from_word(point.tag.word() ^ u64::from(point.seat)).spread();
        points.select_nth_unstable_by_key(POINTS_MAX, chance);
        points.truncate(POINTS_MAX);
        points.sort_unstable_by_key(|point| (point.tag, point.seat));
    }
}

/// Fewer than this are sorted by comparing.
const RADIX_MIN: usize = 256;
/// Bits that are sorted by at a time.
const DIGIT: u32 = 11;
/// The lowest of them.
const MASK: u64 = (1 << DIGIT) - 1;

/// Sorts by page and seat: by a few bits after the other from the last on, but for those that are
/// the same in all.
fn sort(noted: &mut Vec<(Tag, Seat)>) {
    if noted.len() < RADIX_MIN {
        noted.sort_unstable();
        return;
    }
    let mut differs = (0, 0);
    for one in &*noted {
        differs = (
            differs.0 | one.0.word() ^ noted[0].0.word(),
            differs.1 | one.1 ^ noted[0].1,
        );
    }
    let mut spare = noted.clone();
    let (mut pages, mut seats) = (differs.0, u64::from(differs.1));
    while seats != 0 {
        let shift = seats.trailing_zeros();
        by_digit(noted, &mut spare, |one| u64::from(one.1) >> shift & MASK);
        seats &= !(MASK << shift);
    }
    while pages != 0 {
        let shift = pages.trailing_zeros();
        by_digit(noted, &mut spare, |one| one.0.word() >> shift & MASK);
        pages &= !(MASK << shift);
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a digit is small")]
fn by_digit(
    noted: &mut Vec<(Tag, Seat)>,
    spare: &mut Vec<(Tag, Seat)>,
    digit: impl Fn(&(Tag, Seat)) -> u64,
) {
    let mut place = [0_u32; 1 << DIGIT];
    for one in &*noted {
        place[digit(one) as usize & ((1 << DIGIT) - 1)] += 1;
    }
    let mut before = 0;
    for place in &mut place {
        (*place, before) = (before, before + *place);
    }
    for one in &*noted {
        let place = &mut place[digit(one) as usize & ((1 << DIGIT) - 1)];
        spare[*place as usize] = *one;
        *place += 1;
    }
    std::mem::swap(noted, spare);
}

/// Where one aligned block ends and the other begins, of two that have these pages.
pub(crate) const fn border(low: u64, high: u64) -> u64 {
    let bits = 63 - (low ^ high).leading_zeros();
    high >> bits << bits
}

/// The pass that finds the best partition: pages come in order, and what lies together is judged
/// together once all of it has come.
struct Search<'a> {
    gammas: &'a Gammas,
    /// Of the stretch that pages come of.
    grain: Grain,
    /// Memory that was looked at, each piece larger than the one behind it.
    parts: Vec<Part>,
    /// Where the best blocks of the parts end, of one part after the other.
    blocks: Vec<usize>,
    /// Samples by seat of the parts, of one after the other.
    counts: Counts,
    spare: Counts,
}

/// Samples by seat.
type Counts = Vec<(Seat, u32)>;

/// A dyadic piece of memory, its best partition, and itself as one block.
#[derive(Clone, Copy, Debug)]
struct Part {
    first: u64,
    /// Where its blocks and counts begin.
    blocks: usize,
    counts: usize,
    /// How high the bit is in which it and the part before it differ.
    split: u32,
    /// Of the stretch it is in; of several, of one that has one.
    grain: Grain,
    kind: Kind,
    /// Whose they are, if one thread's.
    seat: Seat,
    samples: u64,
    score: f64,
    /// Sum over threads, of the whole as one block.
    uses: f64,
}

/// Whose samples a part has. The more of one thread's are together, the more likely they are, so
/// that pages of one are never split, and what they score is worked out when they meet another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// One thread's, on one page.
    OwnPage,
    /// One thread's, on several.
    OwnPages,
    Several,
}

impl<'a> Search<'a> {
    fn new(gammas: &'a Gammas, points: usize) -> Self {
        Self {
            gammas,
            grain: Grain::NONE,
            parts: Vec::with_capacity(u64::BITS as usize),
            blocks: Vec::with_capacity(points),
            counts: Vec::with_capacity(points),
            spare: Vec::new(),
        }
    }

    /// Takes the points of the next page.
    fn add(&mut self, page: &[Point]) {
        let first = page[0].tag.word();
        let last = self.parts.last();
        let start = self.blocks.last().copied().unwrap_or(0);
        // The last part is the last page, for nothing was joined since it came.
        let split = last.map_or(0, |last| u64::BITS - (last.first ^ first).leading_zeros());
        self.join_below(split);
        let mut part = Part {
            first,
            blocks: self.blocks.len(),
            counts: self.counts.len(),
            split,
            grain: self.grain,
            kind: Kind::OwnPage,
            seat: page[0].seat,
            samples: 0,
            score: 0.0,
            uses: 0.0,
        };
        for point in page {
            self.counts.push((point.seat, point.samples()));
            part.samples += u64::from(point.samples());
        }
        self.blocks.push(start + page.len());
        if page.len() > 1 {
            part.kind = Kind::Several;
            for point in page {
                part.uses += self.gammas.one(u64::from(point.samples()));
            }
            part.score = part.uses - self.gammas.all(part.samples);
        }
        self.parts.push(part);
    }

    /// Where the blocks of the best partition of all end.
    fn finish(mut self) -> Vec<usize> {
        self.join_below(u32::MAX);
        self.blocks
    }

    /// Joins parts that differ from the one before them in a lower bit only.
    #[inline]
    fn join_below(&mut self, split: u32) {
        while let [.., one, other] = &mut self.parts[..]
            && other.split < split
        {
            let are_own = one.kind != Kind::Several && other.kind != Kind::Several;
            if are_own && one.seat == other.seat && one.is_near(other) {
                one.samples += other.samples;
                one.kind = Kind::OwnPages;
                self.counts.truncate(other.counts);
                self.blocks.swap_remove(one.blocks);
            } else {
                self.join_last();
            }
            self.parts.pop();
        }
    }

    /// Joins the last part to the one before.
    fn join_last(&mut self) {
        let [.., one, other] = &mut self.parts[..] else {
            return;
        };
        one.be_scored(self.gammas, &mut self.counts);
        other.be_scored(self.gammas, &mut self.counts);
        let lists = (&mut self.counts, &mut self.spare);
        let change = merge(self.gammas, lists, one.counts, other.counts);
        one.samples += other.samples;
        one.uses = one.uses + other.uses + change;
        let whole = one.uses - self.gammas.all(one.samples) - WHOLE;
        one.score = one.score + other.score - SPLIT;
        one.kind = Kind::Several;
        if one.grain == Grain::NONE {
            one.grain = other.grain;
        }
        if one.is_near(other) && !one.grain.parts(other.split) && whole >= one.score {
            one.score = whole;
            let end = self.blocks.last().copied();
            self.blocks.truncate(one.blocks);
            self.blocks.extend(end);
        }
    }
}

impl Part {
    /// Whether two are of one space.
    #[inline]
    const fn is_near(&self, other: &Self) -> bool {
        (self.first ^ other.first) >> PAGE_BITS == 0
    }

    #[inline]
    fn be_scored(&mut self, gammas: &Gammas, counts: &mut Counts) {
        if self.kind != Kind::Several {
            counts[self.counts].1 = u32::try_from(self.samples).unwrap_or(u32::MAX);
            self.uses = gammas.one(self.samples);
            self.score = self.uses - gammas.all(self.samples);
            if self.kind == Kind::OwnPages {
                self.score -= WHOLE;
            }
        }
    }
}

/// Makes one list of two that lie side by side from `first` on; tells by how much the sum over
/// threads changes.
fn merge(
    gammas: &Gammas,
    (counts, spare): (&mut Counts, &mut Counts),
    first: usize,
    middle: usize,
) -> f64 {
    // All of the first before any of the second, as many are: nothing to do.
    if counts[middle - 1].0 < counts[middle].0 {
        return 0.0;
    }
    let (some, others) = counts[first..].split_at(middle - first);
    let (mut at, mut beside, mut change) = (0, 0, 0.0);
    spare.clear();
    while let (Some(&one), Some(&other)) = (some.get(at), others.get(beside)) {
        let mut next = if one.0 <= other.0 { one } else { other };
        if one.0 == other.0 {
            let [a, b] = [one.1, other.1].map(u64::from);
            change += gammas.one(a + b) - gammas.one(a) - gammas.one(b);
            next.1 = one.1.saturating_add(other.1);
        }
        at += usize::from(one.0 <= other.0);
        beside += usize::from(other.0 <= one.0);
        spare.push(next);
    }
    spare.extend_from_slice(&some[at..]);
    spare.extend_from_slice(&others[beside..]);
    counts.truncate(first);
    counts.append(spare);
    change
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
        all.push(less + ln(from + samples(count)));
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
    (number - 0.5) * ln(number) - number + HALF_LN_TAU + series - ln(product)
}

#[cfg(test)]
#[path = "forest_tests.rs"]
#[expect(
    clippy::cast_possible_truncation,
    reason = "threads and nodes of a test are few"
)]
mod tests;
