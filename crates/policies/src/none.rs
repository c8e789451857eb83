//! Does nothing: the contestant that every other policy is measured against.

use numad_core::{
    Policy, PolicyFactory, Program, Proposal, SettingSpec, Settings, SettingsError, Time,
};

/// Makes the policy `none`, and is it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct None;

impl PolicyFactory for None {
    fn name(&self) -> &'static str {
        "none"
    }

    fn summary(&self) -> &'static str {
        "Watches and changes nothing: what every other policy is compared with."
    }

    fn settings(&self) -> &'static [SettingSpec] {
        &[]
    }

    fn build(&self, _settings: &Settings, _seed: u64) -> Result<Box<dyn Policy>, SettingsError> {
        Ok(Box::new(*self))
    }
}

impl Policy for None {
    fn propose(&mut self, _now: Time, _program: &Program<'_>, _out: &mut Vec<Proposal>) {}
}
