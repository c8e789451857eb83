//! How many pages go into one call, so that no call stops the target for long.

use std::time::Duration;

/// Sizes batches by measured time. Pure: told what things took, it never looks.
///
/// The price of a page is the dearest seen lately, forgotten by an eighth with each batch, so that
/// one huge page among small ones makes the next batches small, and not for ever. A batch at most
/// doubles.
///
/// It is told processor time. A call also waits, whatever it moves: until no processor holds pages
/// aside, and for its turn on a busy one. Smaller batches wait as long each, and move less.
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

    /// Learns what processor time a batch took.
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

/// How many calls go on side by side, learned from what a page takes in each. Pure, as [`Pacer`].
///
/// Begins with the most. From time to time half as many are tried, then twice as many, for the rest
/// of the machine gets busy or idle: as many stay as move more by a quarter than half as many. What
/// is not gained then is spent by processors that wait for each other.
#[derive(Clone, Debug)]
pub(crate) struct Movers {
    most: usize,
    count: usize,
    /// While others are tried: how many it were, and the nanoseconds that a page took.
    before: Option<(usize, f64)>,
    /// Whether more are tried next, or fewer.
    up: bool,
    rounds: u32,
    pages: u64,
    took_ns: u64,
    /// Rounds left in which it stays as it is.
    rest: u32,
}

impl Movers {
    /// At most so many.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most: most.max(1),
            count: most.max(1),
            before: None,
            up: false,
            rounds: 0,
            pages: 0,
            took_ns: 0,
            rest: 0,
        }
    }

    /// So many from the start and always, for tests of what is done side by side.
    #[cfg(test)]
    pub(crate) fn always(count: usize) -> Self {
        Self {
            rest: u32::MAX,
            ..Self::new(count)
        }
    }

    /// How many may at most.
    pub(crate) const fn most(&self) -> usize {
        self.most
    }

    /// How many go on side by side now.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// Calls that are worth making in one go.
    pub(crate) const fn calls(&self) -> usize {
        match self.count {
            1 => 1,
            count => count * CALLS_EACH,
        }
    }

    /// Learns how many pages so many calls moved, and how long these took by themselves. Fewer calls
    /// than go on now teach nothing.
    pub(crate) fn note(&mut self, calls: usize, pages: usize, took: Duration) {
        if calls < self.count || pages == 0 || self.most == 1 {
            return;
        }
        self.rest = self.rest.saturating_sub(1);
        if self.rest > 0 {
            return;
        }
        self.rounds += 1;
        self.pages += u64::try_from(pages).unwrap_or(u64::MAX);
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.took_ns = self.took_ns.saturating_add(took);
        if self.rounds >= MOVERS_ROUNDS {
            self.choose();
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "a price, which is compared with a margin of six tenths"
    )]
    fn choose(&mut self) {
        let now = (self.count, self.took_ns as f64 / self.pages as f64);
        (self.rounds, self.pages, self.took_ns) = (0, 0, 0);
        let Some(before) = self.before.take() else {
            self.before = Some(now);
            self.up = self.count < self.most && (self.up || self.count == 1);
            self.count = match self.up {
                true => (self.count * 2).min(self.most),
                false => self.count / 2,
            };
            return;
        };
        let (few, many) = match now.0 < before.0 {
            true => (now, before),
            false => (before, now),
        };
        self.count = match many.1 <= few.1 * MOVERS_WAIT {
            true => many.0,
            false => few.0,
        };
        // What was tried is no better: another time the other way.
        if self.count == before.0 {
            self.up = !self.up;
            self.rest = MOVERS_REST;
        }
    }
}

/// Calls in one go for each that goes on at a time, so that who is done first need not wait for the
/// others.
const CALLS_EACH: usize = 4;
/// Rounds after which it is compared: few, for a round of huge pages may take a second.
const MOVERS_ROUNDS: u32 = 2;
/// Rounds until it is looked at again: one in sixteen is spent on that.
const MOVERS_REST: u32 = 32;
/// A page takes so many times as long with twice as many calls side by side, or half as many go:
/// twice as many then move a quarter more.
const MOVERS_WAIT: f64 = 1.6;

/// The longest pause, where nothing else is asked for.
const PAUSE_MAX: Duration = Duration::from_millis(5);
/// A call is sized to take a part of it: so many times dearer may pages become from one batch to
/// the next.
const DEARER: u64 = 5;
/// 64 pages in one call cost 6 % more per page than 512, single pages three times
/// (docs/decisions/0011).
const BATCH_START: usize = 64;
/// As small as batches get: eight huge pages of 2 MiB, at 0.3 ms each, still take half of those 5
/// ms.
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

    /// How many calls go on side by side in each of a thousand rounds of pages that take 2 us each,
    /// where so many move as much in a time as `worth` says of them. At most eight.
    fn counts(worth: impl Fn(usize) -> f64) -> Vec<usize> {
        let mut movers = Movers::new(8);
        let each = (0..1000).map(|_| {
            let count = movers.count();
            let pages = 512 * movers.calls();
            let took_us = pages as f64 * 2.0 * count as f64 / worth(count);
            movers.note(
                movers.calls(),
                pages,
                Duration::from_secs_f64(took_us / 1e6),
            );
            count
        });
        each.collect()
    }

    #[test]
    fn as_many_go_side_by_side_as_move_more() {
        let all = counts(|count| count as f64);
        assert_eq!([all[0], all[2], all[4]], [8, 4, 8]);
        // Once in a while half as many are tried.
        let fewer = all.iter().filter(|&&count| count < 8).count();
        assert!(
            all.iter().all(|&count| count >= 4) && (10..80).contains(&fewer),
            "{fewer}"
        );
        // Two gain three quarters, more gain nothing.
        let some = counts(|count| if count > 1 { 1.75 } else { 1.0 });
        assert!(some[16..].iter().filter(|&&count| count == 2).count() > 900);
        assert!(some[16..].contains(&4) && some[16..].contains(&1));
        // As where one processor does the work of all.
        let one = counts(|_| 1.0);
        assert_eq!([one[0], one[2], one[6], one[10]], [8, 4, 2, 1]);
        assert!(one[16..].iter().filter(|&&count| count == 1).count() > 900);
        assert_eq!(one[16..].iter().max(), Some(&2));
    }

    #[test]
    fn how_many_go_follows_the_machine() {
        let mut movers = Movers::new(8);
        let mut after = |rounds: u32, worth: &dyn Fn(usize) -> f64| {
            for _ in 0..rounds {
                let took = 1e-3 * movers.count() as f64 / worth(movers.count());
                movers.note(movers.calls(), 1000, Duration::from_secs_f64(took));
            }
            movers.count()
        };
        assert_eq!(after(20, &|_| 1.0), 1);
        assert_eq!(after(100, &|count| count as f64), 8);
        assert_eq!(after(100, &|_| 1.0), 1);
    }

    #[test]
    fn calls_that_had_none_beside_them_teach_nothing() {
        let mut movers = Movers::new(4);
        for _ in 0..100 {
            movers.note(3, 512, Duration::from_millis(1));
        }
        assert_eq!(movers.count(), 4);
        let mut alone = Movers::new(1);
        for _ in 0..100 {
            alone.note(1, 512, Duration::from_millis(1));
        }
        assert_eq!(alone.count(), 1);
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
