//! A placement for the next run: from who says how much to whom, and the machines it is to run on.
//!
//! Each rank or thread gets a core of its own. Ranks are dealt to machines first, each machine a node
//! of the kernel's problem; then to the nodes of their machine by its distances; then, where a node
//! has several last-level caches, to those. The answer is never worse than filling machines core by
//! core, as mpirun does by itself. Reads no file, clock or environment.

#![forbid(unsafe_code)]

mod deal;
mod matrix;

pub use deal::{BETWEEN_MACHINES, Site, plan};
pub use matrix::{from_csv, from_monitoring};
