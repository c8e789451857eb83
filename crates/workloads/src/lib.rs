//! Parallel programs whose sharing is known, so that what a policy finds can be compared with what
//! is true. Used by the demo, by tests, and by anyone who wants to see numad at work.
//!
//! A workload is a [`Plan`]: which threads there are, and which regions of memory each of them
//! uses in every round. [`run()`] carries it out.

#![deny(unsafe_code)]

mod made;
#[expect(
    unsafe_code,
    reason = "mapping memory, giving its pages back, forking, and asking for a thread's number"
)]
mod memory;
pub mod plan;
mod processes;
mod run;

pub use memory::{Layout, Pages};
pub use plan::{Kind, Manner, Plan};
pub use run::{Options, run};
