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

/// What two said to each other, by their numbers, in the one time and in the other.
pub(crate) type Said = ((usize, usize), (f64, f64));

/// None where chance alone is seen. One event counts `events` in the one and in the other.
///
/// Amounts are scaled so that each says as much in the one time as in the other, which is more: of
/// whom more is seen now than then, as where page faults come in bursts, does nothing else by that.
pub(crate) fn likeness(
    pairs: impl Iterator<Item = Said> + Clone,
    events: (f64, f64),
) -> Option<Likeness> {
    let mut each: Vec<(f64, f64)> = Vec::new();
    let (mut one, mut other) = (Sum::default(), Sum::default());
    for ((low, high), (now, then)) in pairs.clone() {
        one.add(now, events.0);
        other.add(then, events.1);
        each.resize(each.len().max(low.max(high) + 1), (0.0, 0.0));
        for who in [low, high] {
            each[who].0 += now;
            each[who].1 += then;
        }
    }
    one.is_told().then_some(())?;
    other.is_told().then_some(())?;
    let scaled = pairs.map(|((low, high), (now, then))| {
        let (low, high) = (each[low], each[high]);
        let most = |(now, then): (f64, f64)| (now / one.all).max(then / other.all);
        let all = most(low) * most(high);
        let now = Scaled::new(now, events.0, low.0 * high.0, all);
        (now, Scaled::new(then, events.1, low.1 * high.1, all))
    });
    let (mut product, mut told) = (0.0, (0.0, 0.0));
    for (now, then) in scaled.clone() {
        product += now.amount * then.amount;
        told.0 += now.told();
        told.1 += then.told();
    }
    let scale = (told.0 * told.1).sqrt();
    let alike = product / scale;
    // By how much it changes with each amount, times the variance of that amount.
    let variance = scaled.map(|(now, then)| {
        let by_now = then.amount / scale - alike * now.amount / told.0;
        let by_then = now.amount / scale - alike * then.amount / told.1;
        by_now * by_now * now.variance + by_then * by_then * then.variance
    });
    (scale > 0.0).then(|| Likeness {
        alike,
        error: variance.sum::<f64>().sqrt(),
    })
}

/// What a pair said, as far as it says something of others.
struct Scaled {
    amount: f64,
    variance: f64,
}

impl Scaled {
    /// Of so much, in events of this size. What both said to anyone has this product, which becomes
    /// the other; who talks to one alone always says that much to it.
    fn new(amount: f64, event: f64, said: f64, becomes: f64) -> Self {
        if amount == 0.0 {
            return Self {
                amount: 0.0,
                variance: 0.0,
            };
        }
        let scale = (becomes / said).sqrt();
        let part = (amount / said.sqrt()).min(1.0);
        Self {
            amount: amount * scale,
            variance: amount * event * scale * scale * (1.0 - part),
        }
    }

    fn told(&self) -> f64 {
        self.amount * self.amount - self.variance
    }
}

/// What was said in one time.
#[derive(Debug, Default)]
struct Sum {
    all: f64,
    /// The squares of what is, and by how much they may be wrong, squared.
    told: f64,
    variance: f64,
}

/// Standard errors that what is said must be above chance.
const SURE: f64 = 2.0;

impl Sum {
    fn add(&mut self, amount: f64, event: f64) {
        let told = amount * (amount - event);
        self.all += amount;
        self.told += told;
        self.variance += event * (4.0 * amount + 2.0 * event) * told.max(0.0);
    }

    /// Whether it could not be nothing.
    fn is_told(&self) -> bool {
        self.told > SURE * self.variance.sqrt()
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

    /// As what pairs say of which nobody is in two.
    fn compare(one: &[f64], other: &[f64]) -> Option<Likeness> {
        compare_among(one, other, |pair| (2 * pair, 2 * pair + 1))
    }

    fn compare_among(
        one: &[f64],
        other: &[f64],
        who: impl Fn(usize) -> (usize, usize) + Copy,
    ) -> Option<Likeness> {
        let both = one.iter().copied().zip(other.iter().copied());
        let pairs = both.enumerate().map(|(pair, said)| (who(pair), said));
        likeness(pairs, (7.0, 7.0))
    }

    fn alike(one: &[f64], other: &[f64]) -> Option<f64> {
        Some(compare(one, other)?.alike)
    }

    /// Where little is said, how alike it is strays as much as is told.
    #[test]
    fn how_wrong_it_may_be_is_told() {
        // Each of five with each other, and of another five.
        let all: Vec<(usize, usize)> = (0..5).flat_map(|b| (0..b).map(move |a| (a, b))).collect();
        let who = |pair: usize| {
            let ((one, other), beyond) = (all[pair % 10], pair / 10 * 5);
            (one + beyond, other + beyond)
        };
        for events in [60, 300] {
            let mut dice = 5;
            let (mut strays, mut told) = (0.0, 0.0);
            for _ in 0..200 {
                let (one, other) = (talk(&mut dice, 0, events), talk(&mut dice, 0, events));
                let found = compare_among(&one, &other, who).unwrap();
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
    fn who_is_seen_more_says_nothing_else_by_that() {
        let was = [700.0; 8];
        let burst = [7.0, 7000.0, 700.0, 21.0, 2100.0, 700.0, 7.0, 70.0];
        let alike = alike(&was, &burst).unwrap();
        assert!((alike - 1.0).abs() < 0.15, "{alike}");
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
