//! The daemon `numad`: wiring only. What is decided is decided in `numad-core` and `policies`, what is
//! changed is changed by `actuator`.

#![forbid(unsafe_code)]

pub mod cli;
pub mod clock;
#[cfg(test)]
mod fake;
pub mod log;
pub mod notify;
pub mod peer;
#[cfg(test)]
mod scratch;
pub mod server;
pub mod socket;
pub mod steward;
