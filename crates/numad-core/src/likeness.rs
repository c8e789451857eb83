//! Whether who talks to whom is as it was, told from samples.
//!
//! The cosine of two matrices is below 1 even if nothing changed: the squares of what was sampled hold, beside the
//! squares of what is, once more the amounts themselves, because so much is the variance of a count. That is
//! taken off here; of two windows of the same program the cosine is then about 1, however few events there are.

/// How alike two times are by what each pair said in both, 1 where they are the same but for chance; none where chance
/// alone is seen. One event counts `events` in the one and in the other.
pub(crate) fn likeness(pairs: impl Iterator<Item = (f64, f64)>, events: (f64, f64)) -> Option<f64> {
    let (mut product, mut one, mut other) = (0.0, Said::default(), Said::default());
    for (in_one, in_other) in pairs {
        product += in_one * in_other;
        one.add(in_one);
        other.add(in_other);
    }
    Some(product / (one.told(events.0)? * other.told(events.1)?).sqrt())
}

/// What was said in one time.
#[derive(Debug, Default)]
struct Said {
    amounts: f64,
    squares: f64,
}

/// Share of the squares that must not be chance.
const NOTHING: f64 = 0.1;

impl Said {
    fn add(&mut self, amount: f64) {
        self.amounts += amount;
        self.squares += amount * amount;
    }

    /// The squares of what is.
    fn told(&self, event: f64) -> Option<f64> {
        let told = self.squares - self.amounts * event;
        (told > NOTHING * self.squares).then_some(told)
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
        likeness(one.iter().copied().zip(other.iter().copied()), (7.0, 7.0))
    }

    #[test]
    fn the_same_is_alike_however_few_events_there_are() {
        for (events, near) in [(30, 0.5), (300, 0.1), (3000, 0.02)] {
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
    }
}
