//! The machine as the kernels see it: usable nodes in an order in which neighbours stand together.

use super::graph::{id, replace, reset};
use super::halve::{halve, pairs};
use super::order;

/// Largest distance inside the kernels; larger tables are scaled down to it.
///
/// Leaves 18 bits for a row of the matrix in a 32-bit table of costs.
const DISTANCE_MAX: u64 = 4095;

/// Entries per row are rounded up to this many, so that loops over a row have no remainder.
pub(super) const PITCH: usize = 8;

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
    pub(super) nodes: usize,
    /// Length of a row of a table: entries beyond the last node are zero.
    pub(super) pitch: usize,
    /// Both directions together, less the smallest, without a common factor; `nodes` rows.
    distance: Vec<i32>,
    /// What a swap of two tasks of two nodes adds for each unit they say to each other.
    apart: Vec<i32>,
    pub(super) capacity: Vec<u32>,
    /// The caller's positions of each node: of `k`, those from `first[k]` to `first[k + 1]`.
    members: Vec<u16>,
    first: Vec<u32>,
    position: Vec<u16>,
    pub(super) halvings: Vec<Halving>,
    /// Whether every node of a part is equally far from whatever lies outside the part.
    pub(super) is_tree: bool,
    /// `(nodes + 1)` squared sums over the upper left corner of `distance`.
    corner: Vec<i64>,
    /// How many of the caller's units are one of `distance`, times two when directions differ.
    unit: u64,
}

impl Machine {
    /// Makes this the machine of these distances and capacities; nothing to do when it is already.
    ///
    /// Every capacity is cut to the number of tasks, which changes nothing but the size of tables.
    pub(super) fn prepare(&mut self, distance: &[u32], capacity: &[u32], tasks: usize) {
        if self.key.0 == distance && self.key.1 == capacity && self.key.2 == tasks {
            return;
        }
        distance.clone_into(&mut self.key.0);
        capacity.clone_into(&mut self.key.1);
        self.key.2 = tasks;
        let usable: Vec<usize> = (0..capacity.len())
            .filter(|&node| capacity[node] > 0)
            .collect();
        let table = self.normalised(distance, capacity.len(), &usable);
        let counts: Vec<u32> = usable.iter().map(|&node| capacity[node]).collect();
        let groups = alike(&table, &counts);
        let (table, counts) = fold_up(&table, &counts, &groups);
        let ranked = order::by_distance(&table, &counts);
        let in_order: Vec<Vec<usize>> = ranked.iter().map(|&node| vec![node]).collect();
        let (table, counts) = fold_up(&table, &counts, &in_order);
        let mut order: Vec<usize> = (0..groups.len()).collect();
        self.halvings.clear();
        let mut parts = std::collections::VecDeque::from([(0, groups.len(), 0)]);
        while let Some((from, to, depth)) = parts.pop_front() {
            if to - from > 1 {
                let middle = from + halve(&table, &counts, &mut order[from..to]);
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
        replace(
            &mut self.capacity,
            order.iter().map(|&node| counts[node].min(id(tasks))),
        );
        self.members.clear();
        self.first.clear();
        self.first.push(0);
        reset(&mut self.position, capacity.len(), u16::MAX);
        for (place, &group) in order.iter().enumerate() {
            for &node in &groups[ranked[group]] {
                let node = usable[node];
                self.members.push(u16::try_from(node).unwrap_or(u16::MAX));
                self.position[node] = u16::try_from(place).unwrap_or(u16::MAX);
            }
            self.first.push(id(self.members.len()));
        }
    }

    /// Distances of the usable nodes: both directions added, less the smallest, without a common
    /// factor, and none above [`DISTANCE_MAX`].
    fn normalised(&mut self, distance: &[u32], all: usize, usable: &[usize]) -> Vec<i64> {
        let both = pairs(usable).map(|(one, other)| {
            u64::from(distance[one * all + other]) + u64::from(distance[other * all + one])
        });
        let both: Vec<u64> = both.collect();
        let smallest = both.iter().copied().min().unwrap_or(0);
        let largest = both.iter().copied().max().unwrap_or(0);
        let factor = both
            .iter()
            .fold(0, |factor, way| common_factor(way - smallest, factor));
        let unit = factor.max(1);
        // One when all are small enough.
        let scale = ((largest - smallest) / unit).div_ceil(DISTANCE_MAX).max(1);
        self.unit = unit.saturating_mul(scale);
        let rounded = |way| ((way - smallest) / unit + scale / 2) / scale;
        let table = both.into_iter().map(rounded);
        table.map(|way| i64::try_from(way).unwrap_or(0)).collect()
    }

    fn fill(&mut self, table: &[i64], order: &[usize]) {
        let nodes = order.len();
        self.nodes = nodes;
        self.pitch = nodes.next_multiple_of(PITCH);
        let between = |one: usize, other: usize| table[order[one] * nodes + order[other]];
        let small = |number: i64| i32::try_from(number).unwrap_or(i32::MAX);
        reset(&mut self.distance, nodes * self.pitch, 0);
        reset(&mut self.apart, nodes * self.pitch, 0);
        reset(&mut self.corner, (nodes + 1) * (nodes + 1), 0);
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

    /// How many tasks some nodes take together.
    pub(super) fn room(&self, nodes: std::ops::Range<usize>) -> usize {
        let rooms = self.capacity[nodes].iter();
        rooms.map(|&room| room as usize).sum()
    }

    /// The node of each place for a task, node after node.
    pub(super) fn slots(&self, node_of: &mut Vec<u16>) {
        node_of.clear();
        for (node, &room) in (0..).zip(&self.capacity) {
            node_of.extend((0..room).map(|_| node));
        }
    }

    /// Distances from a node to all, `pitch` long, zero beyond the last node.
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

    /// The caller's positions of a node: several when it was folded, one else.
    #[inline]
    pub(super) fn members(&self, node: u16) -> &[u16] {
        let node = usize::from(node);
        &self.members[self.first[node] as usize..self.first[node + 1] as usize]
    }

    /// Whether a node stands for several of the caller's.
    pub(super) fn is_folded(&self) -> bool {
        self.members.len() > self.nodes
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
        price.saturating_mul(2).div_ceil(self.unit)
    }
}

/// Groups of nodes that stand as one, and all others alone; by lowest member. Together are nodes of
/// one task each that are equally far from each other and from all others: cores that share a
/// cache, say. It does not matter which of them a task gets.
fn alike(table: &[i64], capacity: &[u32]) -> Vec<Vec<usize>> {
    let nodes = capacity.len();
    let between = |one: usize, other: usize| table[one * nodes + other];
    let mut taken = vec![false; nodes];
    let mut groups = Vec::new();
    for first in 0..nodes {
        if taken[first] {
            continue;
        }
        let mut group = vec![first];
        let others = (0..nodes).filter(|&other| other != first);
        let near = others.map(|other| between(first, other)).min().unwrap_or(0);
        for other in first + 1..nodes {
            let close = capacity[first] == 1
                && capacity[other] == 1
                && !taken[other]
                && group.iter().all(|&member| between(member, other) == near);
            let same = |third: usize| {
                third == first || third == other || between(first, third) == between(other, third)
            };
            if close && (0..nodes).all(same) {
                group.push(other);
                taken[other] = true;
            }
        }
        groups.push(group);
    }
    groups
}

/// The table and the capacities of groups instead of nodes.
fn fold_up(table: &[i64], capacity: &[u32], groups: &[Vec<usize>]) -> (Vec<i64>, Vec<u32>) {
    let nodes = capacity.len();
    let mut folded = Vec::with_capacity(groups.len() * groups.len());
    for (place, one) in groups.iter().enumerate() {
        for (other_place, other) in groups.iter().enumerate() {
            // Inside a group no two tasks share a node: what counts is the way between two.
            let last = if place == other_place {
                one.len() - 1
            } else {
                0
            };
            folded.push(table[one[0] * nodes + other[last]]);
        }
    }
    let sum = |group: &Vec<usize>| group.iter().map(|&node| capacity[node]).sum();
    (folded, groups.iter().map(sum).collect())
}

const fn common_factor(one: u64, other: u64) -> u64 {
    let (mut one, mut other) = (one, other);
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
}
