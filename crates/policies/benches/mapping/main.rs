//! The mapping kernels beside Scotch and METIS, in one run: cost and processor time.
//!
//! `make bench-mapping` runs it; by hand: `mapping PEER WORK [SIZE]... [--known DIR TABLE] [--real DIR] [--each]`, where PEER is
//! the program made of `peers/peer.cpp`, WORK a directory for files, and DIR and TABLE are the generated
//! cases and the known costs of a shared bench (`DIR/mat/PATTERN-TASKS.cm`, `DIR/topo/MACHINE.topo`).
//! `--each` prints a line for every case as well. `mapping --seeds COUNT [SIZE]...` is another bench: see
//! `seeds.rs`.
//!
//! Cost is what lies above all-local, relative to the best of this run or to the best known. A peer that
//! breaks the capacities is repaired, not charged, and counted under `over`. Times are processor time of
//! one call, median of several; geometric means over all cases of a size.

#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_possible_truncation,
    reason = "a bench may read and write files, talk, and knows that its numbers are small"
)]

mod cases;
mod seeds;
mod warm;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use nix::time::{ClockId, clock_gettime};
use policies::kernel::{Edges, Effort, Problem, Workspace, map, refine};
use testkit::mapping_cost;

use cases::{Case, Machine, PATTERNS, Pairs, SIZES};

const NAMES: [&str; 4] = ["online", "thorough", "scotch", "metis"];

/// What one way to map made of one case.
#[derive(Clone, Copy)]
struct Result {
    excess: f64,
    nanoseconds: f64,
    over: bool,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    let [first, second, rest @ ..] = words.as_slice() else {
        return usage();
    };
    let sizes: Vec<usize> = rest.iter().map_while(|word| word.parse().ok()).collect();
    let asked = |tasks: usize| sizes.is_empty() || sizes.contains(&tasks);
    if first == "--seeds" {
        let Ok(count) = second.parse() else {
            return usage();
        };
        seeds::report(count, asked);
        return ExitCode::SUCCESS;
    }
    let (peer, work) = (Path::new(first), PathBuf::from(second));
    let shared = match rest.iter().position(|word| word == "--known") {
        Some(at) => rest.get(at + 1).zip(rest.get(at + 2)),
        None => None,
    };
    let mut all = match shared {
        Some((_, table)) => cases::known(Path::new(table)),
        None => own(),
    };
    all.retain(|case| asked(case.tasks));
    all.sort_by_key(|case| case.tasks);
    let each = rest.iter().any(|word| word == "--each");
    for same in all.chunk_by(|one, other| one.tasks == other.tasks) {
        let dir = shared.map(|shared| Path::new(shared.0));
        println!("{} tasks", same[0].tasks);
        report(same, each, |case| run(peer, &work, dir, case));
    }
    if let Some(at) = rest.iter().position(|word| word == "--real") {
        let real = cases::real(Path::new(rest.get(at + 1).map_or("", String::as_str)));
        println!("real matrices of 64 ranks");
        report(&real, each, |case| run(peer, &work, None, case));
    }
    warm::report();
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("usage: mapping PEER WORK [SIZE]... [--known DIR TABLE] [--real DIR] [--each]");
    eprintln!("       mapping --seeds COUNT [SIZE]...");
    ExitCode::from(2)
}

/// The cases that are generated here.
fn own() -> Vec<Case> {
    let mut all = Vec::new();
    for (tasks, machines) in SIZES {
        for machine in machines {
            for pattern in PATTERNS {
                let (pattern, machine) = (pattern.to_owned(), (*machine).to_owned());
                all.push(Case {
                    pattern,
                    machine,
                    tasks,
                    known: None,
                });
            }
        }
    }
    all
}

fn run(peer: &Path, work: &Path, shared: Option<&Path>, case: &Case) -> [Option<Result>; 4] {
    let (matrix, topology, pairs, machine);
    match shared {
        Some(dir) => {
            matrix = dir.join(format!("mat/{}-{}.cm", case.pattern, case.tasks));
            topology = dir.join(format!("topo/{}.topo", case.machine));
            (pairs, machine) = cases::read(&matrix, &topology);
        }
        None => {
            let file = work.join("case");
            (pairs, machine) = (
                if case.pattern.ends_with(".csv") {
                    cases::csv(Path::new(&case.pattern))
                } else {
                    cases::pairs(&case.pattern, case.tasks, 0)
                },
                cases::machine(&case.machine),
            );
            cases::write(&file, &pairs, case.tasks, &machine);
            (matrix, topology) = (file.with_extension("cm"), file.with_extension("topo"));
        }
    }
    let edges = Edges::from_pairs(case.tasks, &pairs);
    let capacity = machine.capacity(case.tasks);
    let problem = Problem::new(&edges, &machine.distance, &capacity).expect("a case is a problem");
    let mut results = [None; 4];
    for (result, effort) in results.iter_mut().zip([Effort::ONLINE, Effort::THOROUGH]) {
        *result = Some(ours(&problem, effort, &pairs, &machine));
    }
    for (result, name) in results[2..].iter_mut().zip(&NAMES[2..]) {
        let out = work.join("out.map");
        let said = Command::new(peer)
            .arg(name)
            .args([&matrix, &topology, &out])
            .output();
        *result = said.ok().and_then(|said| {
            let time = String::from_utf8_lossy(&said.stderr).trim().parse().ok()?;
            theirs(&problem, &out, time, &pairs, &machine)
        });
    }
    results
}

/// The cost above all-local.
fn excess(node_of: &[u16], pairs: &Pairs, machine: &Machine) -> f64 {
    let said: u64 = pairs.iter().map(|pair| pair.2).sum();
    (mapping_cost(pairs, &machine.distance, node_of) - said * u64::from(machine.local)) as f64
}

fn ours(problem: &Problem<'_>, effort: Effort, pairs: &Pairs, machine: &Machine) -> Result {
    let mut workspace = Workspace::default();
    let excess = excess(map(problem, effort, &mut workspace), pairs, machine);
    Result {
        excess,
        nanoseconds: median_time(11, || map(problem, effort, &mut workspace).len()),
        over: false,
    }
}

/// Processor time of a call in nanoseconds: the median of so many, fewer when they take long.
fn median_time(most: usize, mut call: impl FnMut() -> usize) -> f64 {
    let mut times = Vec::new();
    while times.len() < most && (times.len() < 2 || times.iter().sum::<f64>() < 3e8) {
        let start = processor_time();
        std::hint::black_box(call());
        times.push(processor_time() - start);
    }
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// A peer's mapping, repaired where it breaks the capacities.
fn theirs(
    problem: &Problem<'_>,
    out: &Path,
    nanoseconds: f64,
    pairs: &Pairs,
    machine: &Machine,
) -> Option<Result> {
    let bytes = std::fs::read(out).ok()?;
    let node = |four: &[u8]| u16::from_le_bytes([four[0], four[1]]);
    let node_of: Vec<u16> = bytes.chunks_exact(4).map(node).collect();
    let warm = problem.warm(&node_of, 0).ok()?;
    let mut workspace = Workspace::default();
    let repaired = refine(&warm, Effort::ONLINE.within(0), &mut workspace);
    let excess = excess(repaired, pairs, machine);
    Some(Result {
        excess,
        nanoseconds,
        over: repaired != node_of,
    })
}

fn processor_time() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("Linux has this clock");
    time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64
}

/// The geometric mean.
fn mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len().max(1) as f64).exp()
}

/// Prints one size: geometric means of cost and time, the worst cost, and how often we are ahead.
fn report(cases: &[Case], each: bool, run: impl Fn(&Case) -> [Option<Result>; 4]) {
    let rows: Vec<(f64, [Option<Result>; 4])> = cases
        .iter()
        .map(|case| {
            let results = run(case);
            let best = results.iter().flatten().map(|result| result.excess);
            let best = best.fold(f64::INFINITY, f64::min);
            let best = case.known.map_or(best, |known| best.min(known as f64));
            if each {
                let ratios = results
                    .iter()
                    .map(|result| result.map_or(0.0, |it| it.excess / best));
                let ratios: Vec<String> = ratios.map(|ratio| format!("{ratio:7.3}")).collect();
                println!(
                    "    {:9} {:6} {}",
                    case.pattern,
                    case.machine,
                    ratios.concat()
                );
            }
            (best, results)
        })
        .filter(|row| row.0 > 0.0)
        .collect();
    println!("  {} cases", rows.len());
    let online = mean(
        &rows
            .iter()
            .filter_map(|row| Some(row.1[0]?.nanoseconds))
            .collect::<Vec<_>>(),
    );
    for (place, name) in NAMES.iter().enumerate() {
        let done: Vec<(f64, Result)> = rows
            .iter()
            .filter_map(|row| Some((row.0, row.1[place]?)))
            .collect();
        let ratios: Vec<f64> = done
            .iter()
            .map(|(best, result)| result.excess / best)
            .collect();
        let times: Vec<f64> = done.iter().map(|(_, result)| result.nanoseconds).collect();
        let worst = ratios.iter().copied().fold(0.0, f64::max);
        let over = done.iter().filter(|(_, result)| result.over).count();
        println!(
            "  {name:9} cost/best {:.4} worst {worst:6.3}  cpu {:10.1} us = {:7.2} x online  over {over}",
            mean(&ratios),
            mean(&times) / 1000.0,
            mean(&times) / online,
        );
    }
    for (place, name) in NAMES.iter().enumerate().skip(2) {
        let both: Vec<_> = rows
            .iter()
            .filter_map(|row| Some((row.1[0]?, row.1[place]?)))
            .collect();
        let good = both
            .iter()
            .filter(|(own, peer)| own.excess <= peer.excess * 1.000_000_1)
            .count();
        let fast = both
            .iter()
            .filter(|(own, peer)| own.nanoseconds <= peer.nanoseconds)
            .count();
        println!(
            "  online is as good as {name} in {good} of {}, as fast in {fast}",
            both.len()
        );
    }
}
