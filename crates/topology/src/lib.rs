//! The machine: nodes, processors, caches, distances, bandwidth. Depends on nothing of ours.
//!
//! A [`Topology`] is an immutable value. It comes from this machine, an hwloc XML file, a directory
//! that looks like a root, or a short text (`4x16@10,21`).

#![forbid(unsafe_code)]

pub mod bandwidth;
pub mod distance;
pub mod ids;
mod machine;
pub mod set;
pub mod synthetic;

pub use bandwidth::{BandwidthGraph, Figure, Link};
pub use distance::{Distances, Origin};
pub use ids::{CoreId, CpuId, NodeId, PackageId, Pid, StartTicks, TaskKey, Tid};
pub use machine::{Cache, CacheKind, Contradiction, Cpu, Node, Note, Parts, Topology};
pub use set::{CpuSet, IdSet, NodeSet};
