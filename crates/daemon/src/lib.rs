//! The daemon `numad`: wiring only. What is decided is decided in `numad-core` and `policies`, what is
//! changed is changed by `actuator`.
//!
//! Two threads. The server's ([`server`]) talks to clients over the socket; the engine thread
//! ([`steward`]) owns the engine, the source of samples, the host and the journal. Between them
//! there is one bounded channel of orders with replies, and no lock. Long work that needs nothing
//! of the engine is done at two desks of the server. Each external policy that runs has a thread of
//! its own ([`external`]), which nobody waits for.
//!
//! [`start`] puts it together; [`live`] holds the parts that touch this machine, behind the small
//! traits of [`steward`], so that tests put others in their place.

#![forbid(unsafe_code)]

pub mod advise;
pub mod cli;
pub mod clock;
pub mod descriptors;
pub mod external;
#[cfg(test)]
mod fake;
pub mod live;
pub mod log;
pub mod notify;
pub mod peer;
#[cfg(test)]
mod scratch;
pub mod server;
pub mod shelf;
pub mod socket;
pub mod start;
pub mod steward;
pub mod subordinate;
pub mod trusted;
