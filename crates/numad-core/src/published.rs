//! Methods as their papers have them.
//!
//! A policy of ours is a method with rules above it: moves must pay, rest on samples, agree with the window before,
//! and stay a while. [`Method::Published`] switches all of that off and takes the method from its paper, with the
//! paper's interval, constants and matrix. What is left are refusals: of what is impossible, forbidden, or beyond the
//! administrator's limits (`task_moves_max`, `page_moves_max`, `headroom`).

use std::time::Duration;

use crate::engine::{AttachOptions, Bind};
use crate::interval::IntervalLaw;
use crate::policy::{Policy, PolicyFactory};
use crate::setting::{Settings, SettingsError};

/// Whose rules hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// The policy and the engine as they are.
    #[default]
    Ours,
    /// The method as its paper has it, and no rule above it.
    Published,
}

/// A policy, or the setting that it refuses.
pub type Made = Result<Box<dyn Policy>, SettingsError>;

/// A policy's method as its paper has it.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    /// Which paper.
    pub paper: &'static str,
    /// Its interval.
    pub interval: IntervalLaw,
    /// Where on a node threads go.
    pub bind: Bind,
    /// Settings of the policy that it takes; of all others there is nothing in the paper.
    pub takes: &'static [&'static str],
    /// Makes it.
    pub build: fn(&Settings, u64) -> Made,
}

/// Makes a policy, or the method of its paper.
///
/// # Errors
/// When the policy is of no paper, or a setting has no part in what was published, or the policy refuses its settings.
pub fn build(factory: &PolicyFactory, settings: &Settings, seed: u64, method: Method) -> Made {
    if method == Method::Ours {
        return (factory.build)(settings, seed);
    }
    let Some(published) = factory.published else {
        let reason = format!("is `published`, but `{}` is of no paper", factory.name);
        return Err(SettingsError::new(METHOD, reason));
    };
    for (name, value) in settings.iter() {
        let spec = factory.settings.iter().find(|spec| spec.name == name);
        let is_default = spec.is_some_and(|spec| *value == spec.default_value());
        if !is_default && !published.takes.contains(&name) {
            let reason = "has no part in the method as published; leave it out";
            return Err(SettingsError::new(name, reason));
        }
    }
    (published.build)(settings, seed)
}

/// What the engine does around a policy, or around the method of its paper.
#[must_use]
pub fn around(factory: &PolicyFactory, options: &AttachOptions) -> AttachOptions {
    match factory.published {
        Some(published) if options.method == Method::Published => AttachOptions {
            interval: published.interval,
            bind: published.bind,
            busy_min: 0.0,
            samples_min: 0,
            lost_max: 1.0,
            hold: Duration::ZERO,
            require_gain: false,
            by_blocks: false,
            ..options.clone()
        },
        _ => AttachOptions {
            require_gain: factory.seeks_gain,
            ..options.clone()
        },
    }
}

/// Ends the name of a policy whose method is to be taken as published, as in `lapt+published`.
pub const SUFFIX: &str = "+published";

/// Name of the setting that asks for it.
pub const METHOD: &str = "engine.method";
