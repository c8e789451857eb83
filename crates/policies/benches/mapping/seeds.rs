//! Many seeds and numberings of the tasks: how far what is found is from the best, on average and at worst.

use policies::kernel::{Edges, Effort, Problem, Workspace, map};

use super::cases::{self, PATTERNS, SIZES};
use super::{NAMES, excess, mean};

const NUMBERINGS: u64 = 3;
const EFFORTS: [Effort; 2] = [Effort::ONLINE, Effort::THOROUGH];

/// Prints a line for each effort of each size that is asked for. Cost is relative to the best that either
/// effort found under any numbering.
pub(super) fn report(seeds: u64, asked: impl Fn(usize) -> bool) {
    for (tasks, machines) in SIZES.iter().filter(|size| asked(size.0)) {
        println!("{tasks} tasks, {seeds} seeds, {NUMBERINGS} numberings");
        let mut ratios = [const { Vec::new() }; EFFORTS.len()];
        let mut worst = [const { (0.0, String::new()) }; EFFORTS.len()];
        for machine in *machines {
            for pattern in PATTERNS {
                for seed in 0..seeds {
                    let found = excesses(pattern, *tasks, machine, seed);
                    let best = found
                        .iter()
                        .flatten()
                        .copied()
                        .fold(f64::INFINITY, f64::min);
                    // Where all may be local, nothing lies above it that could be compared.
                    if best <= 0.0 {
                        continue;
                    }
                    for (effort, found) in found.iter().enumerate() {
                        for ratio in found.iter().map(|excess| excess / best) {
                            ratios[effort].push(ratio);
                            if ratio > worst[effort].0 {
                                worst[effort] = (ratio, format!("{pattern} {machine} seed {seed}"));
                            }
                        }
                    }
                }
            }
        }
        for ((name, ratios), (ratio, case)) in NAMES.iter().zip(&ratios).zip(&worst) {
            let mean = mean(ratios);
            println!("  {name:9} cost/best {mean:.4} worst {ratio:6.3} ({case})");
        }
    }
}

/// What each effort leaves above all-local, under each numbering.
fn excesses(
    pattern: &str,
    tasks: usize,
    machine: &str,
    seed: u64,
) -> [[f64; NUMBERINGS as usize]; EFFORTS.len()] {
    let machine = cases::machine(machine);
    let capacity = machine.capacity(tasks);
    let mut workspace = Workspace::default();
    let mut found = [[0.0; NUMBERINGS as usize]; EFFORTS.len()];
    for numbering in 0..NUMBERINGS {
        let pairs = cases::pairs(pattern, tasks, seed);
        let pairs = cases::renumbered(&pairs, tasks, numbering);
        let edges = Edges::from_pairs(tasks, &pairs);
        let problem =
            Problem::new(&edges, &machine.distance, &capacity).expect("a case is a problem");
        for (found, effort) in found.iter_mut().zip(EFFORTS) {
            let node_of = map(&problem, effort, &mut workspace);
            found[numbering as usize] = excess(node_of, &pairs, &machine);
        }
    }
    found
}
