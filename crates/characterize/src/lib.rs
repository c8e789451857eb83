//! Measures the bandwidth graph: how fast the processors of every node reach the memory of every other.
//!
//! As PTB does it (section 4.1): a triad `a[p] = b[p] + s * c[p]` over arrays that lie on one node, in an
//! order that no prefetcher follows, by 1, 2, 3... threads of one node until more threads bring nothing
//! more (the bandwidth of that pair, *alone*), and by the threads of all nodes at once (each node's part
//! of it, *loaded*). Beside it the latency of an idle machine, by following pointers.
//!
//! [`Plan::new`] says what is to be measured, [`Run`] does it and asks an [`Observer`] around each
//! step, which may wait for a quieter machine or end it; what was ended can go on later. Nothing
//! outside this process is changed: threads bind themselves and their own memory.
//!
//! Unlike the rest of the house this crate reads the clock and starts threads: that is what measuring is.

#![deny(unsafe_code)]

mod arrays;
mod bound;
mod chase;
mod plan;
mod run;
#[expect(
    unsafe_code,
    reason = "two system calls that no safe function stands for; nothing else is in there"
)]
mod sys;

pub use plan::{Effort, Plan, PlanError};
pub use run::{Observer, Progress, Run, RunError, Step};
pub use sys::run_when_idle;
