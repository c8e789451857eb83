//! Something about pages, kept by runs of pages that have it in common: memory that moved together costs one entry,
//! however much it is.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::policy::{PageKey, SpaceId};

/// Values of pages, equal ones side by side together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs<V: Copy> {
    /// By first page: the page after the last, and what they have in common.
    held: BTreeMap<PageKey, (u64, V)>,
}

impl<V: Copy + PartialEq> Runs<V> {
    /// How many runs there are.
    pub(crate) fn count(&self) -> usize {
        self.held.len()
    }

    /// The value of a page.
    pub(crate) fn at(&self, page: PageKey) -> Option<V> {
        Some(self.run_of(page)?.1)
    }

    /// The first page of the run of a page, and its value.
    fn run_of(&self, page: PageKey) -> Option<(PageKey, V)> {
        let (&first, &(end, value)) = self.held.range(..=page).next_back()?;
        (first.space == page.space && page.page < end).then_some((first, value))
    }

    /// The runs that have pages in common with these, cut to them, in order.
    pub(crate) fn within(
        &self,
        space: SpaceId,
        pages: Range<u64>,
    ) -> impl Iterator<Item = (Range<u64>, V)> + '_ {
        let at = |page| PageKey { space, page };
        let before = self.held.range(..at(pages.start)).next_back();
        let before = before.filter(|(first, _)| first.space == space);
        let inside = at(pages.start)..at(pages.end.max(pages.start));
        let all = before.into_iter().chain(self.held.range(inside));
        all.map(move |(first, &(end, value))| {
            (first.page.max(pages.start)..end.min(pages.end), value)
        })
        .filter(|(run, _)| !run.is_empty())
    }

    /// Gives all these pages a value.
    pub(crate) fn set(&mut self, space: SpaceId, pages: Range<u64>, value: V) {
        self.clear(space, pages.clone());
        self.join(space, pages, value);
    }

    /// Gives each of these pages what is made of the value that it had, or of having none.
    pub(crate) fn update(
        &mut self,
        space: SpaceId,
        pages: Range<u64>,
        mut change: impl FnMut(Option<V>) -> Option<V>,
    ) {
        let known = self.clear(space, pages.clone()).into_iter();
        let known = known.map(|(run, value)| (run, Some(value)));
        let mut at = pages.start;
        for (run, value) in known.chain([(pages.end..pages.end, None)]) {
            let parts = [(at..run.start, None), (run.clone(), value)];
            for (run, value) in parts.into_iter().filter(|(run, _)| !run.is_empty()) {
                if let Some(value) = change(value) {
                    self.join(space, run, value);
                }
            }
            at = run.end;
        }
    }

    /// Forgets these pages; what was known of them.
    fn clear(&mut self, space: SpaceId, pages: Range<u64>) -> Vec<(Range<u64>, V)> {
        let cut: Vec<(Range<u64>, V)> = self.within(space, pages).collect();
        let at = |page| PageKey { space, page };
        for (run, _) in &cut {
            let before = self.held.range(..=at(run.start)).next_back();
            let Some((&first, &(end, value))) = before else {
                continue;
            };
            self.held.remove(&first);
            if first.page < run.start {
                self.held.insert(first, (run.start, value));
            }
            if run.end < end {
                self.held.insert(at(run.end), (end, value));
            }
        }
        cut
    }

    /// Forgets the run of a page.
    pub(crate) fn forget(&mut self, page: PageKey) {
        if let Some((first, _)) = self.run_of(page) {
            self.held.remove(&first);
        }
    }

    /// Changes every value in its place. Runs that become equal stay two.
    pub(crate) fn each(&mut self, mut change: impl FnMut(&mut V)) {
        self.held.values_mut().for_each(|(_, value)| change(value));
    }

    /// All values.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.held.values().map(|(_, value)| value)
    }

    /// Keeps what a question says yes to.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(SpaceId, &V) -> bool) {
        self.held
            .retain(|first, (_, value)| keep(first.space, value));
    }

    /// Puts in pages that are not held, together with equal ones on either side.
    fn join(&mut self, space: SpaceId, pages: Range<u64>, value: V) {
        if pages.is_empty() {
            return;
        }
        let at = |page| PageKey { space, page };
        let mut first = pages.start;
        let mut end = pages.end;
        if let Some((&before, &(stop, known))) = self.held.range(..at(first)).next_back()
            && (before.space, stop, known) == (space, first, value)
        {
            first = before.page;
        }
        if let Some(&(stop, known)) = self.held.get(&at(end))
            && known == value
        {
            self.held.remove(&at(end));
            end = stop;
        }
        self.held.insert(at(first), (end, value));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SPACE: SpaceId = SpaceId(3);

    #[test]
    fn what_moved_together_is_one_run() {
        let mut runs = Runs::default();
        for page in [5, 7, 6, 8] {
            runs.set(SPACE, page..page + 1, 'x');
        }
        assert_eq!(runs.count(), 1);
        runs.set(SPACE, 6..7, 'y');
        let held: Vec<_> = runs.within(SPACE, 0..100).collect();
        assert_eq!(held, [(5..6, 'x'), (6..7, 'y'), (7..9, 'x')]);
        let page = |space| PageKey { space, page: 7 };
        assert_eq!(
            (runs.at(page(SPACE)), runs.at(page(SpaceId(4)))),
            (Some('x'), None)
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn behaves_as_a_map_of_pages(
            steps in prop::collection::vec((0u32..2, 0u64..40, 0u64..20, 0u8..4), 0..60),
        ) {
            let (mut runs, mut model) = (Runs::default(), BTreeMap::new());
            for (space, first, count, value) in steps {
                let (space, pages) = (SpaceId(space), first..first + count);
                match value {
                    0 => {
                        runs.clear(space, pages.clone());
                        pages.for_each(|page| { model.remove(&(space, page)); });
                    }
                    1 => {
                        runs.update(space, pages.clone(), |old| Some(old.map_or(9, |old| old + 1)));
                        for page in pages {
                            let old: Option<u8> = model.get(&(space, page)).copied();
                            model.insert((space, page), old.map_or(9, |old| old + 1));
                        }
                    }
                    value => {
                        runs.set(space, pages.clone(), value);
                        pages.for_each(|page| { model.insert((space, page), value); });
                    }
                }
            }
            for space in [SpaceId(0), SpaceId(1)] {
                for page in 0..64 {
                    let expected = model.get(&(space, page)).copied();
                    prop_assert_eq!(runs.at(PageKey { space, page }), expected);
                }
                let held: u64 = runs.within(space, 0..64).map(|(run, _)| run.end - run.start).sum();
                let expected = model.keys().filter(|(of, _)| *of == space).count() as u64;
                prop_assert_eq!(held, expected);
            }
        }
    }
}
