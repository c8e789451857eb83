//! Where a machine falls in two: along its tree where it is one, else with the least distance inside.

/// Reorders `part` so that two parts that belong together stand side by side; where the second begins.
pub(super) fn halve(table: &[i64], capacity: &[u32], part: &mut [usize]) -> usize {
    let nodes = capacity.len();
    part.sort_unstable();
    let between = |one: usize, other: usize| table[one * nodes + other];
    let apart = pairs(part).filter(|(one, other)| one != other);
    let widest = apart.map(|(one, other)| between(one, other)).max();
    let is_near = |one, other| widest.is_some_and(|widest| between(one, other) < widest);
    let groups = families(part, is_near);
    let narrow =
        |group: &Vec<usize>| pairs(group).all(|(one, other)| one == other || is_near(one, other));
    if groups.len() > 1 && groups.iter().all(narrow) {
        return split_families(part, &groups, capacity);
    }
    best_cut(part, between)
}

/// Connected groups, by lowest member.
fn families(part: &[usize], near: impl Fn(usize, usize) -> bool) -> Vec<Vec<usize>> {
    let mut left: Vec<usize> = part.to_vec();
    let mut groups = Vec::new();
    while !left.is_empty() {
        let mut group = vec![left.remove(0)];
        let mut seen = 0;
        while seen < group.len() {
            let one = group[seen];
            let (close, rest) = left.iter().partition(|&&other| near(one, other));
            group.extend::<Vec<usize>>(close);
            left = rest;
            seen += 1;
        }
        group.sort_unstable();
        groups.push(group);
    }
    groups
}

/// The leading families whose capacity comes closest to half.
fn split_families(part: &mut [usize], groups: &[Vec<usize>], capacity: &[u32]) -> usize {
    let room = |&node: &usize| u64::from(capacity[node]);
    let weigh = |group: &[usize]| group.iter().map(room).sum::<u64>();
    let total: u64 = groups.iter().map(|group| weigh(group)).sum();
    let (mut best, mut best_miss, mut sum, mut count) = (0, u64::MAX, 0, 0);
    for group in &groups[..groups.len() - 1] {
        sum += weigh(group);
        count += group.len();
        let miss = (2 * sum).abs_diff(total);
        if miss < best_miss {
            (best, best_miss) = (count, miss);
        }
    }
    for (place, &node) in part.iter_mut().zip(groups.iter().flatten()) {
        *place = node;
    }
    best
}

/// Two halves with the least distance inside.
///
/// Each start takes the half that is nearer to one node than to another, which is a box on a torus
/// and a ball elsewhere; the best few starts are then swapped until no swap helps.
fn best_cut(part: &mut [usize], between: impl Fn(usize, usize) -> i64) -> usize {
    const SEEDS_MAX: usize = 4;
    const STARTS_MAX: usize = 6;
    let half = part.len() / 2;
    let rate = |order: &[usize]| inside(order, half, &between);
    let mut starts: Vec<(i64, Vec<usize>)> = Vec::new();
    for &seed in part.iter().take(SEEDS_MAX) {
        for &rival in part.iter() {
            let near = |node: usize| {
                if rival == seed {
                    0
                } else {
                    between(rival, node)
                }
            };
            let lean = |node: usize| between(seed, node) - near(node);
            let mut order = part.to_vec();
            order.sort_by_key(|&node| (lean(node), node));
            starts.push((rate(&order), order));
        }
    }
    starts.sort_unstable();
    starts.dedup();
    starts.truncate(STARTS_MAX);
    for (cost, order) in &mut starts {
        let (first, second) = order.split_at_mut(half);
        swap_down(first, second, &between);
        first.sort_unstable();
        second.sort_unstable();
        *cost = rate(order);
    }
    if let Some((_, order)) = starts.iter().min() {
        part.copy_from_slice(order);
    }
    half
}

/// Distances between nodes of the same half.
fn inside(order: &[usize], half: usize, between: &impl Fn(usize, usize) -> i64) -> i64 {
    let (first, second) = order.split_at(half);
    let sum = |nodes| -> i64 { pairs(nodes).map(|(one, other)| between(one, other)).sum() };
    sum(first) + sum(second)
}

/// Each of some nodes with each of them.
pub(super) fn pairs(nodes: &[usize]) -> impl Iterator<Item = (usize, usize)> + '_ {
    let with_all = |&one| nodes.iter().map(move |&other| (one, other));
    nodes.iter().flat_map(with_all)
}

fn swap_down(first: &mut [usize], second: &mut [usize], between: &impl Fn(usize, usize) -> i64) {
    // Each swap lowers the cost; the bound is against rounds that gain next to nothing.
    for _ in 0..first.len() {
        let sum = |node: usize, nodes: &[usize]| -> i64 {
            nodes.iter().map(|&other| between(node, other)).sum()
        };
        let pulls = |own: &[usize], other: &[usize]| -> Vec<i64> {
            let pull = |&node: &usize| sum(node, other) - sum(node, own);
            own.iter().map(pull).collect()
        };
        let (one, two) = (pulls(first, second), pulls(second, first));
        let mut best = (0, 0, 0);
        for (a, &gain_a) in one.iter().enumerate() {
            for (b, &gain_b) in two.iter().enumerate() {
                let delta = gain_a + gain_b - 2 * between(first[a], second[b]);
                best = best.min((delta, a, b));
            }
        }
        if best.0 >= 0 {
            return;
        }
        std::mem::swap(&mut first[best.1], &mut second[best.2]);
    }
}
