//! How alike the pages are that two threads use.

use numad_core::{Accessor, CommMatrix, Page};

use crate::figures::rounded;

/// What tasks that are wholly alike have in common. So fine that hundreds of thousands of pages,
/// each a small part of what two tasks use, come to what they are.
pub(super) const ALIKE: f64 = 4_294_967_296.0;

/// `cos(t1, t2) = sum_p A1[p] A2[p] / (|A1| |A2|)` of every pair of tasks, times 2^32.
#[must_use]
pub fn similarity(tasks: usize, pages: &[Page]) -> CommMatrix {
    let mut squares = vec![0.0; tasks];
    for page in pages {
        let own = page.remembered();
        for user in page.accessors() {
            if let Some(square) = squares.get_mut(user.task as usize) {
                *square += (f64::from(user.weight) * own).powi(2);
            }
        }
    }
    let lengths: Vec<f64> = squares.iter().map(|square: &f64| square.sqrt()).collect();
    let mut alike = CommMatrix::new(tasks);
    for page in pages.iter().filter(|page| page.accessors().len() > 1) {
        // Of a page that many use those who are remembered are there by chance: what they stand for
        // beside themselves does not make them alike.
        let own = page.remembered();
        let part = |user: &Accessor| {
            let task = user.task as usize;
            let length = lengths.get(task).copied();
            let length = length.filter(|&length| length > 0.0)?;
            Some((task, f64::from(user.weight) * own / length))
        };
        let users = page.accessors();
        for (place, user) in users.iter().enumerate() {
            let Some((one, amount)) = part(user) else {
                continue;
            };
            let others = users[place + 1..].iter();
            for (other, also) in others.filter_map(part) {
                alike.add(one, other, rounded(amount * also * ALIKE));
            }
        }
    }
    alike
}

#[cfg(test)]
mod tests {
    use testkit::Scene;

    use super::*;

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
        let found = similarity(4, &scene.pages);
        let pairs: Vec<_> = found.pairs().collect();
        let alike = |cosine: f64| rounded(cosine * ALIKE);
        assert_eq!(pairs, [(0, 1, alike(0.64)), (1, 2, alike(0.6))]);
    }
}
