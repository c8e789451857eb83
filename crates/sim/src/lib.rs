//! A machine that is not there.
//!
//! A [`World`] has threads, pages and nodes; time passes in small steps; how fast threads get on is
//! decided by `numad_core::cost`, the same model that prices plans. The real engine and the real
//! policies run against it, fed with samples and carried out by the world as their host. Everything
//! comes from a seed: the same seed gives the same bytes. [`replay()`] runs them against a recording instead.

#![forbid(unsafe_code)]

pub mod cli;
mod condition_arguments;
pub mod conditions;
mod drawn;
mod drawn_command;
mod driver;
pub mod fault;
mod jobs;
mod json;
mod judge;
pub mod matrix;
mod matrix_command;
mod paper;
mod picture;
pub mod random;
pub mod render;
pub mod replay;
mod report;
pub mod scenario;
mod scheduler;
mod stage;
mod story;
#[cfg(test)]
mod tests;
pub mod workload;
pub mod world;

pub use conditions::Conditions;
pub use driver::{Snapshot, WindowRow};
pub use fault::{Fault, Faults};
pub use replay::{ReplayReport, ReplaySpec, replay};
pub use report::{Report, RunError, RunErrorKind, Summary, run};
pub use scenario::{SCENARIOS, Scenario};
pub use story::Story;
pub use workload::{Blueprint, Workload};
pub use world::{Placement, Totals, World, WorldSpec};
