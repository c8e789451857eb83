//! Flags of `compare`, `ab` and `report`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use control::experiment::BLOCKS_MAX;

use super::{Plain, TargetArgs, key_and_value, milliseconds};

// The one that clap makes is longer than a line of a terminal.
pub(super) const AB_USAGE: &str = "numadctl ab [OPTIONS] PID...\n       \
    numadctl ab [OPTIONS] --cgroup PATH | --unit UNIT | --command NAME | --job ID\n       \
    numadctl ab [OPTIONS] -- COMMAND...\n       \
    numadctl ab list|show|stop";

/// What every experiment is told before it begins.
#[derive(Clone, Debug, Args)]
pub struct Questions {
    /// Policies to compare, with commas between; the first is the control. `off` is the program without numad; a policy
    /// named twice faces itself, and then nothing may be found. With `+balancing` at its end the kernel's own balancing
    /// is switched on under it (root, and `daemon.allow_global`); with `+published` its method is as in its paper
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "linux,auto"
    )]
    pub policies: Vec<String>,
    /// Setting of one of the policies, as in `deloc.refine=false`
    #[arg(long, value_name = "POLICY.KEY=VALUE", value_parser = key_and_value)]
    pub set: Vec<(String, String)>,
    /// What the order follows from; drawn when not given
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u32>,
    /// Effects below this are called the same, in percent
    #[arg(long, value_name = "PERCENT", default_value = "3", value_parser = margin)]
    pub margin: f64,
    /// Do not end early, not even when it is decided; gives slightly narrower bounds
    #[arg(long)]
    pub to_the_end: bool,
}

/// Arguments of `compare`.
#[derive(Clone, Debug, Args)]
pub struct Compare {
    /// Runs under each policy
    #[arg(
        long,
        short = 'n',
        value_name = "RUNS",
        default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(BLOCKS_MAX)),
    )]
    pub runs: u32,
    /// What is compared, and how.
    #[command(flatten)]
    pub questions: Questions,
    /// What is measured, the primary metric first: wall, cpu, energy, cmd:PROGRAM, which runs after each
    /// run and prints a number, or `prom:URL QUERY`, which a Prometheus server answers; `lower:` or
    /// `higher:` before it tells which is better. May be given several times
    #[arg(long, value_name = "METRIC", default_values = ["wall", "cpu"])]
    pub metric: Vec<String>,
    /// Runs before the first one that counts, under the first policy
    #[arg(long, value_name = "RUNS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub warm_up: u32,
    /// Keep the experiment in FILE: written after every run
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Go on with the experiment in FILE where it stopped
    #[arg(
        long = "continue",
        value_name = "FILE",
        conflicts_with_all = [
            "output", "runs", "policies", "set", "seed", "margin", "to_the_end", "metric",
            "same_output", "command",
        ],
    )]
    pub go_on: Option<PathBuf>,
    /// Fail when two runs do not print the same
    #[arg(long)]
    pub same_output: bool,
    /// Count runs that end with another exit code than 0
    #[arg(long)]
    pub ignore_failure: bool,
    /// How to answer.
    #[command(flatten)]
    pub plain: Plain,
    /// Program and its arguments, after `--`
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "go_on")]
    pub command: Vec<OsString>,
}

/// Arguments of `ab`.
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Ab {
    /// What to do with experiments that there are.
    #[command(subcommand)]
    pub there: Option<There>,
    #[command(flatten)]
    target: TargetArgs,
    /// Slices under each policy
    #[arg(
        long,
        short = 'n',
        value_name = "SLICES",
        default_value_t = 20,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(BLOCKS_MAX)),
    )]
    pub pairs: u32,
    /// What is compared, and how.
    #[command(flatten)]
    pub questions: Questions,
    /// What is measured, the primary metric first: instructions, ipc, local, energy, watts, cmd:PROGRAM, which
    /// prints a number, or counter:cmd:PROGRAM, which prints one that grows, or `prom:URL QUERY`,
    /// which a Prometheus server answers; `lower:` or `higher:` before it tells which is better.
    /// May be given several times
    #[arg(long, value_name = "METRIC", default_value = "instructions")]
    pub metric: Vec<String>,
    /// Length of a slice, as in 500ms, 60s or 5m; 60s when not given, or ten time constants where that is longer
    #[arg(long = "slice", value_name = "TIME", value_parser = milliseconds)]
    pub slice_ms: Option<u64>,
    /// How long a switch takes to be two thirds done: threads and pages have moved, caches are
    /// warm. Slices must be five times as long; from ten times on a quarter of each is dropped,
    /// else a half. When not given, a pilot measures it before the first slice: 20s under each
    /// policy or longer, until nothing moves any more
    #[arg(long = "time-constant", value_name = "TIME", value_parser = milliseconds)]
    pub time_constant_ms: Option<u64>,
    /// End a slice early that is worse than usual under the first policy by this, in percent; it counts as it is
    #[arg(long, value_name = "PERCENT", default_value = "50", value_parser = harm)]
    pub max_harm: f64,
    /// Begin it and do not wait for its end; `numadctl ab show` tells how it stands
    #[arg(long, conflicts_with = "output")]
    pub detach: bool,
    /// Write the experiment into FILE at its end
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// How to answer.
    #[command(flatten)]
    pub plain: Plain,
    /// Program to start and its arguments, after `--`
    #[arg(last = true, value_name = "COMMAND", group = "TargetArgs")]
    pub start: Vec<OsString>,
}

/// What can be done with experiments that there are.
#[derive(Clone, Debug, Subcommand)]
pub enum There {
    /// List the experiments that run, wait or are over
    #[command(after_help = "EXAMPLE:\n  numadctl ab list")]
    List(Plain),
    /// Show what there is of an experiment
    #[command(after_help = "EXAMPLE:\n  numadctl ab show 3\n  numadctl ab show 3 --json")]
    Show(Numbered),
    /// End an experiment, put everything back, and show what there is of it
    #[command(after_help = "EXAMPLE:\n  numadctl ab stop 3")]
    Stop(Numbered),
}

/// An experiment of the daemon.
#[derive(Clone, Debug, Args)]
pub struct Numbered {
    /// Its number, as `numadctl ab list` shows it
    #[arg(value_name = "NUMBER")]
    pub number: u32,
    /// How to answer.
    #[command(flatten)]
    pub plain: Plain,
}

impl Ab {
    /// The program.
    #[must_use]
    pub fn target(&self) -> control::rows::Target {
        self.target.target()
    }
}

/// Arguments of `report`.
#[derive(Clone, Debug, Args)]
pub struct Report {
    /// File of an experiment, `ab:NUMBER` for one that the daemon keeps, or `id:NUMBER` for an
    /// attachment that has ended
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Write a page of HTML into FILE; `-` is standard output. Text to the terminal when not given
    #[arg(long, short, value_name = "FILE", conflicts_with = "json")]
    pub output: Option<PathBuf>,
    /// Answer in JSON, results computed anew
    #[arg(long)]
    pub json: bool,
}

/// A loss in percent, as a share.
fn harm(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').trim().parse::<f64>() {
        Ok(percent) if (1.0..=99.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("expected a number of percent from 1 to 99".to_owned()),
    }
}

/// A margin in percent, as a share.
fn margin(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').trim().parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 50.0 => Ok(percent / 100.0),
        _ => Err("expected a number of percent above 0 and up to 50".to_owned()),
    }
}
