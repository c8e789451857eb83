//! Where samples come from.
//!
//! A [`Source`] delivers [`numad_core::Record`]s: accesses that were seen, threads coming and going,
//! and how much was lost. [`Pebs`], [`Ibs`] and [`Spe`] read what processors of Intel, AMD and Arm sample
//! by themselves; [`Faults`] reads the kernel's page-fault event on every processor and needs no
//! hardware counters; [`Feed`] reads what another program samples; [`Replay`] reads a [`recording`].
//!
//! From the kernel to a record it goes: [`ring`] (the memory shared with the kernel; the only
//! `unsafe` code here) → [`decode`] (bytes to values; total, fuzzed) → [`filter`] (only attached
//! programs pass) → the caller. Nothing on that way allocates per sample.
//!
//! What the kernel offers to sample and count with is read by [`pmu`].
//!
//! This crate reads no clock: whoever needs the time is told it. It changes nothing on the machine,
//! with one exception that belongs to sampling, described in [`provoke`].

#![deny(unsafe_code)]

pub mod attr;
pub mod checksum;
pub mod choose;
pub mod counters;
pub mod data_source;
pub mod decode;
pub mod faults;
pub mod feed;
pub mod filter;
pub mod ibs;
pub mod kernel;
pub mod law;
pub mod live;
mod lively;
pub mod machine;
pub mod memory;
pub mod open;
pub mod pebs;
pub mod perf_data;
pub mod pmu;
mod processor;
pub mod provoke;
pub mod rate;
pub mod recording;
pub mod replay;
#[expect(unsafe_code, reason = "the ring is memory shared with the kernel")]
pub mod ring;
pub mod source;
pub mod spe;
pub mod survey;

pub use faults::{FaultOptions, Faults};
pub use feed::{Feed, FeedError};
pub use ibs::Ibs;
pub use law::ClearOptions;
pub use live::Range;
pub use lively::Lively;
pub use memory::MemoryOptions;
pub use open::{OpenError, Refused};
pub use pebs::Pebs;
pub use provoke::{Provocation, ProvokeMode};
pub use rate::{RateChange, Why};
pub use recording::{Header, RecordingError, RecordingReader, RecordingWriter};
pub use replay::Replay;
pub use source::{
    AttachRefused, Coverage, Covers, Drained, Losses, RateStatus, Source, SourceStatus, Spending,
};
pub use spe::Spe;

/// Says why a test did nothing.
#[cfg(test)]
fn skipped(why: &str) {
    println!("skipped: {why}");
}
