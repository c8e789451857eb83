//! Undo under chaos: threads born 500 a second, children, exec, numbers that wrap, cpusets that move, and a mover that is
//! killed at any moment. The round is a test of `actuator`, run longer and from the seed of the soak.

use std::process::Command;

use anyhow::{Result, ensure};

use super::{Soak, say};

/// Undos of each of two programs in a second: 200 took 48 s on two processors.
const ROUNDS_PER_S: u64 = 4;

/// The round.
pub(super) fn run(soak: &Soak) -> Result<()> {
    let rounds = (soak.length().as_secs() * ROUNDS_PER_S).max(1);
    let test = "chaos::privileged_chaos_leaves_no_thread_bent";
    let status = Command::new(env!("CARGO"))
        .args([
            "test",
            "--quiet",
            "-p",
            "actuator",
            "--all-features",
            "--lib",
            "--",
        ])
        .args(["--exact", test, "--nocapture"])
        .env("NUMAD_CHAOS_SEED", soak.seed().to_string())
        .env("NUMAD_CHAOS_ROUNDS", rounds.to_string())
        .status()?;
    ensure!(status.success(), "undo left something behind, see above");
    say(&format!("chaos: {rounds} undos of each of two programs"));
    Ok(())
}
