//! TreeMatch: from the leaves of the machine up, what talks most is put into one group.

use super::graph::{Csr, Edges, Steps, id};
use super::machine::{Halving, Machine};
use super::problem::{Effort, Problem};
use super::search::Workspace;

/// TreeMatch-style grouping from the leaves up, then refined.
///
/// Tasks are padded with silent ones to the capacity. Where all nodes take equally many tasks, groups
/// grow by the prime factors of that number; then, if the machine is a symmetric tree, by two for
/// each of its halvings. Where nodes differ, groups have the sizes of the nodes from the start; and
/// groups of a machine that is no symmetric tree are placed on nodes by swaps over its distances.
/// Allocates; meant for plans, not for every interval.
pub fn treematch<'w>(
    problem: &Problem<'_>,
    effort: Effort,
    workspace: &'w mut Workspace,
) -> &'w [u16] {
    workspace.with_start(problem, effort, |machine, steps, start| {
        group_tasks(problem.edges, machine, steps, start);
    })
}

fn group_tasks(edges: &Edges, machine: &Machine, steps: &mut Steps, start: &mut [u16]) {
    let capacity = &machine.capacity;
    let slots = machine.room(0..machine.nodes);
    let same = capacity.windows(2).all(|pair| pair[0] == pair[1]);
    let mut tree = Grouping::new(edges.rows(), slots);
    if same {
        for factor in prime_factors(capacity[0] as usize) {
            tree.step(&vec![factor; tree.groups.len() / factor]);
        }
    } else {
        let sizes: Vec<usize> = capacity.iter().map(|&room| room as usize).collect();
        tree.step(&sizes);
    }
    let _ = steps.spend(slots);
    let mut nodes: Vec<usize> = (0..machine.nodes).collect();
    let is_even = |half: &Halving| half.middle - half.from == half.to - half.middle;
    let symmetric = machine.halvings.iter().all(is_even);
    if same && symmetric && machine.is_tree {
        while tree.groups.len() > 1 {
            tree.step(&vec![2; tree.groups.len() / 2]);
        }
        // One group is left; its tasks are in the order of the leaves.
        let leaves = tree.groups[0].chunks(capacity[0] as usize);
        tree.groups = leaves.map(<[u32]>::to_vec).collect();
    } else {
        place_groups(&tree.edges, machine, &mut nodes);
    }
    for (group, &node) in tree.groups.iter().zip(&nodes) {
        for &task in group {
            if let Some(there) = start.get_mut(task as usize) {
                *there = u16::try_from(node).unwrap_or(u16::MAX);
            }
        }
    }
}

/// Groups that grow, and what they say to each other.
struct Grouping {
    /// The tasks of each group; silent ones have numbers beyond the last task.
    groups: Vec<Vec<u32>>,
    edges: Edges,
}

impl Grouping {
    fn new(rows: Csr<'_>, slots: usize) -> Self {
        let groups = (0..slots.max(rows.tasks())).map(|task| vec![id(task)]);
        let groups: Vec<Vec<u32>> = groups.collect();
        let pairs: Vec<(u32, u32, u64)> = rows.pairs().collect();
        Self {
            edges: Edges::from_pairs(groups.len(), &pairs),
            groups,
        }
    }

    /// Joins the groups into groups of these many each, and adds up what they say.
    fn step(&mut self, sizes: &[usize]) {
        let parts = self.partition(sizes);
        let mut part_of = vec![0; self.groups.len()];
        for (part, members) in parts.iter().enumerate() {
            for &member in members {
                part_of[member] = id(part);
            }
        }
        // Pairs of a part with itself are left out.
        let named = |(one, other, weight)| (part_of[one as usize], part_of[other as usize], weight);
        let pairs: Vec<(u32, u32, u64)> = self.edges.rows().pairs().map(named).collect();
        let join = |members: &Vec<usize>| -> Vec<u32> {
            let groups = members.iter().map(|&member| &self.groups[member]);
            groups.flatten().copied().collect()
        };
        let groups: Vec<Vec<u32>> = parts.iter().map(join).collect();
        self.groups = groups;
        self.edges.refill(self.groups.len(), &pairs);
    }

    /// Groups of the given sizes, largest first: each starts with the heaviest pair that is left and
    /// takes what talks most to it. Returned in the order of `sizes`.
    fn partition(&self, sizes: &[usize]) -> Vec<Vec<usize>> {
        let count = self.groups.len();
        let mut pairs: Vec<(u32, u32, u64)> = self.edges.rows().pairs().collect();
        pairs.sort_unstable_by_key(|&(one, other, weight)| (std::cmp::Reverse(weight), one, other));
        let pairs = pairs.into_iter();
        let mut pairs = pairs.map(|(one, other, _)| (one as usize, other as usize));
        let mut open = vec![true; count];
        let mut lowest = 0;
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        order.sort_by_key(|&place| (std::cmp::Reverse(sizes[place]), place));
        let mut parts = vec![Vec::new(); sizes.len()];
        for place in order {
            let size = sizes[place];
            let part: &mut Vec<usize> = &mut parts[place];
            let mut pull = vec![0_u64; count];
            while part.len() < size {
                let next = if part.is_empty() {
                    let heaviest = pairs.find(|&(one, other)| open[one] && open[other]);
                    heaviest.map(|(one, _)| one)
                } else {
                    let talking = (0..count).filter(|&other| open[other] && pull[other] > 0);
                    talking.max_by_key(|&other| (pull[other], std::cmp::Reverse(other)))
                };
                while lowest < count && !open[lowest] {
                    lowest += 1;
                }
                let next = next.unwrap_or(lowest);
                if next >= count {
                    break;
                }
                open[next] = false;
                part.push(next);
                for (other, weight) in self.edges.partners(next) {
                    pull[other] += u64::from(weight);
                }
            }
        }
        parts
    }
}

fn prime_factors(mut number: usize) -> Vec<usize> {
    let mut factors = Vec::new();
    let mut factor = 2;
    while factor * factor <= number {
        while number.is_multiple_of(factor) {
            factors.push(factor);
            number /= factor;
        }
        factor += 1;
    }
    if number > 1 {
        factors.push(number);
    }
    factors
}

/// Swaps the nodes of groups of equal size while that lowers the cost.
fn place_groups(edges: &Edges, machine: &Machine, nodes: &mut [usize]) {
    let capacity = &machine.capacity;
    let cost_at = |nodes: &[usize], group: usize, node: usize, skip: usize| -> i64 {
        let row = machine.from(node);
        let partners = edges.partners(group).filter(|&(other, _)| other != skip);
        partners
            .map(|(other, weight)| i64::from(weight) * i64::from(row[nodes[other]]))
            .sum()
    };
    for _ in 0..nodes.len() {
        let mut better = false;
        for one in 0..nodes.len() {
            for other in one + 1..nodes.len() {
                let (here, there) = (nodes[one], nodes[other]);
                if capacity[here] != capacity[there] {
                    continue;
                }
                let before = cost_at(nodes, one, here, other) + cost_at(nodes, other, there, one);
                let after = cost_at(nodes, one, there, other) + cost_at(nodes, other, here, one);
                if after < before {
                    nodes.swap(one, other);
                    better = true;
                }
            }
        }
        if !better {
            return;
        }
    }
}
