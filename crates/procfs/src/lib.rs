//! A read-only view of `/proc`, `/sys` and cgroups.
//!
//! Everything starts at [`Reader::new`] with a root directory: `/` on the live machine, or a directory
//! that looks like one. Nothing here writes, caches, or keeps a file open between calls. What vanishes
//! between looking and reading is [`Presence::Gone`], not an error; an error means that something
//! exists and cannot be read or understood, and names it. The parsers ([`stat`], [`status`], [`environ`],
//! [`numa_maps`], [`maps`], [`cgroup`], [`node`]) are total functions from text to a value or a [`ParseError`].
//!
//! Deliberately absent: deciding, changing anything, the clock, and caring who asks.

#![forbid(unsafe_code)]

pub mod busy;
pub mod cgroup;
#[cfg(test)]
mod corpus;
mod disturbance;
mod energy;
pub mod environ;
mod error;
pub mod maps;
pub mod node;
pub mod numa_maps;
mod process;
mod reader;
mod rights;
mod shared;
pub mod stat;
pub mod status;
mod system;
#[cfg(test)]
mod tree;

pub use busy::ProcessorTime;
pub use cgroup::{CgroupError, Cpuset};
pub use energy::{Energy, EnergyMeter};
pub use environ::{JobId, Launcher, Rank};
pub use error::{Cause, ParseError, Presence, ReadError};
pub use maps::Mapping;
pub use node::NodeMemory;
pub use numa_maps::{Backing, MemoryPolicy, NumaMapping, PolicyMode};
pub use process::{Process, THREADS_MAX, Thread};
pub use reader::Reader;
pub use rights::{Closed, Rights};
pub use shared::{Device, SHARED_MAX, SharedKind, SharedMaps};
pub use stat::{Stat, TICKS_PER_SECOND, TaskRun, age};
pub use status::{Ids, Resident, Status};
pub use system::{BalancingMode, Rival, SchedExt};
