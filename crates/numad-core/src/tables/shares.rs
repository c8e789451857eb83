//! Which addresses of a process are memory that others may map too, and what they are called then.
//!
//! An address in such a range means a page of an *object*, and the object has a space of its own. So two
//! processes that map it, at whatever addresses, use the same page.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops;

use super::bits::Bits;
use super::ranges::{cut, without};
use super::spaces::LocalSpace;
use crate::observation::{ObjectId, ObservedMaps, SharedRange};

/// Ranges of one process; further ones keep the process's own pages. As many are known that are not
/// its alone.
pub(crate) const RANGES_MAX: usize = 1024;
/// Ranges of one program, of either kind.
pub(crate) const RANGES_OF_ALL_MAX: usize = 12 * RANGES_MAX;
/// Objects of one program, so that three of four spaces are left for processes.
pub const OBJECTS_MAX: usize = 1024;

/// An object that the program maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub id: ObjectId,
    /// Processes of the program that map it.
    pub mappers: u32,
    /// Nobody else does, as far as was looked.
    pub own: bool,
}

/// A range of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    /// First page, and the first after it.
    first: u64,
    end: u64,
    /// The object's space.
    object: LocalSpace,
    /// Page of the object that the first page is.
    page: u64,
}

/// What one process maps.
#[derive(Clone, Debug, Default)]
struct Maps {
    /// Ascending and apart.
    ranges: Vec<Range>,
    /// Pages that are not the process's alone, in the same way.
    foreign: Vec<ops::Range<u64>>,
    /// Ranges of either kind that found no room.
    left_out: usize,
    /// Objects that have no space.
    without_space: usize,
}

/// Shared memory of one program.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    /// By the local number of the process.
    maps: Vec<Maps>,
    /// Ranges of all processes, of either kind.
    ranges: usize,
    foreign: usize,
    /// By their space.
    pub objects: BTreeMap<LocalSpace, Object>,
    by_id: BTreeMap<ObjectId, LocalSpace>,
    /// Spaces of objects through which messages pass that are counted.
    told: Bits,
}

impl Shares {
    /// What a page of a process is called: itself, or a page of an object.
    #[inline]
    pub(crate) fn translate(&self, process: LocalSpace, page: u64) -> (LocalSpace, u64) {
        if self.ranges == 0 {
            return (process, page);
        }
        self.find(process, page).unwrap_or((process, page))
    }

    fn find(&self, process: LocalSpace, page: u64) -> Option<(LocalSpace, u64)> {
        let ranges = &self.of(process)?.ranges;
        let after = ranges.partition_point(|range| range.first <= page);
        let range = ranges[..after].last().filter(|range| page < range.end)?;
        Some((range.object, range.page + (page - range.first)))
    }

    /// Where a process has a page of an object; the lowest place if there are several.
    pub(crate) fn page_in(
        &self,
        process: LocalSpace,
        object: LocalSpace,
        page: u64,
    ) -> Option<u64> {
        let ranges = &self.of(process)?.ranges;
        ranges.iter().find_map(|range| {
            let offset = page.checked_sub(range.page)?;
            let within = range.object == object && offset < range.end - range.first;
            within.then_some(range.first + offset)
        })
    }

    /// Where a process has pages of an object, side by side in both, each by its first place there.
    pub(crate) fn places(
        &self,
        process: LocalSpace,
        object: LocalSpace,
        pages: ops::Range<u64>,
    ) -> Vec<(u64, ops::Range<u64>)> {
        let ranges = self.of(process).map_or(&[][..], |maps| &maps.ranges);
        let (mut left, mut found) = (vec![pages], Vec::new());
        for range in ranges.iter().filter(|range| range.object == object) {
            let has = range.page..range.page + (range.end - range.first);
            let runs: Vec<_> = cut(&left, &has).collect();
            let place = |run: &ops::Range<u64>| range.first + (run.start - range.page);
            found.extend(runs.iter().map(|run| (place(run), run.clone())));
            let mut rest = Vec::new();
            without(&left, &[has], &mut rest);
            left = rest;
        }
        found
    }

    /// Processes with ranges, ascending.
    pub(crate) fn processes(&self) -> impl Iterator<Item = LocalSpace> {
        let mapped = (0..)
            .zip(&self.maps)
            .filter(|(_, maps)| !maps.ranges.is_empty());
        mapped.map(|(process, _)| process)
    }

    /// The space of an object.
    pub(crate) fn space_of(&self, id: ObjectId) -> Option<LocalSpace> {
        self.by_id.get(&id).copied()
    }

    /// Whether there is room for one more object.
    pub(crate) fn has_room(&self) -> bool {
        self.objects.len() < OBJECTS_MAX
    }

    /// Gives an object a space. It is nobody's until ranges name it.
    pub(crate) fn add(&mut self, space: LocalSpace, id: ObjectId) {
        let object = Object {
            id,
            mappers: 0,
            own: false,
        };
        self.objects.insert(space, object);
        self.by_id.insert(id, space);
    }

    /// Pages that are not a process's alone, ascending and apart.
    pub(crate) fn foreign(&self, process: LocalSpace) -> &[ops::Range<u64>] {
        self.of(process).map_or(&[], |maps| &maps.foreign)
    }

    #[inline]
    fn of(&self, process: LocalSpace) -> Option<&Maps> {
        self.maps.get(usize::from(process))
    }

    /// Takes what a process maps now in place of what it did before. Ranges of objects that have no space,
    /// that overlap those before them, or that are no whole pages are left out.
    pub(crate) fn set(&mut self, process: LocalSpace, maps: &ObservedMaps, page_shift: u32) {
        let pages = |range: &ops::Range<u64>| range.start >> page_shift..range.end >> page_shift;
        let foreign = maps.foreign.iter().map(pages).collect();
        let mask = (1u64 << page_shift) - 1;
        let whole = |range: &&SharedRange| {
            range.start < range.end
                && range.start >> 63 == 0
                && (range.start | range.end | range.offset) & mask == 0
                && range.offset.checked_add(range.end - range.start).is_some()
        };
        let ranges = maps
            .ranges
            .iter()
            .filter(whole)
            .filter_map(|range| {
                Some(Range {
                    first: range.start >> page_shift,
                    end: range.end >> page_shift,
                    object: self.space_of(range.object)?,
                    page: range.offset >> page_shift,
                })
            })
            .collect();
        let mapped = maps.ranges.iter().map(|range| range.object);
        let unnamed: BTreeSet<ObjectId> = mapped
            .filter(|object| self.space_of(*object).is_none())
            .collect();
        let maps = Maps {
            ranges: apart(ranges, |range| (range.first, range.end)),
            foreign: apart(foreign, |range| (range.start, range.end)),
            left_out: 0,
            without_space: unnamed.len(),
        };
        self.put(process, maps);
    }

    /// Objects that processes map and that have no space, each as often as a process does.
    pub(crate) fn without_space(&self) -> usize {
        self.maps.iter().map(|maps| maps.without_space).sum()
    }

    /// Ranges that are there and found no room.
    pub(crate) fn left_out(&self) -> usize {
        self.maps.iter().map(|maps| maps.left_out).sum()
    }

    /// A process that was forked maps what its maker does.
    pub(crate) fn inherit(&mut self, parent: LocalSpace, child: LocalSpace) {
        let maps = self.of(parent).cloned().unwrap_or_default();
        self.put(child, maps);
    }

    /// A process is gone, or runs another program.
    pub(crate) fn clear(&mut self, process: LocalSpace) {
        let Some(maps) = self.maps.get_mut(usize::from(process)) else {
            return;
        };
        let gone = std::mem::take(maps);
        self.ranges -= gone.ranges.len();
        self.foreign -= gone.foreign.len();
        self.count(&gone, |mappers| mappers - 1);
    }

    /// Changes how many map the objects that a process does.
    fn count(&mut self, maps: &Maps, change: fn(u32) -> u32) {
        let mapped: BTreeSet<LocalSpace> = maps.ranges.iter().map(|range| range.object).collect();
        for object in mapped {
            if let Some(object) = self.objects.get_mut(&object) {
                object.mappers = change(object.mappers);
            }
        }
    }

    /// Replaces what is known of a process, as far as there is room beside that of the others.
    fn put(&mut self, process: LocalSpace, mut maps: Maps) {
        self.clear(process);
        // Where there is no room for all the widest say most.
        let width = |range: &ops::Range<u64>| range.end - range.start;
        maps.foreign.sort_by_key(|range| Reverse(width(range)));
        maps.left_out = fit(&mut maps.ranges, self.ranges) + fit(&mut maps.foreign, self.foreign);
        maps.foreign.sort_by_key(|range| range.start);
        self.ranges += maps.ranges.len();
        self.foreign += maps.foreign.len();
        self.count(&maps, |mappers| mappers + 1);
        let at = usize::from(process);
        if self.maps.len() <= at {
            self.maps.resize_with(at + 1, Maps::default);
        }
        self.maps[at] = maps;
    }

    /// Notes which objects nobody outside of the program maps; of all others it is not known.
    pub(crate) fn note_own(&mut self, own: &[ObjectId]) {
        for object in self.objects.values_mut() {
            object.own = own.contains(&object.id);
        }
    }

    /// Notes through which objects messages pass that are counted.
    pub(crate) fn note_told(&mut self, carriers: &[ObjectId]) {
        let spaces = carriers.iter().filter_map(|id| self.by_id.get(id));
        let spaces: Vec<usize> = spaces.map(|&space| usize::from(space)).collect();
        self.told = Bits::new(spaces.iter().max().map_or(0, |last| last + 1));
        spaces.into_iter().for_each(|space| self.told.insert(space));
    }

    /// Whether it is known from messages what is said by memory of this space.
    #[inline]
    pub(crate) fn is_told(&self, space: LocalSpace) -> bool {
        self.told.contains(usize::from(space))
    }

    /// Forgets objects that nobody maps any more, and gives their spaces.
    pub(crate) fn take_unmapped(&mut self) -> Vec<LocalSpace> {
        let unmapped = self
            .objects
            .iter()
            .filter(|(_, object)| object.mappers == 0);
        let unmapped: Vec<LocalSpace> = unmapped.map(|(&space, _)| space).collect();
        for space in &unmapped {
            if let Some(object) = self.objects.remove(space) {
                self.by_id.remove(&object.id);
            }
            self.told.remove(usize::from(*space));
        }
        unmapped
    }
}

/// Those that do not overlap one before, in order of address.
fn apart<T>(mut ranges: Vec<T>, ends: impl Fn(&T) -> (u64, u64)) -> Vec<T> {
    ranges.sort_by_key(&ends);
    let mut end = 0;
    ranges.retain(|range| {
        let (first, after) = ends(range);
        let apart = first >= end && first < after;
        end = if apart { after } else { end };
        apart
    });
    ranges
}

/// Leaves as many ranges of a process as there is room for beside those of the others; how many go.
fn fit<T>(found: &mut Vec<T>, others: usize) -> usize {
    let room = RANGES_OF_ALL_MAX.saturating_sub(others).min(RANGES_MAX);
    let left_out = found.len().saturating_sub(room);
    found.truncate(room);
    found.shrink_to_fit();
    left_out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::observation::ObjectKind;
    use topology::Pid;

    const PAGE_SHIFT: u32 = 12;

    fn id(inode: u64) -> ObjectId {
        ObjectId {
            kind: ObjectKind::Memory,
            device: (0, 1),
            inode,
        }
    }

    /// Pages `first..end` of a process are pages of an object from `page` on.
    fn range(first: u64, end: u64, inode: u64, page: u64) -> SharedRange {
        SharedRange {
            start: first << PAGE_SHIFT,
            end: end << PAGE_SHIFT,
            object: id(inode),
            offset: page << PAGE_SHIFT,
        }
    }

    fn maps(ranges: &[SharedRange]) -> ObservedMaps {
        ObservedMaps {
            pid: Pid(1),
            ranges: ranges.to_vec(),
            foreign: ranges.iter().map(|range| range.start..range.end).collect(),
        }
    }

    fn shares(of: &[(LocalSpace, &[SharedRange])]) -> Shares {
        let mut shares = Shares::default();
        shares.add(100, id(1));
        shares.add(101, id(2));
        for (process, ranges) in of {
            shares.set(*process, &maps(ranges), PAGE_SHIFT);
        }
        shares.take_unmapped();
        shares
    }

    #[test]
    fn an_object_has_one_page_at_many_addresses() {
        let shares = shares(&[
            (1, &[range(10, 20, 1, 0), range(20, 25, 2, 7)]),
            (2, &[range(500, 505, 1, 3)]),
        ]);
        assert_eq!(shares.translate(1, 14), (100, 4));
        assert_eq!(shares.translate(2, 501), (100, 4));
        assert_eq!(shares.translate(1, 9), (1, 9));
        assert_eq!(shares.translate(1, 20), (101, 7));
        assert_eq!(shares.translate(1, 25), (1, 25));
        assert_eq!(shares.translate(2, 505), (2, 505));
        assert_eq!(shares.translate(3, 14), (3, 14));
        assert_eq!(shares.page_in(1, 100, 4), Some(14));
        assert_eq!(shares.page_in(2, 100, 4), Some(501));
        assert_eq!(shares.page_in(2, 100, 2), None);
        assert_eq!(shares.page_in(2, 100, 8), None);
        assert_eq!(shares.objects.get(&100).unwrap().mappers, 2);
        assert_eq!(shares.processes().collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn what_nobody_maps_any_more_is_given_up() {
        let mut shares = shares(&[(1, &[range(10, 20, 1, 0)])]);
        // The second object was never mapped.
        assert_eq!(
            (shares.space_of(id(1)), shares.space_of(id(2))),
            (Some(100), None)
        );
        shares.inherit(1, 9);
        assert_eq!(shares.take_unmapped(), []);
        assert_eq!(shares.objects.get(&100).unwrap().mappers, 2);
        shares.clear(1);
        assert_eq!(shares.take_unmapped(), []);
        assert_eq!(shares.translate(1, 14), (1, 14));
        assert_eq!(shares.translate(9, 14), (100, 4));
        assert_eq!(shares.foreign(1), []);
        assert_eq!(shares.foreign(9).first(), Some(&(10..20)));
        shares.set(9, &maps(&[]), PAGE_SHIFT);
        assert_eq!(shares.take_unmapped(), [100]);
        assert_eq!(shares.translate(9, 14), (9, 14));
        assert!(shares.ranges == 0);
    }

    #[test]
    fn ranges_that_make_no_sense_are_left_out() {
        let odd = SharedRange {
            start: 5,
            ..range(10, 20, 1, 0)
        };
        let high = SharedRange {
            start: 1 << 63,
            end: (1 << 63) + 4096,
            ..range(0, 0, 1, 0)
        };
        let far = SharedRange {
            offset: u64::MAX - 4095,
            ..range(2, 9, 1, 0)
        };
        let mut own = shares(&[(1, &[odd, high, far, range(7, 7, 1, 0), range(9, 3, 1, 0)])]);
        assert!(own.ranges == 0);
        own.note_own(&[id(9)]);
    }

    #[test]
    fn where_there_is_no_room_for_all_holes_the_widest_are_known() {
        // So many pages as they are in order, a GiB apart.
        let number = RANGES_MAX as u64 + 1;
        let hole = |at: u64| at << 30..(at << 30) + (at << PAGE_SHIFT);
        let foreign = (1..=number).map(hole).collect();
        let maps = ObservedMaps {
            foreign,
            ..maps(&[])
        };
        let mut shares = Shares::default();
        shares.set(1, &maps, PAGE_SHIFT);
        let known = shares.foreign(1);
        assert_eq!((known.len(), shares.left_out()), (RANGES_MAX, 1));
        let pages = |at: u64| at << 18..(at << 18) + at;
        assert_eq!(
            (&known[0], &known[RANGES_MAX - 1]),
            (&pages(2), &pages(number))
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn who_maps_what_is_as_it_is_when_all_is_gone_through(
            steps in prop::collection::vec((1u16..5, 0u8..4, prop::collection::vec((0u64..9, 1u64..4), 0..4)), 0..20),
        ) {
            let mut shares = Shares::default();
            for (at, (process, what, drawn)) in (200..).zip(steps) {
                match what {
                    0 => shares.clear(process),
                    1 => shares.inherit(5 - process, process),
                    _ => {
                        for (free, inode) in (at * 10..).zip(1..4) {
                            if shares.space_of(id(inode)).is_none() {
                                shares.add(free, id(inode));
                            }
                        }
                        let ranges = drawn.iter().map(|&(at, inode)| range(at, at + 1, inode, at));
                        shares.set(process, &maps(&ranges.collect::<Vec<_>>()), PAGE_SHIFT);
                    }
                }
                let count = |of: fn(&Maps) -> usize| shares.maps.iter().map(of).sum::<usize>();
                prop_assert_eq!(shares.ranges, count(|maps| maps.ranges.len()));
                prop_assert_eq!(shares.foreign, count(|maps| maps.foreign.len()));
                for (space, object) in &shares.objects {
                    let has = |maps: &&Maps| maps.ranges.iter().any(|range| range.object == *space);
                    let mappers = shares.maps.iter().filter(has).count();
                    prop_assert_eq!(object.mappers as usize, mappers);
                }
                shares.take_unmapped();
                prop_assert!(shares.objects.values().all(|object| object.mappers > 0));
            }
        }

        #[test]
        fn translation_agrees_with_looking_through_the_list(
            drawn in prop::collection::vec((0u64..60, 0u64..9, 1u64..3, 0u64..50), 0..12),
            page in 0u64..80,
        ) {
            let given: Vec<SharedRange> =
                drawn.iter().map(|&(first, length, inode, page)| range(first, first + length, inode, page)).collect();
            let shares = shares(&[(1, &given)]);
            // The same by hand: in order of addresses, the first that does not overlap holds.
            let mut sorted: Vec<&SharedRange> = given.iter().filter(|range| range.start < range.end).collect();
            sorted.sort_by_key(|range| (range.start, range.end));
            let (mut end, mut expected) = (0, (1, page));
            for range in sorted {
                if range.start >= end {
                    end = range.end;
                    let at = page << PAGE_SHIFT;
                    if (range.start..range.end).contains(&at) {
                        let space = if range.object == id(1) { 100 } else { 101 };
                        expected = (space, (range.offset + at - range.start) >> PAGE_SHIFT);
                    }
                }
            }
            let found = shares.translate(1, page);
            prop_assert_eq!(found, expected);
            // And back: somewhere in the process that is the same page.
            if found.0 != 1 {
                let back = shares.page_in(1, found.0, found.1).unwrap();
                prop_assert_eq!(shares.translate(1, back), found);
            }
        }
    }
}
