//! Flags of `export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Which;

/// Arguments of `export`.
#[derive(Clone, Debug, Args)]
pub struct Export {
    /// Attachment, or process of one; `id:3` and `pid:3` tell them apart
    #[arg(
        value_name = "ID|PID",
        required_unless_present = "plan",
        conflicts_with = "plan"
    )]
    pub which: Option<Which>,
    /// A plan that `numadctl plan` wrote, in place of an attachment
    #[arg(long, value_name = "PLAN")]
    pub plan: Option<PathBuf>,
    /// For which tool
    #[arg(long, value_enum)]
    pub format: Recipe,
}

/// A tool that places programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Recipe {
    /// A command line of numactl.
    Numactl,
    /// A command line of taskset.
    Taskset,
    /// A drop-in of a systemd unit.
    Systemd,
    /// Variables of OpenMP.
    Omp,
    /// A rankfile of Open MPI up to 4.
    Rankfile,
    /// A rankfile of Open MPI 5.
    Openmpi5,
    /// A command line of MPICH.
    Hydra,
    /// Variables of Intel MPI.
    Intel,
    /// A command line of Slurm.
    Slurm,
    /// The machine of each rank, for Slurm's arbitrary distribution.
    SlurmHostfile,
}
