//! One task in ten changes its role: what is found from the old mapping, and how many tasks it moves.

use policies::kernel::{Edges, Effort, Problem, Workspace, map};
use testkit::mapping_cost;

use super::cases::{self, Pairs};
use super::median_time;

/// Pattern, tasks, machine.
const CASES: [(&str, usize, &str); 9] = [
    ("grid", 64, "4"),
    ("grid", 256, "4x4"),
    ("torus", 256, "4x4"),
    ("sparse", 256, "4x4"),
    ("groups", 256, "4"),
    ("grid", 1024, "4x4"),
    ("torus", 1024, "4x4"),
    ("sparse", 1024, "4x4"),
    ("groups", 1024, "4x4"),
];
/// Prices of a move, in halves of a mean amount.
const PRICES: [u64; 5] = [0, 1, 4, 8, 16];

pub(super) fn report() {
    println!(
        "one task in ten with a new role; cost against what a thorough search from nothing found"
    );
    for (pattern, tasks, machine) in CASES {
        let pairs = cases::pairs(pattern, tasks, 0);
        let machine = cases::machine(machine);
        let capacity = machine.capacity(tasks);
        let mut workspace = Workspace::default();
        let edges = Edges::from_pairs(tasks, &pairs);
        let before = Problem::new(&edges, &machine.distance, &capacity).expect("it has room");
        let old = map(&before, Effort::THOROUGH, &mut workspace).to_vec();
        let (roles, changed) = change(&pairs, tasks);
        let really = roles.iter().zip(roles.iter().cycle().skip(1));
        let really = really.filter(|(one, next)| old[**one] != old[**next]);
        let edges = Edges::from_pairs(tasks, &changed);
        let after = Problem::new(&edges, &machine.distance, &capacity).expect("it has room");
        let said: u64 = pairs.iter().map(|pair| pair.2).sum();
        let least = said * u64::from(machine.local);
        // Names aside, the problem is what it was.
        let cost = |pairs: &[(u32, u32, u64)], node_of: &[u16]| {
            mapping_cost(pairs, &machine.distance, node_of)
        };
        let best = (cost(&pairs, &old) - least).max(1) as f64;
        let ratio = |cost: u64| (cost - least) as f64 / best;
        println!(
            "  {pattern} {tasks} on {} nodes: stale {:.3}, {} roles, {} of them elsewhere",
            machine.nodes,
            ratio(cost(&changed, &old)),
            roles.len(),
            really.count(),
        );
        for half in PRICES {
            let price = said / pairs.len() as u64 * half / 2;
            let warm = after.warm(&old, price).expect("one node for each");
            let node_of = map(&warm, Effort::ONLINE, &mut workspace);
            let found = cost(&changed, node_of);
            let all = node_of.iter().zip(&old);
            let moved = all.filter(|(one, other)| one != other).count();
            let time = median_time(61, || map(&warm, Effort::ONLINE, &mut workspace).len());
            println!(
                "    price {half}/2 of an amount: cost/best {:.4} moved {moved} cpu {:.1} us",
                ratio(found),
                time / 1000.0
            );
        }
    }
}

/// Tasks that take each other's role in a ring, and the amounts then.
fn change(pairs: &Pairs, tasks: usize) -> (Vec<usize>, Pairs) {
    // A step that has no common factor with a power of two visits every task once.
    let roles: Vec<usize> = (0..tasks / 10).map(|at| (at * 37 + 11) % tasks).collect();
    let mut names: Vec<u32> = (0..tasks as u32).collect();
    for (one, next) in roles.iter().zip(roles.iter().cycle().skip(1)) {
        names[*one] = *next as u32;
    }
    let rename = |&(one, other, amount): &(u32, u32, u64)| {
        (names[one as usize], names[other as usize], amount)
    };
    let changed = pairs.iter().map(rename).collect();
    (roles, changed)
}
