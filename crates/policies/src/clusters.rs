//! Clusters in time: weighted k-means in one dimension.
//!
//! Events are binned by when they happened, and the weight of a bin is how many there were. What is
//! minimised is the weighted sum of squared distances of the bins to the mean of their cluster (DeLoc,
//! dissertation, chapter 2). In one dimension the clusters of an optimum are intervals, so dynamic
//! programming over the sorted bins finds it for every number of clusters, and the result depends on no
//! seed. The work for fewer clusters is the start of that for more.

use std::ops::Range;

use numad_core::evidence::ln;

/// Events that happened at about the same time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bin {
    /// When, in any unit.
    pub at: f64,
    /// How many events.
    pub weight: f64,
}

/// The best clusters of some bins, for every number of them up to a limit.
#[derive(Debug)]
pub struct Clusters {
    /// Sums of weight, weight times time, and weight times time squared over the bins before each.
    sums: Vec<[f64; 3]>,
    /// For each number of clusters from one on, where the last cluster of the first `n` bins begins.
    cuts: Vec<Vec<usize>>,
    /// For each number of clusters from one on, the squared distances that are left.
    spread: Vec<f64>,
}

impl Clusters {
    /// Clusters of bins that are in the order of time; at most this many, and no more than bins.
    #[must_use]
    pub fn new(bins: &[Bin], most: usize) -> Self {
        // Squares of far times would drown the distances.
        let origin = bins.first().map_or(0.0, |bin| bin.at);
        let mut sums = vec![[0.0; 3]];
        let mut sum = [0.0; 3];
        for bin in bins {
            let at = bin.at - origin;
            for (sum, part) in sum.iter_mut().zip([1.0, at, at * at]) {
                *sum += bin.weight * part;
            }
            sums.push(sum);
        }
        let mut clusters = Self {
            sums,
            cuts: Vec::new(),
            spread: Vec::new(),
        };
        let count = bins.len();
        let mut before: Vec<f64> = (0..=count).map(|end| clusters.spread_of(0..end)).collect();
        clusters.cuts.push(vec![0; count + 1]);
        clusters.spread.push(before[count]);
        for number in 2..=most.min(count) {
            let (costs, cuts) = clusters.one_more(number, &before);
            before = costs;
            clusters.cuts.push(cuts);
            clusters.spread.push(before[count]);
        }
        clusters
    }

    /// What this many clusters cost and where the last of them begins, by how many of the bins take
    /// part, given what one cluster less costs.
    fn one_more(&self, number: usize, before: &[f64]) -> (Vec<f64>, Vec<usize>) {
        let cost = |start: usize, end: usize| before[start] + self.spread_of(start..end);
        let best = |end: usize| {
            let begins = (number - 1..end).map(|start| (cost(start, end), start));
            let least = begins.min_by(|(one, _), (other, _)| one.total_cmp(other));
            least.unwrap_or((f64::INFINITY, number - 1))
        };
        let fewer = std::iter::repeat_n((0.0, 0), number);
        fewer.chain((number..before.len()).map(best)).unzip()
    }

    /// The bins of each of this many clusters.
    fn ranges(&self, number: usize) -> Vec<Range<usize>> {
        let mut end = self.sums.len() - 1;
        let mut ranges = Vec::with_capacity(number);
        for cuts in self.cuts[..number].iter().rev() {
            ranges.push(cuts[end]..end);
            end = cuts[end];
        }
        ranges.reverse();
        ranges
    }

    /// The clusters of that number which the Bayesian information criterion finds best, the fewest of
    /// equals.
    ///
    /// As X-means has it (Pelleg and Moore 2000, which DeLoc refers to): clusters share one variance, and
    /// a cluster more costs two parameters, its mean and its weight. Bins are `width` apart, and events
    /// within one are taken to be spread evenly over it, a variance of `width^2 / 12`; so a steady stream is
    /// one cluster, because halving it explains just as much as it costs.
    #[must_use]
    pub fn by_criterion(&self, width: f64) -> Vec<Range<usize>> {
        let all = self.weight(0..self.sums.len() - 1);
        let mut best = (1, f64::NEG_INFINITY);
        for number in 1..=self.cuts.len() {
            let variance = self.spread[number - 1] / all.max(1.0) + width * width / 12.0;
            let shares = self.ranges(number).into_iter().map(|range| {
                let weight = self.weight(range);
                if weight > 0.0 {
                    weight * ln(weight / all)
                } else {
                    0.0
                }
            });
            // What does not depend on the number of clusters is left out.
            let likelihood = shares.sum::<f64>() - all / 2.0 * ln(variance);
            let score = likelihood - number as f64 * ln(all.max(1.0));
            if score > best.1 {
                best = (number, score);
            }
        }
        self.ranges(best.0)
    }

    /// The fewest clusters, two at the least, that explain this share of the variance; all that were
    /// computed where none does.
    #[must_use]
    pub fn by_fit(&self, share: f64) -> Vec<Range<usize>> {
        let explained = |spread: f64| 1.0 - spread / self.spread[0];
        let enough = (1..self.spread.len())
            .find(|&index| self.spread[0] <= 0.0 || explained(self.spread[index]) >= share);
        self.ranges(enough.map_or(self.cuts.len(), |index| index + 1))
    }

    fn weight(&self, range: Range<usize>) -> f64 {
        self.sums[range.end][0] - self.sums[range.start][0]
    }

    /// Squared distances of some bins to their mean.
    fn spread_of(&self, range: Range<usize>) -> f64 {
        let part = |which: usize| self.sums[range.end][which] - self.sums[range.start][which];
        let (weight, first, second) = (part(0), part(1), part(2));
        if weight > 0.0 {
            (second - first * first / weight).max(0.0)
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bins(weights: &[u32]) -> Vec<Bin> {
        let weights = weights.iter().enumerate();
        weights
            .map(|(at, &weight)| Bin {
                at: at as f64,
                weight: f64::from(weight),
            })
            .collect()
    }

    #[track_caller]
    fn check(weights: &[u32], expected: &[Range<usize>]) {
        let found = Clusters::new(&bins(weights), 8).by_criterion(1.0);
        assert_eq!(found, expected, "{weights:?}");
    }

    #[test]
    #[expect(
        clippy::single_range_in_vec_init,
        reason = "one cluster is a list of one"
    )]
    fn bursts_are_told_apart_and_a_steady_stream_is_one() {
        check(&[40, 40, 0, 0, 0, 0, 40, 40], &[0..2, 2..8]);
        check(&[50, 0, 0, 0, 50, 0, 0, 0, 50], &[0..1, 1..5, 5..9]);
        check(&[30; 12], &[0..12]);
        check(&[30; 64], &[0..64]);
        check(&[7], &[0..1]);
    }

    #[test]
    fn the_fit_asks_for_two_at_least_and_then_for_no_more_than_needed() {
        let clusters = Clusters::new(&bins(&[9, 9, 0, 0, 0, 9, 9, 0, 0, 0, 9, 9]), 8);
        assert_eq!(clusters.by_fit(0.0).len(), 2);
        assert_eq!(clusters.by_fit(0.9).len(), 3);
        assert_eq!(clusters.by_fit(1.0).len(), 6);
        assert_eq!(Clusters::new(&bins(&[5]), 8).by_fit(0.9).len(), 1);
    }

    #[test]
    fn nothing_has_one_empty_cluster() {
        let none = Clusters::new(&[], 8);
        let empty: Range<usize> = 0..0;
        assert_eq!(
            (none.by_criterion(1.0), none.by_fit(0.9)),
            (vec![empty.clone()], vec![empty])
        );
    }

    /// The least spread with so many clusters, by trying every place of every cut.
    fn least(clusters: &Clusters, start: usize, number: usize) -> f64 {
        let end = clusters.sums.len() - 1;
        if number == 1 {
            return clusters.spread_of(start..end);
        }
        (start + 1..=end + 1 - number)
            .map(|cut| clusters.spread_of(start..cut) + least(clusters, cut, number - 1))
            .fold(f64::INFINITY, f64::min)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_other_cuts_are_better(weights in proptest::collection::vec(0u32..20, 1..10)) {
            let clusters = Clusters::new(&bins(&weights), 10);
            for number in 1..=weights.len() {
                let found = clusters.spread[number - 1];
                let ranges = clusters.ranges(number);
                prop_assert_eq!(ranges.len(), number);
                let told: f64 = ranges.into_iter().map(|range| clusters.spread_of(range)).sum();
                prop_assert!((found - told).abs() < 1e-6);
                prop_assert!((found - least(&clusters, 0, number)).abs() < 1e-6);
            }
        }
    }

    /// Xorshift, so that a seed tells the case.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u64) -> f64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 % end) as f64
        }
    }

    /// The criterion of these parts of all bins, by definition and the library's logarithm, and their spread. Shares
    /// no code with what is tested.
    fn judged(bins: &[Bin], parts: &[Vec<usize>], width: f64) -> (f64, f64) {
        let weight = |part: &[usize]| part.iter().map(|&bin| bins[bin].weight).sum::<f64>();
        let all: f64 = bins.iter().map(|bin| bin.weight).sum();
        let mut spread = 0.0;
        let mut shares = 0.0;
        for part in parts {
            let sum = weight(part);
            let mean = part
                .iter()
                .map(|&bin| bins[bin].weight * bins[bin].at)
                .sum::<f64>()
                / sum;
            let far = part
                .iter()
                .map(|&bin| bins[bin].weight * (bins[bin].at - mean).powi(2));
            spread += far.sum::<f64>();
            shares += sum * (sum / all).ln();
        }
        let variance = spread / all + width * width / 12.0;
        (
            shares - all / 2.0 * variance.ln() - parts.len() as f64 * all.ln(),
            spread,
        )
    }

    /// Every partition of bins into parts, whether its parts are intervals or not.
    fn partitions(count: usize, parts: &mut Vec<Vec<usize>>, found: &mut dyn FnMut(&[Vec<usize>])) {
        let next: usize = parts.iter().map(Vec::len).sum();
        if next == count {
            return found(parts);
        }
        for place in 0..parts.len() {
            parts[place].push(next);
            partitions(count, parts, found);
            parts[place].pop();
        }
        parts.push(vec![next]);
        partitions(count, parts, found);
        parts.pop();
    }

    #[test]
    fn no_partition_at_all_is_better_in_300_cases() {
        for seed in 1..=300_u64 {
            let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut at = 0.0;
            let bins: Vec<Bin> = (0..=seed % 8)
                .map(|_| {
                    at += 1.0 + random.below(2) * random.below(9) + random.below(100) / 100.0;
                    Bin {
                        at,
                        weight: 1.0 + random.below(2) * random.below(200),
                    }
                })
                .collect();
            // By number of clusters: the least spread, and the criterion there.
            let mut least = vec![(f64::INFINITY, 0.0); bins.len()];
            partitions(bins.len(), &mut Vec::new(), &mut |parts| {
                let (score, spread) = judged(&bins, parts, 1.0);
                if spread < least[parts.len() - 1].0 {
                    least[parts.len() - 1] = (spread, score);
                }
            });
            let clusters = Clusters::new(&bins, bins.len());
            for (number, (spread, _)) in least.iter().enumerate() {
                let found = clusters.spread[number];
                assert!(
                    (found - spread).abs() < 1e-6,
                    "seed {seed}, {number}: {found}, {spread}"
                );
            }
            let best = least
                .iter()
                .map(|(_, score)| *score)
                .fold(f64::NEG_INFINITY, f64::max);
            let chosen: Vec<Vec<usize>> = clusters
                .by_criterion(1.0)
                .into_iter()
                .map(Vec::from_iter)
                .collect();
            let (score, spread) = judged(&bins, &chosen, 1.0);
            assert!(
                (score - best).abs() < 1e-6,
                "seed {seed}: {chosen:?} has {score}, best is {best}"
            );
            assert!(
                (spread - least[chosen.len() - 1].0).abs() < 1e-6,
                "seed {seed}: {chosen:?}"
            );
        }
    }
}
