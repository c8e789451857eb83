//! One file per policy, and the registry.
//!
//! Adding a policy is one file and one line (docs/adding-a-policy.md has an example): write a
//! [`PolicyFactory`] and its [`Policy`] in a file of its own, and name both under `policies!`
//! below. From then on the daemon, the command line and the simulator know it, the tests of this
//! crate bring it before `testkit::jury`, and they fail until `docs/policies.md` has its page. The
//! other modules (`seats`, `matrix_choice`, `deloc_map`, `data_mapping`, `board`, `rounds`,
//! `clusters` and others) hold a method that several policies share.
//!
//! Nothing here reads a clock, a file or the environment, and nothing iterates in hash order: the
//! same calls give the same proposals.
//!
//! [`Policy`]: numad_core::Policy

#![forbid(unsafe_code)]

mod amounts;
mod board;
mod candidates;
pub mod clusters;
mod data_mapping;
mod deloc_map;
mod even;
mod figures;
mod gather;
mod history;
pub mod kernel;
mod matrix_choice;
pub mod offline;
mod page_choice;
mod published;
mod rounds;
mod seats;
mod stay;

use numad_core::setting::hint;
use numad_core::{Policy, PolicyFactory};

/// Declares the file of each policy as a module, and lists what makes it.
macro_rules! policies {
    ($($visibility:vis $file:ident::$FACTORY:ident,)+) => {
        $($visibility mod $file;)+

        static POLICIES: &[&PolicyFactory] = &[$(&$file::$FACTORY),+];
    };
}

policies! {
    none::NONE,
    linux::LINUX,
    packed::PACKED,
    scatter::SCATTER,
    random::RANDOM,
    interleave::INTERLEAVE,
    fixed::FIXED,
    balance::BALANCE,
    locality::LOCALITY,
    deloc::DELOC,
    lapt::LAPT,
    rclb::RCLB,
    data_only::DATA_ONLY,
    pub ptb::PTB,
    cdsm::CDSM,
    azimi::AZIMI,
    autopin::AUTOPIN,
    auto::AUTO,
}

/// Every policy there is, in the order in which they are listed to people.
#[must_use]
pub fn registry() -> &'static [&'static PolicyFactory] {
    POLICIES
}

/// The policy of this name.
///
/// # Errors
/// Names the nearest known one, or all of them.
pub fn find(name: &str) -> Result<&'static PolicyFactory, String> {
    let known = registry().iter().find(|factory| factory.name == name);
    let names = registry().iter().map(|factory| factory.name);
    known
        .copied()
        .ok_or_else(|| format!("there is no policy `{name}`; {}", hint(name, names)))
}

/// Where methods as published and the policies made of them differ, a line each: the policy (`*` for
/// all), in what, as published, by default, and why, with `|` between.
pub const DIFFERENCES: &str = include_str!("published/differences.txt");

/// Who maps threads to the caches within a node: by who shares memory with whom alone, without
/// pages and without memory of its own.
#[must_use]
pub fn within_nodes() -> Box<dyn Policy> {
    Box::new(gather::Gather::threads_alone())
}

#[cfg(test)]
mod tests;
