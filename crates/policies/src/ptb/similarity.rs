//! How alike the pages are that two threads use.

use numad_core::{Accessor, Page};

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
        // Half of what a matrix of communication takes: 4 MiB for 1,024 tasks.
        let mut sums = vec![0.0; tasks * tasks.saturating_sub(1) / 2];
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
                    let (low, high) = (task.min(other.task), task.max(other.task));
                    if low < high && (high as usize) < tasks {
                        sums[place_of(low, high)] += amount * of(other);
                    }
                }
            }
        }
        let lengths: Vec<f64> = squares.iter().map(|square: &f64| square.sqrt()).collect();
        let all = (0..tasks).flat_map(|low| (low + 1..tasks).map(move |high| (low, high)));
        let pairs = all.filter_map(|(low, high)| {
            let (one, other) = (u32::try_from(low).ok()?, u32::try_from(high).ok()?);
            let cosine = sums[place_of(one, other)] / (lengths[low] * lengths[high]);
            // Sums of roots are not exact, and nothing is more alike than equal.
            (cosine > 0.0).then_some((one, other, cosine.min(1.0)))
        });
        Self {
            pairs: pairs.collect(),
            seen: squares.iter().map(|&square| square > 0.0).collect(),
        }
    }
}

/// Where the sum of a pair is kept.
const fn place_of(low: u32, high: u32) -> usize {
    let high = high as usize;
    high * (high - 1) / 2 + low as usize
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
}
