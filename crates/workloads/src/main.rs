//! `numad-workload`: a parallel program whose sharing is known.

#![forbid(unsafe_code)]

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use workloads::{Kind, Options};

/// A parallel program whose sharing is known, for trying numad on.
#[derive(Debug, Parser)]
#[command(
    name = "numad-workload",
    version,
    after_help = "Example: numad-workload pairs --threads 8 --seconds 30"
)]
struct Arguments {
    /// Pattern of sharing: slices, pairs, groups:SIZE, all-shared, phases, hog, shared-processes.
    kind: Kind,
    /// Number of worker threads, or processes.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=4096))]
    threads: u16,
    /// Size of each shared region in KiB.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(4..))]
    region_kib: u32,
    /// Seconds to run; without it, until it is stopped.
    #[arg(long)]
    seconds: Option<u32>,
    /// Seconds until partners change (phases).
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    phase_seconds: u32,
    /// Decides who shares with whom.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Give shared pages back after every so many rounds; 0 keeps them.
    #[arg(long, default_value_t = 64)]
    release_rounds: u64,
    /// Let memory lie in huge pages if the kernel likes.
    #[arg(long)]
    huge_pages: bool,
    /// Processors of each node, as 0-1/2-3: threads place themselves and their memory as well as one
    /// can who knows the pattern. What a policy can reach at best.
    #[arg(long, value_name = "CPUS/CPUS", value_parser = nodes)]
    oracle: Option<Nodes>,
}

/// Processors of each node.
type Nodes = Vec<Vec<usize>>;

fn nodes(text: &str) -> Result<Nodes, String> {
    text.split('/')
        .map(|node| {
            let (first, last) = node.split_once('-').unwrap_or((node, node));
            let number = |text: &str| {
                let number = text.parse::<usize>().ok().filter(|cpu| *cpu < 1024);
                number.ok_or_else(|| format!("`{node}` is no range of processors"))
            };
            Ok((number(first)?..=number(last)?).collect())
        })
        .collect()
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let options = Options {
        kind: arguments.kind,
        threads: usize::from(arguments.threads),
        region_kib: usize::try_from(arguments.region_kib).unwrap_or(usize::MAX),
        length: arguments
            .seconds
            .map(|seconds| Duration::from_secs(seconds.into())),
        phase: Duration::from_secs(arguments.phase_seconds.into()),
        seed: arguments.seed,
        release_rounds: arguments.release_rounds,
        huge_pages: arguments.huge_pages,
        oracle: arguments.oracle.unwrap_or_default(),
    };
    let kind = options.kind;
    match workloads::run(options, &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read our output has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            #[expect(
                clippy::print_stderr,
                reason = "this is where a program tells its failure"
            )]
            {
                eprintln!("numad-workload: cannot run `{kind}`: {error}");
            }
            ExitCode::FAILURE
        }
    }
}
