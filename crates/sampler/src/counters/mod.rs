//! Optional counts beside the samples: how fast programs get on, and what memory and links carry.
//!
//! Everything here may be absent, each with a reason: a virtual machine has no counters, someone else may
//! hold them, we may not open them, descriptors run out. Sampling and attachments go on without.
//!
//! - [`ProgramCounters`]: processor time, instructions, cycles, faults and switches of one program.
//! - [`MachineCounters`]: bandwidth of memory, its queues, traffic of links, energy, as [`Plan`] finds them.
//! - [`FedCounters`]: what another program counts instead.
//! - [`reading`]: what a counter says, scaled for the time that it had to wait for its turn.

#[cfg(test)]
pub(crate) mod fake;
mod fed;
pub mod machine;
mod open;
pub mod plan;
mod program;
pub mod reading;

pub use fed::FedCounters;
pub use machine::{MachineCounters, MachineRates, MemoryRate};
pub use open::{
    Counter, CounterOpener, CounterRefused, CounterSpec, EventCode, KernelCounters, Whom,
};
pub use plan::{Domain, Flow, Gauge, Lack, Plan, Planned};
pub use program::{ATTEMPTS, Beginning, ProgramCounters, ProgramCounts, QUANTITIES, Quantity};
pub use reading::{Counted, Reading};
