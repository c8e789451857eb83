//! How many pages go into one call, so that no call stops the target for long.

use std::time::Duration;

/// Sizes batches by measured time. Pure: told how long things took, it never looks.
///
/// The price of a page is the dearest seen lately, forgotten by an eighth with each batch, so that one
/// huge page among small ones makes the next batches small, and not for ever. A batch at most doubles.
///
/// A call has a price of its own, too, whatever it moves: the kernel waits until no processor holds pages aside,
/// and the caller for its turn. Batches that get smaller save nothing of it, so they do not get very small.
#[derive(Clone, Debug)]
pub struct Pacer {
    target_ns: u64,
    page_ns: u64,
    size: usize,
}

impl Pacer {
    /// A pacer that knows nothing yet. No call is to take longer than this.
    #[must_use]
    pub fn new(pause_max: Duration) -> Self {
        let most = u64::try_from(pause_max.as_nanos()).unwrap_or(u64::MAX);
        Self {
            target_ns: most / DEARER,
            page_ns: 0,
            size: BATCH_START,
        }
    }

    /// How many pages the next batch may hold; at least 8.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.size
    }

    /// Learns what a batch took.
    pub fn note(&mut self, pages: usize, spent: Duration) {
        let Ok(pages @ 1..) = u64::try_from(pages) else {
            return;
        };
        let spent = u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX);
        self.page_ns = (spent / pages).max(self.page_ns - self.page_ns / 8);
        let fitting = self.target_ns / self.page_ns.max(1);
        let fitting = usize::try_from(fitting).unwrap_or(BATCH_MAX);
        self.size = fitting.min(self.size * 2).clamp(BATCH_MIN, BATCH_MAX);
    }
}

impl Default for Pacer {
    fn default() -> Self {
        Self::new(PAUSE_MAX)
    }
}

/// The longest pause, where nothing else is asked for.
const PAUSE_MAX: Duration = Duration::from_millis(5);
/// A call is sized to take a part of it: so many times dearer may pages become from one batch to the next.
const DEARER: u64 = 5;
/// 64 pages in one call cost 6 % more per page than 512, single pages three times (docs/decisions/0011).
const BATCH_START: usize = 64;
/// As small as batches get: eight huge pages of 2 MiB, at 0.3 ms each, still take half of those 5 ms.
const BATCH_MIN: usize = 8;
/// Above this nothing is gained any more.
const BATCH_MAX: usize = 512;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Runs batches of pages with a price and tells their sizes.
    fn sizes(prices_us: &[u64]) -> Vec<usize> {
        let mut pacer = Pacer::default();
        let each = prices_us.iter().map(|price| {
            let size = pacer.size();
            pacer.note(size, Duration::from_micros(price * size as u64));
            size
        });
        each.collect()
    }

    #[test]
    fn cheap_pages_make_batches_grow_to_the_most() {
        assert_eq!(sizes(&[1; 5]), [64, 128, 256, 512, 512]);
    }

    #[test]
    fn dear_pages_make_them_shrink_at_once_and_grow_back_slowly() {
        assert_eq!(sizes(&[10, 10, 1000, 1000, 10]), [64, 100, 100, 8, 8]);
        let back = sizes(&[[1000; 2].as_slice(), &[10; 40]].concat());
        assert_eq!(back.last(), Some(&100));
        assert!(back[1..].windows(2).all(|pair| pair[0] <= pair[1]));
    }

    #[test]
    fn where_a_longer_pause_is_allowed_batches_are_larger() {
        let mut pacer = Pacer::new(Duration::from_millis(500));
        pacer.note(64, Duration::from_millis(64));
        assert_eq!(pacer.size(), 100);
    }

    #[test]
    fn nothing_moved_teaches_nothing() {
        let mut pacer = Pacer::default();
        pacer.note(0, Duration::from_secs(1));
        assert_eq!(pacer.size(), 64);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        /// While no page is more than five times dearer than any of the batch before, no batch but
        /// the first takes more than 5 ms, unless it is as small as they get.
        #[test]
        fn no_batch_takes_long(first in 1..=70_u64, factors in prop::collection::vec(1..=50_u64, 1..60)) {
            let mut pacer = Pacer::default();
            let mut price_ns = first * 1000;
            for factor in factors {
                let size = pacer.size();
                let spent = price_ns * size as u64;
                prop_assert!(spent <= 5_000_000 || size == BATCH_MIN, "{size} pages at {price_ns} ns");
                pacer.note(size, Duration::from_nanos(spent));
                price_ns = (price_ns * factor / 10).clamp(1, 1_000_000_000);
            }
        }
    }
}
