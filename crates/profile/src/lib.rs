//! What the tasks of a program communicate and when (`DeLocProf`).
//!
//! Values in, values out: accesses and messages go into [`sharing`] and [`timeline`], [`build`] makes a
//! [`control::profile::Profile`] of them, with the metrics of [`metrics`]. [`monitoring`] and [`table`] read texts that
//! others wrote. Nothing here reads a file or a clock.

#![forbid(unsafe_code)]

pub mod build;
pub mod metrics;
pub mod monitoring;
pub mod sharing;
pub mod table;
pub mod timeline;

/// One task communicated with another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, in nanoseconds of any clock.
    pub at_ns: u64,
    /// Position of the writer or sender.
    pub from: u32,
    /// Position of the reader or receiver.
    pub to: u32,
    /// How much.
    pub bytes: u64,
}
