//! How many samples of a window are looked at: as many as a decision can use, whatever the source
//! gives.
//!
//! A policy is given as many pieces of memory as a few samples each can tell of
//! ([`super::pieces`]). What comes beyond that costs instructions and tells nothing new.
//! So of many samples each is kept with the same chance, one in a power of two, and counts as many
//! times as much.

/// Most samples of a program that a window's decision goes by, however many threads it has.
pub(in crate::engine) const SAMPLES_KEPT: u32 = 1 << 13;

/// Samples that a piece of memory has on average, and a page that stands for itself.
pub(super) const PIECE_SAMPLES: u32 = 4;

/// As many for each thread, and so many at least. When there are so many, every second is let go
/// (docs/measurements.md has half and double).
const SAMPLES_OF_THREAD: u32 = 64;
const SAMPLES_LEAST: u32 = 1 << 11;

/// See the module.
#[derive(Debug)]
pub(super) struct Thin {
    /// Most samples that a window goes by.
    pub most: u32,
    /// One sample in two to this power is kept.
    halvings: u32,
    /// Samples kept since it was halved the last time, and half of those before.
    kept: u32,
    /// Samples of this window.
    seen: u64,
    /// Marsaglia's xorshift: which samples are kept must have nothing to do with the order in which
    /// threads take turns, and be the same when samples are replayed.
    state: u64,
}

impl Thin {
    pub(super) const fn new() -> Self {
        Self {
            most: SAMPLES_LEAST,
            halvings: 0,
            kept: 0,
            seen: 0,
            state: 0x9e37_79b9_7f4a_7c15,
        }
    }

    /// Whether all samples of the window are looked at.
    pub(super) const fn keeps_all(&self) -> bool {
        self.halvings == 0
    }

    /// How many samples the next one stands for, if it is kept.
    #[inline]
    pub(super) const fn take(&mut self) -> Option<u32> {
        self.seen += 1;
        if self.halvings > 0 && self.chance() >> (u64::BITS - self.halvings) != 0 {
            return None;
        }
        self.kept += 1;
        Some(self.stands_for())
    }

    /// How many samples one that is kept now stands for.
    pub(super) const fn stands_for(&self) -> u32 {
        1 << self.halvings
    }

    /// Whether there are so many that half of those that were kept are to go.
    #[inline]
    pub(super) const fn is_full(&self) -> bool {
        self.kept >= self.most && self.halvings < HALVINGS_MAX
    }

    /// Keeps half as many from now on, and tells of each that was kept whether it stays.
    pub(super) fn halve(&mut self) -> impl FnMut() -> bool {
        self.halvings += 1;
        self.kept /= 2;
        || self.chance() >> (u64::BITS - 1) == 0
    }

    const fn chance(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    /// Begins a window that is so many times as long as the last, of so many threads, whose memory
    /// was told apart as so many blocks.
    pub(super) fn begin(&mut self, times: f64, (threads, blocks): (usize, usize)) {
        let each =
            |of_one: u32, count| of_one.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
        self.most = each(SAMPLES_OF_THREAD, threads)
            .max(each(PIECE_SAMPLES, blocks))
            .clamp(SAMPLES_LEAST, SAMPLES_KEPT);
        let expected = self.seen as f64 * times;
        let fits = |halvings: &u32| expected <= f64::from(self.most) * f64::from(1 << halvings);
        let halvings = (0..HALVINGS_MAX).find(fits).unwrap_or(HALVINGS_MAX);
        (self.halvings, self.kept, self.seen) = (halvings, 0, 0);
    }
}

/// A sample that stands for more would be more than its weight can say.
const HALVINGS_MAX: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples kept of so many, and what each stands for in the end.
    fn kept(thin: &mut Thin, samples: u64) -> (u64, u64) {
        let mut count = 0;
        for _ in 0..samples {
            count += u64::from(thin.take().is_some());
            if thin.is_full() {
                let mut stays = thin.halve();
                count = (0..count).filter(|_| stays()).count() as u64;
            }
        }
        (count, 1 << thin.halvings)
    }

    #[test]
    fn few_samples_are_all_kept() {
        let mut thin = Thin::new();
        for _ in 0..10 {
            assert_eq!(kept(&mut thin, 2_000), (2_000, 1));
            thin.begin(1.0, (8, 8));
        }
        thin.begin(1.0, (100, 100));
        assert_eq!(kept(&mut thin, 6_000), (6_000, 1));
        thin.begin(1.0, (10_000, 8));
        assert_eq!(kept(&mut thin, 8_000), (8_000, 1));
    }

    #[test]
    fn of_many_as_many_are_kept_as_a_decision_can_use_and_stand_for_all() {
        let mut thin = Thin::new();
        let (count, each) = kept(&mut thin, 1_000_000);
        assert!((950..2_100).contains(&count), "{count}");
        assert!(
            (950_000..1_050_000).contains(&(count * each)),
            "{count} * {each}"
        );
        thin.begin(1.0, (8, 8));
        let (count, each) = kept(&mut thin, 1_000_000);
        assert!((950..2_100).contains(&count), "{count}");
        assert!(
            (950_000..1_050_000).contains(&(count * each)),
            "{count} * {each}"
        );
        // A window an eighth as long has an eighth as many.
        thin.begin(0.125, (8, 8));
        let (count, _) = kept(&mut thin, 125_000);
        assert!((950..2_100).contains(&count), "{count}");
        thin.begin(0.008, (8, 8));
        assert_eq!(kept(&mut thin, 1_000), (1_000, 1));
    }

    #[test]
    fn threads_that_take_turns_are_kept_alike() {
        let mut thin = Thin::new();
        kept(&mut thin, 1_000_000);
        thin.begin(1.0, (8, 8));
        let mut of_threads = [0_u32; 8];
        for turn in 0..1_000_000 {
            if thin.take().is_some() {
                of_threads[turn % 8] += 1;
            }
        }
        let mean = of_threads.iter().sum::<u32>() / 8;
        assert!(
            of_threads.iter().all(|&one| one.abs_diff(mean) < mean / 6),
            "{of_threads:?}"
        );
    }
}
