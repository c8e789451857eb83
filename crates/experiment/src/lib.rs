//! How policies are compared: the order of slices, the tests, the intervals, the verdict.
//!
//! The design is randomised blocks. Neighbouring slices of time form a block, one slice for each policy
//! (an *arm*), and coins from a printed seed decide the order within the block ([`Design`]). If a policy
//! changes nothing, only those coins decide which slice of a block belongs to which arm. So the distribution
//! of a test is known exactly, whatever drifts, waves, neighbours and heavy tails the machine adds.
//!
//! [`signed_rank`] tests and estimates, [`EProcess`] allows a look after every block, [`judge`] makes the
//! verdict, [`results`] does so for a whole file. [`Trial`] is an experiment on a running program: it gives out the
//! steps, takes what was read, and keeps the slices; the daemon carries the steps out. [`student`] and [`bootstrap`] serve
//! runs to completion. Nothing here reads a clock, a file or a random source: the same arguments give the same answer, bit for bit.
//!
//! docs/experiments.md explains the design to users, with the measured error rates.

#![forbid(unsafe_code)]

pub mod bootstrap;
mod chance;
mod conductor;
mod design;
pub mod disturbance;
mod e_process;
pub mod metric;
mod pilot;
pub mod plan;
pub mod results;
mod several;
pub mod signed_rank;
pub mod student;
mod trial;
mod verdict;

pub use chance::Chance;
pub use conductor::Step;
pub use design::{BLOCKS_MAX, Design, DesignError, Timing};
pub use disturbance::Totals;
pub use e_process::{EProcess, anytime_interval};
pub use several::holm;
pub use trial::{Left, Trial};
pub use verdict::{Ended, Judgement, Rules, Verdict, decided, futile, judge, pairs_min};

/// An interval on a line; a bound that nothing is known of is infinite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
}

impl Interval {
    /// Nothing is known.
    pub const WHOLE: Self = Self {
        low: f64::NEG_INFINITY,
        high: f64::INFINITY,
    };
}

/// The middle of sorted values; not a number when there are none.
fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted {
        [] => f64::NAN,
        _ if sorted.len() % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}
