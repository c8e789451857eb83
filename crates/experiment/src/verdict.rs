//! From differences to a verdict.

use crate::bootstrap::quantile;
use crate::e_process::{EProcess, anytime_interval};
use crate::{BLOCKS_MAX, Interval, signed_rank, student};

/// Chance of a false alarm that an experiment allows itself, for all its arms together.
const ALPHA: f64 = 0.05;

/// The part of it that looks after every block take; the test at the end has the rest.
const ALPHA_LOOKS: f64 = 0.01;

/// The normal quantile of 80 %: with that probability an effect as large as the margin is to be
/// found.
const POWER: f64 = 0.8416;

/// That and the one of 97.5 %.
const QUANTILES: f64 = 1.96 + POWER;

/// Pairs that signed ranks take where Student's test takes one, if differences are normal: pi / 3.
const RANKS: f64 = std::f64::consts::FRAC_PI_3;

/// Degrees of freedom from which on Student's quantiles are the normal ones.
const MANY: usize = 1_000;

/// Pairs from which on it may be called futile.
const FUTILE_FROM: usize = 8;

/// Distance of the quartiles of a normal distribution in standard deviations.
const QUARTILES: f64 = 1.349;

/// How differences are judged. Fixed before the first slice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// Effects below this are called none, as a difference of logarithms.
    pub margin: f64,
    /// Arms that are compared with the control; they share the chance of a false alarm.
    pub contrasts: usize,
    /// Whether the experiment may end after any block.
    pub looks: bool,
}

/// How an experiment came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All blocks were run, or something ended it that knows nothing of the differences, such as the end of the program.
    AsPlanned,
    /// It ended because of what was seen: by its own look, or by someone who watched. Only the e-process counts then.
    ByLook,
}

/// What is to be told of an arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Better than the control.
    Better,
    /// Worse than the control.
    Worse,
    /// Neither better nor worse by more than the margin.
    Same,
    /// Not known yet.
    Undecided {
        /// Pairs that it takes beside those there are, about; none when not even that is known.
        more_pairs: Option<usize>,
    },
}

/// An arm compared with the control. Differences are of logarithms, above 0 is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judgement {
    /// Pairs that both arms have.
    pub pairs: usize,
    /// The effect; not a number without pairs.
    pub effect: f64,
    /// Where the true effect lies, at the confidence that the verdict goes by.
    pub interval: Interval,
    /// That confidence.
    pub confidence: f64,
    /// Two-sided probability by the signed ranks.
    pub p: f64,
    /// The same, valid whenever one looks.
    pub p_anytime: f64,
    /// The verdict.
    pub verdict: Verdict,
}

/// Judges an arm by its differences from the control, one of each block, in order.
#[must_use]
pub fn judge(differences: &[f64], rules: &Rules, ended: Ended) -> Judgement {
    let process = EProcess::of(differences);
    let alpha = rules.alpha(ended);
    let interval = match ended {
        Ended::AsPlanned => signed_rank::interval(differences, alpha),
        Ended::ByLook => anytime_interval(differences, alpha),
    };
    let effect = signed_rank::estimate(differences);
    let by_looking = rules.looks || ended == Ended::ByLook;
    let found = (ended == Ended::AsPlanned && (interval.low > 0.0 || interval.high < 0.0))
        || (by_looking && found_by_look(&process, rules, || effect));
    let same = -rules.margin < interval.low && interval.high < rules.margin;
    let verdict = match (found, effect > 0.0) {
        (true, true) => Verdict::Better,
        (true, false) => Verdict::Worse,
        (false, _) if same => Verdict::Same,
        (false, _) => Verdict::Undecided {
            more_pairs: rules.more_pairs(differences),
        },
    };
    Judgement {
        pairs: differences.len(),
        effect,
        interval,
        confidence: 1.0 - alpha,
        p: signed_rank::p_value(differences),
        p_anytime: process.p_value(),
        verdict,
    }
}

/// Whether a look finds it. What a look would have stopped at stays found even if the rest of the
/// pairs blurred it, but not if they turned it: then neither side is shown.
fn found_by_look(process: &EProcess, rules: &Rules, effect: impl FnOnce() -> f64) -> bool {
    process.most() >= rules.wealth_to_stop() && process.by_plus() == (effect() > 0.0)
}

/// Whether a look at these differences decides.
#[must_use]
pub fn decided(differences: &[f64], rules: &Rules) -> bool {
    let effect = || signed_rank::estimate(differences);
    found_by_look(&EProcess::of(differences), rules, effect)
}

/// Whether it is hardly worth to go on to the pairs planned: an effect as large as the margin, or as the one seen so far if that
/// is larger, would take more than four times as many. The spread is that of the middle half, so that a neighbour that comes
/// and goes does not end an experiment. Stopping for this can find nothing, so it costs no false alarms.
#[must_use]
pub fn futile(differences: &[f64], planned: usize, rules: &Rules) -> bool {
    if differences.len() < FUTILE_FROM.max(planned / 4) {
        return false;
    }
    let mut sorted = differences.to_vec();
    sorted.sort_by(f64::total_cmp);
    let spread = (quantile(&sorted, 0.75) - quantile(&sorted, 0.25)) / QUARTILES;
    let takes_too_many = |effect: f64| (QUANTILES * spread / effect).powi(2) > 4.0 * planned as f64;
    // Of many pairs the estimate takes long, and can only be of a larger effect.
    if !takes_too_many(rules.margin) {
        return false;
    }
    let effect = signed_rank::estimate(differences).abs().max(rules.margin);
    takes_too_many(effect) && !decided(differences, rules)
}

/// Pairs below which the rules cannot reject anything, however large the effect.
#[must_use]
pub fn pairs_min(rules: &Rules) -> usize {
    let alpha = rules.alpha(Ended::AsPlanned);
    let mut pairs = 1;
    let mut least = 1.0;
    while least > alpha && pairs < BLOCKS_MAX {
        pairs += 1;
        least /= 2.0;
    }
    pairs
}

impl Rules {
    /// The wealth at which a look ends the experiment for an arm.
    #[must_use]
    pub fn wealth_to_stop(&self) -> f64 {
        1.0 / self.alpha(Ended::ByLook)
    }

    fn alpha(&self, ended: Ended) -> f64 {
        let whole = match (self.looks, ended) {
            (false, Ended::AsPlanned) => ALPHA,
            (true, Ended::AsPlanned) => ALPHA - ALPHA_LOOKS,
            // Who stops what was not to be stopped looks once; the same strictness does.
            (_, Ended::ByLook) => ALPHA_LOOKS,
        };
        whole / self.contrasts.max(1) as f64
    }

    /// Pairs that an effect as large as the margin would take, less those there are.
    fn more_pairs(&self, differences: &[f64]) -> Option<usize> {
        let deviation = student::deviation(differences)?;
        // By the share of false alarms that this arm has; the last summand is for few pairs
        // (Guenther).
        let sure = student::quantile(self.alpha(Ended::AsPlanned), MANY);
        let pairs = ((sure + POWER) * deviation / self.margin).powi(2);
        let wanted = (pairs * RANKS + sure * sure / 2.0).ceil();
        if !wanted.is_finite() {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative, and a number that is too large becomes the largest"
        )]
        let wanted = (wanted as usize).max(pairs_min(self));
        Some(wanted.saturating_sub(differences.len()).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules {
        margin: 0.03,
        contrasts: 1,
        looks: false,
    };

    fn around(centre: f64, width: f64, pairs: u32) -> Vec<f64> {
        (0..pairs)
            .map(|pair| centre + width * (f64::from(pair * 7 % pairs) / f64::from(pairs) - 0.5))
            .collect()
    }

    #[track_caller]
    fn verdict(differences: &[f64], wanted: Verdict) {
        let judgement = judge(differences, &RULES, Ended::AsPlanned);
        assert_eq!(judgement.verdict, wanted, "{judgement:?}");
    }

    #[test]
    fn each_verdict() {
        verdict(&around(0.05, 0.04, 10), Verdict::Better);
        verdict(&around(-0.05, 0.04, 10), Verdict::Worse);
        verdict(&around(0.001, 0.04, 20), Verdict::Same);
        verdict(
            &around(0.05, 0.04, 5),
            Verdict::Undecided {
                more_pairs: Some(1),
            },
        );
        verdict(&[], Verdict::Undecided { more_pairs: None });
        verdict(&[0.1], Verdict::Undecided { more_pairs: None });
    }

    /// With as many pairs as are said, an effect as large as the margin is found in 80 of 100
    /// cases, however many policies there are.
    #[test]
    fn undecided_tells_how_many_more() {
        let mut chance = crate::Chance::new(1);
        let mut normal = |deviation: f64| {
            let parts = (0..12).map(|_| chance.below(1 << 20) as f64 / f64::from(1 << 20));
            (parts.sum::<f64>() - 6.0) * deviation
        };
        for contrasts in [1, 5, 15] {
            let rules = Rules { contrasts, ..RULES };
            let differences = around(0.0, 0.1, 10);
            let Verdict::Undecided { more_pairs } =
                judge(&differences, &rules, Ended::AsPlanned).verdict
            else {
                panic!("it is decided");
            };
            let pairs = more_pairs.unwrap() + differences.len();
            let deviation = student::deviation(&differences).unwrap();
            let found = (0..500).filter(|_| {
                let pairs = (0..pairs).map(|_| RULES.margin + normal(deviation));
                let pairs: Vec<f64> = pairs.collect();
                judge(&pairs, &rules, Ended::AsPlanned).verdict == Verdict::Better
            });
            let found = found.count();
            assert!((370..=440).contains(&found), "{found} of 500, {contrasts}");
        }
    }

    #[test]
    fn who_stops_by_looking_is_held_to_the_wealth() {
        let six = [0.05, 0.04, 0.06, 0.05, 0.04, 0.06];
        assert_eq!(
            judge(&six, &RULES, Ended::AsPlanned).verdict,
            Verdict::Better
        );
        let stopped = judge(&six, &RULES, Ended::ByLook);
        assert!(
            matches!(stopped.verdict, Verdict::Undecided { .. }),
            "{stopped:?}"
        );
        let many: Vec<f64> = six.iter().chain(&six).copied().collect();
        assert_eq!(judge(&many, &RULES, Ended::ByLook).verdict, Verdict::Better);
    }

    /// Ten pairs would have ended it for the better; then it turned, and its estimate is below 0.
    #[test]
    fn what_turned_since_is_neither_better_nor_worse() {
        let better = [0.05; 10];
        let turned: Vec<f64> = better
            .iter()
            .copied()
            .chain([-0.04, -0.06].repeat(6))
            .collect();
        let looks = Rules {
            looks: true,
            ..RULES
        };
        for ended in [Ended::AsPlanned, Ended::ByLook] {
            assert_eq!(judge(&better, &looks, ended).verdict, Verdict::Better);
            let judged = judge(&turned, &looks, ended);
            assert!(judged.effect < 0.0, "{judged:?}");
            assert!(
                matches!(judged.verdict, Verdict::Undecided { .. }),
                "{judged:?}"
            );
        }
        assert!(decided(&better, &looks) && !decided(&turned, &looks));
        // What the rest only blurred stays found.
        let blurred: Vec<f64> = better
            .iter()
            .copied()
            .chain([0.3, -0.3].repeat(4))
            .collect();
        assert_eq!(
            judge(&blurred, &looks, Ended::AsPlanned).verdict,
            Verdict::Better
        );
    }

    #[test]
    fn what_would_take_too_many_pairs_is_futile() {
        // Quartiles 0.2 apart: about 190 pairs for 3 %.
        let wide = around(0.0, 0.4, 10);
        assert!(futile(&wide, 20, &RULES));
        assert!(!futile(&wide, 100, &RULES), "there are enough");
        assert!(!futile(&wide[..7], 20, &RULES), "too early to say");
        assert!(
            !futile(&around(0.15, 0.4, 10), 20, &RULES),
            "a large effect"
        );
        assert!(!futile(&around(0.0, 0.04, 10), 20, &RULES));
    }

    #[test]
    fn several_arms_share_the_chance_of_a_false_alarm() {
        assert_eq!(pairs_min(&RULES), 6);
        assert_eq!(
            pairs_min(&Rules {
                contrasts: 3,
                ..RULES
            }),
            7
        );
        assert_eq!(
            pairs_min(&Rules {
                looks: true,
                ..RULES
            }),
            6
        );
        let six = [0.05, 0.04, 0.06, 0.05, 0.04, 0.06];
        let rules = Rules {
            contrasts: 3,
            ..RULES
        };
        assert!(matches!(
            judge(&six, &rules, Ended::AsPlanned).verdict,
            Verdict::Undecided { .. }
        ));
    }
}
