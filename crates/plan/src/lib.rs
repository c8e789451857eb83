//! A placement for the next run: from who says how much to whom, and the machines it is to run on.
//!
//! Each rank or thread gets a core of its own. For `deloc` and `locality` ranks are dealt to machines first, each
//! machine a node of the kernel's problem; then to the nodes of their machine, by `DeLocMap` or by its distances;
//! then, where a node has several last-level caches, to those. Other policies take the nodes of all machines as one
//! list. Reads no file, clock or environment.

#![forbid(unsafe_code)]

mod deal;
mod matrix;
mod method;
mod work;

pub use deal::{BETWEEN_MACHINES, Site, plan};
pub use matrix::{from_csv, from_monitoring, is_monitoring};
pub use method::Method;
pub use work::Work;
