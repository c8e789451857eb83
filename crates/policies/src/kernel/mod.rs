//! Mapping kernels: which task belongs on which node, given who talks to whom.
//!
//! Pure functions over a matrix ([`Edges`]), distances and capacities ([`Problem`]); policies and
//! offline tools call them. All minimise
//!
//! ```text
//! cost = sum over pairs of tasks: amount * (d(node, other node) + d(other node, node)) / 2
//! ```
//!
//! with every capacity kept. What a task says has no direction here, so an asymmetric table of
//! distances counts with the mean of both ways.
//!
//! | function | method |
//! | --- | --- |
//! | [`map`] | the one to use: halving of tasks and machine together, on several scales, then search |
//! | [`treematch()`] | groups of tasks from the leaves of the machine up |
//! | [`drb`] | dual recursive bipartitioning by Fiduccia-Mattheyses with terminal bias |
//! | [`kl()`] | recursive Kernighan-Lin |
//! | [`refine`] | swaps and moves from a given mapping until none helps |
//!
//! ```
//! use policies::kernel::{Edges, Effort, Problem, Workspace, map};
//!
//! let edges = Edges::from_pairs(4, &[(0, 3, 10), (1, 2, 10), (0, 1, 1)]);
//! let problem = Problem::new(&edges, &[10, 20, 20, 10], &[2, 2])?;
//! let mut workspace = Workspace::default();
//! let mapping = map(&problem, Effort::ONLINE, &mut workspace);
//! assert_eq!(mapping[0], mapping[3]);
//! # Ok::<(), String>(())
//! ```
//!
//! The same input gives the same answer, always: nothing here reads a clock, and the budget of an
//! [`Effort`] counts steps. Tasks are put into an order that depends only on who talks to whom (by
//! colour refinement) before anything is decided; so numbering the tasks differently changes the
//! answer only where tasks cannot be told apart by their communication, and then by which of them goes
//! where. Between equals the lower position wins.
//!
//! [`map`] and [`refine`] start from the current mapping where there is one; the other methods
//! begin from nothing.
//!
//! A [`Workspace`] that is kept makes [`map`], [`drb`] and [`refine`] free of allocation: on the
//! same machine, a problem that was mapped before is mapped again without any, and a new one with
//! no more than what it is larger by. A machine is looked at once; that allocates, as the methods
//! for plans do.

mod attempt;
mod bisect;
mod communities;
mod exact;
mod few;
mod fm;
mod graph;
mod halve;
mod halves;
mod heaps;
mod kicks;
mod kl;
mod layout;
mod machine;
mod order;
mod problem;
mod regroup;
mod search;
mod sparsify;
mod table;
mod treematch;
mod warm;

pub(crate) use graph::Dice;
pub use graph::Edges;
pub use kl::kl;
pub use problem::{Effort, Problem};
pub use search::{Workspace, drb, map, refine};
pub use treematch::treematch;

/// A kernel that begins from nothing: [`map`], [`treematch()`], [`drb`] or [`kl()`]. Gives the node
/// of each task, as a position in the capacities.
pub type Kernel = for<'w> fn(&Problem<'_>, Effort, &'w mut Workspace) -> &'w [u16];

#[cfg(test)]
mod tests;
