//! Where a program deals its memory out to threads in small chunks of one size, samples of
//! neighbours say so long before each chunk has some of its own (decision 25).

use std::ops::Range;

use super::forest::{Point, border};
use super::pages::{PAGE_BITS, Tag};

/// How large chunks are in which a program deals out its memory: neighbours within one are of the
/// same thread, and beyond it of others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grain {
    /// Of pages in a chunk, as a power of two; none where nothing is seen of that.
    pub(super) bits: Option<u32>,
}

/// Neighbours that must be within chunks, and at the border of two, to tell how large those are.
const GRAIN_WITHIN: u32 = 64;
const GRAIN_BETWEEN: u32 = 16;

/// So many neighbours within chunks must be of one thread for each that is not, and so many beyond
/// them of others for each that is not. In memory that threads sweep in runs of any length
/// neighbours agree less and less with distance, without such a step.
const GRAIN_ALIKE: u32 = 3;
const GRAIN_UNLIKE: u32 = 9;

impl Grain {
    pub(super) const NONE: Self = Self { bits: None };

    /// Whether two pages that are first apart in a bit so high are in different chunks.
    #[inline]
    pub(super) const fn parts(self, split: u32) -> bool {
        matches!(self.bits, Some(bits) if split > bits)
    }

    /// The chunk that a page is in, where that is known.
    pub(crate) fn around(self, page: u64) -> Option<Range<u64>> {
        let bits = self.bits?;
        let first = page >> bits << bits;
        Some(first..first + (1 << bits))
    }
}

/// How often two neighbours in address are of one thread, and how often of two, by how far apart
/// they are: as the smallest aligned block that has both is large.
#[derive(Clone, Copy, Debug)]
struct Neighbours([(u32, u32); PAGE_BITS as usize + 1]);

impl Neighbours {
    const NONE: Self = Self([(0, 0); PAGE_BITS as usize + 1]);

    fn of(points: &[Point]) -> Self {
        let mut all = Self::NONE;
        let pairs = points.iter().zip(points.iter().skip(1));
        pairs.for_each(|(one, other)| all.add(*one, *other));
        all
    }

    #[inline]
    fn add(&mut self, one: Point, other: Point) {
        let apart = (u64::BITS - (one.tag.word() ^ other.tag.word()).leading_zeros()) as usize;
        if let Some((alike, unlike)) = self.0.get_mut(apart) {
            let is_alike = one.seat == other.seat;
            *(if is_alike { alike } else { unlike }) += 1;
        }
    }

    fn add_all(&mut self, others: &Self) {
        for (to, from) in self.0.iter_mut().zip(&others.0) {
            *to = (to.0 + from.0, to.1 + from.1);
        }
    }

    fn grain(&self) -> Grain {
        // What several use on one page is within any chunk.
        let (mut within, mut strays, mut is_within) = (0, 0, false);
        let is_border = |(alike, unlike): (u32, u32)| {
            let is_chunk = within + strays >= GRAIN_WITHIN && within >= GRAIN_ALIKE * strays;
            let is_sharp = is_within && unlike >= GRAIN_UNLIKE * alike;
            within += alike;
            strays += unlike;
            is_within = alike >= GRAIN_ALIKE * unlike;
            is_chunk && is_sharp && alike + unlike >= GRAIN_BETWEEN
        };
        let bits = self.0.into_iter().position(is_border);
        Grain {
            bits: bits.and_then(|apart| u32::try_from(apart).ok()?.checked_sub(1)),
        }
    }
}

/// How memory is dealt out, by the first page of each stretch that is dealt out alike, ascending.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Grains(pub(super) Vec<(Tag, Grain)>);

/// A stretch that is told apart has one of so many parts of all samples.
const STRETCHES_MAX: usize = 8;

impl Grains {
    pub(super) fn of(points: &[Point]) -> Self {
        let mut grains = Self::default();
        let least = points.len() / STRETCHES_MAX;
        grains.add(points, least.max((GRAIN_WITHIN + GRAIN_BETWEEN) as usize));
        grains
    }

    /// Memory that shows no grain may be of two kinds: then its halves are two stretches, and of
    /// each it is asked anew.
    fn add(&mut self, points: &[Point], least: usize) -> Neighbours {
        let (Some(first), Some(last)) = (points.first(), points.last()) else {
            return Neighbours::NONE;
        };
        if points.len() < least || first.tag == last.tag {
            self.0.push((first.tag, Grain::NONE));
            return Neighbours::of(points);
        }
        let begin = self.0.len();
        let border = border(first.tag.word(), last.tag.word());
        let (low, high) =
            points.split_at(points.partition_point(|point| point.tag.word() < border));
        let mut all = self.add(low, least);
        all.add(low[low.len() - 1], high[0]);
        all.add_all(&self.add(high, least));
        let grain = all.grain();
        if grain != Grain::NONE {
            self.0.truncate(begin);
            self.0.push((first.tag, grain));
        }
        all
    }

    /// How memory around a page is dealt out.
    pub(crate) fn at(&self, tag: Tag) -> Grain {
        let after = self.0.partition_point(|(first, _)| *first <= tag);
        let stretch = after.checked_sub(1).map(|at| self.0[at].1);
        stretch.unwrap_or_default()
    }
}
