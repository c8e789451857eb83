//! The only crate that changes the machine, and the journal that puts it back.
//!
//! [`Live`] carries out the engine's actions. Before each change the original is written to the
//! [`Journal`]; [`Live::undo`] puts originals back, in the same run or at the next start after
//! `kill -9`. System calls go through the trait [`Kernel`] ([`Linux`] is the real one), and what must
//! be known of processes comes through the trait [`Census`], which the caller implements on `procfs`.
//!
//! Deliberately absent: deciding what to change, reading `/proc`, the clock (an argument of
//! [`Live::new`]), and `migrate_pages`, which blocks for minutes (docs/decisions/0011).

#![deny(unsafe_code)]

mod affinity;
mod asker;
mod balancing;
mod bounded;
mod census;
#[cfg(test)]
mod chaos;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod fake;
#[cfg(test)]
mod faults;
mod held;
mod heritage;
pub mod journal;
mod kernel;
mod large;
mod live;
#[cfg(test)]
mod live_tests;
mod moves;
#[cfg(test)]
mod moves_tests;
mod pacer;
mod pagemap;
#[cfg(test)]
mod privileged;
mod refusal;
mod residency;
#[expect(
    unsafe_code,
    reason = "affinity masks above 1,024 processors, move_pages, pidfd_open and tgkill are not in nix"
)]
mod sys;
mod undo;

pub use affinity::{Kind, Origin};
pub use asker::{ASKING_MAX, Asker, Bound, LeftAlone, Owner, QUESTION, Unanswered};
pub use balancing::Balancing;
pub use bounded::Bounded;
pub use census::{Census, Seen};
pub use journal::rows::ProcessKey;
pub use journal::{Durability, Journal, JournalLimits, OpenError, WriteError};
pub use kernel::{
    Errno, Kernel, Linux, Mask, MoveCall, QueryCall, give_back_blocks_from, set_own_nice,
    thread_processor_time,
};
pub use large::are_large;
pub use live::Live;
pub use pacer::Pacer;
pub use residency::{PageStatus, residency};
pub use undo::{Breathe, Scope, UndoReport};
