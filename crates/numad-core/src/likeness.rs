//! Whether who talks to whom is as it was, told from samples.
//!
//! The cosine of two matrices is below 1 even if nothing changed: the squares of what was sampled
//! hold, beside the squares of what is, once more the amounts themselves, because so much is the
//! variance of a count. That is taken off here. It is also below 1 where more is seen of some than
//! before, though all do what they did; so what each says at all is made the same first. Of two
//! windows of the same program the cosine is then about 1, however few events there are.

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
    let nothing = |event| Side {
        event,
        ..Side::default()
    };
    let (mut one, mut other) = (nothing(events.0), nothing(events.1));
    for (who, said) in pairs.clone() {
        one.add(who, said.0);
        other.add(who, said.1);
    }
    if !one.is_told() || !other.is_told() {
        return None;
    }
    let both = one.each.iter().zip(&other.each);
    let most = both.map(|(now, then)| (now.said / one.all).max(then.said / other.all));
    let most: Vec<f64> = most.collect();
    one.scale(&most);
    other.scale(&most);
    let (mut product, mut now, mut then) = (0.0, Squares::default(), Squares::default());
    for (who, said) in pairs {
        let (here, there) = (one.scaled(who, said.0), other.scaled(who, said.1));
        product += here.amount * there.amount;
        now.add(&here, &there);
        then.add(&there, &here);
    }
    let scale = (now.told * then.told).sqrt();
    let alike = product / scale;
    let variance = now.variance(alike, scale) + then.variance(alike, scale);
    (now.told > 0.0 && then.told > 0.0).then(|| Likeness {
        alike,
        error: variance.max(0.0).sqrt(),
    })
}

/// What was said in one of the times.
#[derive(Default)]
struct Side {
    event: f64,
    all: f64,
    /// The squares of what is, and by how much they may be wrong, squared.
    told: f64,
    variance: f64,
    each: Vec<Each>,
}

/// What one of them said to anyone.
#[derive(Clone, Copy, Default)]
struct Each {
    said: f64,
    /// One by its root.
    by_root: f64,
    /// What is said to it is scaled by this, and by the same of who says it.
    scale: f64,
}

/// What a pair said, scaled, and by how much that may be wrong, squared.
struct Scaled {
    amount: f64,
    variance: f64,
}

/// Standard errors that what is said must be above chance.
const SURE: f64 = 2.0;

impl Side {
    fn add(&mut self, (low, high): (usize, usize), amount: f64) {
        let told = amount * (amount - self.event);
        self.all += amount;
        self.told += told;
        self.variance += self.event * (4.0 * amount + 2.0 * self.event) * told.max(0.0);
        let last = low.max(high);
        if self.each.len() <= last {
            self.each.resize(last + 1, Each::default());
        }
        self.each[low].said += amount;
        self.each[high].said += amount;
    }

    /// Whether it could not be nothing.
    fn is_told(&self) -> bool {
        self.told > SURE * self.variance.sqrt()
    }

    /// Makes of what each said so large a share of all.
    fn scale(&mut self, shares: &[f64]) {
        for (each, share) in self.each.iter_mut().zip(shares) {
            if each.said > 0.0 {
                each.by_root = 1.0 / each.said.sqrt();
                each.scale = share.sqrt() * each.by_root;
            }
        }
    }

    /// Who talks to one alone always says the same to it once that is scaled.
    fn scaled(&self, (low, high): (usize, usize), amount: f64) -> Scaled {
        let (low, high) = (self.each[low], self.each[high]);
        let scale = low.scale * high.scale;
        let part = (amount * low.by_root * high.by_root).min(1.0);
        Scaled {
            amount: amount * scale,
            variance: amount * self.event * scale * scale * (1.0 - part),
        }
    }
}

/// Sums over pairs.
#[derive(Default)]
struct Squares {
    /// The squares of what is.
    told: f64,
    /// The variance times the square of the other amount, times both, and times its own square.
    by_other: f64,
    by_both: f64,
    by_itself: f64,
}

impl Squares {
    fn add(&mut self, itself: &Scaled, other: &Scaled) {
        let Scaled { amount, variance } = *itself;
        self.told += amount * amount - variance;
        self.by_other += variance * other.amount * other.amount;
        self.by_both += variance * amount * other.amount;
        self.by_itself += variance * amount * amount;
    }

    /// By how much the likeness changes with each amount, times the variance of that amount.
    fn variance(&self, alike: f64, scale: f64) -> f64 {
        let by = alike / self.told;
        self.by_other / (scale * scale) - 2.0 * by * self.by_both / scale + by * by * self.by_itself
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
