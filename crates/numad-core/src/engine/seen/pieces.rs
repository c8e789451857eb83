//! From blocks of memory to what policies see, and back to pages.
//!
//! Where pages are sampled often enough each stands for itself. Elsewhere a block of memory that is
//! used alike ([`crate::tables::forest`]) is cut into aligned pieces of some [`PIECE_SAMPLES`]
//! samples, and each piece, or the part of it that is on one node, is one [`Page`] to the policy:
//! used by whom the whole block is used by, as often as its own samples say. What is granted of it
//! is all its pages, whether anybody has seen them or not ([`super::extents`]). A block of which it
//! says nothing who uses it now ([`super::lasting`]) is used by everyone. Large pages, which move
//! as one, never stand for themselves, and no piece is smaller than they are
//! ([`crate::tables::large`]).

use std::collections::BTreeSet;
use std::mem::take;
use std::ops::Range;

use super::Seen;
use super::apart::{Apart, is_mixed, samples_on, users_on};
use super::extents::Extents;
use super::lasting::{Lasting, Nodes};
use super::program::Positions;
use super::thin::PIECE_SAMPLES;
use crate::engine::ordered::Placed;
use crate::evidence::{self, Certainty, Scale};
use crate::figures::{rounded, whole};
use crate::policy::{ACCESSORS_MAX, Accessor, Page, PageKey, Program, Task};
use crate::tables::bits::Bits;
use crate::tables::comm::CommTable;
use crate::tables::forest::{Block, Blocks, Point, SAMPLE};
use crate::tables::grain::Grain;
use crate::tables::pages::Tag;
use crate::tables::ranges::{count, cut, join, without};
use crate::tables::runs::Runs;
use crate::tables::shares::Shares;
use crate::tables::tasks::{Hot, Record};

/// Share of the users of a block that may be left out because they are few. Half and double change
/// no cell of the matrix by 0.2 %; with all left out `ptb` loses 4 to 6 % (docs/measurements.md).
const FEW: f64 = 0.25;

/// Blocks of a program, in order of page, and the pieces of those that are cut.
#[derive(Debug, Default)]
pub(in crate::engine) struct Pieces {
    blocks: Vec<Known>,
    pieces: Vec<Piece>,
    /// Pages of all blocks.
    pages: u64,
    /// Who uses blocks, those of one after those of the other: position of the task, and samples.
    users: Vec<(u32, f64)>,
    /// Where the sampled pages of pieces are, and whether they are part of larger ones, by point.
    homes: Vec<Option<u16>>,
    large: Vec<bool>,
    /// The pages of pieces, in the same way as users.
    ranges: Vec<Range<u64>>,
    /// Slots of pages that are looked up as part of a piece.
    inside: Bits,
    /// Of whom the points are.
    pub(super) positions: Positions,
}

/// What is known of a block.
#[derive(Debug)]
struct Known {
    /// The first and last page that was sampled, with all of a large one.
    first: Tag,
    last: Tag,
    /// Where its users are.
    users: Range<usize>,
    points: Range<usize>,
    /// Its pages as far as they are likely to be there, in the same way as its users.
    extents: Range<usize>,
    /// Pages of a piece, as a power of two; 0 where its pages stand for themselves.
    bits: u32,
    /// Whether memory is dealt out in such blocks: one sample speaks for all of it.
    is_dealt: bool,
    /// Whether who uses it elsewhere says nothing of its pages on a node ([`super::apart`]).
    is_apart: bool,
    /// Whether it is used from where it was before; else whoever uses it now says nothing of who will.
    lasts: bool,
}

/// What is behind a page that stands for many.
#[derive(Debug)]
struct Piece {
    tag: Tag,
    slot: u32,
    ranges: Range<usize>,
}

impl Pieces {
    /// Whether a page is part of a piece.
    pub(in crate::engine) fn has(&self, tag: Tag) -> bool {
        self.block(tag).is_some_and(|block| block.bits > 0)
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
        Some(&self.ranges[self.piece(tag)?.ranges.clone()])
    }

    /// The block of a page, by the first of its pages that was sampled.
    pub(in crate::engine) fn block_of(&self, tag: Tag) -> Option<Tag> {
        Some(self.block(tag)?.first)
    }

    /// Whether the block of a page is sure that what of it is on a node gets nearer on another,
    /// whatever the samples of the page alone say.
    pub(in crate::engine) fn backs(
        &self,
        tag: Tag,
        points: &[Point],
        program: &Program<'_>,
        (certainty, moved): (Certainty, (usize, usize)),
    ) -> bool {
        let Some(block) = self.block(tag) else {
            return false;
        };
        let known = (
            &points[block.points.clone()],
            &self.homes[block.points.clone()],
        );
        let all = &self.users[block.users.clone()];
        // Others say nothing of what is on the node where the block is apart.
        let alone = block
            .is_apart
            .then(|| users_on(moved.0, known, &self.positions));
        let users = alone.as_deref().unwrap_or(all).iter().copied();
        let mut scale = Scale::default();
        nearer(users, program, moved).for_each(|(samples, by)| scale.put(samples, by));
        let nodes = all
            .iter()
            .filter_map(|&(task, _)| program.tasks.get(task as usize)?.node);
        let plans = evidence::ln_nodes(nodes, moved.0);
        let sure = block.is_dealt && scale.net() > 0.0
            || certainty.weigh_chosen(&scale, plans).convinces();
        // A block may be of several that the samples do not tell apart yet: what is there must get
        // no farther by its own.
        let there = samples_on(moved.0, known, &self.positions);
        let own = nearer(there, program, moved);
        sure && own.map(|(samples, by)| samples * by).sum::<f64>() >= 0.0
    }

    fn block(&self, tag: Tag) -> Option<&Known> {
        let after = self.blocks.partition_point(|block| block.first <= tag);
        let block = self.blocks[..after].last()?;
        (tag <= block.last).then_some(block)
    }

    fn piece(&self, tag: Tag) -> Option<&Piece> {
        let at = self.pieces.binary_search_by_key(&tag, |piece| piece.tag);
        self.pieces.get(at.ok()?)
    }
}

/// Samples of those users whose node is known, with how much nearer they get from one node to
/// another.
fn nearer(
    users: impl Iterator<Item = (u32, f64)>,
    program: &Program<'_>,
    (home, node): (usize, usize),
) -> impl Iterator<Item = (f64, f64)> {
    let distances = program.topology.distances();
    users.filter_map(move |(task, samples)| {
        let from = program.tasks.get(task as usize)?.node?;
        let before = f64::from(distances.between(from, home));
        Some((samples, before - f64::from(distances.between(from, node))))
    })
}

impl Seen {
    /// Finds blocks, infers what threads share by them, and writes down pages and pieces for the
    /// policy.
    pub(super) fn fill_pieces(
        &mut self,
        (positions, tasks): (&Positions, &[Task]),
        placed: &Runs<Placed>,
        (found, pages): (&mut Pieces, &mut Vec<Page>),
    ) {
        let sit = |(_, hot, _): &(u32, &Hot, &Record)| hot.seat.is_some();
        let seats = self.tasks.iter().filter(sit).count();
        self.forest.gather(&self.large);
        let blocks = self.forest.blocks(seats);
        self.blocks = blocks.len();
        *found = Pieces::default();
        self.comm.forget_inferred();
        let (extents, places) = self.extents(&blocks);
        let most = u64::from(self.thin.most / PIECE_SAMPLES);
        found.pages = count(&extents.ranges);
        let least = found.pages.div_ceil(most);
        let nodes = Nodes::new(&blocks, positions, tasks);
        let everyone = nodes.everyone(positions, &mut found.users);
        let mut learned = Lasting::default();
        found.inside = Bits::new(self.pages.slots() as usize);
        found.homes = vec![None; self.forest.points.len()];
        found.large = vec![false; self.forest.points.len()];
        let mut counts = Apart::default();
        for (block, place) in blocks.iter().zip(places) {
            let ranges = &extents.ranges[place.clone()];
            let bits = self.piece_bits(&block, ranges, (least, seats));
            let points = &self.forest.points[block.points.clone()];
            let mut apart = false;
            if bits > 0 {
                apart = self.look_up(&block, &nodes, &mut counts, found);
                let tables = (&mut self.comm, &self.shares);
                infer_talk(tables, (&block, points, &found.large), positions);
            }
            let told = (block.users, points);
            let lasts = self.lasted.learn(&mut learned, told, &nodes) || !self.by_blocks;
            found.blocks.push(Known {
                first: points[0].tag,
                last: self.large.last(points[points.len() - 1].tag),
                users: match lasts {
                    true => positions.users(&block, &mut found.users),
                    false => everyone.clone(),
                },
                points: block.points.clone(),
                extents: place,
                bits,
                is_apart: apart,
                is_dealt: block.users.len() == 1
                    && self.large.home(points[0].tag).is_none()
                    && blocks.grains.at(points[0].tag) != Grain::default(),
                lasts,
            });
        }
        // When an era begins, and memory is looked at anew, what was before is forgotten.
        self.lasts.get_or_insert(learned);
        let mut bench = Bench::default();
        pages.clear();
        let (known, users) = (take(&mut found.blocks), take(&mut found.users));
        for block in known.iter().filter(|block| block.bits > 0) {
            let extents = &extents.ranges[block.extents.clone()];
            let of_block = (extents, &Users::of(&users[block.users.clone()]), placed);
            self.cut_block(positions, block, of_block, (&mut bench, found, pages));
        }
        found.blocks = known;
        self.fill_single(positions, &Users::of(&users[everyone]), (found, pages));
        found.users = users;
    }

    /// The memory of blocks as far as it is likely to be there, and which of it is whose.
    fn extents(&self, blocks: &Blocks) -> (Extents, Vec<Range<usize>>) {
        let mut extents = Extents::default();
        let points = &self.forest.points;
        let places = blocks.iter().map(|block| {
            let first = points[block.points.start].tag;
            let foreign = self.shares.foreign(first.space());
            let grain = blocks.grains.at(first);
            extents.add(points, (&block, grain), foreign, &self.large)
        });
        let places = places.collect();
        (extents, places)
    }

    /// Writes down pages that stand for themselves, before the others.
    fn fill_single(
        &self,
        positions: &Positions,
        everyone: &Users<'_>,
        (found, pages): (&Pieces, &mut Vec<Page>),
    ) {
        let of_pieces = pages.len();
        self.pages.each_outside(&found.inside, |slot, tag, entry| {
            let block = found.block(tag);
            let is_whole = self.by_blocks && entry.is_large();
            let stands = !is_whole && block.is_none_or(|block| block.bits == 0);
            let Some(key) = self.key(tag).filter(|_| stands) else {
                return;
            };
            let mut page = positions.page(key, slot, &entry);
            if block.is_some_and(|block| !block.lasts) {
                everyone.take_over(&mut page);
            }
            pages.push(page);
        });
        pages.rotate_left(of_pieces);
    }

    /// Appends the pieces of a block, of which it is known how far it is there and who uses it;
    /// and where memory was put.
    fn cut_block(
        &self,
        positions: &Positions,
        block: &Known,
        (extents, users, placed): (&[Range<u64>], &Users<'_>, &Runs<Placed>),
        (bench, found, pages): (&mut Bench, &mut Pieces, &mut Vec<Page>),
    ) {
        let all = &self.forest.points;
        let mut rest = block.points.clone();
        let Some(PageKey { space, .. }) = self.key(all[rest.start].tag) else {
            return;
        };
        let known = (&all[rest.clone()], &found.homes[rest.clone()]);
        let homes = known.1.iter().flatten().filter(|_| block.is_apart);
        let homes: BTreeSet<u16> = homes.copied().collect();
        let on = homes
            .into_iter()
            .map(|home| (home, users_on(usize::from(home), known, positions)));
        let on: Vec<(u16, Vec<(u32, f64)>)> = on.collect();
        let on: Vec<(u16, Users<'_>)> = on
            .iter()
            .map(|(home, users)| (*home, Users::of(users)))
            .collect();
        let number = |point: &Point| point.tag.page() >> block.bits;
        while !rest.is_empty() {
            let number = number(&all[rest.start]);
            let own = number << block.bits..(number + 1) << block.bits;
            let is_beyond = |point: &Point| point.tag.page() >= own.end;
            let beyond = all[rest.clone()].iter().position(is_beyond);
            let points = rest.start..beyond.map_or(rest.end, |beyond| rest.start + beyond);
            rest.start = points.end;
            bench.extents.clear();
            bench.extents.extend(cut(extents, &own));
            bench.runs.clear();
            bench.runs.extend(placed.within(space, own.clone()));
            self.split(&points, positions, (bench, found));
            for at in 0..bench.parts.len() {
                let begin = found.ranges.len();
                bench.pages_of(at, &mut found.ranges);
                let part = &bench.parts[at];
                let slot = u32::try_from(found.pieces.len()).unwrap_or(u32::MAX);
                let slot = self.pages.slots().saturating_add(slot);
                let mut page = Page {
                    key: PageKey {
                        space,
                        page: part.tag.page(),
                    },
                    slot,
                    home: part.home,
                    samples: rounded(part.samples).max(1),
                    span: count(&found.ranges[begin..]),
                    ..Page::default()
                };
                let weight = positions.weight_per_sample * part.weight;
                let own = on.iter().find(|(home, _)| Some(*home) == part.home);
                let users = own.map_or(users, |(_, own)| own);
                users.choose(&mut page, (weight, number));
                if !block.lasts {
                    page.forgotten = page.weight();
                }
                pages.push(page);
                found.pieces.push(Piece {
                    tag: part.tag,
                    slot,
                    ranges: begin..found.ranges.len(),
                });
            }
        }
    }

    /// How many pages a piece of a block has, as a power of two; 0 where each stands for itself.
    ///
    /// They are `least` or more, as judging a piece costs as much whether it stands for one page or a
    /// thousand, so that blocks of large programs are cut more coarsely. But not what all threads
    /// use: it may have to be spread evenly.
    fn piece_bits(
        &self,
        block: &Block<'_>,
        extents: &[Range<u64>],
        (least, seats): (u64, usize),
    ) -> u32 {
        if !self.by_blocks {
            return 0;
        }
        let points = &self.forest.points[block.points.clone()];
        let mut tags = points.iter().map(|point| point.tag);
        let has_large = !self.large.is_empty() && tags.any(|tag| self.large.home(tag).is_some());
        let least_bits = if has_large { self.large.bits } else { 0 };
        let bits = |pages: u64| pages.next_power_of_two().trailing_zeros().max(least_bits);
        let pages = count(extents);
        let samples = block.samples().max(1);
        let asked = pages.saturating_mul(u64::from(PIECE_SAMPLES) * u64::from(SAMPLE));
        let finest = bits(asked.div_ceil(samples));
        let coarse = finest.max(bits(least.min(pages)));
        let users = block.users.len();
        let is_of_all = finest < coarse
            && users > ACCESSORS_MAX
            && users * 2 >= seats
            && is_mixed(points, samples, coarse);
        if is_of_all { finest } else { coarse }
    }

    /// Splits a piece by the nodes that its pages are on. Pages that nobody has looked up count to
    /// the node where most sampled pages are, or came from if we moved them.
    fn split(
        &self,
        points: &Range<usize>,
        positions: &Positions,
        (bench, found): (&mut Bench, &mut Pieces),
    ) {
        let unknown = self.look_at(points.clone(), positions, bench, found);
        // The first of those with most.
        let most = bench.votes.iter().rev().max_by_key(|vote| vote.1);
        bench.most = most.map(|&(home, _)| home);
        let first = self.forest.points[points.start].tag;
        let Some(home) = bench.most else {
            bench.parts.push(Part {
                tag: first,
                home: None,
                samples: unknown,
                weight: unknown,
            });
            return;
        };
        let known: f64 = bench.parts.iter().map(|part| part.samples).sum();
        for part in &mut bench.parts {
            part.scale(1.0 + unknown / known);
        }
        if bench.parts.iter().all(|part| part.home != Some(home)) {
            // All that was sampled has moved already, and the rest has not: pages that were never
            // moved, or asked about for a move.
            let (runs, open) = (bench.runs.iter(), &mut bench.open);
            bench.others.clear();
            bench.others.extend(runs.map(|(run, _)| run.clone()));
            open.clear();
            without(&bench.extents, &bench.others, open);
            let local = first.space();
            let pages = open.iter().cloned().flatten();
            let tags = pages.filter_map(|page| Tag::new(local, page));
            let mut free = tags.filter(|tag| bench.parts.iter().all(|part| part.tag != *tag));
            let share = count(open) as f64 / count(&bench.extents).max(1) as f64;
            if let Some(tag) = free.next() {
                let weight: f64 = bench.parts.iter().map(|part| part.weight).sum();
                for part in &mut bench.parts {
                    part.scale(1.0 - share);
                }
                bench.parts.push(Part {
                    tag,
                    home: Some(home),
                    samples: (known + unknown) * share,
                    weight: weight * share,
                });
            }
        }
        bench.parts.sort_unstable_by_key(|part| part.tag);
    }

    /// Looks up where the sampled pages of a block are, as far as they are tracked, and tells whether
    /// the block is several ([`super::apart`]).
    fn look_up(
        &self,
        block: &Block<'_>,
        nodes: &Nodes,
        counts: &mut Apart,
        found: &mut Pieces,
    ) -> bool {
        let points = &self.forest.points[block.points.clone()];
        let homes = found.homes[block.points.clone()].iter_mut();
        let homes = homes.zip(&mut found.large[block.points.clone()]);
        let may_be = !nodes.are_one(block.users);
        counts.begin(nodes.parts.len());
        let mut last = None;
        for (point, (known, is_large)) in points.iter().zip(homes) {
            let tag = point.tag;
            let place = match last {
                Some((same, place)) if same == tag => place,
                _ => self.place(tag, &mut found.inside),
            };
            last = Some((tag, place));
            let Some(place) = place else {
                continue;
            };
            (*known, *is_large) = place;
            if let (true, Some(home)) = (may_be, *known)
                && let Some(node) = nodes.of(point.seat)
            {
                counts.put(node, usize::from(home), point.samples());
            }
        }
        may_be && counts.is_sure()
    }

    /// Where a page is, as far as that is known, and whether it is a large one. Small ones that are
    /// tracked are noted.
    fn place(&self, tag: Tag, inside: &mut Bits) -> Option<(Option<u16>, bool)> {
        if let Some(home) = self.large.home(tag) {
            return Some((home, true));
        }
        let place = self.pages.place(tag)?;
        inside.insert(place.slot as usize);
        Some((place.home, place.is_large))
    }

    /// Looks at where the sampled pages of a piece are; samples on pages of which that is not
    /// known.
    fn look_at(
        &self,
        points: Range<usize>,
        positions: &Positions,
        bench: &mut Bench,
        found: &mut Pieces,
    ) -> f64 {
        bench.parts.clear();
        bench.votes.clear();
        bench.strays.clear();
        let (mut unknown, mut run, mut at) = (0, 0, 0);
        let homes = &mut found.homes[points.clone()];
        let large = &found.large[points.clone()];
        let points = &self.forest.points[points];
        while let Some(point) = points.get(at) {
            let (tag, first) = (point.tag, at);
            let page = tag.page();
            let mut samples = 0;
            while let Some(point) = points.get(at).filter(|point| point.tag == tag) {
                samples += point.samples();
                at += 1;
            }
            while run < bench.runs.len() && bench.runs[run].0.end <= page {
                run += 1;
            }
            let placed = bench.runs.get(run).filter(|(run, _)| run.contains(&page));
            let placed = placed.map(|&(_, placed)| placed);
            let home = homes[first].or_else(|| placed?.home);
            homes[first..at].fill(home);
            let Some(home) = home else {
                unknown += samples;
                continue;
            };
            if placed.is_none_or(|placed| placed.home != Some(home)) {
                bench.strays.push((page, home));
            }
            let was = placed.and_then(|placed| placed.from).unwrap_or(home);
            match bench.votes.iter_mut().find(|(node, _)| *node == was) {
                Some((_, votes)) => *votes += samples,
                None => bench.votes.push((was, samples)),
            }
            let (home, samples) = (Some(home), f64::from(samples) / f64::from(SAMPLE));
            let weight = samples * positions.sizes.weight(large[first]);
            match bench.parts.iter_mut().find(|part| part.home == home) {
                Some(part) => {
                    part.samples += samples;
                    part.weight += weight;
                }
                None => bench.parts.push(Part {
                    tag,
                    home,
                    samples,
                    weight,
                }),
            }
        }
        f64::from(unknown) / f64::from(SAMPLE)
    }
}

/// The part of a piece that is on one node.
#[derive(Debug)]
struct Part {
    /// Its first sampled page.
    tag: Tag,
    home: Option<u16>,
    samples: f64,
    /// The same by the memory that they show.
    weight: f64,
}

impl Part {
    fn scale(&mut self, times: f64) {
        self.samples *= times;
        self.weight *= times;
    }
}

/// The piece that is being made, in memory that is kept from one to the next.
#[derive(Debug, Default)]
struct Bench {
    /// Its pages, and what there was moved or asked about for a move.
    extents: Vec<Range<u64>>,
    runs: Vec<(Range<u64>, Placed)>,
    /// Runs that are left out of a part, and what is left of a piece without any.
    others: Vec<Range<u64>>,
    open: Vec<Range<u64>>,
    parts: Vec<Part>,
    /// Sampled pages that are where no move has put them, and where.
    strays: Vec<(u64, u16)>,
    /// Samples by the node that pages are on, or came from if we moved them.
    votes: Vec<(u16, u32)>,
    /// The node with most of these.
    most: Option<u16>,
}

impl Bench {
    /// Appends the pages of a part.
    fn pages_of(&mut self, part: usize, ranges: &mut Vec<Range<u64>>) {
        let home = self.parts[part].home;
        let begin = ranges.len();
        if home.is_none() || (home == self.most && self.runs.is_empty()) {
            ranges.extend_from_slice(&self.extents);
            return;
        }
        let strays = self.strays.iter().filter(|stray| Some(stray.1) == home);
        ranges.extend(strays.map(|stray| stray.0..stray.0 + 1));
        let runs = self.runs.iter();
        if home == self.most {
            let others = runs.filter(|(_, placed)| placed.home != home);
            self.others.clear();
            self.others.extend(others.map(|(run, _)| run.clone()));
            without(&self.extents, &self.others, ranges);
        } else {
            let own = runs.filter(|(_, placed)| placed.home == home);
            own.for_each(|(run, _)| ranges.extend(cut(&self.extents, run)));
        }
        join(ranges, begin);
    }
}

/// What threads share by a block of which single pages tell little: of each one's use in this
/// window the part that is the other's of all use.
fn infer_talk(
    (comm, shares): (&mut CommTable, &Shares),
    (block, points, large): (&Block<'_>, &[Point], &[bool]),
    positions: &Positions,
) {
    if shares.is_told(points[0].tag.space()) {
        return;
    }
    let all = block.samples() as f64;
    let of_large = points
        .iter()
        .zip(&large[block.points.clone()])
        .filter(|(_, large)| **large);
    let of_large: u32 = of_large.map(|(point, _)| point.samples()).sum();
    let size = 1.0 + f64::from(of_large) / all * (positions.sizes.large - 1.0);
    let each = positions.weight_per_sample * size / (all * f64::from(SAMPLE));
    for (index, one) in block.users.iter().enumerate() {
        for other in &block.users[..index] {
            let live = u64::from(one.live) * u64::from(other.all)
                + u64::from(other.live) * u64::from(one.all);
            comm.infer(one.seat, other.seat, whole(live as f64 * each + 0.5));
        }
    }
}

impl Positions {
    /// Appends who uses a block, those most who use it most, with their samples.
    fn users(&self, block: &Block<'_>, all: &mut Vec<(u32, f64)>) -> Range<usize> {
        let begin = all.len();
        all.extend(block.users.iter().filter_map(|user| {
            let task = self.of(user.seat)?;
            Some((task, f64::from(user.all) / f64::from(SAMPLE)))
        }));
        put_most_first(&mut all[begin..]);
        begin..all.len()
    }
}

/// Orders users, by position, so that those come first who use most.
pub(super) fn put_most_first(users: &mut [(u32, f64)]) {
    users.sort_unstable_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
}

/// Who uses a block, those most who use it most.
struct Users<'a> {
    users: &'a [(u32, f64)],
    all: f64,
    /// What those use that a page has places for.
    first: f64,
    /// By user, what share of all he and those before him have; only if the rest are not few.
    passed: Vec<f64>,
}

impl<'a> Users<'a> {
    fn of(users: &'a [(u32, f64)]) -> Self {
        let all: f64 = users.iter().map(|user| user.1).sum();
        let first: f64 = users.iter().take(ACCESSORS_MAX).map(|user| user.1).sum();
        let mut passed = Vec::new();
        if first < (1.0 - FEW) * all {
            let mut sum = 0.0;
            passed.extend(users.iter().map(|user| {
                sum += user.1 / all;
                sum
            }));
        }
        Self {
            users,
            all,
            first,
            passed,
        }
    }

    /// Writes down who uses a piece of so much weight. Of more users than a page has places for the
    /// first are named if the others are few; else such as stand for equal parts of all, others for
    /// each piece in turn, so that together they are used by all.
    fn choose(&self, page: &mut Page, (weight, turn): (f64, u64)) {
        if self.all <= 0.0 {
            return;
        }
        // Place among the users, and share.
        let mut chosen = [(usize::MAX, 0.0); ACCESSORS_MAX];
        let mut count = 0;
        if self.passed.is_empty() {
            for (at, user) in self.users.iter().take(ACCESSORS_MAX).enumerate() {
                chosen[at] = (at, user.1 / self.first);
                count += 1;
            }
        } else {
            // Multiples of the golden section are spread evenly, however many there are.
            let offset = (turn as f64 * 0.618_033_988_749_894_9).fract();
            let part = 1.0 / ACCESSORS_MAX as f64;
            let mut place = offset * part;
            let mut at = 0;
            while place < 1.0 {
                at += self.passed[at..].partition_point(|&passed| passed <= place);
                if at == self.passed.len() {
                    break;
                }
                place += part;
                if count == 0 || chosen[count - 1].0 != at {
                    chosen[count] = (at, 0.0);
                    count += 1;
                }
                chosen[count - 1].1 += part;
            }
        }
        let mut own = 0.0;
        for (place, &(at, share)) in page.recent.iter_mut().zip(&chosen[..count]) {
            let (task, samples) = self.users[at];
            let weight = rounded(weight * share);
            *place = Accessor { task, weight };
            page.accessor_count += 1;
            own += f64::from(weight) * (samples / self.all / share).min(1.0);
        }
        page.forgotten = page.weight().saturating_sub(u64::from(rounded(own)));
    }

    /// Has a page be used by these instead of its own users, none of whom is remembered.
    fn take_over(&self, page: &mut Page) {
        let weight = page.weight() as f64;
        page.accessor_count = 0;
        self.choose(page, (weight, page.key.page));
        page.forgotten = page.weight();
    }
}
