//! A test that holds however often one looks.
//!
//! A gambler bets on the sign of each difference before seeing it, knowing its amount. If the arms do not
//! differ, the sign is a fair coin and no strategy makes money: the chance that the gambler's wealth ever
//! reaches `1 / alpha` is at most `alpha` (Ville). So one may look after every pair and stop when it does.

use crate::{Interval, median};

/// How boldly the gamblers bet, relative to the median amount so far. Wealth is the mean over them.
const BETS: [f64; 4] = [0.5, 1.0, 2.0, 4.0];

/// Truths tried for [`anytime_interval`], over three times the range of the differences.
const TRIED: u32 = 600;

/// The wealth of gamblers who bet on signs, from 1 on.
#[derive(Clone, Debug)]
pub struct EProcess {
    /// Of those who bet on plus, then of those who bet on minus.
    wealth: [[f64; BETS.len()]; 2],
    /// Amounts so far, sorted.
    amounts: Vec<f64>,
    most: f64,
    /// Whether those who bet on plus had more of it then.
    by_plus: bool,
}

impl Default for EProcess {
    fn default() -> Self {
        Self {
            wealth: [[1.0; BETS.len()]; 2],
            amounts: Vec::new(),
            most: 1.0,
            by_plus: false,
        }
    }
}

impl EProcess {
    /// What becomes of them by these differences, in order.
    #[must_use]
    pub fn of(differences: &[f64]) -> Self {
        let mut process = Self::default();
        for difference in differences {
            process.push(*difference);
        }
        process
    }

    /// Takes in the difference of the next pair.
    pub fn push(&mut self, difference: f64) {
        let amount = difference.abs();
        let at = self.amounts.partition_point(|&other| other < amount);
        self.amounts.insert(at, amount);
        let scale = median(&self.amounts);
        if amount <= 0.0 || scale <= 0.0 {
            return; // Nothing to bet on.
        }
        for (wealth, sign) in self.wealth.iter_mut().zip([1.0, -1.0]) {
            for (wealth, bet) in wealth.iter_mut().zip(BETS) {
                // For the two signs of one amount these add up to 2, so a fair coin keeps the mean.
                *wealth *= 2.0 / (1.0 + (-2.0 * sign * bet * difference / scale).exp());
            }
        }
        let value = self.value();
        if value > self.most {
            let [plus, minus] = self.wealth.map(|side| side.iter().sum::<f64>());
            (self.most, self.by_plus) = (value, plus > minus);
        }
    }

    /// The present wealth.
    #[must_use]
    pub fn value(&self) -> f64 {
        self.wealth.iter().flatten().sum::<f64>() / (2 * BETS.len()) as f64
    }

    /// The most wealth so far.
    #[must_use]
    pub const fn most(&self) -> f64 {
        self.most
    }

    /// Whether bets on plus made it.
    #[must_use]
    pub const fn by_plus(&self) -> bool {
        self.by_plus
    }

    /// A probability in the sense of a test's, valid whenever one looks.
    #[must_use]
    pub fn p_value(&self) -> f64 {
        (1.0 / self.most).min(1.0)
    }
}

/// The truths that nobody would have grown rich on by betting against: it holds the true difference with a probability
/// of at least 1 - `alpha` at every look together.
///
/// Found on a grid of 600 truths, so a bound may be wide by half a hundredth of the differences' range.
#[must_use]
pub fn anytime_interval(differences: &[f64], alpha: f64) -> Interval {
    let least = differences.iter().copied().fold(f64::INFINITY, f64::min);
    let most = differences
        .iter()
        .copied()
        .fold(f64::NEG_INFINITY, f64::max);
    let range = most - least;
    if !range.is_finite() || range <= 0.0 {
        return Interval::WHOLE;
    }
    let truth = |step: u32| least - range + 3.0 * range * f64::from(step) / f64::from(TRIED);
    let kept = |step: &u32| {
        let mut process = EProcess::default();
        for difference in differences {
            process.push(difference - truth(*step));
        }
        process.most() * alpha < 1.0
    };
    let low = (0..=TRIED).find(kept);
    let high = (0..=TRIED).rfind(kept);
    Interval {
        // A bound at the edge of the grid is no bound. The step beyond was rejected.
        low: match low {
            Some(step) if step > 0 => truth(step - 1),
            _ => f64::NEG_INFINITY,
        },
        high: match high {
            Some(step) if step < TRIED => truth(step + 1),
            _ => f64::INFINITY,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Over all signs of given amounts the mean wealth is 1: this is what makes looking safe.
    #[test]
    fn a_fair_coin_makes_nobody_rich() {
        let amounts = [0.3, 0.01, 2.0, 0.3, 0.7, 0.0, 5.0, 0.1, 0.2];
        let mut sum = 0.0;
        for signs in 0u32..1 << amounts.len() {
            let mut process = EProcess::default();
            for (index, amount) in amounts.iter().enumerate() {
                process.push(if signs >> index & 1 == 1 {
                    *amount
                } else {
                    -amount
                });
            }
            sum += process.value();
        }
        let mean = sum / f64::from(1u32 << amounts.len());
        assert!((mean - 1.0).abs() < 1e-9, "{mean}");
    }

    #[test]
    fn a_constant_effect_is_found_after_seven_pairs() {
        let mut process = EProcess::default();
        let mut needed = 0;
        while process.value() < 20.0 {
            process.push(0.05);
            needed += 1;
        }
        assert!((6..=8).contains(&needed), "{needed}");
        assert!(process.p_value() <= 0.05);
    }

    #[test]
    fn nothing_and_zero_are_taken() {
        let mut process = EProcess::default();
        assert!((process.p_value() - 1.0).abs() < 1e-15);
        process.push(0.0);
        process.push(0.0);
        assert!((process.value() - 1.0).abs() < 1e-15);
        assert_eq!(anytime_interval(&[], 0.05), Interval::WHOLE);
        assert_eq!(anytime_interval(&[0.1; 4], 0.05), Interval::WHOLE);
    }

    #[test]
    fn the_interval_excludes_zero_when_the_wealth_does() {
        let differences: Vec<f64> = (0..12).map(|it| 0.05 + 0.002 * f64::from(it % 4)).collect();
        let interval = anytime_interval(&differences, 0.05);
        assert!(interval.low > 0.0 && interval.low <= 0.05, "{interval:?}");
        assert!(interval.high > 0.05 && interval.high < 0.2, "{interval:?}");
        let few = anytime_interval(&differences[..4], 0.05);
        assert_eq!(few, Interval::WHOLE);
    }
}
