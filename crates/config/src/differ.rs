//! What is different between two sets of settings, for the report of a reload.

use std::fmt;

use numad_core::SettingValue;

use crate::schema::{Effect, SECTIONS};
use crate::typed::Config;

/// A setting that has another value.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Full name, as in `engine.hold_ms`.
    pub name: String,
    /// Its value before; none when the setting was not there.
    pub old: Option<SettingValue>,
    /// Its value now; none when the setting is not there any more.
    pub new: Option<SettingValue>,
    /// When the new value takes effect.
    pub effect: Effect,
}

/// `name: old -> new`.
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<SettingValue>| {
            value
                .as_ref()
                .map_or_else(|| "absent".to_owned(), ToString::to_string)
        };
        write!(
            f,
            "{}: {} -> {}",
            self.name,
            shown(&self.old),
            shown(&self.new)
        )
    }
}

impl Config {
    /// Settings that differ, by name.
    #[must_use]
    pub fn differences(old: &Self, new: &Self) -> Vec<Difference> {
        let mut names: Vec<&str> = old
            .values()
            .chain(new.values())
            .map(|(name, _)| name)
            .collect();
        names.sort_unstable();
        names.dedup();
        names
            .into_iter()
            .filter(|name| old.value(name) != new.value(name))
            .map(|name| Difference {
                name: name.to_owned(),
                old: old.value(name).cloned(),
                new: new.value(name).cloned(),
                effect: effect_of(name),
            })
            .collect()
    }
}

/// Settings of policies are copied into an attachment when it is made.
fn effect_of(full_name: &str) -> Effect {
    SECTIONS
        .iter()
        .flat_map(|section| {
            section
                .entries
                .iter()
                .map(move |entry| (section.name, entry))
        })
        .find(|(section, entry)| {
            full_name
                .strip_prefix(section)
                .and_then(|rest| rest.strip_prefix('.'))
                == Some(entry.spec.name)
        })
        .map_or(Effect::NextAttach, |(_, entry)| entry.effect)
}
