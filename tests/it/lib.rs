//! Integration tests: the real binaries, on this kernel. Nothing but tests in here.
//!
//! The binaries are those of the same build profile; `make test` builds them first.

#![forbid(unsafe_code)]
#![cfg(test)]

mod bad_input;
mod experiment;
mod external;
mod house;
mod install;
mod kill_nine;
mod mpi;
mod plan;
mod recording;
mod shared_memory;
mod slurm;
mod systemd;
mod wheels;
mod whole_path;
