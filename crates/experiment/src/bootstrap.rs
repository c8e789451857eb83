//! Intervals of figures that have no formula, by drawing pairs anew.

use crate::chance::Chance;
use crate::{Interval, median};

/// Times that pairs are drawn anew. The ends of a 95 % interval then move by about a fortieth of its width with the seed.
const DRAWS: usize = 2_000;

/// How many times as much the second of each pair takes as the first, over all pairs together (sum by sum), with the
/// interval in which it lies with probability 1 - `alpha`: what matters to who pays for the sum of many runs.
///
/// Pairs are drawn with replacement, from the seed. Optimistic below some ten pairs, as every bootstrap is. Without
/// pairs, or where sums are not positive, nothing is known.
#[must_use]
pub fn ratio_of_sums(pairs: &[(f64, f64)], alpha: f64, seed: u64) -> (f64, Interval) {
    let ratio = |drawn: &mut dyn Iterator<Item = &(f64, f64)>| {
        let (first, second) =
            drawn.fold((0.0, 0.0), |sums, pair| (sums.0 + pair.0, sums.1 + pair.1));
        if first > 0.0 && second > 0.0 {
            second / first
        } else {
            f64::NAN
        }
    };
    let whole = ratio(&mut pairs.iter());
    if pairs.len() < 2 || whole.is_nan() {
        return (whole, Interval::WHOLE);
    }
    let mut chance = Chance::new(seed);
    let mut ratios: Vec<f64> = (0..DRAWS)
        .map(|_| ratio(&mut (0..pairs.len()).map(|_| &pairs[chance.below(pairs.len())])))
        .collect();
    ratios.sort_by(f64::total_cmp);
    if ratios.iter().any(|ratio| ratio.is_nan()) {
        return (whole, Interval::WHOLE);
    }
    let at = |share: f64| quantile(&ratios, share);
    let interval = Interval {
        low: at(alpha / 2.0),
        high: at(1.0 - alpha / 2.0),
    };
    (whole, interval)
}

/// Value below which this share of sorted values lies, between neighbours in proportion.
#[must_use]
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    if sorted.len() < 2 {
        return median(sorted);
    }
    let place = share.clamp(0.0, 1.0) * (sorted.len() - 1) as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 0 to the last index"
    )]
    let below = (place as usize).min(sorted.len() - 2);
    let part = place - below as f64;
    sorted[below] + part * (sorted[below + 1] - sorted[below])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_of_sums_lies_in_its_interval() {
        let pairs: Vec<(f64, f64)> = (0..20)
            .map(|it| (10.0 + f64::from(it % 5), 9.0 + f64::from((it * 3) % 5)))
            .collect();
        let (ratio, interval) = ratio_of_sums(&pairs, 0.05, 1);
        assert!((ratio - 11.0 / 12.0).abs() < 1e-9, "{ratio}");
        assert!(interval.low < ratio && ratio < interval.high);
        assert!(interval.low > 0.8 && interval.high < 1.05, "{interval:?}");
        assert_eq!(ratio_of_sums(&pairs, 0.05, 1).1, interval);
    }

    #[test]
    fn what_cannot_be_known_is_not() {
        assert_eq!(ratio_of_sums(&[(1.0, 2.0)], 0.05, 1).1, Interval::WHOLE);
        assert!(ratio_of_sums(&[], 0.05, 1).0.is_nan());
        assert!(ratio_of_sums(&[(0.0, 1.0), (0.0, 1.0)], 0.05, 1).0.is_nan());
    }

    #[test]
    fn quantiles_lie_between_neighbours() {
        let sorted = [1.0, 2.0, 3.0, 4.0];
        assert!((quantile(&sorted, 0.5) - 2.5).abs() < 1e-12);
        assert!((quantile(&sorted, 0.0) - 1.0).abs() < 1e-12);
        assert!((quantile(&sorted, 1.0) - 4.0).abs() < 1e-12);
        assert!(quantile(&[], 0.5).is_nan());
    }
}
