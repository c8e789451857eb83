//! The live parts: this machine's `/proc` and `/sys`, its sources of samples, its journal.

mod census;
mod findings;
mod hand;
mod look;
mod maps;
mod opener;
mod ranks;
mod rows;
mod sharing;

pub use hand::LiveHand;
pub use look::{Look, Residency};
pub use opener::LiveOpener;
pub(crate) use rows::Rows;
