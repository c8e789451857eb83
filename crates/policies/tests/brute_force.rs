//! The mapping kernels on problems so small that every mapping can be tried.

#![forbid(unsafe_code)]

use policies::kernel::{Edges, Effort, Problem, Workspace, map};
use testkit::Dice;

const CASES: u64 = 2000;
const BEYOND: u64 = 400;

/// Tasks that talk, and nodes: some with memory alone, most unlike each other, both ways unlike.
struct Case {
    tasks: usize,
    pairs: Vec<(u32, u32, u64)>,
    distance: Vec<u32>,
    capacity: Vec<u32>,
}

impl Case {
    fn random(seed: u64, tasks: std::ops::Range<usize>, nodes_max: usize) -> Self {
        let mut dice = Dice::new(seed);
        let tasks = tasks.start + dice.below(tasks.len());
        let nodes = 1 + dice.below(nodes_max);
        let number = |dice: &mut Dice, end: usize| u32::try_from(dice.below(end)).unwrap_or(0);
        let density = [25, 50, 100][dice.below(3)];
        let alike = dice.chance(30);
        let mut pairs = Vec::new();
        for one in 0..u32::try_from(tasks).unwrap_or(0) {
            for other in 0..one {
                if dice.chance(density) {
                    let amount = if alike { 1 } else { 1 + dice.roll() % 50 };
                    pairs.push((one, other, amount));
                }
            }
        }
        let mut capacity: Vec<u32> = (0..nodes).map(|_| number(&mut dice, 6)).collect();
        while (capacity.iter().sum::<u32>() as usize) < tasks {
            capacity[dice.below(nodes)] += 1;
        }
        let mut distance: Vec<u32> = (0..nodes * nodes)
            .map(|_| 10 + number(&mut dice, 30))
            .collect();
        (0..nodes).for_each(|node| distance[node * (nodes + 1)] = 10);
        Self {
            tasks,
            pairs,
            distance,
            capacity,
        }
    }

    /// The same with the tasks under other names.
    fn renamed(&self, seed: u64) -> Self {
        let mut names: Vec<u32> = (0..).take(self.tasks).collect();
        Dice::new(seed).shuffle(&mut names);
        let rename = |&(one, other, amount): &(u32, u32, u64)| {
            (names[one as usize], names[other as usize], amount)
        };
        Self {
            pairs: self.pairs.iter().map(rename).collect(),
            distance: self.distance.clone(),
            capacity: self.capacity.clone(),
            ..*self
        }
    }

    fn mapped(&self, effort: Effort, workspace: &mut Workspace) -> u64 {
        let edges = Edges::from_pairs(self.tasks, &self.pairs);
        let problem = Problem::new(&edges, &self.distance, &self.capacity).expect("it has room");
        let node_of = map(&problem, effort, workspace);
        let mut free = self.capacity.clone();
        for &node in node_of {
            assert!(free[usize::from(node)] > 0, "no node takes too many");
            free[usize::from(node)] -= 1;
        }
        let node_of: Vec<usize> = node_of.iter().map(|&node| node.into()).collect();
        let spent = self
            .pairs
            .iter()
            .map(|&pair| self.pair_cost(pair, &node_of));
        spent.sum()
    }

    /// Twice what a pair costs: there and back.
    fn pair_cost(&self, (one, other, amount): (u32, u32, u64), node_of: &[usize]) -> u64 {
        let nodes = self.capacity.len();
        let (here, there) = (node_of[one as usize], node_of[other as usize]);
        let both = self.distance[here * nodes + there] + self.distance[there * nodes + here];
        amount * u64::from(both)
    }

    /// Twice the least cost of all mappings.
    fn optimum(&self) -> u64 {
        let mut best = u64::MAX;
        self.grow(&mut Vec::new(), 0, &mut best);
        best
    }

    fn grow(&self, node_of: &mut Vec<usize>, spent: u64, best: &mut u64) {
        let task = node_of.len();
        if task == self.tasks {
            *best = spent;
            return;
        }
        for node in 0..self.capacity.len() {
            let there = node_of.iter().filter(|&&other| other == node).count();
            if there == self.capacity[node] as usize {
                continue;
            }
            node_of.push(node);
            // In a pair the larger number comes first.
            let closed = self.pairs.iter().filter(|pair| pair.0 as usize == task);
            let added: u64 = closed.map(|&pair| self.pair_cost(pair, node_of)).sum();
            if spent + added < *best {
                self.grow(node_of, spent + added, best);
            }
            node_of.pop();
        }
    }
}

/// Where every mapping can be tried, the best is found, quickly as well as thoroughly, whatever the machine
/// and whatever the names of the tasks.
#[test]
fn small_problems_are_solved_in_any_order() {
    let mut workspace = Workspace::default();
    for seed in 0..CASES {
        let case = Case::random(seed, 2..9, 4);
        let other = case.renamed(seed + 1);
        let best = case.optimum();
        for effort in [Effort::ONLINE, Effort::THOROUGH] {
            assert_eq!(case.mapped(effort, &mut workspace), best, "case {seed}");
            assert_eq!(other.mapped(effort, &mut workspace), best, "case {seed}");
        }
    }
}

/// One step beyond: too many mappings for the kernels to see them all through, few enough for a test. Of
/// these 400, some 395 are solved quickly, the others at little more than the optimum, and all thoroughly.
#[test]
fn larger_problems_are_nearly_solved() {
    let mut workspace = Workspace::default();
    let (mut quick, mut thorough) = (Vec::new(), Vec::new());
    for seed in 0..BEYOND {
        let case = Case::random(seed, 9..11, 5);
        let other = case.renamed(seed + 1);
        let best = case.optimum();
        for (effort, ratios) in [
            (Effort::ONLINE, &mut quick),
            (Effort::THOROUGH, &mut thorough),
        ] {
            let found = case.mapped(effort, &mut workspace);
            let renamed = other.mapped(effort, &mut workspace);
            assert_eq!(found, renamed, "case {seed}: names of tasks matter");
            ratios.push(found.max(1) as f64 / best.max(1) as f64);
        }
    }
    for (ratios, solved, most) in [(quick, 388, 1.10), (thorough, 400, 1.001)] {
        let optimal = ratios.iter().filter(|&&ratio| ratio < 1.0 + 1e-9).count();
        let worst = ratios.iter().copied().fold(0.0, f64::max);
        let shown = format!("{optimal} of {BEYOND} are solved, the worst costs {worst}");
        assert!(optimal >= solved && worst < most, "{shown}");
    }
}
