//! Whether who talks to whom is as it was, told from samples.
//!
//! The cosine of two matrices is below 1 even if nothing changed: the squares of what was sampled hold, beside the
//! squares of what is, once more the amounts themselves, because so much is the variance of a count. That is
//! taken off here; of two windows of the same program the cosine is then about 1, however few events there are.

/// How alike two times are by what each pair said in both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Likeness {
    /// 1 where they are the same but for chance.
    pub alike: f64,
    /// By how much that may be wrong: one standard error.
    pub error: f64,
}

/// None where chance alone is seen. One event counts `events` in the one and in the other.
pub(crate) fn likeness(
    pairs: impl Iterator<Item = (f64, f64)> + Clone,
    events: (f64, f64),
) -> Option<Likeness> {
    let mut product = 0.0;
    let (mut one, mut other) = (Said::default(), Said::default());
    for (in_one, in_other) in pairs.clone() {
        product += in_one * in_other;
        one.add(in_one, events.0);
        other.add(in_other, events.1);
    }
    let told = (one.told()?, other.told()?);
    let scale = (told.0 * told.1).sqrt();
    let alike = product / scale;
    // By how much it changes with each amount, times the variance of that amount.
    let variance = pairs.map(|(in_one, in_other)| {
        let by_one = in_other / scale - alike * in_one / told.0;
        let by_other = in_one / scale - alike * in_other / told.1;
        by_one * by_one * in_one * events.0 + by_other * by_other * in_other * events.1
    });
    Some(Likeness {
        alike,
        error: variance.sum::<f64>().sqrt(),
    })
}

/// What was said in one time.
#[derive(Debug, Default)]
struct Said {
    /// The squares of what is.
    told: f64,
    /// By how much they may be wrong, squared.
    variance: f64,
}

/// Standard errors that what is said must be above chance.
const SURE: f64 = 2.0;

impl Said {
    fn add(&mut self, amount: f64, event: f64) {
        let told = amount * (amount - event);
        self.told += told;
        self.variance += event * (4.0 * amount + 2.0 * event) * told.max(0.0);
    }

    /// The squares of what is, unless that could be nothing.
    fn told(&self) -> Option<f64> {
        (self.told > SURE * self.variance.sqrt()).then_some(self.told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events among ten pairs of twenty, each as likely as the others, all counted from this pair on.
    fn talk(dice: &mut u64, first: usize, events: usize) -> [f64; 20] {
        let mut amounts = [0.0; 20];
        for _ in 0..events {
            // Knuth's constants; the upper bits are the random ones.
            *dice = dice.wrapping_mul(6_364_136_223_846_793_005);
            *dice = dice.wrapping_add(1_442_695_040_888_963_407);
            let pair = usize::try_from((*dice >> 33) % 10).unwrap();
            amounts[first + pair] += 7.0;
        }
        amounts
    }

    fn alike(one: &[f64], other: &[f64]) -> Option<f64> {
        let both = one.iter().copied().zip(other.iter().copied());
        Some(likeness(both, (7.0, 7.0))?.alike)
    }

    /// Where little is said, how alike it is strays as much as is told.
    #[test]
    fn how_wrong_it_may_be_is_told() {
        for events in [60, 300] {
            let mut dice = 5;
            let (mut strays, mut told) = (0.0, 0.0);
            for _ in 0..200 {
                let (one, other) = (talk(&mut dice, 0, events), talk(&mut dice, 0, events));
                let both = one.into_iter().zip(other);
                let found = likeness(both, (7.0, 7.0)).unwrap();
                strays += (found.alike - 1.0).powi(2) / 200.0;
                told += found.error.powi(2) / 200.0;
            }
            let times = (told / strays).sqrt();
            assert!((0.7..2.5).contains(&times), "{events}: {times}");
        }
    }

    #[test]
    fn the_same_is_alike_however_few_events_there_are() {
        for (events, near) in [(60, 0.5), (300, 0.1), (3000, 0.02)] {
            let mut dice = 3;
            let mut sum = 0.0;
            for _ in 0..50 {
                let (one, other) = (talk(&mut dice, 0, events), talk(&mut dice, 0, events));
                let alike = alike(&one, &other).unwrap();
                assert!((alike - 1.0).abs() < near, "{events}: {alike}");
                sum += alike;
            }
            assert!((sum / 50.0 - 1.0).abs() < near / 5.0, "{events}: {sum}");
        }
    }

    #[test]
    fn what_changed_is_not() {
        let mut dice = 4;
        let was = talk(&mut dice, 0, 300);
        let mut likeness = |first| alike(&was, &talk(&mut dice, first, 300)).unwrap();
        assert!(likeness(10).abs() < 1e-9);
        assert!((likeness(4) - 0.6).abs() < 0.1);
    }

    #[test]
    fn chance_alone_says_nothing() {
        assert_eq!(alike(&[], &[]), None);
        // Ten events, of ten pairs one each.
        assert_eq!(alike(&[7.0; 10], &[7.0; 10]), None);
        // That one of them is of a pair that had one already is chance as well.
        let mut twice = [7.0; 10];
        twice[3] = 14.0;
        assert_eq!(alike(&twice, &twice), None);
    }
}
