//! `numad-workload`: a parallel program whose sharing is known.

#![forbid(unsafe_code)]

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use workloads::{Kind, Layout, Options, Pages};

/// A parallel program whose sharing is known, for trying numad on.
#[derive(Debug, Parser)]
#[command(
    name = "numad-workload",
    version,
    after_help = "Example: numad-workload pairs --threads 8 --seconds 30"
)]
struct Arguments {
    /// Pattern of sharing: slices, pairs, groups:SIZE, all-shared, phases, hog, shared-processes, readers, zipf,
    /// growing, strided, heap, made:NUMBER (drawn by number).
    kind: Kind,
    /// Number of worker threads, or processes.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=4096))]
    threads: u16,
    /// Size of each region, in KiB or with K, M or G behind it: a thread's own memory, or what a group shares.
    #[arg(long, alias = "region-kib", default_value = "256K", value_parser = kib)]
    region: usize,
    /// Small pages by which each region begins behind a boundary of a huge page.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..512))]
    offset_pages: u16,
    /// What pages regions are made of: small, huge, or any, as the kernel is set up.
    #[arg(long, default_value = "small", value_parser = pages)]
    pages: Pages,
    /// Seconds to run; without it, until it is stopped.
    #[arg(long)]
    seconds: Option<u32>,
    /// Seconds until partners change (phases, some of made), or memory grows (growing).
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    phase_seconds: u32,
    /// Decides who shares with whom.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Give shared pages back after every so many rounds; 0 keeps them.
    #[arg(long, default_value_t = 64)]
    release_rounds: u64,
    /// Processors of each node, as 0-1/2-3: threads place themselves and their memory as well as one
    /// can who knows the pattern. What a policy can reach at best.
    #[arg(long, value_name = "CPUS/CPUS", value_parser = nodes)]
    oracle: Option<Nodes>,
}

/// Processors of each node.
type Nodes = Vec<Vec<usize>>;

/// Kibibytes.
fn kib(text: &str) -> Result<usize, String> {
    let (number, factor) = match text.char_indices().last() {
        Some((at, 'K')) => (&text[..at], 1),
        Some((at, 'M')) => (&text[..at], 1 << 10),
        Some((at, 'G')) => (&text[..at], 1 << 20),
        _ => (text, 1),
    };
    let kib = number.parse::<usize>().ok();
    kib.and_then(|number| number.checked_mul(factor))
        .filter(|kib| *kib >= 4)
        .ok_or_else(|| "a size is 4K or more, such as 256K, 32M or 1G".to_owned())
}

fn pages(text: &str) -> Result<Pages, String> {
    match text {
        "small" => Ok(Pages::Small),
        "huge" => Ok(Pages::Huge),
        "any" => Ok(Pages::Any),
        _ => Err("there are small, huge and any".to_owned()),
    }
}

fn nodes(text: &str) -> Result<Nodes, String> {
    text.split('/')
        .map(|node| {
            let (first, last) = node.split_once('-').unwrap_or((node, node));
            let number = |text: &str| {
                let number = text.parse::<usize>().ok().filter(|cpu| *cpu < 1024);
                number.ok_or_else(|| format!("`{node}` is no range of processors"))
            };
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(format!("`{node}` is no range of processors"));
            }
            Ok((first..=last).collect())
        })
        .collect()
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let options = Options {
        kind: arguments.kind,
        threads: usize::from(arguments.threads),
        region_kib: arguments.region,
        length: arguments
            .seconds
            .map(|seconds| Duration::from_secs(seconds.into())),
        phase: Duration::from_secs(arguments.phase_seconds.into()),
        seed: arguments.seed,
        release_rounds: arguments.release_rounds,
        layout: Layout {
            pages: arguments.pages,
            offset_pages: usize::from(arguments.offset_pages),
        },
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn a_range_of_processors_goes_up() {
        assert_eq!(nodes("0-1/3"), Ok(vec![vec![0, 1], vec![3]]));
        for wrong in ["", "1-0", "0-", "0-1/", "0-1024", "a"] {
            nodes(wrong).unwrap_err();
        }
    }

    #[test]
    fn what_documents_show_is_a_command() {
        testkit::docs::check("numad-workload", &Arguments::command());
    }
}
