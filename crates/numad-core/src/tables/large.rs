//! Pages that the kernel maps as one, and moves as one.
//!
//! Threads whose memory lies side by side in such a page cannot each have theirs near. So what is
//! known of where it is, and what is decided of that, is of the large page, whichever of the small
//! ones in it were sampled.

use std::collections::BTreeMap;

use super::forest::Point;
use super::pages::Tag;

/// How many small pages lie in a large one, as a power of two, where small ones have `1 << shift`
/// bytes: it takes the place of one of the kernel's tables, which has a word for each.
pub(crate) const fn bits_in_large(shift: u32) -> u32 {
    shift - (u64::BITS / u8::BITS).trailing_zeros()
}

/// Large pages that were sampled, by the first small page in each.
#[derive(Debug)]
pub(crate) struct LargePages {
    /// How many small pages one has, as a power of two.
    pub bits: u32,
    homes: BTreeMap<Tag, Option<u16>>,
}

impl LargePages {
    /// None are known yet; small pages have `1 << shift` bytes.
    pub(crate) const fn new(shift: u32) -> Self {
        Self {
            bits: bits_in_large(shift),
            homes: BTreeMap::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.homes.is_empty()
    }

    /// Takes what was looked up of a small page.
    pub(crate) fn learn(&mut self, tag: Tag, home: Option<u16>, is_large: bool) {
        let first = first_in_large(tag, self.bits);
        if is_large {
            self.homes.insert(first, home);
        } else if !self.homes.is_empty() {
            self.homes.remove(&first);
        }
    }

    /// Notes where small pages are: all of theirs is there.
    pub(crate) fn set_home(&mut self, tag: Tag, home: Option<u16>) {
        let first = first_in_large(tag, self.bits);
        if let Some(known) = self.homes.get_mut(&first) {
            *known = home;
        }
    }

    /// Where the large page is that begins with this one; none if none does.
    pub(crate) fn home(&self, first: Tag) -> Option<Option<u16>> {
        self.homes.get(&first).copied()
    }

    /// The last small page of a large one that begins here; any other is its own.
    pub(crate) fn last(&self, first: Tag) -> Tag {
        match self.home(first) {
            Some(_) => Tag::from_word(first.word() | ((1 << self.bits) - 1)),
            None => first,
        }
    }

    /// Has samples of small pages be of the large ones that these are part of; whether any was not.
    pub(crate) fn gather(&self, points: &mut [Point]) -> bool {
        let mut firsts = self.homes.keys().copied().peekable();
        let mut gathered = false;
        for point in points {
            let first = first_in_large(point.tag, self.bits);
            while firsts.next_if(|known| *known < first).is_some() {}
            if firsts.peek() == Some(&first) && point.tag != first {
                point.tag = first;
                gathered = true;
            }
        }
        gathered
    }

    /// Forgets those of which no samples are kept.
    pub(crate) fn retain(&mut self, points: &[Point]) {
        let bits = self.bits;
        let sampled = points.iter().map(|point| first_in_large(point.tag, bits));
        let mut sampled = sampled.peekable();
        self.homes.retain(|&first, _| {
            while sampled.next_if(|page| *page < first).is_some() {}
            sampled.peek() == Some(&first)
        });
    }
}

/// The first small page in the large one that a page would be part of.
const fn first_in_large(tag: Tag, bits: u32) -> Tag {
    Tag::from_word(tag.word() >> bits << bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::forest::Forest;

    fn tag(page: u64) -> Tag {
        Tag::new(1, page).unwrap()
    }

    #[test]
    fn what_is_known_of_a_small_page_is_of_all_of_the_large_one() {
        let mut large = LargePages::new(12);
        assert_eq!((large.bits, large.is_empty()), (9, true));
        large.learn(tag(0x205), Some(2), true);
        assert_eq!(large.home(tag(0x200)), Some(Some(2)));
        assert_eq!(large.home(tag(0x205)), None, "it begins elsewhere");
        assert_eq!(large.last(tag(0x200)), tag(0x3ff));
        assert_eq!(large.last(tag(0x100)), tag(0x100));
        large.set_home(tag(0x3ff), Some(1));
        assert_eq!(large.home(tag(0x200)), Some(Some(1)));
        large.set_home(tag(0x400), Some(3));
        assert_eq!(large.home(tag(0x400)), None);
        large.learn(tag(0x300), Some(1), false);
        assert!(large.is_empty(), "the kernel has split it");
    }

    #[test]
    fn samples_of_a_large_page_come_together_and_others_stay() {
        let mut large = LargePages::new(12);
        let mut forest = Forest::default();
        for (page, seat) in [(0x1ff, 0), (0x200, 1), (0x210, 0), (0x3ff, 1), (0x400, 0)] {
            forest.note(tag(page), seat);
        }
        forest.gather(&large);
        assert_eq!(forest.points.len(), 5, "none is known");
        large.learn(tag(0x201), None, true);
        forest.gather(&large);
        let points = forest.points.iter();
        let points: Vec<(u64, u16, u32)> = points
            .map(|point| (point.tag.page(), point.seat, point.samples()))
            .collect();
        let all = [
            (0x1ff, 0, 16),
            (0x200, 0, 16),
            (0x200, 1, 32),
            (0x400, 0, 16),
        ];
        assert_eq!(points, all);
        large.learn(tag(0x801), None, true);
        large.retain(&forest.points);
        assert!(large.home(tag(0x200)).is_some());
        assert!(large.home(tag(0x800)).is_none(), "nobody uses it");
    }
}
