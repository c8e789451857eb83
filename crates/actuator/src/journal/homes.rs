//! Where pages were before they were first moved, in runs of pages side by side: what it takes grows with how
//! scattered they were, not with how many they are.

use std::collections::BTreeMap;
use std::ops::Bound;

use topology::NodeId;

/// Pages side by side, each `step` bytes after the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRun {
    /// The first of them.
    pub first: u64,
    /// How far they are apart, at least 1.
    pub step: u32,
    /// How many, at least 1.
    pub count: u32,
}

/// Most pages of one run: 64 GiB of small ones. What claims more was not written by us.
pub(crate) const RUN_PAGES_MAX: u32 = 1 << 24;

impl PageRun {
    pub(crate) const fn one(page: u64) -> Self {
        Self {
            first: page,
            step: 1,
            count: 1,
        }
    }

    /// How far ascending pages are apart that are side by side: the size of a page, where any two of these are.
    pub(crate) fn step_of(mut pages: impl Iterator<Item = u64>) -> Option<u32> {
        let mut before = pages.next()?;
        let mut least = u64::MAX;
        for page in pages {
            if page > before {
                least = least.min(page - before);
            }
            before = page;
        }
        u32::try_from(least).ok()
    }

    /// Pages, ascending, as runs of those that are so far apart.
    pub(crate) fn of(pages: &[u64], step: Option<u32>) -> Vec<Self> {
        let mut runs = Vec::new();
        Self::extend(&mut runs, pages.iter().copied(), step);
        runs
    }

    /// Adds ascending pages to runs of those that are so far apart, ascending as well.
    pub(crate) fn extend(
        runs: &mut Vec<Self>,
        pages: impl Iterator<Item = u64>,
        step: Option<u32>,
    ) {
        for page in pages {
            match (runs.last_mut(), step) {
                (Some(run), _) if run.last() == page => {}
                (Some(run), Some(step))
                    if run.count < RUN_PAGES_MAX && run.last() + u64::from(step) == page =>
                {
                    run.step = step;
                    run.count += 1;
                }
                _ => runs.push(Self::one(page)),
            }
        }
    }

    /// The last of them.
    pub(crate) const fn last(&self) -> u64 {
        self.page(self.count - 1)
    }

    const fn page(&self, index: u32) -> u64 {
        self.first + index as u64 * self.step as u64
    }

    /// How many pages are before an address.
    fn before(&self, address: u64) -> u32 {
        let bytes = address.saturating_sub(self.first);
        let count = bytes.div_ceil(u64::from(self.step));
        u32::try_from(count).unwrap_or(u32::MAX).min(self.count)
    }

    fn has(&self, page: u64) -> bool {
        let index = self.before(page);
        index < self.count && self.page(index) == page
    }

    /// The part from one page to before another, by their numbers in the run.
    const fn part(&self, from: u32, to: u32) -> Self {
        Self {
            first: self.page(from),
            step: self.step,
            count: to - from,
        }
    }
}

/// Where a page was before we first moved it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Home {
    pub node: NodeId,
    /// Greater than that of any page in an earlier row.
    pub order: u32,
}

/// The homes of all pages of one owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Homes {
    /// By their first pages. Where one ends the next has not begun.
    runs: BTreeMap<u64, (PageRun, Home)>,
    pages: usize,
}

impl Homes {
    /// How many pages.
    pub(crate) const fn len(&self) -> usize {
        self.pages
    }

    /// In how many runs.
    pub(crate) fn runs(&self) -> usize {
        self.runs.len()
    }

    /// The home of a page.
    pub(crate) fn get(&self, page: u64) -> Option<Home> {
        let (run, home) = self.around(page)?;
        run.has(page).then_some(home)
    }

    /// Those pages that have none, in their order. Of pages side by side only the first is looked up: what is found
    /// holds for all up to the end of a run, or of the gap between two.
    pub(crate) fn without<V: Copy>(&self, pages: &[(u64, V)]) -> Vec<(u64, V)> {
        let mut run: Option<PageRun> = None;
        let mut gap = 0..0;
        let fresh = pages.iter().filter(|&&(page, _)| {
            if gap.contains(&page) {
                return true;
            }
            if run.is_some_and(|run| run.has(page)) {
                return false;
            }
            run = self.around(page).map(|(run, _)| run);
            let end = run.filter(|run| page <= run.last());
            if end.is_none() {
                let next = self.runs.range(page..).next();
                gap = page..next.map_or(u64::MAX, |(&first, _)| first);
            }
            end.is_none_or(|run| !run.has(page))
        });
        fresh.copied().collect()
    }

    /// Pages from one address to before another, ascending, with their homes.
    pub(crate) fn within(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, Home)> + '_ {
        let begun = self.around(from).filter(|(run, _)| run.first < from);
        let later = self.runs.range(from..).map(|(_, &entry)| entry);
        begun
            .into_iter()
            .chain(later)
            .take_while(move |(run, _)| run.first < to)
            .flat_map(move |(run, home)| {
                let part = (run.before(from), run.before(to));
                (part.0..part.1).map(move |index| (run.page(index), home))
            })
    }

    /// All runs, ascending.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (PageRun, Home)> + '_ {
        self.runs.values().copied()
    }

    /// Takes the home of those pages of a run that have none yet.
    pub(crate) fn insert(&mut self, run: PageRun, home: Home) {
        let mut index = 0;
        while index < run.count {
            let page = run.page(index);
            if let Some((there, _)) = self.around(page).filter(|(there, _)| page <= there.last()) {
                if there.has(page) {
                    index = run.after_common(index, &there);
                } else {
                    // Pages of other sizes in between: none that a kernel has.
                    self.split(page);
                    self.put(PageRun::one(page), home);
                    index += 1;
                }
                continue;
            }
            let next = self.runs.range(page..).next().map(|(&first, _)| first);
            let end = next.map_or(run.count, |next| run.before(next));
            self.put(run.part(index, end), home);
            index = end;
        }
    }

    /// Forgets these pages, those of no run as well.
    pub(crate) fn remove(&mut self, run: PageRun) {
        let mut index = 0;
        while index < run.count {
            let page = run.page(index);
            let Some((there, home)) = self.around(page).filter(|(there, _)| there.has(page)) else {
                // Whatever is next.
                let next = self.runs.range(page + 1..).next().map(|(&first, _)| first);
                let inside = self
                    .around(page)
                    .is_some_and(|(there, _)| page < there.last());
                index = match (inside, next) {
                    (true, _) => index + 1,
                    (false, Some(next)) => run.before(next).max(index + 1),
                    (false, None) => run.count,
                };
                continue;
            };
            let end = run.after_common(index, &there);
            let (from, to) = (there.before(page), there.before(run.page(end - 1) + 1));
            self.runs.remove(&there.first);
            self.pages -= there.count as usize;
            for part in [(0, from), (to, there.count)] {
                if part.0 < part.1 {
                    self.put(there.part(part.0, part.1), home);
                }
            }
            index = end;
        }
    }

    /// Gives a page that has a home another, by the same row.
    pub(crate) fn rehome(&mut self, page: u64, node: NodeId) {
        if let Some(home) = self.get(page) {
            self.remove(PageRun::one(page));
            self.insert(PageRun::one(page), Home { node, ..home });
        }
    }

    /// The run that begins at an address or before it, and last of those.
    fn around(&self, address: u64) -> Option<(PageRun, Home)> {
        let before = (Bound::Unbounded, Bound::Included(address));
        self.runs.range(before).next_back().map(|(_, &entry)| entry)
    }

    /// Makes two runs of the one around an address that is none of its pages.
    fn split(&mut self, address: u64) {
        if let Some((run, home)) = self.around(address) {
            let at = run.before(address);
            self.runs.insert(run.first, (run.part(0, at), home));
            let rest = run.part(at, run.count);
            self.runs.insert(rest.first, (rest, home));
        }
    }

    fn put(&mut self, run: PageRun, home: Home) {
        self.pages += run.count as usize;
        self.runs.insert(run.first, (run, home));
    }
}

impl PageRun {
    /// The number of the first page after `index` that is not, or not surely, a page of another run that has the
    /// one at `index`.
    fn after_common(&self, index: u32, other: &Self) -> u32 {
        match self.step == other.step {
            true => self.before(other.last() + 1).max(index + 1),
            false => index + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pages_side_by_side_are_one_run() {
        let run = |first, count| PageRun {
            first,
            step: 0x1000,
            count,
        };
        let runs = |mut pages: Vec<u64>| {
            pages.sort_unstable();
            let step = PageRun::step_of(pages.iter().copied());
            PageRun::of(&pages, step)
        };
        assert_eq!(runs(vec![]), []);
        assert_eq!(runs(vec![7]), [PageRun::one(7)]);
        assert_eq!(
            runs(vec![0x3000, 0x1000, 0x2000, 0x2000, 0x9000, 0xa000, 0xc000]),
            [run(0x1000, 3), run(0x9000, 2), PageRun::one(0xc000)]
        );
    }

    #[test]
    fn a_terabyte_that_was_on_one_node_takes_a_few_entries() {
        let mut homes = Homes::default();
        for piece in 0..16_u64 {
            let run = PageRun {
                first: piece << 36,
                step: 4096,
                count: RUN_PAGES_MAX,
            };
            let (node, order) = (NodeId(0), 1);
            homes.insert(run, Home { node, order });
        }
        assert_eq!((homes.len(), homes.runs()), (1 << 28, 16));
        homes.remove(PageRun::one(5 << 12));
        assert_eq!((homes.len(), homes.runs()), ((1 << 28) - 1, 17));
        assert_eq!(homes.within(4 << 12, 7 << 12).count(), 2);
    }

    fn pages(run: PageRun) -> impl Iterator<Item = u64> {
        (0..run.count).map(move |index| run.page(index))
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(PageRun, u32),
        Remove(PageRun),
        Rehome(u64, u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        // Steps of 4 as in life, and others that no kernel has.
        let run = (
            0..200_u64,
            prop_oneof![5 => Just(4_u32), 1 => 1..9_u32],
            1..30_u32,
        );
        let run = run.prop_map(|(first, step, count)| PageRun { first, step, count });
        prop_oneof![
            4 => (run.clone(), 0..4_u32).prop_map(|(run, node)| Step::Insert(run, node)),
            3 => run.prop_map(Step::Remove),
            1 => (0..300_u64, 0..4_u32).prop_map(|(page, node)| Step::Rehome(page, node)),
        ]
    }

    proptest! {
        /// As a map of pages, whatever is done to it.
        #[test]
        fn runs_are_a_map_of_pages(steps in prop::collection::vec(step(), 1..40), from in 0..300_u64, long in 0..200_u64) {
            let (mut homes, mut model) = (Homes::default(), BTreeMap::new());
            for (order, step) in (0..).zip(steps) {
                match step {
                    Step::Insert(run, node) => {
                        let home = Home { node: NodeId(node), order };
                        homes.insert(run, home);
                        for page in pages(run) {
                            model.entry(page).or_insert(home);
                        }
                    }
                    Step::Remove(run) => {
                        homes.remove(run);
                        for page in pages(run) {
                            model.remove(&page);
                        }
                    }
                    Step::Rehome(page, node) => {
                        homes.rehome(page, NodeId(node));
                        if let Some(home) = model.get_mut(&page) {
                            home.node = NodeId(node);
                        }
                    }
                }
                let told: Vec<(u64, Home)> = homes.within(0, u64::MAX).collect();
                let wanted: Vec<(u64, Home)> = model.iter().map(|(&page, &home)| (page, home)).collect();
                prop_assert_eq!(&told, &wanted);
                prop_assert_eq!(homes.len(), model.len());
            }
            for page in 0..400 {
                prop_assert_eq!(homes.get(page), model.get(&page).copied());
            }
            // Some of them twice, and not in order.
            let asked: Vec<(u64, ())> = (0..400).chain(from..from + long).map(|page| (page, ())).collect();
            let wanted = asked.iter().copied().filter(|(page, ())| !model.contains_key(page));
            prop_assert_eq!(homes.without(&asked), wanted.collect::<Vec<_>>());
            let told: Vec<(u64, Home)> = homes.within(from, from + long).collect();
            let wanted: Vec<(u64, Home)> = model.range(from..from + long).map(|(&page, &home)| (page, home)).collect();
            prop_assert_eq!(told, wanted);
        }
    }
}
