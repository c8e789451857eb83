//! What is remembered of the samples: who used which page, who talks to whom. Bounded, and without
//! an allocation per sample.

pub(crate) mod bits;
pub(crate) mod comm;
pub(crate) mod forest;
pub(crate) mod index;
pub(crate) mod pages;
pub(crate) mod paper;
pub(crate) mod runs;
pub(crate) mod seats;
pub(crate) mod shares;
pub(crate) mod spaces;
pub(crate) mod talk;
pub(crate) mod tasks;

/// A small number under which a thread stands in the tables of one program.
///
/// Given when a thread is first sampled, given back when it ends or takes no part any more, and
/// given to another thread only after every table was cleaned of it.
pub(crate) type Seat = u16;
