//! What a mapping costs: sparse matrices of 64, 256 and 1024 tasks, from nothing and from a mapping
//! in which one task in ten changed its role.

#![forbid(unsafe_code)]

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use policies::kernel::{Edges, Effort, Problem, Workspace, map};
use testkit::Dice;

/// A torus of tasks under shuffled names, each talking to its neighbours.
fn torus(side: usize, names: &[u32]) -> Edges {
    let mut pairs = Vec::new();
    for task in 0..side * side {
        let (x, y) = (task / side, task % side);
        for other in [(x + 1) % side * side + y, x * side + (y + 1) % side] {
            pairs.push((names[task], names[other], 1000));
        }
    }
    Edges::from_pairs(side * side, &pairs)
}

/// Four sockets of four nodes.
fn distances() -> Vec<u32> {
    let between = |one: usize, other: usize| match (one == other, one / 4 == other / 4) {
        (true, _) => 10,
        (false, true) => 12,
        (false, false) => 32,
    };
    (0..256).map(|at| between(at / 16, at % 16)).collect()
}

fn mapping(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("policies/kernel");
    for side in [8_usize, 16, 32] {
        let tasks = side * side;
        let mut dice = Dice::new(1);
        let mut names: Vec<u32> = (0..tasks)
            .filter_map(|task| u32::try_from(task).ok())
            .collect();
        dice.shuffle(&mut names);
        let edges = torus(side, &names);
        let distance = distances();
        let capacity = vec![u32::try_from(tasks / 16).unwrap_or(0); 16];
        let problem = Problem::new(&edges, &distance, &capacity).expect("it fits");
        let mut workspace = Workspace::default();
        let settled = map(&problem, Effort::THOROUGH, &mut workspace).to_vec();
        names[..tasks / 10].rotate_left(1);
        let changed = torus(side, &names);
        let changed = Problem::new(&changed, &distance, &capacity).expect("it fits");
        let warm = changed.warm(&settled, 5000).expect("one node for each");
        for (name, problem, effort) in [
            ("online", &problem, Effort::ONLINE),
            ("thorough", &problem, Effort::THOROUGH),
            ("warm", &warm, Effort::ONLINE),
        ] {
            group.bench_function(BenchmarkId::new(name, tasks), |bencher| {
                bencher.iter(|| map(problem, effort, &mut workspace)[0]);
            });
        }
    }
    group.finish();
}

criterion_group!(benches, mapping);
criterion_main!(benches);
