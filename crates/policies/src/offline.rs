//! `DeLocMap`: tasks to nodes for the next run, by what a profile of an earlier one shows.
//!
//! A group holds the pairs that communicate at the same time. Groups come by their part of all communication, largest
//! first, and so do the pairs within each; they are dealt out as [`crate::rounds`] says. Tasks that never communicate
//! go, in their order, to the node with the fewest tasks.

use crate::history::Spoken;
use crate::rounds::deal_to;
use crate::seats::Seats;

/// What two tasks of a group communicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairAmount {
    /// The lower task.
    pub low: usize,
    /// The other one.
    pub high: usize,
    /// How much, in any unit.
    pub amount: u64,
}

/// The node of each task, as a position in `capacity`.
///
/// # Panics
/// When the nodes together do not take the tasks, or a pair names a task that does not exist.
#[must_use]
pub fn deloc_map(tasks: usize, capacity: &[u32], groups: &[Vec<PairAmount>]) -> Vec<usize> {
    let room: u64 = capacity.iter().map(|&places| u64::from(places)).sum();
    assert!(tasks as u64 <= room, "room for {room} of {tasks} tasks");
    let load = |group: &[PairAmount]| {
        group
            .iter()
            .map(|pair| u128::from(pair.amount))
            .sum::<u128>()
    };
    let mut groups: Vec<Vec<PairAmount>> = groups.to_vec();
    groups.sort_by_key(|group| std::cmp::Reverse(load(group)));
    for group in &mut groups {
        group.sort_by_key(|pair| (std::cmp::Reverse(pair.amount), pair.low, pair.high));
    }
    let pairs = groups.iter().flatten();
    let spoken: Vec<Spoken> = pairs
        .filter(|pair| pair.amount > 0 && pair.low != pair.high)
        .map(|pair| Spoken {
            low: pair.low,
            high: pair.high,
            amount: pair.amount as f64,
            windows: 1.0,
        })
        .collect();
    let dealt = deal_to(tasks, &|_, _| true, Seats::of(capacity), spoken.iter());
    let mut count = vec![0_u32; capacity.len()];
    for &node in dealt.iter().flatten() {
        count[node] += 1;
    }
    let mut nodes = Vec::with_capacity(tasks);
    for node in dealt {
        let node = node.unwrap_or_else(|| {
            let open = (0..capacity.len()).filter(|&node| count[node] < capacity[node]);
            let node = open.min_by_key(|&node| count[node]);
            let node = node.expect("there is room for every task");
            count[node] += 1;
            node
        });
        nodes.push(node);
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(pairs: &[(usize, usize, u64)]) -> Vec<PairAmount> {
        let pair = |&(low, high, amount): &(usize, usize, u64)| PairAmount { low, high, amount };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn golden_four_pairs_on_two_nodes_of_four_cores() {
        let pairs = group(&[(6, 7, 1), (4, 5, 2), (2, 3, 3), (0, 1, 4)]);
        assert_eq!(deloc_map(8, &[4, 4], &[pairs]), [0, 0, 1, 1, 0, 0, 1, 1]);
    }

    #[test]
    fn the_larger_group_comes_first_and_the_silent_even_out() {
        let groups = [group(&[(0, 1, 5)]), group(&[(2, 3, 4), (4, 5, 3)])];
        assert_eq!(deloc_map(8, &[4, 4], &groups), [0, 0, 0, 0, 1, 1, 1, 1]);
    }

    #[test]
    fn capacities_are_kept_and_everybody_has_a_node() {
        let groups = [group(&[(0, 1, 9), (1, 2, 8), (2, 3, 7)])];
        let nodes = deloc_map(5, &[2, 0, 3], &groups);
        let on = |node| nodes.iter().filter(|&&on| on == node).count();
        assert_eq!((nodes.len(), on(0), on(1), on(2)), (5, 2, 0, 3));
    }
}
