//! Arguments of `mpi`.

use clap::{Args, Subcommand};

/// Arguments of `mpi`.
#[derive(Clone, Copy, Debug, Args)]
pub struct Mpi {
    /// What to print.
    #[command(subcommand)]
    pub what: What,
}

/// What to print.
#[derive(Clone, Copy, Debug, Subcommand)]
pub enum What {
    /// Lines for a shell, which preload numad's library into what it starts from then on
    #[command(
        after_help = "EXAMPLE:\n  numadctl mpi env\n  eval \"$(numadctl mpi env)\"; mpirun -n 4 ./solver"
    )]
    Env,
}
