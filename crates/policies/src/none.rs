//! Does nothing: the contestant that every other policy is measured against.

use numad_core::{Policy, PolicyFactory, Program, Proposal, Time};

/// Makes the policy `none`.
pub(crate) static NONE: PolicyFactory = PolicyFactory {
    name: "none",
    summary: "Watches and changes nothing: what every other policy is compared with.",
    settings: &[],
    seeks_gain: true,
    goes_by_order: false,
    published: None,
    build: |_, _| Ok(Box::new(Nothing)),
};

/// A policy that wants nothing.
#[derive(Debug)]
pub(crate) struct Nothing;

impl Policy for Nothing {
    fn propose(&mut self, _now: Time, _program: &Program<'_>, _out: &mut Vec<Proposal>) {}
}
