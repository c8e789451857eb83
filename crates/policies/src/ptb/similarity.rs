//! How alike the pages are that two threads use, computed sparsely: a pair that shares no page costs
//! nothing.

use std::collections::BTreeMap;

use numad_core::{Accessor, Page};

/// Up to this many tasks sums are kept in a triangle: 4 MiB.
const TRIANGLE_TASKS_MAX: usize = 1024;

/// Cosines of pairs of tasks that share a page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Similarity {
    /// `(lower, higher, cosine)`, ascending, cosines above 0 and at most 1.
    pub pairs: Vec<(u32, u32, f64)>,
    /// Whether a task uses any page.
    pub seen: Vec<bool>,
}

impl Similarity {
    /// `cos(t1, t2) = sum_p A1[p] A2[p] / (|A1| |A2|)` of every pair that shares a page.
    #[must_use]
    pub fn of(tasks: usize, pages: &[Page]) -> Self {
        let mut squares = vec![0.0; tasks];
        let mut sums = Sums::new(tasks);
        for page in pages {
            let users = page.accessors();
            // Of a page that many use those who are remembered are there by chance: what they stand for beside
            // themselves does not make them alike.
            let own = page.remembered();
            let of = |user: &Accessor| f64::from(user.weight) * own;
            for (place, one) in users.iter().enumerate() {
                let (task, amount) = (one.task, of(one));
                let Some(square) = squares.get_mut(task as usize) else {
                    continue;
                };
                *square += amount * amount;
                for other in &users[place + 1..] {
                    if (other.task as usize) < tasks {
                        sums.add(task, other.task, amount * of(other));
                    }
                }
            }
        }
        let lengths: Vec<f64> = squares.iter().map(|square: &f64| square.sqrt()).collect();
        let pairs = sums
            .into_pairs()
            .into_iter()
            .filter_map(|((one, other), sum)| {
                let cosine = sum / (lengths[one as usize] * lengths[other as usize]);
                // Sums of roots are not exact, and nothing is more alike than equal.
                (cosine > 0.0).then_some((one, other, cosine.min(1.0)))
            });
        Self {
            pairs: pairs.collect(),
            seen: squares.iter().map(|&square| square > 0.0).collect(),
        }
    }
}

/// Sums of products of pairs.
enum Sums {
    /// Of few tasks: a place for every pair.
    Triangle(Vec<f64>),
    /// Of many: those pairs that there are.
    Map(BTreeMap<(u32, u32), f64>),
}

impl Sums {
    fn new(tasks: usize) -> Self {
        if tasks <= TRIANGLE_TASKS_MAX {
            Self::Triangle(vec![0.0; tasks * tasks.saturating_sub(1) / 2])
        } else {
            Self::Map(BTreeMap::new())
        }
    }

    fn add(&mut self, one: u32, other: u32, product: f64) {
        let (low, high) = (one.min(other), one.max(other));
        if low == high {
            return;
        }
        match self {
            Self::Triangle(sums) => {
                let high = high as usize;
                sums[high * (high - 1) / 2 + low as usize] += product;
            }
            Self::Map(sums) => *sums.entry((low, high)).or_default() += product,
        }
    }

    /// Pairs, ascending, with what they come to.
    fn into_pairs(self) -> Vec<((u32, u32), f64)> {
        match self {
            Self::Triangle(sums) => {
                let places = (1_u32..).flat_map(|high| (0..high).map(move |low| (low, high)));
                let pairs = places.zip(sums).filter(|&(_, sum)| sum > 0.0);
                let mut pairs: Vec<((u32, u32), f64)> = pairs.collect();
                pairs.sort_unstable_by_key(|&(pair, _)| pair);
                pairs
            }
            Self::Map(sums) => sums.into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use testkit::Scene;

    use super::*;

    fn near(found: f64, expected: f64) -> bool {
        (found - expected).abs() < 1e-12
    }

    #[test]
    fn cosines_are_those_of_the_formula() {
        // A0 = (3, 4, 0), A1 = (0, 4, 3), A2 = (0, 0, 5): cos 16/25, 0, 15/25.
        let mut scene = Scene::new("2x2").with_tasks(&[None; 4]);
        for users in [&[0][..], &[0, 1], &[2, 1]] {
            scene = scene.with_page(None, users);
        }
        for (page, weights) in scene.pages.iter_mut().zip([[3, 0], [4, 4], [5, 3]]) {
            for (place, weight) in page.recent.iter_mut().zip(weights) {
                place.weight = weight;
            }
        }
        let found = Similarity::of(4, &scene.pages);
        assert_eq!(found.seen, [true, true, true, false]);
        assert_eq!(found.pairs.len(), 2, "{found:?}");
        assert!(found.pairs[0].0 == 0 && found.pairs[0].1 == 1 && near(found.pairs[0].2, 0.64));
        assert!(found.pairs[1].0 == 1 && found.pairs[1].1 == 2 && near(found.pairs[1].2, 0.6));
    }

    #[test]
    fn many_tasks_are_summed_up_as_few_are() {
        let mut dice = testkit::Dice::new(3);
        let mut scene = Scene::new("2x2").with_tasks(&[None; 40]);
        for _ in 0..500 {
            let users = [dice.below(40), dice.below(40)];
            let users = users.map(|user| u32::try_from(user).unwrap_or(0));
            scene = scene.with_page(None, &users);
        }
        let few = Similarity::of(40, &scene.pages);
        let many = Similarity::of(TRIANGLE_TASKS_MAX + 1, &scene.pages);
        assert_eq!(few.pairs.len(), many.pairs.len());
        for (one, other) in few.pairs.iter().zip(&many.pairs) {
            assert!((one.0, one.1) == (other.0, other.1) && near(one.2, other.2));
        }
        assert!(few.pairs.iter().all(|&(one, other, _)| one < other));
    }
}
