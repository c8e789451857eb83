//! Whether who talks to whom is as it was, told from samples.
//!
//! The cosine of two matrices is below 1 even if nothing changed: the squares of what was sampled hold, beside the
//! squares of what is, once more the amounts themselves, because so much is the variance of a count. That is
//! taken off here; of two windows of the same program the cosine is then about 1, however few events there are.

use std::collections::BTreeMap;

use topology::TaskKey;

/// Two tasks, the lower first.
pub(crate) type Pair = (TaskKey, TaskKey);

/// What pairs said in some time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Talk {
    pairs: BTreeMap<Pair, f64>,
    /// Sum of the squares of all amounts, and what of that is chance.
    squares: f64,
    chance: f64,
}

impl Talk {
    /// Of these pairs, each named once; one event counts so much.
    pub(crate) fn new(pairs: impl Iterator<Item = (Pair, f64)>, event: f64) -> Self {
        let pairs: BTreeMap<Pair, f64> = pairs.collect();
        Self {
            squares: pairs.values().map(|amount| amount * amount).sum(),
            chance: pairs.values().sum::<f64>() * event,
            pairs,
        }
    }

    /// How alike two are, 1 where they are the same but for chance; none where chance alone is seen.
    pub(crate) fn likeness(&self, other: &Self) -> Option<f64> {
        let (one, two) = (self.squares - self.chance, other.squares - other.chance);
        let told = one > NOTHING * self.squares && two > NOTHING * other.squares;
        let both = |(pair, amount)| Some(amount * other.pairs.get(pair)?);
        let product: f64 = self.pairs.iter().filter_map(both).sum();
        told.then(|| product / (one * two).sqrt())
    }
}

/// Share of the squares that must not be chance.
const NOTHING: f64 = 0.1;

#[cfg(test)]
mod tests {
    use testkit::{Dice, Scene};

    use super::*;

    /// Events among ten pairs, each as likely as the others, all counted from this pair on.
    fn talk(dice: &mut Dice, first: usize, events: usize) -> Talk {
        let scene = Scene::new("2x32").with_tasks_on(&[0; 60]);
        let mut amounts = [0.0; 10];
        for _ in 0..events {
            amounts[dice.below(10)] += 7.0;
        }
        let key = |pair: usize| (scene.tasks[2 * pair].key, scene.tasks[2 * pair + 1].key);
        let pairs = amounts.into_iter().enumerate();
        Talk::new(pairs.map(|(pair, amount)| (key(first + pair), amount)), 7.0)
    }

    #[test]
    fn the_same_is_alike_however_few_events_there_are() {
        for (events, near) in [(30, 0.5), (300, 0.1), (3000, 0.02)] {
            let mut dice = Dice::new(3);
            let mut sum = 0.0;
            for _ in 0..50 {
                let (one, other) = (talk(&mut dice, 0, events), talk(&mut dice, 0, events));
                let alike = one.likeness(&other).unwrap();
                assert!((alike - 1.0).abs() < near, "{events}: {alike}");
                sum += alike;
            }
            assert!((sum / 50.0 - 1.0).abs() < near / 5.0, "{events}: {sum}");
        }
    }

    #[test]
    fn what_changed_is_not() {
        let mut dice = Dice::new(4);
        let was = talk(&mut dice, 0, 300);
        let likeness = |first, dice: &mut Dice| was.likeness(&talk(dice, first, 300)).unwrap();
        assert!(likeness(10, &mut dice).abs() < 1e-9);
        assert!((likeness(4, &mut dice) - 0.6).abs() < 0.1);
    }

    #[test]
    fn chance_alone_says_nothing() {
        let silent = Talk::default();
        assert_eq!(silent.likeness(&silent), None);
        // Ten events, of ten pairs one each.
        let once = |first| {
            let scene = Scene::new("2x32").with_tasks_on(&[0; 60]);
            let key = |task: usize| (scene.tasks[task].key, scene.tasks[task + 1].key);
            Talk::new((0..10_usize).map(|pair| (key(first + pair), 7.0)), 7.0)
        };
        assert_eq!(once(0).likeness(&once(20)), None);
    }
}
