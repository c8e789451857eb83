//! From blocks of memory to what policies see, and back to pages.
//!
//! Where pages are sampled often enough each stands for itself. Elsewhere a block of memory that is
//! used alike ([`crate::tables::forest`]) is cut into aligned pieces of some [`PIECE_SAMPLES`]
//! samples, and each piece, or the part of it that is on one node, is one [`Page`] to the policy:
//! used by whom the whole block is used by, as often as its own samples say. What is granted of it
//! is all its pages, whether anybody has seen them or not.
//!
//! A block ends where memory does, and that is not known: of what lies between two sampled pages
//! nobody may have any. So only gaps as they are in the same neighbourhood are filled ([`GAP`]), and of them nothing that
//! may be others' as well: a library between two heaps, or shared memory.

use std::ops::Range;

use super::Seen;
use super::program::Positions;
use crate::engine::ordered::Placed;
use crate::evidence::Scale;
use crate::policy::{ACCESSORS_MAX, Accessor, Page, PageKey, Program, SpaceId};
use crate::tables::Seat;
use crate::tables::comm::CommTable;
use crate::tables::forest::{Block, Point, SAMPLE, border};
use crate::tables::pages::Tag;
use crate::tables::runs::Runs;
use crate::tables::tasks::{Hot, Record};

/// Samples that a piece has on average, and a page that stands for itself.
const PIECE_SAMPLES: u64 = 4;

/// How many times as wide as the gaps around it, or as half of all gaps of its block, one may be to
/// be filled. Of random samples one in ten million gaps is wider than 17 times the mean, which is
/// 24 times the median.
const GAP: u64 = 24;

/// Gaps up to this are filled in any case: 64 KiB, less than any allocator gives a thread at a
/// time.
const GAP_MIN: u64 = 16;

/// Share of the users of a block that may be left out because they are few.
const FEW: f64 = 0.25;

/// Blocks of a program, in order of page, and the pieces of those that are cut.
#[derive(Debug, Default)]
pub(in crate::engine) struct Pieces {
    blocks: Vec<Known>,
    pieces: Vec<Piece>,
    /// Pages of all blocks.
    pages: u64,
}

/// What is known of a block.
#[derive(Debug)]
struct Known {
    /// The first and last page that was sampled.
    first: Tag,
    last: Tag,
    /// Who uses it: position of the task, and samples.
    users: Vec<(u32, f64)>,
    /// Whether its pages do not stand for themselves.
    is_cut: bool,
}

/// What is behind a page that stands for many.
#[derive(Debug)]
struct Piece {
    tag: Tag,
    slot: u32,
    ranges: Vec<Range<u64>>,
    /// Who uses it, by its own samples.
    own: Vec<(u32, f64)>,
}

impl Pieces {
    /// Whether a page is part of a piece.
    pub(in crate::engine) fn has(&self, tag: Tag) -> bool {
        self.block(tag).is_some_and(|block| block.is_cut)
    }

    /// Pages of memory that was seen in use, and what lies between them in the same neighbourhood.
    pub(in crate::engine) const fn pages(&self) -> u64 {
        self.pages
    }

    /// The slot of a piece, by the page that it is called by.
    pub(in crate::engine) fn slot(&self, tag: Tag) -> Option<u32> {
        Some(self.piece(tag)?.slot)
    }

    /// The pages of a piece.
    pub(in crate::engine) fn ranges(&self, tag: Tag) -> Option<&[Range<u64>]> {
        Some(&self.piece(tag)?.ranges)
    }

    /// The block of a page, by the first of its pages that was sampled.
    pub(in crate::engine) fn block_of(&self, tag: Tag) -> Option<Tag> {
        Some(self.block(tag)?.first)
    }

    /// The samples of a page's block, by how much nearer each gets from one node to another.
    pub(in crate::engine) fn scale(
        &self,
        tag: Tag,
        program: &Program<'_>,
        (home, node): (usize, usize),
    ) -> Scale {
        let mut scale = Scale::default();
        let distances = program.topology.distances();
        for &(task, samples) in self.block(tag).iter().flat_map(|block| &block.users) {
            if let Some(from) = program.tasks.get(task as usize).and_then(|task| task.node) {
                let before = f64::from(distances.between(from, home));
                scale.put(samples, before - f64::from(distances.between(from, node)));
            }
        }
        scale
    }

    /// How much nearer a piece gets to who uses it by its own samples, in distances: a block may be of several that the
    /// samples do not tell apart yet.
    pub(in crate::engine) fn own_saving(
        &self,
        tag: Tag,
        program: &Program<'_>,
        (home, node): (usize, usize),
    ) -> f64 {
        let distances = program.topology.distances();
        let users = self.piece(tag).into_iter().flat_map(|piece| &piece.own);
        let nearer = users.filter_map(|&(task, samples)| {
            let from = program.tasks.get(task as usize)?.node?;
            let before = f64::from(distances.between(from, home));
            Some(samples * (before - f64::from(distances.between(from, node))))
        });
        nearer.sum()
    }

    fn block(&self, tag: Tag) -> Option<&Known> {
        let after = self
            .blocks
            .partition_point(|block| block.first.word() <= tag.word());
        let block = self.blocks[..after].last()?;
        (tag.word() <= block.last.word()).then_some(block)
    }

    fn piece(&self, tag: Tag) -> Option<&Piece> {
        let at = self
            .pieces
            .binary_search_by_key(&tag.word(), |piece| piece.tag.word())
            .ok()?;
        self.pieces.get(at)
    }
}

impl Seen {
    /// Finds blocks, infers what threads share by them, and writes down pages and pieces for the
    /// policy.
    pub(super) fn fill_pieces(
        &mut self,
        positions: &Positions,
        placed: &Runs<Placed>,
        (found, pages): (&mut Pieces, &mut Vec<Page>),
    ) {
        let sit = |(_, hot, _): &(u32, &Hot, &Record)| hot.seat.is_some();
        let seats = self.tasks.iter().filter(sit).count();
        let blocks = self.forest.blocks(seats);
        *found = Pieces::default();
        self.comm.clear_inferred();
        let mut cuts = Vec::new();
        let mut extents = Extents::default();
        let places = blocks.iter().map(|block| {
            let points = self.forest.points();
            let space = points[block.points.start].tag().space();
            extents.add(points, block, self.shares.foreign(space))
        });
        let places: Vec<Range<usize>> = places.collect();
        // Judging a piece costs as much whether it stands for one page or a thousand, so blocks of large programs are
        // cut more coarsely.
        let most = u64::from(self.thin.most()) / PIECE_SAMPLES;
        found.pages = count(&extents.ranges);
        let least = found.pages.div_ceil(most);
        for (index, (block, place)) in blocks.iter().zip(places).enumerate() {
            let extents = &extents.ranges[place];
            let points = &self.forest.points()[block.points.clone()];
            let bits = self.piece_bits(block, extents, least);
            if bits > 0 {
                infer_talk(&mut self.comm, block, positions);
                cuts.push((index, bits, extents));
            }
            found.blocks.push(Known {
                first: points[0].tag(),
                last: points[points.len() - 1].tag(),
                users: positions.users(block),
                is_cut: bits > 0,
            });
        }
        pages.clear();
        pages.reserve(self.pages.used());
        // Not `extend`: nested iterators run much faster from inside.
        self.pages.iter().for_each(|(slot, tag, entry)| {
            if let Some(key) = self.key(tag).filter(|_| !found.has(tag)) {
                pages.push(positions.page(key, slot, &entry));
            }
        });
        for (index, bits, extents) in cuts {
            let points = &self.forest.points()[blocks[index].points.clone()];
            let cut = Cut {
                points,
                bits,
                extents,
                index,
                placed,
            };
            self.cut_block(positions, &cut, (found, pages));
        }
    }

    /// Appends the pieces of a block.
    fn cut_block(
        &self,
        positions: &Positions,
        block: &Cut<'_>,
        (found, pages): (&mut Pieces, &mut Vec<Page>),
    ) {
        let local = block.points[0].tag().space();
        let Some(space) = self.spaces.at(local).map(|space| space.id) else {
            return;
        };
        let number = |point: &Point| point.tag().page() >> block.bits;
        for points in block.points.chunk_by(|a, b| number(a) == number(b)) {
            let number = number(&points[0]);
            let own = number << block.bits..(number + 1) << block.bits;
            for part in self.parts(block.placed, space, points, &cut(block.extents, &own)) {
                let at = u32::try_from(found.pieces.len()).unwrap_or(u32::MAX);
                let slot = self.pages.slots().saturating_add(at);
                let mut page = Page {
                    key: PageKey {
                        space,
                        page: part.tag.page(),
                    },
                    slot,
                    home: part.home,
                    recent: [Accessor::default(); ACCESSORS_MAX],
                    accessor_count: 0,
                    samples: rounded(part.samples).max(1),
                    forgotten: 0,
                    span: count(&part.ranges),
                };
                let weight = positions.weight_per_sample * part.samples;
                choose_users(
                    &mut page,
                    &found.blocks[block.index].users,
                    (weight, number),
                );
                pages.push(page);
                let own = part.users.iter();
                let own = own.filter_map(|&(seat, samples)| Some((positions.of(seat)?, samples)));
                found.pieces.push(Piece {
                    tag: part.tag,
                    slot,
                    own: own.collect(),
                    ranges: part.ranges,
                });
            }
        }
    }

    /// How many pages a piece of a block has, `least` or more, as a power of two; 0 where each
    /// stands for itself.
    fn piece_bits(&self, block: &Block, extents: &[Range<u64>], least: u64) -> u32 {
        if !self.by_blocks {
            return 0;
        }
        let pages = count(extents);
        let samples = block.samples().max(1);
        let asked = pages.saturating_mul(PIECE_SAMPLES * u64::from(SAMPLE));
        let wanted = asked.div_ceil(samples).max(least.min(pages));
        wanted.next_power_of_two().trailing_zeros()
    }

    /// Splits a piece by the nodes that its pages are on. Pages that nobody has looked up count to
    /// the node where most sampled pages are, or came from if we moved them.
    fn parts(
        &self,
        placed: &Runs<Placed>,
        space: SpaceId,
        points: &[Point],
        extents: &[Range<u64>],
    ) -> Vec<Part> {
        let Looked {
            mut parts,
            votes,
            unknown,
        } = self.look_at(placed, space, points);
        let most = votes.iter().map(|vote| vote.1).max_by(f64::total_cmp);
        let found = votes
            .iter()
            .find(|vote| most.is_some_and(|most| vote.1 >= most));
        let Some(&(home, _)) = found else {
            let mut part = Part::new(points[0].tag(), None, unknown);
            part.ranges = extents.to_vec();
            return vec![part];
        };
        let known: f64 = parts.iter().map(|part| part.samples).sum();
        parts
            .iter_mut()
            .for_each(|part| part.samples *= 1.0 + unknown / known);
        let open = never_placed(placed, space, extents);
        if parts.iter().all(|part| part.home != Some(home)) {
            // All that was sampled has moved already, and the rest has not.
            let local = points[0].tag().space();
            let tags = open
                .iter()
                .cloned()
                .flatten()
                .filter_map(|page| Tag::new(local, page));
            let mut free = tags.filter(|tag| parts.iter().all(|part| part.tag != *tag));
            let share = count(&open) as f64 / count(extents).max(1) as f64;
            if let Some(tag) = free.next() {
                parts
                    .iter_mut()
                    .for_each(|part| part.samples *= 1.0 - share);
                parts.push(Part::new(tag, Some(home), (known + unknown) * share));
            }
        }
        for part in &mut parts {
            let mut ranges = std::mem::take(&mut part.ranges);
            if part.home == Some(home) {
                ranges.extend(open.iter().cloned());
            }
            for extent in extents {
                let runs = placed.within(space, extent.clone());
                let own = runs.filter(|(_, placed)| placed.home == part.home);
                ranges.extend(own.map(|(run, _)| run));
            }
            part.ranges = joined(ranges);
        }
        parts.sort_unstable_by_key(|part| part.tag.word());
        parts
    }

    /// Looks up where the sampled pages of a piece are.
    fn look_at(&self, placed: &Runs<Placed>, space: SpaceId, points: &[Point]) -> Looked {
        let mut looked = Looked::default();
        for sampled in points.chunk_by(|a, b| a.tag() == b.tag()) {
            let tag = sampled[0].tag();
            let page = tag.page();
            let samples: u32 = sampled.iter().map(|point| point.samples()).sum();
            let samples = f64::from(samples) / f64::from(SAMPLE);
            let looked_up = self.pages.entry(tag).and_then(|(_, entry)| entry.home());
            let placed = placed.get(PageKey { space, page });
            let Some(home) = looked_up.or_else(|| placed?.home) else {
                looked.unknown += samples;
                continue;
            };
            let was = placed.and_then(|placed| placed.from).unwrap_or(home);
            match looked.votes.iter_mut().find(|(node, _)| *node == was) {
                Some((_, votes)) => *votes += samples,
                None => looked.votes.push((was, samples)),
            }
            let same = |part: &Part| part.home == Some(home);
            let part = match looked.parts.iter().position(same) {
                Some(at) => &mut looked.parts[at],
                None => {
                    looked.parts.push(Part::new(tag, Some(home), 0.0));
                    looked.parts.last_mut().expect("just pushed")
                }
            };
            part.samples += samples;
            part.ranges.push(page..page + 1);
            let each = |point: &Point| f64::from(point.samples()) / f64::from(SAMPLE);
            part.users
                .extend(sampled.iter().map(|point| (point.seat(), each(point))));
        }
        looked
    }
}

/// What of these pages was never moved, or asked about for a move.
fn never_placed(placed: &Runs<Placed>, space: SpaceId, extents: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut open = Vec::new();
    for extent in extents {
        let mut at = extent.start;
        for (run, _) in placed.within(space, extent.clone()) {
            open.push(at..run.start);
            at = run.end;
        }
        open.push(at..extent.end);
    }
    open.retain(|range| !range.is_empty());
    open
}

/// The part of a piece that is on one node.
struct Part {
    /// Its first sampled page.
    tag: Tag,
    home: Option<u16>,
    samples: f64,
    users: Vec<(Seat, f64)>,
    ranges: Vec<Range<u64>>,
}

impl Part {
    const fn new(tag: Tag, home: Option<u16>, samples: f64) -> Self {
        Self {
            tag,
            home,
            samples,
            users: Vec::new(),
            ranges: Vec::new(),
        }
    }
}

/// Where the sampled pages of a piece are.
#[derive(Default)]
struct Looked {
    parts: Vec<Part>,
    /// Samples by the node that pages are on, or came from if we moved them.
    votes: Vec<(u16, f64)>,
    /// Samples on pages of which that is not known.
    unknown: f64,
}

/// A block that is to be cut.
struct Cut<'a> {
    points: &'a [Point],
    /// Pages of a piece, as a power of two.
    bits: u32,
    extents: &'a [Range<u64>],
    /// Its place among all blocks.
    index: usize,
    /// Where memory was put.
    placed: &'a Runs<Placed>,
}

/// What threads share by a block of which single pages tell little: of each one's use in this
/// window the part that is the other's of all use.
fn infer_talk(comm: &mut CommTable, block: &Block, positions: &Positions) {
    let all = block.samples() as f64;
    let each = positions.weight_per_sample / (all * f64::from(SAMPLE));
    for (index, one) in block.users.iter().enumerate() {
        for other in &block.users[..index] {
            let live = u64::from(one.live) * u64::from(other.all)
                + u64::from(other.live) * u64::from(one.all);
            let amount = u64::from(rounded(live as f64 * each));
            comm.infer(one.seat, other.seat, amount);
        }
    }
}

impl Positions {
    /// Who uses a block, those most who use it most, with their samples.
    fn users(&self, block: &Block) -> Vec<(u32, f64)> {
        let users = block.users.iter().filter_map(|user| {
            let task = self.of(user.seat)?;
            Some((task, f64::from(user.all) / f64::from(SAMPLE)))
        });
        let mut users: Vec<(u32, f64)> = users.collect();
        users.sort_unstable_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        users
    }
}

/// Writes down who uses a piece of so much weight. Of more users than a page has places for the
/// first are named if the others are few; else such as stand for equal parts of all, others for
/// each piece in turn, so that together they are used by all.
fn choose_users(page: &mut Page, users: &[(u32, f64)], (weight, turn): (f64, u64)) {
    let all: f64 = users.iter().map(|user| user.1).sum();
    if all <= 0.0 {
        return;
    }
    let first: f64 = users.iter().take(ACCESSORS_MAX).map(|user| user.1).sum();
    let mut chosen: Vec<(u32, f64)> = Vec::with_capacity(ACCESSORS_MAX);
    if first >= (1.0 - FEW) * all {
        chosen.extend(
            users
                .iter()
                .take(ACCESSORS_MAX)
                .map(|user| (user.0, user.1 / first)),
        );
    } else {
        // Multiples of the golden section are spread evenly, however many there are.
        let offset = turn as f64 * 0.618_033_988_749_894_9 % 1.0;
        let part = 1.0 / ACCESSORS_MAX as f64;
        let (mut passed, mut place) = (0.0, offset * part);
        for &(task, samples) in users {
            passed += samples / all;
            while place < passed && place < 1.0 {
                place += part;
                if chosen.last().is_none_or(|last| last.0 != task) {
                    chosen.push((task, 0.0));
                }
                if let Some(last) = chosen.last_mut() {
                    last.1 += part;
                }
            }
        }
    }
    let mut own = 0.0;
    for (place, &(task, share)) in page.recent.iter_mut().zip(&chosen) {
        let weight = rounded(weight * share);
        *place = Accessor { task, weight };
        page.accessor_count += 1;
        let uses = users
            .iter()
            .find(|user| user.0 == task)
            .map_or(0.0, |user| user.1 / all);
        own += f64::from(weight) * (uses / share).min(1.0);
    }
    page.forgotten = page.weight().saturating_sub(u64::from(rounded(own)));
}

/// Memory of blocks as far as it is likely to be there: what was sampled, and what lies between and
/// beside.
#[derive(Default)]
struct Extents {
    /// Of all blocks, one after the other.
    ranges: Vec<Range<u64>>,
    /// Kept to need no memory of its own for each block.
    gaps: Vec<u64>,
    sorted: Vec<u64>,
}

impl Extents {
    /// Appends those of one block, and tells which they are. Of what is `foreign` only pages that were sampled are of them.
    fn add(&mut self, all: &[Point], block: &Block, foreign: &[Range<u64>]) -> Range<usize> {
        let filled = self.fill(all, block);
        let (first, end) = (
            self.ranges[filled.start].start,
            self.ranges[filled.end - 1].end,
        );
        let foreign = cut(foreign, &(first..end));
        if foreign.is_empty() {
            return filled;
        }
        let mut ranges = without(&self.ranges[filled.clone()], &foreign);
        let sampled = all[block.points.clone()]
            .iter()
            .map(|point| point.tag().page());
        ranges.extend(sampled.map(|page| page..page + 1));
        self.ranges.truncate(filled.start);
        self.ranges.extend(joined(ranges));
        filled.start..self.ranges.len()
    }

    fn fill(&mut self, all: &[Point], block: &Block) -> Range<usize> {
        let points = &all[block.points.clone()];
        let (first, last) = (
            points[0].tag().page(),
            points[points.len() - 1].tag().page(),
        );
        let begin = self.ranges.len();
        self.gaps.clear();
        let steps = points
            .windows(2)
            .map(|two| two[1].tag().page() - two[0].tag().page());
        self.gaps.extend(steps.filter(|&gap| gap > 0));
        self.ranges.push(first..first + 1);
        if self.gaps.is_empty() {
            return begin..begin + 1;
        }
        self.sorted.clone_from(&self.gaps);
        let middle = self.sorted.len() / 2;
        let median = *self.sorted.select_nth_unstable(middle).1;
        let near = median.saturating_mul(GAP).max(GAP_MIN);
        let (mut page, mut at) = (first, begin);
        for (index, &gap) in self.gaps.iter().enumerate() {
            page += gap;
            if gap <= near || gap <= self.gap_beside(index).saturating_mul(GAP) {
                self.ranges[at].end = page + 1;
            } else {
                self.ranges.push(page..page + 1);
                at += 1;
            }
        }
        let beside = |index: Option<usize>| {
            let point = index.and_then(|index| all.get(index))?;
            (point.tag().space() == points[0].tag().space()).then(|| point.tag().page())
        };
        let before = beside(block.points.start.checked_sub(1));
        let after = beside(Some(block.points.end));
        self.ranges[begin].start = match before {
            Some(before) if first - before <= near => border(before, first),
            _ => first.saturating_sub(median),
        };
        self.ranges[at].end = match after {
            Some(after) if after - last <= near => border(last, after),
            _ => last + median,
        };
        begin..self.ranges.len()
    }

    /// How wide the two gaps before one and the two after it are on average.
    fn gap_beside(&self, at: usize) -> u64 {
        let before = &self.gaps[at.saturating_sub(2)..at];
        let after = self.gaps[at + 1..].iter().take(2);
        let (mut count, mut sum) = (0, 0_u64);
        for &gap in before.iter().chain(after) {
            (count, sum) = (count + 1, sum.saturating_add(gap));
        }
        sum / count.max(1)
    }
}

/// What of these ranges lies within another.
fn cut(ranges: &[Range<u64>], within: &Range<u64>) -> Vec<Range<u64>> {
    let from = ranges.partition_point(|range| range.end <= within.start);
    let inside = ranges[from..]
        .iter()
        .take_while(|range| range.start < within.end);
    inside
        .map(|range| range.start.max(within.start)..range.end.min(within.end))
        .collect()
}

/// What of ranges, ascending, lies in none of others.
fn without(ranges: &[Range<u64>], others: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut left = Vec::new();
    for range in ranges {
        let mut at = range.start;
        for other in cut(others, range) {
            left.push(at..other.start);
            at = other.end;
        }
        left.push(at..range.end);
    }
    left
}

/// How many pages these are.
fn count(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// The same pages in as few ranges as can be.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by_key(|range| range.start);
    let mut all: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match all.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => all.push(range),
        }
    }
    all
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "samples and weights are not negative; `as` saturates"
)]
fn rounded(figure: f64) -> u32 {
    (figure + 0.5) as u32
}
