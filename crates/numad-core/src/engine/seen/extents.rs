//! The memory of blocks as far as it is likely to be there.
//!
//! Of what lies between two sampled pages nobody may have any. So only gaps as they are in the same
//! neighbourhood are filled ([`GAP`]), and of them nothing that is not the process's alone by its
//! mappings: a library between two heaps, shared memory, what malloc keeps for later.

use std::ops::Range;

use crate::tables::forest::{Block, Point, border};
use crate::tables::grain::Grain;
use crate::tables::large::LargePages;
use crate::tables::ranges::{cut, join, without};

/// How many times as wide as the gaps around it, or as half of all gaps of its block, one may be to
/// be filled. Of random samples one in ten million gaps is wider than 17 times the mean, which is
/// 24 times the median.
const GAP: u64 = 24;

/// Half of all gaps of a block that was sampled on one page alone, and is dealt out: 64 KiB, less than
/// any allocator gives a thread at a time.
const GAP_MIN: u64 = 16;

/// Memory of blocks as far as it is likely to be there: what was sampled, and what lies between and
/// beside.
#[derive(Default)]
pub(super) struct Extents {
    /// Of all blocks, one after the other.
    pub(super) ranges: Vec<Range<u64>>,
    /// Kept to need no memory of its own for each block.
    gaps: Vec<u64>,
    sorted: Vec<u64>,
}

impl Extents {
    /// Appends those of one block, and tells which they are. Of what is `foreign` only pages that
    /// were sampled are of them.
    pub(super) fn add(
        &mut self,
        all: &[Point],
        (block, grain): (&Block<'_>, Grain),
        foreign: &[Range<u64>],
        large: &LargePages,
    ) -> Range<usize> {
        let begin = self.fill(all, block, grain).start;
        if !large.is_empty() {
            let sampled = all[block.points.clone()].iter().map(|point| point.tag);
            let whole = sampled.filter(|&tag| large.home(tag).is_some());
            let whole = whole.map(|tag| tag.page()..large.last(tag).page() + 1);
            self.ranges.extend(whole);
            join(&mut self.ranges, begin);
        }
        let filled = begin..self.ranges.len();
        let (first, end) = (
            self.ranges[filled.start].start,
            self.ranges[filled.end - 1].end,
        );
        let foreign: Vec<Range<u64>> = cut(foreign, &(first..end)).collect();
        if foreign.is_empty() {
            return filled;
        }
        let mut ranges = Vec::new();
        without(&self.ranges[filled.clone()], &foreign, &mut ranges);
        let sampled = all[block.points.clone()]
            .iter()
            .map(|point| point.tag.page());
        ranges.extend(sampled.map(|page| page..page + 1));
        self.ranges.truncate(filled.start);
        join(&mut ranges, 0);
        self.ranges.extend(ranges);
        filled.start..self.ranges.len()
    }

    fn fill(&mut self, all: &[Point], block: &Block<'_>, grain: Grain) -> Range<usize> {
        let points = &all[block.points.clone()];
        let (first, last) = (points[0].tag.page(), points[points.len() - 1].tag.page());
        let begin = self.ranges.len();
        self.gaps.clear();
        let steps = points
            .windows(2)
            .map(|two| two[1].tag.page() - two[0].tag.page());
        self.gaps.extend(steps.filter(|&gap| gap > 0));
        self.ranges.push(first..first + 1);
        let within = grain.around(first).zip(grain.around(last));
        let median = if !self.gaps.is_empty() {
            self.sorted.clone_from(&self.gaps);
            let middle = self.sorted.len() / 2;
            *self.sorted.select_nth_unstable(middle).1
        } else if within.is_some() {
            GAP_MIN
        } else {
            return begin..begin + 1;
        };
        let near = median.saturating_mul(GAP);
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
            (point.tag.space() == points[0].tag.space()).then(|| point.tag.page())
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
        if let Some((of_first, of_last)) = within {
            self.ranges[begin].start = self.ranges[begin].start.max(of_first.start);
            self.ranges[at].end = self.ranges[at].end.min(of_last.end);
        }
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
