//! How many samples of a window are looked at: as many as a decision can use, whatever the source
//! gives.
//!
//! A policy is given some 2,000 pieces of memory at most, and a few samples tell what a piece is
//! used for ([`super::pieces`]). What comes beyond that costs instructions and tells nothing new.
//! So of many samples each is kept with the same chance, one in a power of two, and counts as many
//! times as much.

/// Most samples of a program that a window's decision goes by: four for each of 2,048 pieces. When
/// there are so many, every second is let go. Double of it places no more, half of it too little
/// where programs are small (docs/measurements.md).
pub const SAMPLES_KEPT: u32 = 1 << 13;

/// See the module.
#[derive(Debug)]
pub(super) struct Thin {
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
            halvings: 0,
            kept: 0,
            seen: 0,
            state: 0x9e37_79b9_7f4a_7c15,
        }
    }

    /// How many samples the next one stands for, if it is kept.
    #[inline]
    pub(super) const fn take(&mut self) -> Option<u32> {
        self.seen += 1;
        if self.halvings > 0 && self.chance() >> (u64::BITS - self.halvings) != 0 {
            return None;
        }
        self.kept += 1;
        Some(1 << self.halvings)
    }

    /// Whether there are so many that half of those that were kept are to go.
    #[inline]
    pub(super) const fn is_full(&self) -> bool {
        self.kept >= SAMPLES_KEPT && self.halvings < HALVINGS_MAX
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

    /// Begins a window that is so many times as long as the last.
    pub(super) fn begin(&mut self, times: f64) {
        let expected = self.seen as f64 * times;
        let mut halvings = 0;
        while halvings < HALVINGS_MAX
            && expected > f64::from(SAMPLES_KEPT) * (1_u64 << halvings) as f64
        {
            halvings += 1;
        }
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
            assert_eq!(kept(&mut thin, 8_000), (8_000, 1));
            thin.begin(1.0);
        }
    }

    #[test]
    fn of_many_as_many_are_kept_as_a_decision_can_use_and_stand_for_all() {
        let mut thin = Thin::new();
        let (count, each) = kept(&mut thin, 1_000_000);
        assert!((3_800..8_400).contains(&count), "{count}");
        assert!(
            (950_000..1_050_000).contains(&(count * each)),
            "{count} * {each}"
        );
        thin.begin(1.0);
        let (count, each) = kept(&mut thin, 1_000_000);
        assert!((3_800..8_400).contains(&count), "{count}");
        assert!(
            (950_000..1_050_000).contains(&(count * each)),
            "{count} * {each}"
        );
        // A window an eighth as long has an eighth as many.
        thin.begin(0.125);
        let (count, _) = kept(&mut thin, 125_000);
        assert!((3_800..8_400).contains(&count), "{count}");
        thin.begin(0.008);
        assert_eq!(kept(&mut thin, 1_000), (1_000, 1));
    }

    #[test]
    fn threads_that_take_turns_are_kept_alike() {
        let mut thin = Thin::new();
        kept(&mut thin, 1_000_000);
        thin.begin(1.0);
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
