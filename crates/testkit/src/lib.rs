//! For tests alone: made-up programs, and the jury that every policy faces.
//!
//! [`Scene`] builds what a policy sees, by hand or at random from a seed; [`jury::judge`] asks one
//! policy everything that every policy must get right. [`tree`] unpacks machines that are kept as one
//! text each. [`docs`] finds the command lines that documents show.

#![forbid(unsafe_code)]

mod dice;
pub mod docs;
pub mod jury;
mod machines;
mod mapping;
mod random;
mod scene;
pub mod tree;

pub use dice::Dice;
pub use machines::{Shape, machine};
pub use mapping::mapping_cost;
pub use scene::Scene;
