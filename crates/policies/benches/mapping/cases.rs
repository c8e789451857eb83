//! Cases: patterns of communication, machines, and the files that peers read.

use std::fs;
use std::path::Path;

/// Whose amounts, on which machine.
pub(crate) struct Case {
    pub(crate) pattern: String,
    pub(crate) machine: String,
    pub(crate) tasks: usize,
    /// The lowest excess cost that is known from elsewhere.
    pub(crate) known: Option<u64>,
}

/// A machine with as many cores on each node.
pub(crate) struct Machine {
    pub(crate) nodes: usize,
    pub(crate) local: u32,
    pub(crate) distance: Vec<u32>,
    /// Arity and distance of each level from the root down; empty when it is no tree.
    levels: Vec<(usize, u32)>,
}

impl Machine {
    /// How many of so many tasks each node takes: as many as the others, or one more.
    pub(crate) fn capacity(&self, tasks: usize) -> Vec<u32> {
        (0..self.nodes)
            .map(|node| (tasks / self.nodes + usize::from(node < tasks % self.nodes)) as u32)
            .collect()
    }
}

/// `(one, other, amount)` with `one < other`, each pair once.
pub(crate) type Pairs = Vec<(u32, u32, u64)>;

/// Machines that fit each number of tasks.
pub(crate) const SIZES: [(usize, &[&str]); 6] = [
    (32, &["2", "4", "8ring", "4x4"]),
    (64, &["2", "4", "8ring", "4x4", "4x4x4"]),
    (128, &["4", "8ring", "4x4", "4x4x4"]),
    (256, &["4", "8ring", "4x4", "4x4x4"]),
    (1024, &["4x4", "4x4x4"]),
    (4096, &["4x4", "4x4x4"]),
];

/// What is generated here.
pub(crate) const PATTERNS: [&str; 9] = [
    "chain",
    "grid",
    "cube",
    "torus",
    "butterfly",
    "sparse",
    "dense",
    "groups",
    "sampled",
];

/// Splitmix64, so that cases are the same everywhere.
struct Chance(u64);

impl Chance {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.roll()) * u128::from(end)) >> 64) as u64
    }
}

/// The amounts of a pattern, under shuffled names; other ones for every seed. Seed 0 is the built-in one.
pub(crate) fn pairs(pattern: &str, tasks: usize, seed: u64) -> Pairs {
    let name = pattern
        .bytes()
        .fold(tasks as u64, |sum, byte| sum * 257 + u64::from(byte));
    let mut chance = Chance(name ^ seed.wrapping_mul(0xD134_2543_DE82_EF95));
    let names = names(tasks, &mut chance);
    let mut sums = std::collections::BTreeMap::new();
    for (one, other, amount) in plain(pattern, tasks as u64, &mut chance) {
        if one != other && amount > 0 {
            let (one, other) = (names[one as usize], names[other as usize]);
            *sums.entry((one.min(other), one.max(other))).or_insert(0) += amount;
        }
    }
    sums.into_iter()
        .map(|((one, other), amount)| (one, other, amount))
        .collect()
}

/// The same amounts with the tasks in another order. Numbering 0 is the one that is there.
pub(crate) fn renumbered(pairs: &Pairs, tasks: usize, numbering: u64) -> Pairs {
    if numbering == 0 {
        return pairs.clone();
    }
    let names = names(tasks, &mut Chance(numbering));
    let rename = |&(one, other, amount): &(u32, u32, u64)| {
        (names[one as usize], names[other as usize], amount)
    };
    pairs.iter().map(rename).collect()
}

fn names(tasks: usize, chance: &mut Chance) -> Vec<u32> {
    let mut names: Vec<u32> = (0..tasks as u32).collect();
    for last in (1..tasks).rev() {
        names.swap(last, chance.below(last as u64 + 1) as usize);
    }
    names
}

fn plain(pattern: &str, tasks: u64, chance: &mut Chance) -> Vec<(u64, u64, u64)> {
    let mut out = Vec::new();
    let side = (1..=tasks)
        .filter(|side| side * side <= tasks && tasks.is_multiple_of(*side))
        .max()
        .unwrap_or(1);
    let edge =
        (1..=tasks).filter(|edge| edge * edge * edge <= tasks && tasks.is_multiple_of(edge * edge));
    let edge = edge.max().unwrap_or(1);
    match pattern {
        "chain" => out.extend((1..tasks).map(|task| (task - 1, task, 1000))),
        "grid" => grid(tasks, side, false, &mut out),
        "torus" => grid(tasks, side, true, &mut out),
        "sampled" => {
            grid(tasks, side, true, &mut out);
            // A floor of noise, and a master that talks to all.
            for one in 0..tasks {
                let busy = if one == 0 { 4 } else { 1 };
                out.extend(
                    (one + 1..tasks).map(|other| (one, other, busy * (6 + chance.below(18)))),
                );
            }
        }
        "cube" => {
            let flat = edge * edge;
            for task in 0..tasks {
                let (y, z) = (task % flat / edge, task % edge);
                let next = [
                    (task + flat < tasks, flat),
                    (y + 1 < edge, edge),
                    (z + 1 < edge, 1),
                ];
                out.extend(
                    next.iter()
                        .filter(|next| next.0)
                        .map(|next| (task, task + next.1, 1000)),
                );
            }
        }
        "butterfly" => {
            let bits = (0..).map(|bit| 1 << bit).take_while(|&bit| bit < side);
            for bit in bits {
                out.extend((0..tasks).map(|task| (task, task ^ bit, 500)));
            }
            out.extend(
                (0..tasks).map(|task| (task, task % side * (tasks / side) + task / side, 500)),
            );
        }
        "sparse" => {
            for task in 0..4 * tasks {
                // Few amounts are large: one by the square root of chance.
                let luck = 1 + chance.below(10_000);
                out.push((task / 4, chance.below(tasks), 100_000 / luck.isqrt()));
            }
        }
        "dense" => {
            for one in 0..tasks {
                let amount = |chance: &mut Chance| 2000 / (1 + chance.below(2000)).isqrt();
                out.extend((one + 1..tasks).map(|other| (one, other, amount(chance))));
            }
        }
        _ => groups(tasks, chance, &mut out),
    }
    out
}

/// Neighbours on a plane, or on a plane whose edges meet.
fn grid(tasks: u64, side: u64, wraps: bool, out: &mut Vec<(u64, u64, u64)>) {
    let rows = tasks / side;
    for task in 0..tasks {
        let (x, y) = (task / side, task % side);
        if wraps || x + 1 < rows {
            out.push((task, (x + 1) % rows * side + y, 1000));
        }
        if wraps || y + 1 < side {
            out.push((
                task,
                x * side + (y + 1) % side,
                if wraps { 1000 } else { 500 },
            ));
        }
    }
}

/// Communities whose sizes do not fit the nodes, with few links between them.
fn groups(tasks: u64, chance: &mut Chance, out: &mut Vec<(u64, u64, u64)>) {
    let mut start = 0;
    while start < tasks {
        let end = (start + 2 + chance.below(tasks / 6)).min(tasks);
        for one in start..end {
            out.extend((one + 1..end).map(|other| (one, other, 50 + chance.below(100))));
        }
        start = end;
    }
    out.extend((0..2 * tasks).map(|task| (task / 2, chance.below(tasks), 5 + chance.below(15))));
}

/// A machine by name: arities of a tree, or a ring of nodes whose distance is the steps between them.
pub(crate) fn machine(name: &str) -> Machine {
    if let Some(nodes) = name.strip_suffix("ring") {
        let nodes: usize = nodes.parse().expect("a number of nodes");
        let steps = |one: usize, other: usize| {
            let apart = one.abs_diff(other);
            apart.min(nodes - apart) as u32
        };
        let distance = (0..nodes * nodes)
            .map(|at| 10 + 6 * steps(at / nodes, at % nodes))
            .collect();
        return Machine {
            nodes,
            local: 10,
            distance,
            levels: Vec::new(),
        };
    }
    let arity: Vec<usize> = name
        .split('x')
        .map(|word| word.parse().expect("an arity"))
        .collect();
    let far: &[u32] = match arity.len() {
        1 => &[21],
        2 => &[32, 12],
        _ => &[32, 18, 12],
    };
    let levels: Vec<(usize, u32)> = arity.into_iter().zip(far.iter().copied()).collect();
    let nodes = levels.iter().map(|level| level.0).product();
    let between = |one: usize, other: usize| {
        let mut block = nodes;
        let parting = levels.iter().find(|level| {
            block /= level.0;
            one / block != other / block
        });
        parting.map_or(10, |level| level.1)
    };
    let distance = (0..nodes * nodes)
        .map(|at| between(at / nodes, at % nodes))
        .collect();
    Machine {
        nodes,
        local: 10,
        distance,
        levels,
    }
}

/// Writes a case as the peers read it.
pub(crate) fn write(case: &Path, pairs: &Pairs, tasks: usize, machine: &Machine) {
    let mut bytes = b"CMAT0001".to_vec();
    for number in [tasks as u32, pairs.len() as u32] {
        bytes.extend(number.to_le_bytes());
    }
    for &(one, other, amount) in pairs {
        for number in [one, other, amount as u32] {
            bytes.extend(number.to_le_bytes());
        }
    }
    fs::write(case.with_extension("cm"), bytes).expect("the working directory is writable");
    let words =
        |numbers: &[u32]| -> String { numbers.iter().map(|number| format!(" {number}")).collect() };
    let arity: Vec<u32> = machine.levels.iter().map(|level| level.0 as u32).collect();
    let far: Vec<u32> = machine.levels.iter().map(|level| level.1).collect();
    let mut text = format!(
        "nodes {}\nlocal {}\nexact {}\nkind tree\narity{}\nlevel{}\n",
        machine.nodes,
        machine.local,
        u8::from(!arity.is_empty()),
        words(&arity),
        words(&far)
    );
    for row in machine.distance.chunks(machine.nodes) {
        text += &format!("dist{}\n", words(row));
    }
    fs::write(case.with_extension("topo"), text).expect("the working directory is writable");
}

/// Reads what [`write`] writes, or what the shared bench generated.
pub(crate) fn read(matrix: &Path, machine: &Path) -> (Pairs, Machine) {
    let bytes = fs::read(matrix).expect("the matrix is there");
    let numbers: Vec<u32> = bytes[8..]
        .chunks_exact(4)
        .map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
        .collect();
    let triples = numbers[2..].chunks_exact(3);
    let pairs = triples
        .map(|three| (three[0], three[1], u64::from(three[2])))
        .collect();
    let text = fs::read_to_string(machine).expect("the machine is there");
    let mut read = Machine {
        nodes: 0,
        local: 0,
        distance: Vec::new(),
        levels: Vec::new(),
    };
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let key = words.next().unwrap_or("");
        let mut numbers = words.filter_map(|word| word.parse::<u32>().ok());
        match key {
            "nodes" => read.nodes = numbers.next().unwrap_or(0) as usize,
            "local" => read.local = numbers.next().unwrap_or(0),
            "dist" => read.distance.extend(numbers),
            _ => {}
        }
    }
    (pairs, read)
}

/// The matrices of a directory, each on the machines that 64 tasks fit.
pub(crate) fn real(directory: &Path) -> Vec<Case> {
    let mut all = Vec::new();
    for name in ["amg", "cg"] {
        for kind in ["size", "count"] {
            let file = directory.join(format!("{name}-64ranks-{kind}.csv"));
            for machine in ["2", "4", "8ring", "4x4"] {
                all.push(Case {
                    pattern: file.display().to_string(),
                    machine: machine.into(),
                    tasks: 64,
                    known: None,
                });
            }
        }
    }
    all.retain(|case| Path::new(&case.pattern).exists());
    all
}

/// The amounts of a table of numbers with commas, scaled down until peers with 32 bits can add them.
pub(crate) fn csv(file: &Path) -> Pairs {
    let text = fs::read_to_string(file).expect("the matrix is there");
    let mut sums = std::collections::BTreeMap::new();
    for (one, line) in text.lines().enumerate() {
        for (other, word) in line.split(',').enumerate() {
            let amount: u64 = word.trim().parse().expect("the matrix holds numbers");
            if one != other && amount > 0 {
                let pair = (one.min(other) as u32, one.max(other) as u32);
                *sums.entry(pair).or_insert(0) += amount;
            }
        }
    }
    let all: u64 = sums.values().sum();
    let factor = all.div_ceil(30_000_000).max(1);
    sums.into_iter()
        .map(|((one, other), amount)| (one, other, (amount / factor).max(1)))
        .collect()
}

/// The cases of the shared bench, with the best cost that is known of each.
pub(crate) fn known(table: &Path) -> Vec<Case> {
    let text = fs::read_to_string(table).expect("the table of known costs is there");
    let rows = text.lines().skip(1).filter_map(|line| {
        let mut words = line.split(',');
        let (pattern, tasks, machine) = (words.next()?, words.next()?, words.next()?);
        let known = words.next()?.parse().ok()?;
        let tasks = tasks.parse().ok()?;
        Some(Case {
            pattern: pattern.into(),
            machine: machine.into(),
            tasks,
            known: Some(known),
        })
    });
    rows.collect()
}
