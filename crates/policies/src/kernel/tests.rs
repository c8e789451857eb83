//! Kernels against the optimum, against each other, and against what must hold for any input.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::graph::{Dice, id};
use super::{Edges, Effort, Kernel, Problem, Workspace, drb, kl, map, refine, treematch};

const KERNELS: [(&str, Kernel); 5] = [
    ("map", map),
    ("drb", drb),
    ("kl", kl),
    ("treematch", treematch),
    ("refine", refine),
];

/// A world in values: what [`Problem`] borrows.
#[derive(Clone, Debug)]
struct World {
    tasks: usize,
    pairs: Vec<(u32, u32, u64)>,
    distance: Vec<u32>,
    capacity: Vec<u32>,
}

impl World {
    fn edges(&self) -> Edges {
        Edges::from_pairs(self.tasks, &self.pairs)
    }

    fn fits(&self, node_of: &[u16]) -> bool {
        let mut free = self.capacity.clone();
        node_of.len() == self.tasks
            && node_of.iter().all(|&node| {
                let free = &mut free[usize::from(node)];
                *free > 0 && {
                    *free -= 1;
                    true
                }
            })
    }

    /// The least cost of all mappings, by trying all.
    fn optimum(&self, problem: &Problem<'_>) -> u64 {
        let mut best = u64::MAX;
        let mut rate = |node_of: &[u16]| best = best.min(cost(problem, node_of));
        self.try_all(&mut vec![0; self.tasks], 0, &mut rate);
        best
    }

    fn try_all(&self, node_of: &mut Vec<u16>, task: usize, rate: &mut impl FnMut(&[u16])) {
        if task == self.tasks {
            rate(node_of);
            return;
        }
        for node in 0..u16::try_from(self.capacity.len()).unwrap() {
            let used = node_of[..task]
                .iter()
                .filter(|&&other| other == node)
                .count();
            if used < self.capacity[usize::from(node)] as usize {
                node_of[task] = node;
                self.try_all(node_of, task + 1, rate);
            }
        }
    }
}

/// The cost of a mapping: amounts times distances over all pairs, distances with the mean of both
/// directions, rounded down at the end; prices of moves are not in it.
fn cost(problem: &Problem<'_>, node_of: &[u16]) -> u64 {
    let nodes = problem.capacity.len();
    let rows = problem.edges.rows();
    assert_eq!(node_of.len(), rows.tasks(), "one node for each task");
    // Every pair stands twice in the rows, once for each direction of the distance.
    let mut twice = 0_u64;
    for (task, &node) in node_of.iter().enumerate() {
        let row = &problem.distance[usize::from(node) * nodes..][..nodes];
        // No row of amounts sums up to 2^31, so one row of costs fits.
        let far = |other: usize| u64::from(row[usize::from(node_of[other])]);
        let costs = rows.row(task);
        let costs = costs.map(|(other, weight)| u64::from(weight.cast_unsigned()) * far(other));
        twice = twice.saturating_add(costs.sum());
    }
    twice / 2
}

/// Distances of a tree: arity and distance by level, from the root down.
fn tree(levels: &[(usize, u32)], local: u32) -> Vec<u32> {
    let nodes: usize = levels.iter().map(|level| level.0).product();
    let mut table = vec![local; nodes * nodes];
    for one in 0..nodes {
        for other in 0..nodes {
            let mut block = nodes;
            for &(arity, far) in levels {
                block /= arity;
                if one / block != other / block {
                    table[one * nodes + other] = far;
                    break;
                }
            }
        }
    }
    table
}

fn pairs_strategy(tasks: usize) -> impl Strategy<Value = Vec<(u32, u32, u64)>> {
    let end = u32::try_from(tasks).unwrap();
    prop::collection::vec((0..end.max(1), 0..end.max(1), 0..50_u64), 0..=tasks * 4)
}

/// Any machine: unequal capacities, nodes without room, distances in both directions.
fn worlds(
    tasks: std::ops::Range<usize>,
    nodes: std::ops::Range<usize>,
) -> impl Strategy<Value = World> {
    (tasks, nodes).prop_flat_map(|(tasks, nodes)| {
        let capacity = prop::collection::vec(0..6_u32, nodes);
        let distance = prop::collection::vec(10..40_u32, nodes * nodes);
        (pairs_strategy(tasks), distance, capacity).prop_map(move |(pairs, distance, capacity)| {
            let mut world = World {
                tasks,
                pairs,
                distance,
                capacity,
            };
            let room: u32 = world.capacity.iter().sum();
            world.capacity[0] += u32::try_from(tasks).unwrap().saturating_sub(room);
            for node in 0..nodes {
                world.distance[node * nodes + node] = 10;
            }
            world
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn capacities_are_kept(world in worlds(0..40, 1..7)) {
        let edges = world.edges();
        let problem = Problem::new(&edges, &world.distance, &world.capacity).unwrap();
        let mut workspace = Workspace::default();
        for (name, kernel) in KERNELS {
            for effort in [Effort::ONLINE, Effort::THOROUGH, Effort::ONLINE.within(50)] {
                let mapping = kernel(&problem, effort, &mut workspace);
                prop_assert!(world.fits(mapping), "{name}: {mapping:?}");
                let first = mapping.to_vec();
                let again = kernel(&problem, effort, &mut workspace);
                prop_assert_eq!(&first, again, "{} does not depend on what was before", name);
            }
        }
    }

    #[test]
    fn a_warm_start_never_ends_worse(world in worlds(1..30, 2..6), seed: u64, price in 0..200_u64) {
        let edges = world.edges();
        let cold = Problem::new(&edges, &world.distance, &world.capacity).unwrap();
        let start = random_mapping(&world, seed);
        let warm = cold.warm(&start, price).unwrap();
        let mut workspace = Workspace::default();
        // The others start from nothing.
        for (name, kernel) in KERNELS.into_iter().filter(|it| ["map", "refine"].contains(&it.0)) {
            let mapping = kernel(&warm, Effort::ONLINE, &mut workspace);
            prop_assert!(world.fits(mapping));
            let paid = cost(&cold, mapping) + price * moved(&start, mapping) as u64;
            prop_assert!(paid <= cost(&cold, &start), "{}: {} {:?}", name, paid, mapping);
        }
    }

    #[test]
    fn without_steps_the_start_is_the_answer(world in worlds(1..30, 1..6), seed: u64) {
        let edges = world.edges();
        let cold = Problem::new(&edges, &world.distance, &world.capacity).unwrap();
        let start = random_mapping(&world, seed);
        let warm = cold.warm(&start, 1).unwrap();
        let mut workspace = Workspace::default();
        for (name, kernel) in KERNELS {
            let mapping = kernel(&warm, Effort::THOROUGH.within(0), &mut workspace);
            prop_assert_eq!(mapping, &start, "{}", name);
            let mapping = kernel(&cold, Effort::THOROUGH.within(0), &mut workspace);
            // Node after node is filled, those first that are alike.
            let filled: BTreeSet<&u16> = mapping.iter().collect();
            let changes = mapping.windows(2).filter(|two| two[0] != two[1]);
            prop_assert_eq!(changes.count() + 1, filled.len(), "{} {:?}", name, mapping);
            prop_assert!(world.fits(mapping));
        }
    }

    #[test]
    fn a_start_that_is_not_allowed_is_repaired(world in worlds(1..30, 1..6), node in 0..9_u16) {
        let edges = world.edges();
        let cold = Problem::new(&edges, &world.distance, &world.capacity).unwrap();
        let start = vec![node; world.tasks];
        let warm = cold.warm(&start, 1_000_000).unwrap();
        let mapping = map(&warm, Effort::ONLINE, &mut Workspace::default()).to_vec();
        prop_assert!(world.fits(&mapping));
    }

    #[test]
    fn small_problems_are_solved(world in worlds(2..9, 2..5)) {
        let edges = world.edges();
        let problem = Problem::new(&edges, &world.distance, &world.capacity).unwrap();
        let least = world.optimum(&problem);
        let mut workspace = Workspace::default();
        let found = cost(&problem, map(&problem, Effort::THOROUGH, &mut workspace));
        prop_assert_eq!(found, least);
    }

    /// Of few tasks nothing is left to be gained but by fewer moves to a mapping that costs as little.
    #[test]
    fn a_small_start_is_refined_to_the_best(
        world in worlds(2..7, 2..4),
        seed: u64,
        price in 0..8_u64,
    ) {
        // A price is rounded up to whole steps of the distances: here they all divide it.
        let price = 60 * price;
        let mut world = world;
        for far in &mut world.distance {
            *far = 10 + 10 * (*far % 3);
        }
        let edges = world.edges();
        let problem = Problem::new(&edges, &world.distance, &world.capacity).unwrap();
        let start = random_mapping(&world, seed);
        let (mut least, mut best) = (u64::MAX, u64::MAX);
        let worth = |node_of: &[u16]| {
            let moved = node_of.iter().zip(&start).filter(|(one, other)| one != other).count();
            2 * cost(&problem, node_of) + 2 * price * moved as u64
        };
        world.try_all(&mut vec![0; world.tasks], 0, &mut |node_of: &[u16]| {
            least = least.min(cost(&problem, node_of));
            best = best.min(worth(node_of));
        });
        let warm = problem.warm(&start, price).unwrap();
        let mut workspace = Workspace::default();
        let found = refine(&warm, Effort::THOROUGH, &mut workspace);
        // Halves of an amount are rounded down.
        prop_assert!(cost(&problem, found) <= least + 1 || worth(found) <= best + 2);
    }

    #[test]
    fn the_order_of_tasks_hardly_matters(world in worlds(8..40, 2..5), seed: u64) {
        let edges = world.edges();
        let problem = Problem::new(&edges, &world.distance, &world.capacity).unwrap();
        let mut workspace = Workspace::default();
        let one = cost(&problem, map(&problem, Effort::THOROUGH, &mut workspace));
        let mut names: Vec<u32> = (0..u32::try_from(world.tasks).unwrap()).collect();
        Dice::new(seed).shuffle(&mut names);
        let rename = |&(one, other, amount): &(u32, u32, u64)| {
            (names[one as usize], names[other as usize], amount)
        };
        let pairs: Vec<_> = world.pairs.iter().map(rename).collect();
        let edges = Edges::from_pairs(world.tasks, &pairs);
        let problem = Problem::new(&edges, &world.distance, &world.capacity).unwrap();
        let other = cost(&problem, map(&problem, Effort::THOROUGH, &mut workspace));
        // Equal but for ties among tasks that cannot be told apart.
        prop_assert!(one.abs_diff(other) * 20 <= one.max(other), "{one} {other}");
    }
}

fn moved(from: &[u16], to: &[u16]) -> usize {
    from.iter()
        .zip(to)
        .filter(|(one, other)| one != other)
        .count()
}

fn random_mapping(world: &World, seed: u64) -> Vec<u16> {
    let mut slots = Vec::new();
    for (node, &room) in world.capacity.iter().enumerate() {
        slots.extend(std::iter::repeat_n(
            u16::try_from(node).unwrap(),
            room as usize,
        ));
    }
    Dice::new(seed).shuffle(&mut slots);
    slots.truncate(world.tasks);
    slots
}

/// A torus of 64 nodes: cuts of sister parts must lie along each other, however nodes are numbered.
#[test]
fn grids_find_their_way_on_a_torus() {
    let place = |node: usize| [node / 16, node / 4 % 4, node % 4];
    let steps = |one: usize, other: usize| {
        let ways = place(one).into_iter().zip(place(other));
        let ring = |(one, other): (usize, usize)| one.abs_diff(other).min(4 - one.abs_diff(other));
        ways.map(ring).sum::<usize>()
    };
    let mut names: Vec<usize> = (0..64).collect();
    let mut pairs = Vec::new();
    for task in 0..1024_u32 {
        if task % 32 < 31 {
            pairs.push((task, task + 1, 100));
        }
        if task < 992 {
            pairs.push((task, task + 32, 100));
        }
    }
    let edges = Edges::from_pairs(1024, &pairs);
    for seed in 0..3 {
        if seed > 0 {
            Dice::new(seed).shuffle(&mut names);
        }
        let far = |at: usize| 10 + 6 * steps(names[at / 64], names[at % 64]);
        let distance: Vec<u32> = (0..64 * 64).map(|at| id(far(at))).collect();
        let problem = Problem::new(&edges, &distance, &[16; 64]).unwrap();
        let mut workspace = Workspace::default();
        let cost = cost(&problem, map(&problem, Effort::ONLINE, &mut workspace));
        // Squares of four by four, each beside those that it talks to.
        let best = 448 * 100 * 6;
        let local = 1984 * 100 * 10;
        assert!((cost - local) * 10 <= best * 13, "{cost} {seed}");
    }
}

/// After one task in ten took another role, hardly more than those tasks move, and the answer is
/// as good as the one before.
#[test]
fn changed_roles_are_followed_with_few_moves() {
    let distance = tree(&[(4, 32), (4, 12)], 10);
    let capacity = [16; 16];
    let torus = |names: &[u32]| {
        let mut pairs = Vec::new();
        for task in 0..256 {
            let (x, y) = (task / 16, task % 16);
            for other in [(x + 1) % 16 * 16 + y, x * 16 + (y + 1) % 16] {
                pairs.push((names[task], names[other], 1000));
            }
        }
        Edges::from_pairs(256, &pairs)
    };
    let mut names: Vec<u32> = (0..256).collect();
    Dice::new(3).shuffle(&mut names);
    let edges = torus(&names);
    let problem = Problem::new(&edges, &distance, &capacity).unwrap();
    let mut workspace = Workspace::default();
    let before = map(&problem, Effort::THOROUGH, &mut workspace);
    let (old, best) = (before.to_vec(), cost(&problem, before));
    let first = names[0];
    for task in (0..250).step_by(10) {
        names[task] = if task < 240 { names[task + 10] } else { first };
    }
    let edges = torus(&names);
    for price in [0, 500, 2000] {
        let problem = Problem::new(&edges, &distance, &capacity).unwrap();
        let warm = problem.warm(&old, price).unwrap();
        let after = map(&warm, Effort::ONLINE, &mut workspace);
        assert!(
            cost(&problem, after) * 1000 <= best * 1005,
            "{price}: {after:?} {best}"
        );
        let moved = moved(&old, after);
        assert!(moved <= 36, "{price}: {moved} moved");
    }
}

/// Weights that are all different: no two tasks are alike, so nothing depends on their order.
#[test]
fn tasks_that_differ_are_mapped_alike_in_any_order() {
    let mut dice = Dice::new(7);
    let tasks = 64;
    let mut pairs = Vec::new();
    for one in 0..tasks {
        for _ in 0..4 {
            pairs.push((one, id(dice.below(64)), 1 + dice.below(100_000) as u64));
        }
    }
    let distance = tree(&[(4, 32), (2, 16)], 10);
    let capacity = [8; 8];
    let mut workspace = Workspace::default();
    let mut costs = Vec::new();
    for seed in 0..6 {
        let mut names: Vec<u32> = (0..tasks).collect();
        if seed > 0 {
            Dice::new(seed).shuffle(&mut names);
        }
        let renamed: Vec<_> = pairs
            .iter()
            .map(|&(one, other, amount)| (names[one as usize], names[other as usize], amount))
            .collect();
        let edges = Edges::from_pairs(64, &renamed);
        let problem = Problem::new(&edges, &distance, &capacity).unwrap();
        for effort in [Effort::ONLINE, Effort::THOROUGH] {
            let mapping = map(&problem, effort, &mut workspace);
            costs.push(cost(&problem, mapping));
        }
    }
    assert!(costs.chunks(2).all(|pair| pair == &costs[..2]), "{costs:?}");
}

#[track_caller]
fn check_optimum(distance: &[u32], capacity: &[u32], tasks: usize, seed: u64) {
    let mut dice = Dice::new(seed);
    let end = tasks;
    let pairs: Vec<_> = (0..tasks * 2)
        .map(|_| {
            (
                id(dice.below(end)),
                id(dice.below(end)),
                1 + dice.below(30) as u64,
            )
        })
        .collect();
    let world = World {
        tasks,
        pairs,
        distance: distance.to_vec(),
        capacity: capacity.to_vec(),
    };
    let edges = world.edges();
    let problem = Problem::new(&edges, distance, capacity).unwrap();
    let least = world.optimum(&problem);
    let mut workspace = Workspace::default();
    let found = cost(&problem, map(&problem, Effort::THOROUGH, &mut workspace));
    assert_eq!(found, least, "seed {seed}, {tasks} tasks on {capacity:?}");
    for (name, kernel) in KERNELS {
        let found = cost(&problem, kernel(&problem, Effort::THOROUGH, &mut workspace));
        assert!(
            found * 10 <= least * 12,
            "{name}: {found} instead of {least}, seed {seed}"
        );
    }
}

#[test]
fn known_machines_are_solved() {
    let two = tree(&[(2, 21)], 10);
    let four = tree(&[(2, 32), (2, 16)], 10);
    let ring = [
        10, 20, 30, 20, 20, 10, 20, 30, 30, 20, 10, 20, 20, 30, 20, 10,
    ];
    // One direction is dearer than the other.
    let slope = [10, 14, 30, 20, 10, 12, 26, 20, 10];
    for seed in 0..8 {
        check_optimum(&two, &[4, 4], 8, seed);
        check_optimum(&two, &[6, 3], 8, seed);
        check_optimum(&two, &[8, 8], 6, seed);
        check_optimum(&four, &[2, 2, 2, 2], 8, seed);
        check_optimum(&four, &[3, 0, 2, 3], 7, seed);
        check_optimum(&ring, &[2, 2, 2, 2], 7, seed);
        check_optimum(&slope, &[2, 3, 3], 8, seed);
    }
}

#[track_caller]
fn check_golden(levels: &[(usize, u32)], room: u32, pairs: &[(u32, u32, u64)], expected: u64) {
    let distance = tree(levels, 10);
    let nodes: usize = levels.iter().map(|level| level.0).product();
    let capacity = vec![room; nodes];
    let tasks = pairs
        .iter()
        .map(|pair| pair.0.max(pair.1) as usize + 1)
        .max()
        .unwrap_or(0);
    let edges = Edges::from_pairs(tasks, pairs);
    let problem = Problem::new(&edges, &distance, &capacity).unwrap();
    let mut workspace = Workspace::default();
    for (name, kernel) in KERNELS {
        let mapping = kernel(&problem, Effort::ONLINE, &mut workspace);
        assert_eq!(cost(&problem, mapping), expected, "{name}: {mapping:?}");
    }
}

#[test]
fn pairs_and_groups_share_a_node() {
    // Four pairs, crossed: every pair is local.
    let pairs = [(0, 4, 9), (1, 5, 9), (2, 6, 9), (3, 7, 9)];
    check_golden(&[(4, 20)], 2, &pairs, 4 * 9 * 10);
    // Two groups of four on two nodes, a thin thread between them.
    let mut pairs = vec![(0, 7, 1)];
    for group in [[0, 2, 4, 6], [1, 3, 5, 7]] {
        for one in 0..4 {
            for other in one + 1..4 {
                pairs.push((group[one], group[other], 5));
            }
        }
    }
    check_golden(&[(2, 21)], 4, &pairs, 12 * 5 * 10 + 21);
    // Fewer tasks than one node takes: all together, however much they say.
    let all = |one: u32| (one + 1..60).map(move |other| (one, other, 50 + u64::from(one % 7)));
    let crowd: Vec<_> = (0..60).flat_map(all).collect();
    let said: u64 = crowd.iter().map(|pair| pair.2).sum();
    check_golden(&[(2, 21)], 64, &crowd, said * 10);
    check_golden(&[(4, 20)], 8, &[(0, 1, 3), (1, 2, 3), (2, 3, 3)], 9 * 10);
}

#[test]
fn a_page_of_edges_is_what_was_said() {
    let edges = Edges::from_pairs(
        3,
        &[
            (0, 1, 5),
            (1, 0, 2),
            (2, 2, 9),
            (1, 2, 0),
            (0, 7, 4),
            (2, 0, 1),
        ],
    );
    let rows: Vec<Vec<_>> = (0..3).map(|task| edges.partners(task).collect()).collect();
    assert_eq!(rows, [vec![(1, 7), (2, 1)], vec![(0, 7)], vec![(0, 1)]]);
    let mut matrix = numad_core::CommMatrix::new(3);
    matrix.add(0, 1, 7);
    matrix.add(0, 2, 1);
    let other = Edges::from_matrix(&matrix);
    let same: Vec<Vec<_>> = (0..3).map(|task| other.partners(task).collect()).collect();
    assert_eq!(same, rows);
}

#[test]
fn amounts_of_any_size_are_scaled_down_together() {
    let pairs = [
        (0, 1, u64::MAX),
        (2, 3, u64::MAX / 2),
        (0, 2, 1),
        (1, 3, u64::MAX / 3),
    ];
    let edges = Edges::from_pairs(4, &pairs);
    assert!(edges.shift() > 30);
    let amounts: Vec<u32> = edges.partners(0).map(|partner| partner.1).collect();
    assert!(amounts[0] > 1 << 28, "{amounts:?}");
    assert_eq!(amounts[1], 1, "small, but still there");
    let far = [0, u32::MAX, u32::MAX, 0];
    let problem = Problem::new(&edges, &far, &[2, 2]).unwrap();
    let mut workspace = Workspace::default();
    for (name, kernel) in KERNELS {
        let mapping = kernel(&problem, Effort::THOROUGH, &mut workspace);
        assert_eq!(mapping[0], mapping[1], "{name}");
        assert_eq!(mapping[2], mapping[3], "{name}");
    }
}

/// With so many tasks a vertex of a coarse graph stands for more than a hundred of them.
#[test]
fn what_many_tasks_say_together_does_not_overflow() {
    for (tasks, amount) in [(2048, 1 << 40), (4096, 1 << 24)] {
        let mut dice = Dice::new(1);
        let partners = (0..tasks).chain(0..tasks);
        let pairs = partners.map(|task| (id(task), id(dice.below(tasks)), amount));
        let edges = Edges::from_pairs(tasks, &pairs.collect::<Vec<_>>());
        let capacity = [id(tasks / 2); 2];
        let problem = Problem::new(&edges, &[10, 20, 20, 10], &capacity).unwrap();
        let mut workspace = Workspace::default();
        let one = u64::from(edges.partners(0).next().unwrap().1);
        let found = cost(&problem, map(&problem, Effort::ONLINE, &mut workspace)) / one;
        // Half of 2 pairs a task would be apart by chance.
        let by_chance = tasks as u64 * 2 * 15;
        assert!(
            found < by_chance * 9 / 10,
            "{tasks} tasks: {found}, by chance {by_chance}"
        );
    }
}

#[test]
fn what_cannot_be_solved_is_refused_with_its_remedy() {
    let edges = Edges::from_pairs(5, &[(0, 1, 1)]);
    let refused = Problem::new(&edges, &[10, 20, 20, 10], &[2, 2]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "`5` tasks, room for `4`; scale the capacities up"
    );
    let refused = Problem::new(&edges, &[10, 20, 20], &[3, 3]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "`3` distances for `2` nodes; give a row for each node"
    );
    let problem = Problem::new(&edges, &[10, 20, 20, 10], &[3, 3]).unwrap();
    let refused = problem.warm(&[0, 1], 0).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "`2` current nodes for `5` tasks; give one for each"
    );
}

#[test]
fn a_settled_mapping_stays() {
    let mut dice = Dice::new(3);
    let pairs = (0..300).map(|_| {
        (
            id(dice.below(96)),
            id(dice.below(96)),
            1 + dice.below(99) as u64,
        )
    });
    let edges = Edges::from_pairs(96, &pairs.collect::<Vec<_>>());
    let distance = tree(&[(4, 32), (2, 16)], 10);
    let capacity = [12; 8];
    let problem = Problem::new(&edges, &distance, &capacity).unwrap();
    let mut workspace = Workspace::default();
    let first = map(&problem, Effort::ONLINE, &mut workspace).to_vec();
    let settled = map(
        &problem.warm(&first, 0).unwrap(),
        Effort::ONLINE,
        &mut workspace,
    );
    let second = settled.to_vec();
    let third = map(
        &problem.warm(&second, 0).unwrap(),
        Effort::ONLINE,
        &mut workspace,
    );
    assert_eq!(third, second);
    // What is far away now is worth nothing when moving is dear.
    let start = random_mapping(
        &World {
            tasks: 96,
            pairs: Vec::new(),
            distance: distance.clone(),
            capacity: capacity.to_vec(),
        },
        1,
    );
    let dear = map(
        &problem.warm(&start, 1 << 40).unwrap(),
        Effort::THOROUGH,
        &mut workspace,
    );
    assert_eq!(dear, start);
}
