//! What papers keep of each page, kept only for methods as published: exact, and dearer than [`super::pages`].

use std::collections::BTreeMap;

use super::Seat;
use super::bits::Bits;
use super::pages::Tag;
use crate::policy::ACCESSORS_MAX;

/// The pages of one program.
#[derive(Debug)]
pub(crate) struct Paper {
    pub pages: BTreeMap<Tag, Kept>,
    pages_max: usize,
}

/// What is kept of a page.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    /// LAPT's communication vector, the most recent first.
    pub vector: Vec<Seat>,
    /// Accesses in this window.
    pub uses: Vec<(Seat, u64)>,
}

impl Paper {
    /// For at most so many pages; what comes later is not kept.
    pub(crate) const fn new(pages_max: usize) -> Self {
        Self {
            pages: BTreeMap::new(),
            pages_max,
        }
    }

    /// Notes an access and gives the vector before it, by which the matrix is counted (LAPT, eq. 1); the vector is then
    /// shifted (eq. 2 and 3).
    pub(crate) fn note(&mut self, tag: Tag, seat: Seat, weight: u64) -> Vec<Seat> {
        if self.pages.len() >= self.pages_max && !self.pages.contains_key(&tag) {
            return Vec::new();
        }
        let kept = self.pages.entry(tag).or_default();
        match kept.uses.iter_mut().find(|(user, _)| *user == seat) {
            Some((_, sum)) => *sum = sum.saturating_add(weight),
            None => kept.uses.push((seat, weight)),
        }
        let before = kept.vector.clone();
        kept.vector.insert(0, seat);
        kept.vector.truncate(ACCESSORS_MAX);
        before
    }

    /// Begins a window. When there is no room left, pages make way that nobody used in the last.
    pub(crate) fn begin(&mut self) {
        if self.pages.len() >= self.pages_max {
            self.pages.retain(|_, kept| !kept.uses.is_empty());
        }
        self.pages.values_mut().for_each(|kept| kept.uses.clear());
    }

    /// Forgets seats and spaces that are void.
    pub(crate) fn forget(&mut self, seats: &Bits, spaces: &Bits) {
        if seats.is_empty() && spaces.is_empty() {
            return;
        }
        let is_gone = |seat: Seat| seats.contains(usize::from(seat));
        self.pages.retain(|tag, kept| {
            kept.vector.retain(|&seat| !is_gone(seat));
            kept.uses.retain(|&(seat, _)| !is_gone(seat));
            !spaces.contains(usize::from(tag.space()))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vector_is_that_of_the_paper() {
        let tag = Tag::new(1, 7).unwrap();
        let mut paper = Paper::new(1);
        for seat in [4, 1, 2, 0] {
            paper.note(tag, seat, 1);
        }
        // LAPT, section III-D.
        assert_eq!(paper.note(tag, 3, 1), [0, 2, 1, 4]);
        assert_eq!(paper.pages.get(&tag).unwrap().vector, [3, 0, 2, 1]);
        // Read to the letter, one thread may fill it.
        assert_eq!(paper.note(tag, 3, 5), [3, 0, 2, 1]);
        assert_eq!(paper.pages.get(&tag).unwrap().vector, [3, 3, 0, 2]);
        assert_eq!(paper.pages.get(&tag).unwrap().uses.last(), Some(&(3, 6)));
        assert!(paper.note(Tag::new(1, 8).unwrap(), 3, 1).is_empty(), "full");
        paper.begin();
        assert!(paper.pages.get(&tag).unwrap().uses.is_empty());
    }

    #[test]
    fn pages_make_way_that_are_used_no_more() {
        let tag = |page| Tag::new(1, page).unwrap();
        let mut paper = Paper::new(2);
        let mut kept = |page| {
            paper.note(tag(7), 3, 1);
            paper.note(tag(page), 4, 1);
            paper.begin();
            [7, 8, 9].map(|page| paper.pages.contains_key(&tag(page)))
        };
        assert_eq!(kept(8), [true, true, false]);
        assert_eq!(kept(9), [true, false, false], "there was no room");
        assert_eq!(kept(9), [true, false, true]);
    }
}
