//! Which addresses the pieces of memory have.

use std::collections::BTreeMap;
use std::ops::Range;

use super::PAGE_BYTES;
use crate::random::Random;
use crate::workload::{Blueprint, RegionPlan};

/// Where every region begins.
#[derive(Debug)]
pub(super) struct Space {
    /// Number of the first page of each region, in its address space; of regions that are dealt out in
    /// turn, that of the first of them.
    first: Vec<u64>,
    /// Regions by number of the first page, and how many pages are theirs from there; of those dealt out
    /// in turn the first.
    starts: BTreeMap<u64, (usize, u64)>,
}

/// Where small programs begin, and slots that regions lie in: no region reaches the next, and all
/// addresses look like those of a real program.
const BASE: u64 = 0x7f00_0000_0000;
const SLOT_BYTES: u64 = 1 << 24;

/// Where programs begin that would not end before user space does.
const BASE_LARGE: u64 = 0x1000_0000_0000;
const ROOM_BYTES: u64 = 0x7fff_0000_0000 - BASE;
const ROOM_LARGE_BYTES: u64 = 0x7fff_0000_0000 - BASE_LARGE;

/// Where regions that are strewn about begin: at a multiple of a huge page.
const SPARSE_BYTES: u64 = 2 << 20;

impl Space {
    pub(super) fn new(plan: &Blueprint, sparse: bool, random: &mut Random) -> Self {
        let pages: Vec<u64> = plan.regions.iter().map(pages_from_first).collect();
        let sum = sum_of(plan);
        assert!(sum <= ROOM_LARGE_BYTES, "more memory than addresses");
        // What is left over goes between the regions, to each as much as to any other.
        let spare = if sparse {
            (ROOM_LARGE_BYTES - sum) / pages.len().max(1) as u64
        } else {
            0
        };
        let mut at = if sparse || sum > ROOM_BYTES {
            BASE_LARGE
        } else {
            BASE
        };
        let mut space = Self {
            first: vec![0; pages.len()],
            starts: BTreeMap::new(),
        };
        for (region, plan) in plan.regions.iter().enumerate() {
            if lane(plan) > 0 {
                space.first[region] = space.first[region - lane(plan)];
                continue;
            }
            let steps = usize::try_from(spare / SPARSE_BYTES).unwrap_or(0);
            let skipped = if sparse {
                random.below(steps) as u64 * SPARSE_BYTES
            } else {
                0
            };
            let first = (at + skipped) / PAGE_BYTES;
            space.first[region] = first;
            space.starts.insert(first, (region, pages[region]));
            at += spare + slots(pages[region]);
        }
        space
    }

    /// Whether all regions fit into the addresses of a program.
    pub(super) fn has_room(plan: &Blueprint) -> bool {
        sum_of(plan) <= ROOM_LARGE_BYTES
    }

    /// Pieces of memory that are one behind the other, ascending: the first region in each, and the numbers
    /// of its pages.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (usize, Range<u64>)> + '_ {
        let pieces = self.starts.iter();
        pieces.map(|(&first, &(region, pages))| (region, first..first + pages))
    }

    /// The number of a page.
    pub(super) fn number(&self, plan: &Blueprint, region: usize, page: u64) -> u64 {
        let first = self.first[region];
        match plan.regions[region].lane {
            None => first + page,
            Some(lane) => {
                let turn = page / lane.pages * lane.of as u64 + lane.at as u64;
                first + turn * lane.pages + page % lane.pages
            }
        }
    }

    /// The first address of a page.
    pub(super) fn address(&self, plan: &Blueprint, region: usize, page: u64) -> u64 {
        self.number(plan, region, page) * PAGE_BYTES
    }

    /// The region and page that an address lies in, if any does.
    pub(super) fn locate(&self, plan: &Blueprint, address: u64) -> Option<(usize, u64)> {
        let (region, pages) = self.run_from(plan, address / PAGE_BYTES)?;
        Some((region, pages.start))
    }

    /// Pages of a range of numbers, as runs of regions, in ascending order.
    pub(super) fn runs(&self, plan: &Blueprint, numbers: Range<u64>) -> Vec<(usize, Range<u64>)> {
        let mut runs = Vec::new();
        let mut at = numbers.start;
        while at < numbers.end {
            let Some((region, pages)) = self.run_from(plan, at) else {
                // Nothing here: on with what comes next.
                match self.starts.range(at + 1..numbers.end).next() {
                    Some((&next, _)) => at = next,
                    None => break,
                }
                continue;
            };
            let end = pages.end.min(pages.start + (numbers.end - at));
            at += end - pages.start;
            runs.push((region, pages.start..end));
        }
        runs
    }

    /// Pages that have numbers one after the other from this one on, of one region.
    fn run_from(&self, plan: &Blueprint, number: u64) -> Option<(usize, Range<u64>)> {
        let (&first, &(region, pages)) = self.starts.range(..=number).next_back()?;
        let offset = number - first;
        if offset >= pages {
            return None;
        }
        match plan.regions[region].lane {
            None => Some((region, offset..pages)),
            Some(lane) => {
                let (turn, within) = (offset / lane.pages, offset % lane.pages);
                let of = lane.of as u64;
                let region = region + usize::try_from(turn % of).ok()?;
                let piece = turn / of * lane.pages;
                let end = (piece + lane.pages).min(plan.regions[region].pages);
                (piece + within < end).then_some((region, piece + within..end))
            }
        }
    }
}

/// What all regions take of the addresses.
fn sum_of(plan: &Blueprint) -> u64 {
    let heads = plan.regions.iter().filter(|region| lane(region) == 0);
    heads.map(|region| slots(pages_from_first(region))).sum()
}

fn slots(pages: u64) -> u64 {
    (pages * PAGE_BYTES / SLOT_BYTES + 1) * SLOT_BYTES
}

fn lane(plan: &RegionPlan) -> usize {
    plan.lane.map_or(0, |lane| lane.at)
}

/// Pages from the first of a region to the last of all that lie between each other.
pub(super) fn pages_from_first(plan: &RegionPlan) -> u64 {
    match plan.lane {
        None => plan.pages,
        Some(lane) => plan.pages.next_multiple_of(lane.pages) * lane.of as u64,
    }
}
