//! Flags of `profile`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use control::profile::Thresholds;

use super::Plain;

/// How clap shows it is longer than a line of a terminal.
pub(super) const USAGE: &str =
    "numadctl profile [OPTIONS] FILE...\n       numadctl profile [OPTIONS] -- COMMAND...";

/// Arguments of `profile`.
#[derive(Clone, Debug, Args)]
pub struct Profile {
    /// Recording, file of `perf record`, profile in JSON, matrix in comma-separated values, or files of Open MPI's
    /// pml_monitoring, one for each rank or the directory that holds them
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
    /// Class: communication per memory access (CommR) below which it cannot matter; 0.02 when not given
    #[arg(long, value_name = "SHARE", value_parser = share)]
    comm_min: Option<f64>,
    /// Class: share of accesses answered by memory (DramR) below which memory cannot matter; 0.02 when not given
    #[arg(long, value_name = "SHARE", value_parser = share)]
    dram_min: Option<f64>,
    /// Class: changes of the order of tasks (CommDyn) above which a program is dynamic; 5 when not given
    #[arg(long, value_name = "N")]
    changes_max: Option<u64>,
    /// Class: sampled accesses below which it is not told; 256 when not given
    #[arg(long, value_name = "N")]
    samples_min: Option<u64>,
    /// Class: sampled events in a second, on average, below which static is not told from dynamic; 128 when not given
    #[arg(long, value_name = "N")]
    events_min: Option<u64>,
    /// How to answer.
    #[command(flatten)]
    pub plain: Plain,
}

impl Profile {
    /// Where classes begin, by what is given, else as in `otherwise`.
    #[must_use]
    pub fn thresholds(&self, otherwise: Thresholds) -> Thresholds {
        Thresholds {
            comm_min: self.comm_min.unwrap_or(otherwise.comm_min),
            dram_min: self.dram_min.unwrap_or(otherwise.dram_min),
            changes_max: self.changes_max.unwrap_or(otherwise.changes_max),
            samples_min: self.samples_min.unwrap_or(otherwise.samples_min),
            events_min: self.events_min.unwrap_or(otherwise.events_min),
        }
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = text
        .parse()
        .ok()
        .filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "expected a share from 0 to 1".to_owned())
}
