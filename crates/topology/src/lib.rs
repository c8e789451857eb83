//! The machine: nodes, processors, caches, distances, bandwidth. Depends on nothing of ours.
//!
//! A [`Topology`] is an immutable value. It comes from this machine, an hwloc XML file, a directory
//! that looks like a root, or a short text (`4x16@10,21`).

#![forbid(unsafe_code)]

pub mod bandwidth;
mod cores;
pub mod distance;
pub mod draft;
mod fingerprint;
pub mod ids;
pub mod load;
mod machine;
pub mod measured;
mod number;
pub mod render;
pub mod set;
pub mod synthetic;
pub mod sysfs;
pub mod xml;

pub use bandwidth::{BandwidthGraph, Figure, Link};
pub use distance::{Distances, Origin};
pub use fingerprint::{Fingerprint, NoFingerprint};
pub use ids::{CoreId, CpuId, NodeId, PackageId, Pid, StartTicks, TaskKey, Tid};
pub use load::{LoadError, Reason, load, load_text};
pub use machine::{Cache, CacheKind, Contradiction, Cpu, Node, Note, Parts, Topology};
pub use measured::{Measured, MeasuredLink};
pub use set::{CpuSet, IdSet, NodeSet};
