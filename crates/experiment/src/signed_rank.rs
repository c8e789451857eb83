//! Wilcoxon's signed ranks: an exact test, an estimate and an interval from differences of pairs.
//!
//! If the arms do not differ, only a coin decided the sign of each difference. The test then knows the
//! distribution of the rank sum exactly, with ties and zeros as they are.

use crate::{Interval, median};

/// The two-sided probability of ranks as one-sided as these or more, were all signs coins.
///
/// Equal amounts share their mean rank. A difference of 0 takes a rank and counts for neither side (Pratt). With `n`
/// differences, none of them 0, the least value is 2^(1-n). Costs the cube of their number. 1 when there are none.
#[must_use]
pub fn p_value(differences: &[f64]) -> f64 {
    let mut by_amount: Vec<f64> = differences.to_vec();
    by_amount.sort_by(|one, other| one.abs().total_cmp(&other.abs()));
    let mut ranks = Vec::with_capacity(by_amount.len());
    let mut positive = 0;
    let mut first = 1;
    for equal in by_amount.chunk_by(|one, other| one.abs().total_cmp(&other.abs()).is_eq()) {
        // Twice the mean rank, so that it is a whole number.
        let rank = 2 * first + equal.len() - 1;
        first += equal.len();
        for difference in equal.iter().filter(|difference| difference.abs() > 0.0) {
            ranks.push(rank);
            if *difference > 0.0 {
                positive += rank;
            }
        }
    }
    // Without ties all are even, and half the work does.
    if ranks.iter().all(|rank| rank % 2 == 0) {
        ranks.iter_mut().for_each(|rank| *rank /= 2);
        positive /= 2;
    }
    let total: usize = ranks.iter().sum();
    let least = positive.min(total - positive);
    let below: f64 = distribution(&ranks)[..=least].iter().sum();
    (2.0 * below).min(1.0)
}

/// The estimate of Hodges and Lehmann: the median of the means of all pairs of differences.
///
/// Not a number when there are none.
#[must_use]
pub fn estimate(differences: &[f64]) -> f64 {
    median(&walsh_averages(differences))
}

/// The interval that holds the true difference with a probability of at least 1 - `alpha`, if it is the same
/// in all pairs: the differences that the test at `alpha` would not reject.
///
/// Unbounded with too few differences to reject anything: fewer than 6 at 5 %.
#[must_use]
pub fn interval(differences: &[f64], alpha: f64) -> Interval {
    let ranks: Vec<usize> = (1..=differences.len()).collect();
    let mut below = 0.0;
    let mut cut = 0;
    for chance in distribution(&ranks) {
        below += chance;
        // Sums of binary fractions are exact up to 52 pairs; beyond, a few last bits.
        if below > alpha / 2.0 {
            break;
        }
        cut += 1;
    }
    let averages = walsh_averages(differences);
    if cut == 0 || averages.is_empty() {
        return Interval::WHOLE;
    }
    Interval {
        low: averages[cut - 1],
        high: averages[averages.len() - cut],
    }
}

/// The chance of each sum of ranks when a coin decides of each whether it counts.
fn distribution(ranks: &[usize]) -> Vec<f64> {
    let total: usize = ranks.iter().sum();
    let mut chances = vec![0.0; total + 1];
    chances[0] = 1.0;
    let mut reached = 0;
    for &rank in ranks {
        reached += rank;
        for sum in (0..=reached).rev() {
            let without = chances[sum];
            let with = sum.checked_sub(rank).map_or(0.0, |before| chances[before]);
            chances[sum] = f64::midpoint(without, with);
        }
    }
    chances
}

/// The means of all pairs of differences, each with itself too, in order.
fn walsh_averages(differences: &[f64]) -> Vec<f64> {
    let mut averages: Vec<f64> = differences
        .iter()
        .enumerate()
        .flat_map(|(index, one)| {
            differences[index..]
                .iter()
                .map(move |other| f64::midpoint(*one, *other))
        })
        .collect();
    averages.sort_by(f64::total_cmp);
    averages
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Chance;

    /// By trying all signs, with ranks counted anew: nothing in common with the code above.
    fn by_enumeration(differences: &[f64]) -> f64 {
        let count = differences.len();
        let rank = |index: usize| {
            let own = differences[index].abs();
            let (mut below, mut equal) = (0.0, 0.0);
            for other in differences {
                if other.abs() < own {
                    below += 1.0;
                } else if other.abs() <= own {
                    equal += 1.0;
                }
            }
            if own > 0.0 {
                below + (equal + 1.0) / 2.0
            } else {
                0.0
            }
        };
        let ranks: Vec<f64> = (0..count).map(rank).collect();
        let lopsided = |positive: &dyn Fn(usize) -> bool| {
            let sum: f64 = (0..count)
                .map(|index| {
                    if positive(index) {
                        ranks[index]
                    } else {
                        -ranks[index]
                    }
                })
                .sum();
            sum.abs()
        };
        let seen = lopsided(&|index| differences[index] > 0.0);
        let as_extreme = (0u32..1 << count)
            .filter(|signs| lopsided(&|index| signs >> index & 1 == 1) >= seen)
            .count();
        as_extreme as f64 / f64::from(1u32 << count)
    }

    fn drawn(seed: u64, count: usize, coarse: bool) -> Vec<f64> {
        let mut chance = Chance::new(seed);
        (0..count)
            .map(|_| {
                let value = chance.below(if coarse { 7 } else { 1 << 30 }) as f64;
                if coarse { value - 3.0 } else { value - 4e8 }
            })
            .collect()
    }

    #[test]
    fn the_test_is_what_trying_all_signs_gives() {
        for seed in 0..120 {
            let count = usize::try_from(seed % 12).unwrap() + 1;
            // Every other case is full of ties and zeros.
            let differences = drawn(seed, count, seed % 2 == 0);
            let (quick, slow) = (p_value(&differences), by_enumeration(&differences));
            assert!((quick - slow).abs() < 1e-12, "seed {seed}: {quick} {slow}");
        }
    }

    #[test]
    fn the_interval_holds_what_the_test_does_not_reject() {
        for seed in 0..40 {
            let count = usize::try_from(seed % 6).unwrap() + 6;
            let differences = drawn(seed, count, false);
            let interval = interval(&differences, 0.05);
            let averages = walsh_averages(&differences);
            for (one, next) in averages.iter().zip(&averages[1..]) {
                let truth = f64::midpoint(*one, *next);
                let shifted: Vec<f64> = differences.iter().map(|it| it - truth).collect();
                let kept = by_enumeration(&shifted) > 0.05;
                let inside = interval.low < truth && truth < interval.high;
                assert_eq!(kept, inside, "seed {seed}: {truth} {interval:?}");
            }
        }
    }

    #[test]
    fn published_cases() {
        // Critical values of the table in Hollander and Wolfe: 20 pairs, rank sum 52: 4.8 % two-sided.
        let ranks: Vec<usize> = (1..=20).collect();
        let below: f64 = distribution(&ranks)[..=52].iter().sum();
        assert!((2.0 * below - 0.048).abs() < 5e-4, "{below}");
        assert!((p_value(&[1.0; 6]) - 1.0 / 32.0).abs() < 1e-15);
        assert!((p_value(&[-1.0, -2.0, -3.0, -4.0, -5.0]) - 1.0 / 16.0).abs() < 1e-15);
    }

    #[test]
    fn few_differences_say_nothing() {
        assert_eq!(interval(&[1.0; 5], 0.05), Interval::WHOLE);
        assert_eq!(
            interval(&[1.0; 6], 0.05),
            Interval {
                low: 1.0,
                high: 1.0
            }
        );
        assert_eq!(interval(&[], 0.05), Interval::WHOLE);
        assert!(estimate(&[]).is_nan());
        assert!((p_value(&[]) - 1.0).abs() < 1e-15);
        assert!((p_value(&[0.0; 9]) - 1.0).abs() < 1e-15);
    }

    #[test]
    fn the_estimate_is_not_drawn_by_one_wild_pair() {
        let differences = [0.04, 0.05, 0.06, 0.05, 0.04, 0.06, 9.0];
        assert!((estimate(&differences) - 0.05).abs() < 0.011);
    }

    #[test]
    fn hundreds_of_pairs_are_no_trouble() {
        let mut differences = drawn(1, 200, false);
        assert!(p_value(&differences) > 0.0);
        for difference in &mut differences {
            *difference = difference.abs();
        }
        assert!(p_value(&differences) < 1e-50);
    }
}
