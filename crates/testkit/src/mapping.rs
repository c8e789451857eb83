//! What mappings of tasks to nodes cost.

/// Amounts of pairs `(one, other, amount)` times distances, which have a row for each node:
/// distances with the mean of both directions, rounded down at the end. Pairs of a task with itself
/// cost nothing.
///
/// # Panics
/// When `node_of` is not one existing node for each task.
#[must_use]
pub fn mapping_cost(pairs: &[(u32, u32, u64)], distance: &[u32], node_of: &[u16]) -> u64 {
    let nodes = distance.len().isqrt();
    let twice = pairs.iter().filter(|pair| pair.0 != pair.1);
    let twice = twice.map(|&(one, other, amount)| {
        let [one, other] = [one, other].map(|task| usize::from(node_of[task as usize]));
        let both = distance[one * nodes + other] + distance[other * nodes + one];
        amount * u64::from(both)
    });
    twice.sum::<u64>() / 2
}
