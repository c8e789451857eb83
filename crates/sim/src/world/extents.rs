//! What holds for runs of pages, in room that grows with runs and not with pages.

use std::collections::BTreeMap;
use std::ops::Range;

/// A value for each page that has one. Neighbours of the same value are one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Extents<V> {
    /// By first page: the page after the last, and the value.
    runs: BTreeMap<u64, (u64, V)>,
}

// By hand: the derived one would ask for `V: Default`.
impl<V> Default for Extents<V> {
    fn default() -> Self {
        Self {
            runs: BTreeMap::new(),
        }
    }
}

impl<V: Copy + PartialEq> Extents<V> {
    /// The value of a page.
    pub(super) fn get(&self, page: u64) -> Option<V> {
        let (_, &(end, value)) = self.runs.range(..=page).next_back()?;
        (page < end).then_some(value)
    }

    /// All runs, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Range<u64>, V)> + '_ {
        self.runs
            .iter()
            .map(|(&start, &(end, value))| (start..end, value))
    }

    /// The parts of runs that lie in a range, ascending.
    pub(super) fn within(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, V)> + '_ {
        let before = self.runs.range(..range.start).next_back();
        let inside = self.runs.range(range.start..range.end.max(range.start));
        before
            .into_iter()
            .chain(inside)
            .map(move |(&start, &(end, value))| (start.max(range.start)..end.min(range.end), value))
            .filter(|(run, _)| !run.is_empty())
    }

    /// The parts of a range that have no value, ascending.
    pub(super) fn gaps(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let mut at = range.start;
        for (run, _) in self.within(range.clone()) {
            gaps.push(at..run.start);
            at = run.end;
        }
        gaps.push(at..range.end);
        gaps.retain(|gap| !gap.is_empty());
        gaps
    }

    /// Gives all pages of a range this value.
    pub(super) fn set(&mut self, range: Range<u64>, value: V) {
        if range.is_empty() {
            return;
        }
        self.cut(range.start);
        self.cut(range.end);
        while let Some((&start, _)) = self.runs.range(range.clone()).next() {
            self.runs.remove(&start);
        }
        let (mut start, mut end) = (range.start, range.end);
        if let Some((&before, &(until, theirs))) = self.runs.range(..start).next_back()
            && until == start
            && theirs == value
        {
            start = before;
        }
        if let Some(&(until, theirs)) = self.runs.get(&end)
            && theirs == value
        {
            self.runs.remove(&end);
            end = until;
        }
        self.runs.insert(start, (end, value));
    }

    /// Gives this value to the pages of a range that have none.
    pub(super) fn fill(&mut self, range: Range<u64>, value: V) {
        for gap in self.gaps(range) {
            self.set(gap, value);
        }
    }

    /// Lets a run end where it goes on from here, without joining.
    fn cut(&mut self, at: u64) {
        if let Some((_, run)) = self.runs.range_mut(..at).next_back()
            && run.0 > at
        {
            let (end, value) = *run;
            run.0 = at;
            self.runs.insert(at, (end, value));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Beside a table with a value for each page.
        #[test]
        fn runs_are_what_pages_would_be(
            changes in prop::collection::vec((0_u64..60, 0_u64..30, 0_u8..3, any::<bool>()), 0..40)
        ) {
            let mut runs = Extents::default();
            let mut pages = [None; 100];
            for (start, length, value, everywhere) in changes {
                let range = start..start + length;
                for page in range.clone() {
                    let page = &mut pages[usize::try_from(page).unwrap()];
                    if everywhere || page.is_none() {
                        *page = Some(value);
                    }
                }
                if everywhere {
                    runs.set(range, value);
                } else {
                    runs.fill(range, value);
                }
                for (page, value) in (0..).zip(pages) {
                    prop_assert_eq!(runs.get(page), value);
                }
                let all: Vec<_> = runs.iter().collect();
                for pair in all.windows(2) {
                    let joined = pair[0].0.end == pair[1].0.start && pair[0].1 == pair[1].1;
                    prop_assert!(pair[0].0.end <= pair[1].0.start && !joined, "{:?}", all);
                }
                let seen: u64 = runs.within(10..40).map(|(run, _)| run.end - run.start).sum();
                let open: u64 = runs.gaps(10..40).iter().map(|run| run.end - run.start).sum();
                prop_assert_eq!(seen + open, 30);
                prop_assert_eq!(seen, pages[10..40].iter().flatten().count() as u64);
            }
        }
    }
}
