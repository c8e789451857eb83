//! What makes a policy, as a table.

use numad_core::published::Made;
use numad_core::{
    Policy, PolicyFactory, Published, SettingKind, SettingSpec, Settings, SettingsError,
};

/// Makes policies of one kind; see [`PolicyFactory`] for what each entry says.
#[derive(Debug)]
pub struct Factory {
    /// The name people type.
    pub name: &'static str,
    /// What it does and when it helps.
    pub summary: &'static str,
    /// Its settings.
    pub settings: &'static [SettingSpec],
    /// Whether it is after a gain.
    pub seeks_gain: bool,
    /// Whether it goes by the order of tasks.
    pub goes_by_order: bool,
    /// The method as its paper has it.
    pub published: Option<&'static Published>,
    /// Makes one, of settings and a seed.
    pub build: fn(&Settings, u64) -> Made,
}

/// A setting that is a share.
pub(crate) const fn share(default: f64) -> SettingKind {
    SettingKind::Float((0.0, 1.0), default)
}

impl PolicyFactory for Factory {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn settings(&self) -> &'static [SettingSpec] {
        self.settings
    }

    fn seeks_gain(&self) -> bool {
        self.seeks_gain
    }

    fn published(&self) -> Option<&'static Published> {
        self.published
    }

    fn goes_by_order(&self) -> bool {
        self.goes_by_order
    }

    fn build(&self, settings: &Settings, seed: u64) -> Result<Box<dyn Policy>, SettingsError> {
        (self.build)(settings, seed)
    }
}
