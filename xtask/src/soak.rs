//! `cargo xtask soak`: the real daemon under those who do their worst, from a seed that can be given
//! again.
//!
//! A round starts the daemon in a directory of its own and holds what must be so all the while. Every
//! round has a module and a line in [`ROUNDS`]; `make soak` runs them one after the other.

mod chaos;
mod door;

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use clap::Args;

pub(crate) use door::{Client, client};

/// What a round does; it fails with what must be so and was not.
type Round = fn(&Soak) -> Result<()>;

/// What there is, by name.
const ROUNDS: &[(&str, Round)] = &[("chaos", chaos::run), ("door", door::run)];

/// Arguments of `soak`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Soak {
    /// Where chance begins; another one each time when not given.
    #[arg(long)]
    seed: Option<u64>,
    /// How long each round takes.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// The daemon.
    #[arg(long, default_value = "target/debug/numad")]
    numad: PathBuf,
    /// Rounds to run; all when none is named.
    rounds: Vec<String>,
}

impl Soak {
    fn seed(&self) -> u64 {
        self.seed.unwrap_or_default()
    }

    const fn length(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}

/// Runs the rounds that are asked for.
pub(crate) fn run(mut soak: Soak) -> Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seed = soak.seed.unwrap_or(now.map_or(1, |now| now.as_secs()));
    soak.seed = Some(seed);
    soak.numad = soak.numad.canonicalize().with_context(|| {
        let numad = soak.numad.display();
        format!("there is no daemon `{numad}`; build it with `cargo build -p numad`")
    })?;
    for name in &soak.rounds {
        if !ROUNDS.iter().any(|(known, _)| known == name) {
            let known: Vec<&str> = ROUNDS.iter().map(|(name, _)| *name).collect();
            bail!("there is no round `{name}`; there are {}", known.join(", "));
        }
    }
    for (name, round) in ROUNDS {
        if !soak.rounds.is_empty() && !soak.rounds.iter().any(|wanted| wanted == name) {
            continue;
        }
        say(&format!("{name}: seed {seed}, {} s", soak.seconds));
        round(&soak).with_context(|| format!("round `{name}` with `--seed {seed}`"))?;
    }
    Ok(())
}

fn say(line: &str) {
    #[expect(clippy::print_stdout, reason = "this is what people run it for")]
    {
        println!("soak: {line}");
    }
}

/// Chance from a seed: splitmix64.
#[derive(Debug)]
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not 0.
    fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next() % end).unwrap_or(0)
    }

    fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}
