//! Flags of `profile`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::Plain;

/// How clap shows it is longer than a line of a terminal.
pub(super) const USAGE: &str =
    "numadctl profile [OPTIONS] FILE...\n       numadctl profile [OPTIONS] -- COMMAND...";

/// Arguments of `profile`.
#[derive(Clone, Debug, Args)]
pub struct Profile {
    /// Recording, file of `perf record`, matrix in comma-separated values, or files of Open MPI's pml_monitoring, one
    /// for each rank or the directory that holds them
    #[arg(
        value_name = "FILE",
        required_unless_present = "command",
        conflicts_with = "command"
    )]
    pub files: Vec<PathBuf>,
    /// Program to run and profile, after `--`. An mpirun of Open MPI counts messages and needs no daemon; what
    /// other programs do to memory is recorded by the daemon. Its standard output goes to the error stream, unless the
    /// profile goes to a file
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
    /// Write a page with pictures into FILE; `-` is standard output
    #[arg(long, short, value_name = "FILE", conflicts_with = "json")]
    pub output: Option<PathBuf>,
    /// Class: communication per memory access (CommR) below which it cannot matter
    #[arg(long, value_name = "SHARE", default_value_t = profile::metrics::THRESHOLDS.comm_min, value_parser = share)]
    pub comm_min: f64,
    /// Class: share of accesses answered by memory (DramR) below which memory cannot matter
    #[arg(long, value_name = "SHARE", default_value_t = profile::metrics::THRESHOLDS.dram_min, value_parser = share)]
    pub dram_min: f64,
    /// Class: changes of the order of tasks (CommDyn) above which a program is dynamic
    #[arg(long, value_name = "N", default_value_t = profile::metrics::THRESHOLDS.changes_max)]
    pub changes_max: u64,
    /// Class: sampled accesses below which it is not told
    #[arg(long, value_name = "N", default_value_t = profile::metrics::SAMPLES_MIN)]
    pub samples_min: u64,
    /// Class: sampled events in a second, on average, below which static is not told from dynamic
    #[arg(long, value_name = "N", default_value_t = profile::metrics::EVENTS_MIN)]
    pub events_min: u64,
    /// How to answer.
    #[command(flatten)]
    pub plain: Plain,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text
        .parse()
        .ok()
        .filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "expected a share from 0 to 1".to_owned())
}
