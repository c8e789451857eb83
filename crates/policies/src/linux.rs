//! Leaves placement to the kernel.
//!
//! As `none` it proposes nothing; it differs in what it says about the run. `none` is the program as
//! it is, whatever the kernel does. `linux` is the kernel's own NUMA balancing as contestant, and means
//! something only where that is on. A policy changes programs, never the machine: this one does not
//! write `kernel.numa_balancing`, the administrator does.

use numad_core::{
    Policy, PolicyFactory, Program, Proposal, SettingSpec, Settings, SettingsError, Time,
};

/// Makes the policy `linux`, and is it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Linux;

impl PolicyFactory for Linux {
    fn name(&self) -> &'static str {
        "linux"
    }

    fn summary(&self) -> &'static str {
        "Leaves placement to the kernel's own balancing (kernel.numa_balancing, which it does not switch on)."
    }

    fn settings(&self) -> &'static [SettingSpec] {
        &[]
    }

    fn build(&self, _settings: &Settings, _seed: u64) -> Result<Box<dyn Policy>, SettingsError> {
        Ok(Box::new(*self))
    }
}

impl Policy for Linux {
    fn propose(&mut self, _now: Time, _program: &Program<'_>, _out: &mut Vec<Proposal>) {}
}
