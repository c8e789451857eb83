//! The settings as documents, all from the one list.

use std::fmt::Write as _;

use numad_core::{PolicyFactory, SettingSpec, SettingValue};

use crate::schema::{self, Effect, POLICY_SECTION, SECTIONS};
use crate::typed::{Config, policy_setting};

/// A section, as documents show it.
#[derive(Clone, Debug, PartialEq)]
pub struct SectionDoc {
    /// Name of the table, as in `policy.deloc`.
    pub name: String,
    /// One sentence.
    pub help: String,
    /// Its settings.
    pub settings: Vec<SettingDoc>,
}

/// A setting, as documents show it.
#[derive(Clone, Debug, PartialEq)]
pub struct SettingDoc {
    /// Name within its section.
    pub name: &'static str,
    /// Type and bounds in words.
    pub expects: String,
    /// Default, as typed in the settings file.
    pub default: String,
    /// When a change takes effect.
    pub effect: Effect,
    /// One sentence.
    pub help: &'static str,
}

/// Every setting, those of policies included.
#[must_use]
pub fn documented() -> Vec<SectionDoc> {
    let fixed = SECTIONS.iter().map(|section| SectionDoc {
        name: section.name.to_owned(),
        help: section.help.to_owned(),
        settings: section
            .entries
            .iter()
            .map(|entry| setting_doc(&entry.spec, entry.rule.words(), entry.effect))
            .collect(),
    });
    let of_policies = schema::policies().iter().map(|policy| SectionDoc {
        name: format!("{POLICY_SECTION}.{}", policy.name),
        help: policy.summary.to_owned(),
        settings: policy
            .settings
            .iter()
            .map(|spec| setting_doc(spec, "", Effect::NextAttach))
            .collect(),
    });
    fixed.chain(of_policies).collect()
}

fn setting_doc(spec: &SettingSpec, rule: &str, effect: Effect) -> SettingDoc {
    SettingDoc {
        name: spec.name,
        expects: format!("{}{rule}", spec.expectation()),
        default: as_typed(&spec.default_value()),
        effect,
        help: spec.help,
    }
}

/// The default settings file: every setting with its help, commented out at its default. Prose is
/// behind `# `, settings are behind `#` alone, so that one keystroke brings one to life.
#[must_use]
pub fn render_default() -> String {
    let mut text = String::from(
        "# Settings of numad; every one is shown at its default. Files in numad.toml.d/*.toml are\n\
         # read after this one. `numadctl config check` checks them, `numadctl reload` takes them.\n",
    );
    for section in documented() {
        let empty = section.settings.is_empty();
        if !empty {
            text.push('\n');
            push_comment(&mut text, &section.help);
            push(&mut text, format_args!("[{}]\n", section.name));
        }
        for setting in &section.settings {
            text.push('\n');
            push_comment(&mut text, setting.help);
            let expects = format!(
                "Expects {}; takes effect {}.",
                setting.expects,
                setting.effect.words()
            );
            push_comment(&mut text, &expects);
            push(
                &mut text,
                format_args!("#{} = {}\n", setting.name, setting.default),
            );
        }
    }
    text
}

/// The page of all settings, `docs/config.md`.
#[must_use]
pub fn render_markdown() -> String {
    let mut text = String::from(
        "<!-- Made by `cargo xtask gen` from crates/config; change it there. -->\n\
         # Settings\n\n\
         numad reads `/etc/numad/numad.toml`, then `/etc/numad/numad.toml.d/*.toml` by name; a later file\n\
         wins, setting by setting, and an absent one is no error. `numad --config FILE` names another\n\
         file (its drop-ins are in `FILE.d`) or a directory that holds `numad.toml`, which must be there.\n\n\
         Unknown settings, wrong types and values out of bounds are errors that name file, line and the\n\
         nearest known name; `numadctl config check` finds them without a daemon, and those of settings that\n\
         do not go together once each is right by itself. `numadctl reload` or SIGHUP takes changed files;\n\
         when they are wrong, the settings stay as they are.\n\n\
         Settings of `[engine]` and `[evidence]` that take effect for programs attached after a reload can also\n\
         be given for one program, by their full names, and those of its policy by their short ones: `numadctl\n\
         attach PID --policy deloc --set engine.hold_ms=0 --set refine=false`.\n",
    );
    for section in documented() {
        push(
            &mut text,
            format_args!("\n## `[{}]`\n\n{}\n", section.name, section.help),
        );
        if section.settings.is_empty() {
            text.push_str("\nIt has no settings.\n");
            continue;
        }
        text.push_str("\n| setting | expects | default | changes take effect | meaning |\n");
        text.push_str("| --- | --- | --- | --- | --- |\n");
        for setting in &section.settings {
            push(
                &mut text,
                format_args!(
                    "| `{}` | {} | `{}` | {} | {} |\n",
                    setting.name,
                    cell(&setting.expects),
                    cell(&setting.default),
                    setting.effect.words(),
                    cell(setting.help)
                ),
            );
        }
    }
    text
}

/// Settings in force, as a settings file that gives the same settings when it is read.
#[must_use]
pub fn render_effective(config: &Config) -> String {
    let mut text = String::new();
    for section in SECTIONS {
        push(&mut text, format_args!("[{}]\n", section.name));
        for entry in section.entries {
            let full = format!("{}.{}", section.name, entry.spec.name);
            push_value(&mut text, config, &entry.spec, &full);
        }
        text.push('\n');
    }
    for policy in schema::policies() {
        push_policy(&mut text, config, policy);
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

fn push_policy(text: &mut String, config: &Config, policy: &PolicyFactory) {
    if policy.settings.is_empty() {
        return;
    }
    push(text, format_args!("[{POLICY_SECTION}.{}]\n", policy.name));
    for spec in policy.settings {
        push_value(text, config, spec, &policy_setting(policy.name, spec));
    }
    text.push('\n');
}

fn push_value(text: &mut String, config: &Config, spec: &SettingSpec, full: &str) {
    let value = config
        .value(full)
        .cloned()
        .unwrap_or_else(|| spec.default_value());
    push(text, format_args!("{} = {}\n", spec.name, as_typed(&value)));
}

/// A value as TOML writes it.
fn as_typed(value: &SettingValue) -> String {
    let typed = match value {
        SettingValue::Bool(value) => toml::Value::Boolean(*value),
        SettingValue::Integer(value) => toml::Value::Integer(*value),
        SettingValue::Float(value) => toml::Value::Float(*value),
        SettingValue::Text(value) => toml::Value::String(value.clone()),
    };
    typed.to_string()
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Width of comments in the default file.
const COMMENT_WIDTH: usize = 100;

fn push_comment(text: &mut String, prose: &str) {
    let mut line = String::from("#");
    for word in prose.split_whitespace() {
        if line.len() + 1 + word.len() > COMMENT_WIDTH {
            push(text, format_args!("{line}\n"));
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    push(text, format_args!("{line}\n"));
}

fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments)
        .expect("writing to a string does not fail");
}
