//! `numad-sim drawn`: a policy in scenarios that nobody chose, and where it did worst.

use std::io::Write;

use clap::Args;

use crate::cli::Failure;
use crate::drawn::{Line, scenario};
use crate::scenario::Scenario;
use crate::{RunError, RunErrorKind, jobs, report};

/// A policy in scenarios that are drawn, and where it did worst.
///
/// Machine, program, memory, source of samples and what goes wrong are drawn. Work done is told as
/// part of what the same program gets done under `linux` and under `none`, in per cent. The same
/// seed prints the same bytes.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DrawnArguments {
    /// How many scenarios
    #[arg(long, value_name = "N", default_value_t = 100)]
    count: usize,
    /// Which
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Who decides
    #[arg(long, default_value = "auto")]
    policy: String,
    /// How long each, in simulated seconds
    #[arg(long, value_name = "N", default_value_t = 20)]
    seconds: u32,
    /// How many of the worst are named, by either measure
    #[arg(long, value_name = "N", default_value_t = 10)]
    worst: usize,
    /// How many threads run it [default: one per cpu]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Say nothing of progress
    #[arg(long)]
    quiet: bool,
}

const EXAMPLES: &str = "\
EXAMPLE:
  numad-sim drawn --count 500 --seed 4

Exit codes: 0 done, whatever came of it; 1 a rule was broken, which is a mistake in numad; 2 the command
line makes no sense; 6 no such policy.";

/// Most that are run.
const COUNT_MAX: usize = 100_000;

/// What is worse is told of: the product's promise is 3 %.
const WORSE: f64 = -3.0;

/// What work is held against.
const AGAINST: [&str; 2] = ["linux", "none"];

/// What came of a scenario.
struct Came {
    scenario: Scenario,
    /// Work done over that under each of [`AGAINST`], in per cent.
    over: [f64; 2],
    is_sound: bool,
}

pub(crate) fn run(arguments: &DrawnArguments, out: &mut impl Write) -> Result<u8, Failure> {
    report::find(&arguments.policy)?;
    if !(1..=COUNT_MAX).contains(&arguments.count) {
        let message = format!("`{}` scenarios: must be 1 to {COUNT_MAX}", arguments.count);
        return Err(RunError::new(RunErrorKind::Usage, message).into());
    }
    let threads = jobs::threads(arguments.threads)?;
    let order: Vec<usize> = (0..arguments.count).collect();
    let done = jobs::run(&order, (threads, arguments.quiet), |number| {
        let (policy, seconds) = (&arguments.policy, arguments.seconds);
        let drawn = scenario(arguments.seed, number as u64, policy, seconds);
        compare(drawn)
    })?;
    let came: Vec<Came> = done.into_iter().flatten().collect();
    print(arguments, &came, out)?;
    out.flush()?;
    Ok(u8::from(came.iter().any(|one| !one.is_sound)))
}

fn compare(scenario: Scenario) -> Result<Came, RunError> {
    let under_linux = Scenario {
        policy: "linux".to_owned(),
        balancing: false,
        ..scenario.clone()
    };
    let (own, linux) = (crate::run(&scenario)?, crate::run(&under_linux)?);
    let over = |other: f64| (own.outcome.work_s / other.max(f64::MIN_POSITIVE) - 1.0) * 100.0;
    Ok(Came {
        over: [over(linux.outcome.work_s), own.gain_percent()],
        is_sound: own.is_sound(),
        scenario,
    })
}

fn print(arguments: &DrawnArguments, came: &[Came], out: &mut impl Write) -> Result<(), Failure> {
    let DrawnArguments { policy, seed, .. } = arguments;
    writeln!(
        out,
        "{} scenarios of seed {seed} under {policy}",
        came.len()
    )?;
    for (at, name) in AGAINST.iter().enumerate() {
        let mut worst: Vec<&Came> = came.iter().collect();
        worst.sort_by(|one, other| one.over[at].total_cmp(&other.over[at]));
        let mean = came.iter().map(|one| one.over[at]).sum::<f64>() / came.len() as f64;
        worst.retain(|one| one.over[at] < WORSE);
        writeln!(
            out,
            "\nover {name}: {mean:+.1} % in the mean; more than 3 % below it: {}",
            worst.len()
        )?;
        for one in worst.iter().take(arguments.worst) {
            writeln!(out, "  {:+6.1} %  {}", one.over[at], Line(&one.scenario))?;
        }
    }
    for one in came.iter().filter(|one| !one.is_sound) {
        writeln!(out, "\na rule was broken: {}", Line(&one.scenario))?;
    }
    Ok(())
}
