//! Which pages of a region are used how much, and which lines of them.

use std::ops::Range;

use crate::random::Random;
use crate::world::{PAGE_BYTES, whole};

/// How accesses to a region are spread over its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// All alike.
    Even,
    /// The nearer to its beginning the more, as with words of a language (Zipf's law with exponent 1):
    /// half of all accesses go to three in a hundred pages, at any size.
    HotAndCold,
    /// All pages alike; each thread has small objects of its own in all of them.
    Objects,
}

/// The hottest part of a region that is hot and cold: how many of them it has.
const HOTTEST: f64 = 1024.0;

/// Bytes of an object: two lines, as nodes of lists and trees with their headers have.
const OBJECT_BYTES: u64 = 128;
const LINE_BYTES: u64 = 64;

impl Access {
    /// Whether all pages are used alike.
    pub(crate) const fn is_even(self) -> bool {
        !matches!(self, Self::HotAndCold)
    }

    /// How much a run of pages is used, of a region of so many: its share times the number of pages.
    pub(crate) fn heat(self, run: &Range<u64>, pages: u64) -> f64 {
        match self {
            Self::Even | Self::Objects => (run.end - run.start) as f64,
            Self::HotAndCold => {
                let until = |page: u64| f64::ln_1p(page as f64 * HOTTEST / pages as f64);
                (until(run.end) - until(run.start)) / f64::ln_1p(HOTTEST) * pages as f64
            }
        }
    }

    /// A page and the place in it, in bytes, as one of so many threads that use the region comes upon it.
    pub(crate) fn draw(self, pages: u64, user: (usize, usize), random: &mut Random) -> (u64, u64) {
        let below = |random: &mut Random, limit: u64| {
            random.below(usize::try_from(limit).unwrap_or(usize::MAX)) as u64
        };
        match self {
            Self::Even => {
                let page = below(random, pages);
                (page, below(random, PAGE_BYTES / LINE_BYTES) * LINE_BYTES)
            }
            Self::HotAndCold => {
                let scale = pages as f64 / HOTTEST;
                let page = whole(scale * f64::exp_m1(random.unit() * f64::ln_1p(HOTTEST)));
                let line = below(random, PAGE_BYTES / LINE_BYTES);
                (page.min(pages - 1), line * LINE_BYTES)
            }
            Self::Objects => {
                let (user, users) = (user.0 as u64, user.1.max(1) as u64);
                let rounds = (pages * PAGE_BYTES / OBJECT_BYTES / users).max(1);
                let round = below(random, rounds);
                // Everyone allocates once in a round, never in the same order.
                let turn = (user + round.wrapping_mul(0x9e37_79b9_7f4a_7c15) % users) % users;
                let at = (round * users + turn) * OBJECT_BYTES + below(random, 2) * LINE_BYTES;
                let at = at.min(pages * PAGE_BYTES - LINE_BYTES);
                (at / PAGE_BYTES, at % PAGE_BYTES)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_all_accesses_go_to_three_in_a_hundred_pages() {
        for pages in [128, 1 << 18, 1 << 28] {
            let share = |run: Range<u64>| Access::HotAndCold.heat(&run, pages) / pages as f64;
            assert!((share(0..pages) - 1.0).abs() < 1e-9);
            let hot = share(0..pages * 3 / 100);
            assert!((0.44..0.56).contains(&hot), "{hot} of {pages} pages");
            let mut random = Random::new(7, 0);
            let drawn = (0..4000)
                .filter(|_| {
                    let (page, at) = Access::HotAndCold.draw(pages, (0, 1), &mut random);
                    assert!(page < pages && at < PAGE_BYTES);
                    page < pages * 3 / 100
                })
                .count();
            assert!((drawn as f64 / 4000.0 - hot).abs() < 0.03, "{drawn}");
        }
    }

    #[test]
    fn objects_are_of_one_thread_and_pages_of_many() {
        let (pages, users) = (64, 5);
        let mut random = Random::new(1, 0);
        let mut owner = std::collections::BTreeMap::new();
        let mut of_page = std::collections::BTreeMap::new();
        for draw in 0..20_000 {
            let user = draw % users;
            let (page, at) = Access::Objects.draw(pages, (user, users), &mut random);
            assert!(page < pages);
            let object = (page, at / OBJECT_BYTES);
            assert_eq!(*owner.entry(object).or_insert(user), user);
            let there: &mut std::collections::BTreeSet<usize> = of_page.entry(page).or_default();
            there.insert(user);
        }
        assert!(of_page.values().all(|there| there.len() == users));
    }
}
