//! An order of nodes that depends on how far they are from each other, not on how they are numbered.
//!
//! Where a machine is no tree, there is more than one good way to halve it, and the first node decides
//! which is taken. Firmware numbers the nodes of a torus as it likes; mappings should not be better or
//! worse for that.

use super::graph::mix;

/// Nodes up to which an order is looked for; the work grows with their third power.
const NODES_MAX: usize = 64;

/// The nodes in that order; in their own where the machine is a tree (every order is as good) or larger
/// than that.
///
/// Colour refinement: a node's colour is made of the colours at each distance. While some are alike, the
/// first of the smallest such class gets a colour of its own; where that matters it matters in name only,
/// as long as a symmetry of the machine maps any of them to any other.
pub(super) fn by_distance(table: &[i64], capacity: &[u32]) -> Vec<usize> {
    let nodes = capacity.len();
    let mut order: Vec<usize> = (0..nodes).collect();
    if nodes > NODES_MAX || is_ultrametric(table, nodes) {
        return order;
    }
    let mut colour: Vec<u64> = capacity.iter().map(|&room| mix(u64::from(room))).collect();
    let mut landmarks: Vec<usize> = Vec::new();
    for round in 0..nodes as u64 {
        refine(table, &mut colour);
        order.sort_unstable_by_key(|&node| (colour[node], node));
        let classes = order.chunk_by(|&one, &other| colour[one] == colour[other]);
        let smallest = classes
            .filter(|class| class.len() > 1)
            .min_by_key(|class| class.len());
        let Some(class) = smallest else { break };
        landmarks.push(class[0]);
        colour[class[0]] = mix(round + 1);
    }
    let ways = |node: usize| {
        landmarks
            .iter()
            .map(move |&mark| table[mark * nodes + node])
    };
    order.sort_by(|&one, &other| {
        let colours = colour[one].cmp(&colour[other]);
        ways(one).cmp(ways(other)).then(colours)
    });
    order
}

/// Until no class falls apart.
fn refine(table: &[i64], colour: &mut Vec<u64>) {
    let mut classes = count(colour);
    loop {
        let rows = table.chunks_exact(colour.len());
        let next = rows.zip(&*colour).map(|(row, &own)| {
            let seen = row.iter().zip(&*colour).fold(0_u64, |sum, (&far, &other)| {
                sum.wrapping_add(mix(other ^ far.cast_unsigned().wrapping_mul(0x9E37_79B9)))
            });
            mix(seen ^ own.rotate_left(1))
        });
        let next: Vec<u64> = next.collect();
        *colour = next;
        let after = count(colour);
        if after == classes {
            return;
        }
        classes = after;
    }
}

fn count(colour: &[u64]) -> usize {
    let mut sorted = colour.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    sorted.len()
}

/// Whether of any three ways the two longest are equal: leaves of a tree.
fn is_ultrametric(table: &[i64], nodes: usize) -> bool {
    let between = |one: usize, other: usize| table[one * nodes + other];
    (0..nodes).all(|one| {
        (0..one).all(|two| {
            (0..two).all(|three| {
                let mut ways = [between(one, two), between(two, three), between(one, three)];
                ways.sort_unstable();
                ways[1] == ways[2]
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::graph::{Dice, id};
    use super::super::machine::Machine;

    /// A torus, or a board of two rings: the machine is the same under any numbering.
    #[track_caller]
    fn check_same(sides: &[usize]) {
        let nodes: usize = sides.iter().product();
        let steps = |mut one: usize, mut other: usize| {
            let mut sum = 0;
            for &side in sides {
                let apart = (one % side).abs_diff(other % side);
                sum += apart.min(side - apart);
                (one, other) = (one / side, other / side);
            }
            sum
        };
        let mut names: Vec<usize> = (0..nodes).collect();
        let mut first: Option<Vec<i32>> = None;
        for seed in 0..6 {
            Dice::new(seed).shuffle(&mut names);
            let far = |at: usize| 10 + 6 * steps(names[at / nodes], names[at % nodes]);
            let distance: Vec<u32> = (0..nodes * nodes).map(|at| id(far(at))).collect();
            let mut machine = Machine::default();
            machine.prepare(&distance, &vec![4; nodes], 4 * nodes);
            let rows = (0..nodes).flat_map(|node| machine.from(node).to_vec());
            let rows: Vec<i32> = rows.collect();
            assert_eq!(*first.get_or_insert_with(|| rows.clone()), rows, "{seed}");
        }
    }

    #[test]
    fn a_machine_is_the_same_however_its_nodes_are_numbered() {
        check_same(&[8]);
        check_same(&[4, 4]);
        check_same(&[4, 4, 4]);
        check_same(&[2, 5]);
        check_same(&[3, 4, 5]);
        check_same(&[2, 2, 2]);
    }
}
