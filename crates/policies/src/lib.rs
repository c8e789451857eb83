//! One file per policy, and the registry.
//!
//! Adding a policy is one file plus one registry line (docs/adding-a-policy.md has an example): write a [`PolicyFactory`] and its [`Policy`]
//! in a module of its own, and add the factory to the list in [`registry`]. From then on the daemon,
//! the command line and the simulator know it, the tests of this crate bring it before
//! `testkit::jury`, and they fail until `docs/policies.md` has its page. A module that two policies
//! share (`seats`, `matrix_choice`, `deloc_map`, `data_mapping`, `board`, `rounds`, `clusters` and others)
//! holds a method, not a policy.
//!
//! Nothing here reads a clock, a file or the environment, and nothing iterates in hash order: the
//! same calls give the same proposals.
//!
//! [`Policy`]: numad_core::Policy

#![forbid(unsafe_code)]

mod auto;
mod autopin;
mod azimi;
mod balance;
mod board;
mod candidates;
mod cdsm;
mod clusters;
mod data_mapping;
mod data_only;
mod deloc;
mod deloc_map;
mod even;
mod forecast;
mod gather;
mod history;
pub mod kernel;
mod lapt;
mod linux;
mod locality;
mod matrix_choice;
mod none;
mod packed;
pub mod ptb;
mod random;
mod rclb;
mod rounds;
mod scatter;
mod seats;
mod stay;

use std::fmt;

use numad_core::PolicyFactory;
use numad_core::setting::nearest;

/// Every policy there is, in the order in which they are listed to people.
#[must_use]
pub fn registry() -> &'static [&'static dyn PolicyFactory] {
    &[
        &none::None,
        &linux::Linux,
        &packed::Packed,
        &scatter::Scatter,
        &random::Random,
        &balance::Balance,
        &locality::Locality,
        &deloc::Deloc,
        &lapt::Lapt,
        &rclb::Rclb,
        &data_only::DataOnly,
        &ptb::Ptb,
        &cdsm::Cdsm,
        &azimi::Azimi,
        &autopin::Autopin,
        &auto::Auto,
    ]
}

/// The policy of this name.
///
/// # Errors
/// Names the nearest known one, or all of them.
pub fn find(name: &str) -> Result<&'static dyn PolicyFactory, UnknownPolicy> {
    let known = registry().iter().find(|factory| factory.name() == name);
    known.copied().ok_or_else(|| UnknownPolicy {
        name: name.to_owned(),
        nearest: nearest(name, registry().iter().map(|factory| factory.name())),
    })
}

/// There is no policy of this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPolicy {
    /// What was asked for.
    pub name: String,
    /// The name that was perhaps meant.
    pub nearest: Option<&'static str>,
}

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no policy `{}`; ", self.name)?;
        match self.nearest {
            Some(name) => write!(f, "did you mean `{name}`?"),
            None => {
                let names: Vec<&str> = registry().iter().map(|factory| factory.name()).collect();
                write!(f, "there are {}", names.join(", "))
            }
        }
    }
}

impl std::error::Error for UnknownPolicy {}

#[cfg(test)]
mod tests;
