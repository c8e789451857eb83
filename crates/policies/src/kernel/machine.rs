//! The machine as the kernels see it: usable nodes in an order in which neighbours stand together.

use super::graph::id;

/// Largest distance inside the kernels; larger tables are scaled down to it.
///
/// Leaves 18 bits for a row of the matrix in a 32-bit table of costs.
const DISTANCE_MAX: u64 = 4095;

/// Entries per row are rounded up to this many, so that loops over a row have no remainder.
const PITCH: usize = 8;

/// One halving of the machine: nodes `from..to` become `from..middle` and `middle..to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Halving {
    pub(super) from: usize,
    pub(super) middle: usize,
    pub(super) to: usize,
    /// Halvings above this one.
    pub(super) depth: usize,
}

/// Nodes that take tasks, and how far they are from each other.
///
/// Prepared once for a machine and kept: see [`Self::prepare`].
#[derive(Debug, Default)]
pub(super) struct Machine {
    key: (Vec<u32>, Vec<u32>, usize),
    nodes: usize,
    pitch: usize,
    /// Both directions together, less the smallest, without a common factor; `nodes` rows.
    distance: Vec<i32>,
    /// What a swap of two tasks of two nodes adds for each unit they say to each other.
    apart: Vec<i32>,
    capacity: Vec<u32>,
    /// The caller's position of each node.
    original: Vec<u16>,
    position: Vec<u16>,
    halvings: Vec<Halving>,
    is_tree: bool,
    /// `(nodes + 1)` squared sums over the upper left corner of `distance`.
    corner: Vec<i64>,
    /// How many of the caller's units are one of `distance`, times two when directions differ.
    unit: u64,
    scale: u64,
}

impl Machine {
    /// Makes this the machine of these distances and capacities; nothing to do when it is already.
    ///
    /// Every capacity is cut to the number of tasks, which changes nothing but the size of tables.
    pub(super) fn prepare(&mut self, distance: &[u32], capacity: &[u32], tasks: usize) {
        if self.key.0 == distance && self.key.1 == capacity && self.key.2 == tasks {
            return;
        }
        self.key.0.clear();
        self.key.0.extend_from_slice(distance);
        self.key.1.clear();
        self.key.1.extend_from_slice(capacity);
        self.key.2 = tasks;
        let usable: Vec<usize> = (0..capacity.len())
            .filter(|&node| capacity[node] > 0)
            .collect();
        let table = self.normalised(distance, capacity.len(), &usable);
        let mut order: Vec<usize> = (0..usable.len()).collect();
        self.halvings.clear();
        let counts: Vec<u32> = usable.iter().map(|&node| capacity[node]).collect();
        let mut parts = std::collections::VecDeque::from([(0, usable.len(), 0)]);
        while let Some((from, to, depth)) = parts.pop_front() {
            if to - from > 1 {
                let middle = from + halve(&table, usable.len(), &counts, &mut order[from..to]);
                self.halvings.push(Halving {
                    from,
                    middle,
                    to,
                    depth,
                });
                parts.push_back((from, middle, depth + 1));
                parts.push_back((middle, to, depth + 1));
            }
        }
        self.fill(&table, &order);
        self.capacity.clear();
        self.capacity
            .extend(order.iter().map(|&node| counts[node].min(id(tasks))));
        self.original.clear();
        self.position.clear();
        self.position.resize(capacity.len(), u16::MAX);
        for (place, &node) in order.iter().enumerate() {
            let node = usable[node];
            self.original.push(u16::try_from(node).unwrap_or(u16::MAX));
            self.position[node] = u16::try_from(place).unwrap_or(u16::MAX);
        }
    }

    /// Distances of the usable nodes: both directions added, less the smallest, without a common
    /// factor, and none above [`DISTANCE_MAX`].
    fn normalised(&mut self, distance: &[u32], all: usize, usable: &[usize]) -> Vec<i64> {
        let pair = |one: usize, other: usize| {
            u64::from(distance[one * all + other]) + u64::from(distance[other * all + one])
        };
        let mut smallest = u64::MAX;
        let mut largest = 0;
        let mut factor = 0;
        for &one in usable {
            for &other in usable {
                smallest = smallest.min(pair(one, other));
                largest = largest.max(pair(one, other));
            }
        }
        for &one in usable {
            for &other in usable {
                factor = common_factor(pair(one, other) - smallest, factor);
            }
        }
        let factor = factor.max(1);
        let top = largest.saturating_sub(smallest) / factor;
        self.unit = factor;
        self.scale = 1;
        if top > DISTANCE_MAX {
            self.scale = top.div_ceil(DISTANCE_MAX);
        }
        let mut table = Vec::with_capacity(usable.len() * usable.len());
        for &one in usable {
            for &other in usable {
                let exact = (pair(one, other) - smallest) / factor;
                let rounded = (exact + self.scale / 2) / self.scale;
                table.push(i64::try_from(rounded).unwrap_or(0));
            }
        }
        table
    }

    fn fill(&mut self, table: &[i64], order: &[usize]) {
        let nodes = order.len();
        self.nodes = nodes;
        self.pitch = nodes.next_multiple_of(PITCH);
        let between = |one: usize, other: usize| table[order[one] * nodes + order[other]];
        let small = |number: i64| i32::try_from(number).unwrap_or(i32::MAX);
        self.distance.clear();
        self.distance.resize(nodes * self.pitch, 0);
        self.apart.clear();
        self.apart.resize(nodes * self.pitch, 0);
        self.corner.clear();
        self.corner.resize((nodes + 1) * (nodes + 1), 0);
        let wide = nodes + 1;
        for one in 0..nodes {
            for other in 0..nodes {
                let far = between(one, other);
                self.distance[one * self.pitch + other] = small(far);
                let apart = 2 * far - between(one, one) - between(other, other);
                self.apart[one * self.pitch + other] = small(apart);
                self.corner[(one + 1) * wide + other + 1] = far
                    + self.corner[one * wide + other + 1]
                    + self.corner[(one + 1) * wide + other]
                    - self.corner[one * wide + other];
            }
        }
        self.is_tree = self.halvings.iter().all(|halving| {
            (0..nodes)
                .filter(|&node| node < halving.from || node >= halving.to)
                .all(|node| {
                    let first = between(node, halving.from);
                    (halving.from..halving.to).all(|inside| between(node, inside) == first)
                })
        });
    }

    pub(super) const fn nodes(&self) -> usize {
        self.nodes
    }

    pub(super) const fn pitch(&self) -> usize {
        self.pitch
    }

    pub(super) fn capacity(&self) -> &[u32] {
        &self.capacity
    }

    pub(super) fn halvings(&self) -> &[Halving] {
        &self.halvings
    }

    /// Whether every node of a part is equally far from whatever lies outside the part.
    pub(super) const fn is_tree(&self) -> bool {
        self.is_tree
    }

    /// Distances from a node to all, [`Self::pitch`] long, zero beyond the last node.
    #[inline]
    pub(super) fn from(&self, node: usize) -> &[i32] {
        &self.distance[node * self.pitch..][..self.pitch]
    }

    #[inline]
    pub(super) fn apart(&self, one: usize, other: usize) -> i32 {
        self.apart[one * self.pitch + other]
    }

    pub(super) fn largest(&self) -> i32 {
        self.distance.iter().copied().max().unwrap_or(0)
    }

    /// The caller's position of a node.
    #[inline]
    pub(super) fn original(&self, node: u16) -> u16 {
        self.original[usize::from(node)]
    }

    /// Our position of the caller's node; none when it takes no tasks.
    pub(super) fn position(&self, node: u16) -> Option<u16> {
        let place = self.position.get(usize::from(node)).copied();
        place.filter(|&place| place != u16::MAX)
    }

    /// Sum of the distances between all nodes of two parts.
    pub(super) fn between_parts(&self, one: (usize, usize), other: (usize, usize)) -> i64 {
        let wide = self.nodes + 1;
        let corner = |row: usize, column: usize| self.corner[row * wide + column];
        corner(one.1, other.1) + corner(one.0, other.0)
            - corner(one.0, other.1)
            - corner(one.1, other.0)
    }

    /// A price of the caller's (amount times distance) in units of the tables, rounded up.
    pub(super) fn price(&self, price: u64) -> u64 {
        // The tables hold both directions.
        price
            .saturating_mul(2)
            .div_ceil(self.unit.saturating_mul(self.scale))
    }
}

const fn common_factor(one: u64, other: u64) -> u64 {
    let (mut one, mut other) = (one, other);
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// Reorders `part` so that two parts that belong together stand side by side; where the second begins.
fn halve(table: &[i64], nodes: usize, capacity: &[u32], part: &mut [usize]) -> usize {
    part.sort_unstable();
    let between = |one: usize, other: usize| table[one * nodes + other];
    let widest = part
        .iter()
        .flat_map(|&one| part.iter().map(move |&other| (one, other)));
    let widest = widest.filter(|(one, other)| one != other);
    let widest = widest
        .map(|(one, other)| between(one, other))
        .max()
        .unwrap_or(0);
    let groups = families(part, |one, other| between(one, other) < widest);
    let narrow = groups.iter().all(|group| {
        group.iter().all(|&one| {
            group
                .iter()
                .all(|&other| one == other || between(one, other) < widest)
        })
    });
    if groups.len() > 1 && narrow {
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
    let weigh = |group: &[usize]| {
        group
            .iter()
            .map(|&node| u64::from(capacity[node]))
            .sum::<u64>()
    };
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

/// Two halves with the least distance inside: grown around each of a few nodes, then swapped.
fn best_cut(part: &mut [usize], between: impl Fn(usize, usize) -> i64) -> usize {
    const STARTS_MAX: usize = 16;
    let half = part.len() / 2;
    let mut best: (i64, Vec<usize>) = (i64::MAX, part.to_vec());
    for start in 0..part.len().min(STARTS_MAX) {
        let seed = part[start];
        let mut order = part.to_vec();
        order.sort_by_key(|&node| (node != seed, between(seed, node), node));
        let (first, second) = order.split_at_mut(half);
        swap_down(first, second, &between);
        let inside = |nodes: &[usize]| {
            let pairs = nodes
                .iter()
                .flat_map(|&one| nodes.iter().map(move |&other| (one, other)));
            pairs.map(|(one, other)| between(one, other)).sum::<i64>()
        };
        let cost = inside(first) + inside(second);
        if cost < best.0 {
            first.sort_unstable();
            second.sort_unstable();
            best = (cost, order);
        }
    }
    part.copy_from_slice(&best.1);
    half
}

fn swap_down(first: &mut [usize], second: &mut [usize], between: &impl Fn(usize, usize) -> i64) {
    // Each swap lowers the cost; the bound is against rounds that gain next to nothing.
    for _ in 0..first.len() {
        let sum = |node: usize, nodes: &[usize]| -> i64 {
            nodes.iter().map(|&other| between(node, other)).sum()
        };
        let pull = |node: usize, own: &[usize], other: &[usize]| sum(node, other) - sum(node, own);
        let one: Vec<i64> = first
            .iter()
            .map(|&node| pull(node, first, second))
            .collect();
        let two: Vec<i64> = second
            .iter()
            .map(|&node| pull(node, second, first))
            .collect();
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
