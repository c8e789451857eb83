//! How sure figures are that rest on samples.
//!
//! Two questions are asked of every wish of a policy:
//!
//! - *Could it be chance?* Every sample behind a move speaks for it, because the access gets nearer, or
//!   against it. If nothing were to be gained both would come equally often. The share that speaks for
//!   the move is compared with the most that chance alone explains ([`Certainty::weigh`]): with one
//!   sample it is never sure at 0.9, with two that agree it is.
//! - *Was it picked from many?* Of many plans the best looks good by chance as well. So a plan of thread
//!   moves has to outdo the best of as many plans as there are ([`Certainty::weigh_chosen`]): the
//!   more threads it moves, the more samples must speak for it.
//!
//! Samples are taken as independent of each other, which those of one sweep are not quite; a set
//! confidence of 0.9 is thus an upper bound of what is true.
//!
//! Only `+ - * /`, square roots and comparisons on `f64`, so that results are the same bits on
//! every platform.

use std::collections::BTreeSet;

/// A share of samples with its bounds, and what chance explains.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evidence {
    /// Samples that speak for it or against it; not always whole, because older ones count less.
    pub samples: f64,
    /// Share of them that speaks for it, 0 to 1.
    pub share: f64,
    /// Lower bound of the true share; it is below this with at most the doubt that is left.
    pub low: f64,
    /// Upper bound, likewise.
    pub high: f64,
    /// The share that chance alone explains; above 1 where no share would convince.
    pub chance: f64,
}

impl Evidence {
    /// Whether chance alone does not explain it.
    #[must_use]
    pub fn convinces(&self) -> bool {
        self.samples > 0.0 && self.share > self.chance
    }
}

/// How sure one wants to be: a probability and the quantile of the normal distribution for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Certainty {
    confidence: f64,
    z: f64,
}

/// Least and most that can be asked for.
pub const CONFIDENCE_MIN: f64 = 0.5;
/// See [`CONFIDENCE_MIN`].
pub const CONFIDENCE_MAX: f64 = 0.999;

impl Certainty {
    /// Certainty of this probability; one out of bounds is brought within 0.5 and 0.999.
    #[must_use]
    pub fn of(confidence: f64) -> Self {
        let confidence = if confidence.is_nan() {
            CONFIDENCE_MAX
        } else {
            confidence.clamp(CONFIDENCE_MIN, CONFIDENCE_MAX)
        };
        Self {
            confidence,
            z: quantile(confidence),
        }
    }

    /// The probability.
    #[must_use]
    pub const fn confidence(self) -> f64 {
        self.confidence
    }

    /// Wilson's interval for a share of which `hits` of `samples` were seen. Without samples it is
    /// everything.
    #[must_use]
    pub fn bounds(self, hits: f64, samples: f64) -> (f64, f64) {
        if samples <= 0.0 {
            return (0.0, 1.0);
        }
        let share = (hits / samples).clamp(0.0, 1.0);
        let spread = self.z * self.z / samples;
        let middle = (share + spread / 2.0) / (1.0 + spread);
        let width =
            (share * (1.0 - share) * spread + spread * spread / 4.0).sqrt() / (1.0 + spread);
        ((middle - width).max(0.0), (middle + width).min(1.0))
    }

    /// Weighs samples for and against something that nobody picked from many.
    #[must_use]
    pub fn weigh(self, scale: &Scale) -> Evidence {
        self.weigh_chosen(scale, 0.0)
    }

    /// Weighs samples for and against the best of so many plans; their number as logarithm.
    #[must_use]
    pub fn weigh_chosen(self, scale: &Scale, ln_plans: f64) -> Evidence {
        let (samples, share) = (scale.samples(), scale.share());
        // With L for the logarithm, the tail of the normal distribution beyond sqrt(z^2 + 2 L) is at most
        // the tail beyond z divided by the number of plans, because Mills' ratio falls. So none of them
        // gets there by chance with the probability that is asked for (Boole's inequality).
        let needed = (self.z * self.z + 2.0 * ln_plans.max(0.0)).sqrt();
        let chance = if samples > 0.0 {
            0.5 + needed / (2.0 * samples.sqrt())
        } else {
            1.0
        };
        self.found(share * samples, samples, (share, chance))
    }

    fn found(self, hits: f64, samples: f64, (share, chance): (f64, f64)) -> Evidence {
        let (low, high) = self.bounds(hits, samples);
        Evidence {
            samples: samples.max(0.0),
            share,
            low,
            high,
            chance,
        }
    }

    /// Whether a partner's share of what a task says is more than what each of `partners` would get if
    /// it talked to all alike, also when the loudest is looked at. With one partner there is nothing
    /// to compare with, and two samples will do.
    #[must_use]
    pub fn weigh_partner(self, hits: f64, samples: f64, partners: usize) -> Evidence {
        let even = if partners > 1 {
            1.0 / partners as f64
        } else {
            0.5
        };
        let needed = (self.z * self.z + 2.0 * ln(partners.max(1) as f64)).sqrt();
        let (share, chance) = if samples > 0.0 {
            let spread = (even * (1.0 - even) / samples).sqrt();
            ((hits / samples).clamp(0.0, 1.0), even + needed * spread)
        } else {
            (0.0, 1.0)
        };
        self.found(hits, samples, (share, chance))
    }
}

/// Samples for and against, each with how much it matters.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Scale {
    good: f64,
    bad: f64,
    squares: f64,
}

impl Scale {
    /// Puts samples on the scale: `by` says how much each of them gets nearer; negative speaks against,
    /// 0 says nothing.
    pub fn put(&mut self, samples: f64, by: f64) {
        if by > 0.0 {
            self.good += samples * by;
        } else {
            self.bad -= samples * by;
        }
        self.squares += samples * by * by;
    }

    /// What speaks for it less what speaks against it, in samples times how much they matter.
    #[must_use]
    pub const fn net(&self) -> f64 {
        self.good - self.bad
    }

    /// Adds what is on another one.
    pub fn add(&mut self, other: &Self) {
        self.good += other.good;
        self.bad += other.bad;
        self.squares += other.squares;
    }

    /// As many samples as would say the same if all mattered equally (Kish).
    #[must_use]
    pub fn samples(&self) -> f64 {
        if self.squares <= 0.0 {
            return 0.0;
        }
        let all = self.good + self.bad;
        all * all / self.squares
    }

    /// Share of what matters that speaks for it; a half when nothing speaks.
    #[must_use]
    pub fn share(&self) -> f64 {
        let all = self.good + self.bad;
        if all > 0.0 { self.good / all } else { 0.5 }
    }
}

/// Logarithm of how many ways there are to choose `moved` of `tasks` and send each to another of `nodes`.
#[must_use]
pub fn ln_plans(tasks: usize, moved: usize, nodes: usize) -> f64 {
    let moved = moved.min(tasks);
    let elsewhere = ln(nodes.saturating_sub(1).max(1) as f64);
    let few = moved.min(tasks - moved);
    let mut sum = moved as f64 * elsewhere;
    for step in 0..few {
        sum += ln((tasks - step) as f64) - ln((step + 1) as f64);
    }
    sum
}

/// The same of the nodes that memory, which is here, could be wanted on by samples of users on
/// these.
pub(crate) fn ln_nodes(users: impl Iterator<Item = usize>, here: usize) -> f64 {
    let nodes: BTreeSet<usize> = users.filter(|&node| node != here).collect();
    ln_plans(1, 1, 1 + nodes.len())
}

/// The natural logarithm of a positive number, by basic operations alone: the same bits everywhere.
#[must_use]
pub fn ln(number: f64) -> f64 {
    // The exponent is read where it stands, for taking it off by halves would cost more than all the rest.
    let bits = number.to_bits();
    let mut twos = (bits >> EXPONENT) as f64 - 1023.0;
    let mut mantissa = f64::from_bits(bits & ((1 << EXPONENT) - 1) | 1.0_f64.to_bits());
    if mantissa > 1.5 {
        mantissa /= 2.0;
        twos += 1.0;
    }
    // 2 artanh of something between -1/7 and 1/5; each term adds more than a digit.
    let base = (mantissa - 1.0) / (mantissa + 1.0);
    let (mut power, mut sum) = (base, 0.0);
    for odd in (1..26u32).step_by(2) {
        sum += power / f64::from(odd);
        power *= base * base;
    }
    twos * std::f64::consts::LN_2 + 2.0 * sum
}

/// Bits of a number below its exponent.
const EXPONENT: u32 = f64::MANTISSA_DIGITS - 1;

/// The number of standard deviations that a normal variable stays below with this probability.
fn quantile(probability: f64) -> f64 {
    let (mut low, mut high) = (0.0, Z_MAX);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if normal(middle) < probability {
            low = middle;
        } else {
            high = middle;
        }
    }
    if probability <= CONFIDENCE_MIN {
        return 0.0;
    }
    low
}

/// Beyond the quantile of [`CONFIDENCE_MAX`], which is 3.09.
const Z_MAX: f64 = 4.0;

/// The normal distribution from 0 to [`Z_MAX`], by its power series: 80 terms end below 1e-16 there, and the
/// largest, which bounds the rounding, is below 1,000.
fn normal(z: f64) -> f64 {
    /// 1 / sqrt(2 pi).
    const DENSITY: f64 = 0.398_942_280_401_432_7;
    let (mut term, mut sum) = (z, 0.0);
    for index in 0..80u32 {
        sum += term / f64::from(2 * index + 1);
        term *= -z * z / (2.0 * f64::from(index + 1));
    }
    0.5 + DENSITY * sum
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 5e-7, "{found} != {expected}");
    }

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (confidence, z) in [
            (0.5, 0.0),
            (0.8, 0.841_621),
            (0.9, 1.281_552),
            (0.95, 1.644_854),
            (0.975, 1.959_964),
            (0.999, 3.090_232),
            (2.0, 3.090_232),
            (-1.0, 0.0),
            (f64::NAN, 3.090_232),
        ] {
            near(Certainty::of(confidence).z, z);
        }
    }

    #[test]
    fn the_logarithm_is_the_logarithm() {
        for number in [1e-9, 0.1, 0.7, 1.0, 1.4, 2.0, 1e3, 1e12] {
            assert!((ln(number) - number.ln()).abs() < 1e-12 * number.ln().abs().max(1.0));
        }
    }

    #[test]
    fn logarithms_are_those_of_the_tables() {
        for (number, expected) in [
            (1.0, 0.0),
            (2.0, std::f64::consts::LN_2),
            (3.0, 1.098_612_3),
            (10.0, std::f64::consts::LN_10),
            (4096.0, 8.317_766_2),
        ] {
            near(ln(number), expected);
        }
        // 6 ways to choose two of four, and each has one other node; 6 * 9 with four nodes.
        near(ln_plans(4, 2, 2), ln(6.0));
        near(ln_plans(4, 2, 4), ln(54.0));
        near(ln_plans(16, 16, 2), 0.0);
        near(ln_plans(3, 9, 1), 0.0);
    }

    #[test]
    fn wilson_intervals_are_those_of_the_book() {
        // Two-sided 95 %: 15 of 20 and 0 of 10, as in Newcombe (1998).
        let certainty = Certainty::of(0.975);
        let check = |hits: f64, samples: f64, low: f64, high: f64| {
            let found = certainty.bounds(hits, samples);
            assert!(
                (found.0 - low).abs() < 5e-5 && (found.1 - high).abs() < 5e-5,
                "{found:?}"
            );
        };
        check(15.0, 20.0, 0.5313, 0.8881);
        check(0.0, 10.0, 0.0, 0.2775);
        check(81.0, 263.0, 0.2553, 0.3662);
        assert_eq!(certainty.bounds(0.0, 0.0), (0.0, 1.0));
    }

    fn unanimous(samples: f64) -> Scale {
        let mut scale = Scale::default();
        scale.put(samples, 11.0);
        scale
    }

    #[track_caller]
    fn convinces(confidence: f64, good: f64, bad: f64, expected: bool) {
        let mut scale = unanimous(good);
        scale.put(bad, -11.0);
        scale.put(1000.0, 0.0);
        let found = Certainty::of(confidence).weigh(&scale);
        assert_eq!(found.convinces(), expected, "{good}:{bad} {found:?}");
        // The test is Wilson's: the lower bound is above a half just then.
        assert_eq!(found.convinces(), found.low > 0.5 + 1e-12, "{found:?}");
    }

    #[test]
    fn few_samples_convince_only_when_they_agree() {
        convinces(0.9, 0.0, 0.0, false);
        convinces(0.9, 1.0, 0.0, false);
        convinces(0.9, 2.0, 0.0, true);
        convinces(0.9, 2.0, 1.0, false);
        convinces(0.9, 6.0, 2.0, true);
        convinces(0.99, 5.0, 0.0, false);
        convinces(0.99, 6.0, 0.0, true);
        convinces(0.9, 105.0, 95.0, false);
        convinces(0.9, 110.0, 90.0, true);
        convinces(0.5, 1.0, 0.0, true);
        convinces(0.5, 1.0, 1.0, false);
    }

    #[test]
    fn the_best_of_many_plans_must_be_better() {
        let certainty = Certainty::of(0.9);
        let needed = |ln_plans| {
            (1..500)
                .find(|&samples| {
                    let scale = unanimous(f64::from(samples));
                    certainty.weigh_chosen(&scale, ln_plans).convinces()
                })
                .unwrap()
        };
        assert_eq!(needed(0.0), 2);
        // Four threads on two nodes, two of them move; sixteen on four nodes, twelve move.
        assert_eq!(needed(ln_plans(4, 2, 2)), 6);
        assert_eq!(needed(ln_plans(16, 12, 4)), 44);
    }

    #[test]
    fn samples_that_matter_little_count_little() {
        let mut scale = unanimous(4.0);
        near(scale.samples(), 4.0);
        scale.put(100.0, 1.0);
        assert!(
            scale.samples() > 4.0 && scale.samples() < 104.0,
            "{scale:?}"
        );
    }

    #[test]
    fn partners_are_told_from_company() {
        let check = |hits, samples, partners, expected| {
            let found = Certainty::of(0.9).weigh_partner(hits, samples, partners);
            assert_eq!(found.convinces(), expected, "{found:?}");
        };
        check(0.0, 0.0, 7, false);
        check(1.0, 7.0, 7, false);
        check(7.0, 10.0, 7, true);
        check(30.0, 210.0, 7, false);
        check(60.0, 210.0, 7, true);
        check(1.0, 1.0, 1, false);
        check(2.0, 2.0, 1, true);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn bounds_hold_the_share_and_narrow(
            hits in 0u32..1000, misses in 0u32..1000, confidence in 0.5f64..0.999
        ) {
            let certainty = Certainty::of(confidence);
            let (hits, samples) = (f64::from(hits), f64::from(hits + misses));
            let (low, high) = certainty.bounds(hits, samples);
            prop_assert!((0.0..=1.0).contains(&low) && low <= high && high <= 1.0);
            if samples > 0.0 {
                let share = hits / samples;
                prop_assert!(low <= share + 1e-12 && share <= high + 1e-12);
                let more = certainty.bounds(hits * 4.0, samples * 4.0);
                prop_assert!(more.1 - more.0 <= high - low + 1e-12);
            }
        }

        #[test]
        fn more_of_the_same_never_convinces_less(
            good in 0u32..300, bad in 0u32..300, times in 2u32..9, ln_plans in 0.0f64..50.0
        ) {
            let scale = |times: u32| {
                let mut scale = Scale::default();
                scale.put(f64::from(good * times), 11.0);
                scale.put(f64::from(bad * times), -11.0);
                Certainty::of(0.9).weigh_chosen(&scale, ln_plans)
            };
            prop_assert!(!scale(1).convinces() || scale(times).convinces());
        }
    }
}
