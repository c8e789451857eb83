//! From the text of a settings file to checked values. Total: any text gives values or problems.

use std::collections::BTreeMap;
use std::path::Path;

use numad_core::setting::{hint, nearest};
use numad_core::{PolicyFactory, SettingSpec, SettingValue};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{ConfigError, Problem, Problems};
use crate::schema::{Entry, POLICY_SECTION, Rule, SECTIONS, Section};
use crate::typed::{Config, Values, full_name, policy_setting};

/// A value from a file, and where it stands.
#[derive(Clone, Debug)]
struct Given {
    value: SettingValue,
    file: usize,
    line: usize,
}

/// Reads settings files one after the other; later ones win.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    policies: &'a [&'static PolicyFactory],
    files: Vec<&'a Path>,
    given: BTreeMap<String, Given>,
    pub(crate) problems: Problems,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(policies: &'a [&'static PolicyFactory]) -> Self {
        Self {
            policies,
            files: Vec::new(),
            given: BTreeMap::new(),
            problems: Problems::default(),
        }
    }

    /// Reads one file's text.
    pub(crate) fn read(&mut self, path: &'a Path, text: &str) {
        self.files.push(path);
        let lines = Lines::of(text);
        let (root, errors) = DeTable::parse_recoverable(text);
        if errors.is_empty() {
            self.read_root(&root.into_inner(), &lines);
            return;
        }
        // One mistake often makes the parser stumble again on the same line; the first tells it.
        let mut last = None;
        for error in errors {
            let line = error.span().map(|span| lines.number(span.start));
            if line.is_none() || line != last {
                let text = format!("is no valid TOML: {}", error.message());
                self.problems.add(Problem::new(path, line, &text));
            }
            last = line;
        }
    }

    /// Checks what can only be checked when all files are read, and makes settings of it.
    pub(crate) fn finish(mut self) -> Result<Config, ConfigError> {
        if self.problems.is_empty() {
            self.check_together();
        }
        let mut values = Values::defaults(self.policies);
        self.problems.finish()?;
        for (name, given) in self.given {
            values.0.insert(name, given.value);
        }
        Ok(Config::from_values(values, self.policies))
    }

    fn read_root(&mut self, root: &DeTable<'_>, lines: &Lines) {
        for (key, value) in in_order(root) {
            let line = lines.number(key.span().start);
            let name = key.get_ref().as_ref();
            let section = SECTIONS.iter().find(|section| section.name == name);
            match (section, value.get_ref()) {
                (Some(section), DeValue::Table(table)) => self.read_section(section, table, lines),
                (None, DeValue::Table(table)) if name == POLICY_SECTION => {
                    self.read_policies(table, lines);
                }
                (Some(_), _) => {
                    self.problem(line, &format!("`{name}` must be a section: `[{name}]`"));
                }
                (None, _) if name == POLICY_SECTION => {
                    let text = format!("`{name}` must be sections: `[{name}.NAME]`");
                    self.problem(line, &text);
                }
                (None, DeValue::Table(_)) => self.problem(line, &self.unknown_section(name)),
                (None, _) => {
                    let hint = self.home_of(name, "");
                    let text = format!("setting `{name}` stands outside of any section{hint}");
                    self.problem(line, &text);
                }
            }
        }
    }

    fn read_section(&mut self, section: &Section, table: &DeTable<'_>, lines: &Lines) {
        for (key, value) in in_order(table) {
            let line = lines.number(key.span().start);
            let name = key.get_ref().as_ref();
            let Some(entry) = section.entries.iter().find(|entry| entry.spec.name == name) else {
                let known = section.entries.iter().map(|entry| entry.spec.name);
                self.unknown_setting(line, name, section.name, &known.collect::<Vec<_>>());
                continue;
            };
            let full = full_name(section.name, &entry.spec);
            if let Some(value) = self.take(line, &full, &entry.spec, value.get_ref()) {
                self.check_rule(line, entry, &full, &value);
                self.keep(full, line, value);
            }
        }
    }

    fn read_policies(&mut self, tables: &DeTable<'_>, lines: &Lines) {
        for (key, value) in in_order(tables) {
            let line = lines.number(key.span().start);
            let name = key.get_ref().as_ref();
            let policy = self.policies.iter().find(|policy| policy.name == name);
            match (policy, value.get_ref()) {
                (Some(policy), DeValue::Table(table)) => self.read_policy(policy, table, lines),
                (Some(_), _) => {
                    let text = format!(
                        "`{POLICY_SECTION}.{name}` must be a section: `[{POLICY_SECTION}.{name}]`"
                    );
                    self.problem(line, &text);
                }
                (None, _) => {
                    let text = self.unknown_policy(name);
                    self.problem(line, &text);
                }
            }
        }
    }

    fn read_policy(&mut self, policy: &PolicyFactory, table: &DeTable<'_>, lines: &Lines) {
        for (key, value) in in_order(table) {
            let line = lines.number(key.span().start);
            let name = key.get_ref().as_ref();
            let Some(spec) = policy.settings.iter().find(|spec| spec.name == name) else {
                let section = format!("{POLICY_SECTION}.{}", policy.name);
                let known = policy.settings.iter().map(|spec| spec.name);
                self.unknown_setting(line, name, &section, &known.collect::<Vec<_>>());
                continue;
            };
            let full = policy_setting(policy.name, spec);
            if let Some(value) = self.take(line, &full, spec, value.get_ref()) {
                self.keep(full, line, value);
            }
        }
    }

    fn take(
        &mut self,
        line: usize,
        full: &str,
        spec: &SettingSpec,
        typed: &DeValue<'_>,
    ) -> Option<SettingValue> {
        let value = match value_of(typed) {
            Ok(value) => value,
            Err(found) => {
                let text = format!(
                    "setting `{full}` is {found}, must be {}",
                    spec.expectation()
                );
                self.problem(line, &text);
                return None;
            }
        };
        let expected = spec.expectation();
        let better = match (&value, typed) {
            // As it stands between quotation marks it would be right.
            (SettingValue::Text(text), _) if spec.parse(text).is_ok() => Some(format!(
                "is the text `\"{text}\"`, must be {expected}; leave the quotation marks out"
            )),
            // Else 5.0 would be called `5`, which is a whole number.
            (_, DeValue::Float(number)) => {
                Some(format!("is `{}`, must be {expected}", number.as_str()))
            }
            _ => None,
        };
        spec.check(value)
            .map_err(|error| {
                let reason = better.unwrap_or(error.reason);
                self.problem(line, &format!("setting `{full}` {reason}"));
            })
            .ok()
    }

    fn check_rule(&mut self, line: usize, entry: &Entry, full: &str, value: &SettingValue) {
        let holds = match value {
            SettingValue::Text(text) => entry.rule.holds_for_text(text),
            SettingValue::Integer(number) => entry.rule.holds_for_integer(*number),
            SettingValue::Bool(_) | SettingValue::Float(_) => true,
        };
        if !holds {
            let expected = entry.spec.expectation();
            let text = format!(
                "setting `{full}` is `{value}`, must be {expected}{}",
                entry.rule.words()
            );
            self.problem(line, &text);
        }
        if let (Rule::PolicyName, SettingValue::Text(name)) = (entry.rule, value)
            && !self.policies.iter().any(|policy| policy.name == name)
        {
            let text = format!("setting `{full}`: {}", self.unknown_policy(name));
            self.problem(line, &text);
        }
    }

    fn check_together(&mut self) {
        let min = self.integer_in_force("engine.interval_min_ms");
        let max = self.integer_in_force("engine.interval_max_ms");
        if min > max {
            let text = format!(
                "setting `engine.interval_max_ms` is `{max}`, must not be below `engine.interval_min_ms`, which is `{min}`"
            );
            self.problem_at(&["engine.interval_max_ms", "engine.interval_min_ms"], &text);
        }
        let cooperate = "engine.balancing";
        let wanted =
            matches!(self.in_force(cooperate), SettingValue::Text(text) if text == "cooperate");
        let allowed = matches!(
            self.in_force("daemon.allow_global"),
            SettingValue::Bool(true)
        );
        if wanted && !allowed {
            let text = "setting `engine.balancing` is `cooperate`, which changes a switch of the whole machine; \
                        allow it with `daemon.allow_global = true`";
            self.problem_at(&[cooperate, "daemon.allow_global"], text);
        }
        for policy in self.policies {
            self.check_policy(policy);
        }
    }

    /// Lets the policy itself say whether its settings make sense together.
    fn check_policy(&mut self, policy: &PolicyFactory) {
        let names: Vec<String> = policy
            .settings
            .iter()
            .map(|spec| policy_setting(policy.name, spec))
            .collect();
        let given = policy
            .settings
            .iter()
            .zip(&names)
            .filter_map(|(spec, full)| {
                let given = self.given.get(full)?;
                Some((spec.name.to_owned(), given.value.clone()))
            });
        let built = numad_core::Settings::with(policy.settings, given)
            .and_then(|settings| (policy.build)(&settings, 0));
        if let Err(error) = built {
            let blamed = format!("{POLICY_SECTION}.{}.{}", policy.name, error.name);
            let text = format!("setting `{blamed}` {}", error.reason);
            let mut places = vec![blamed.as_str()];
            places.extend(names.iter().map(String::as_str));
            self.problem_at(&places, &text);
        }
    }

    fn integer_in_force(&self, full: &str) -> i64 {
        match self.in_force(full) {
            SettingValue::Integer(number) => number,
            other => panic!("setting `{full}` is not a whole number but {other:?}"),
        }
    }

    /// What is given for a setting of ours, or else its default.
    fn in_force(&self, full: &str) -> SettingValue {
        let value = self.given.get(full).map(|given| given.value.clone());
        let value = value.or_else(|| Values::defaults(&[]).0.remove(full));
        value.unwrap_or_else(|| panic!("there is no setting `{full}`"))
    }

    fn keep(&mut self, full: String, line: usize, value: SettingValue) {
        let file = self.files.len() - 1;
        self.given.insert(full, Given { value, file, line });
    }

    fn unknown_setting(&mut self, line: usize, name: &str, section: &str, known: &[&str]) {
        let hint = match nearest(name, known.iter().copied()) {
            Some(known) => format!("; did you mean `{known}`?"),
            None => match self.home_of(name, section) {
                hint if !hint.is_empty() => hint,
                _ if known.is_empty() => "; it has no settings".to_owned(),
                _ => format!("; there are {}", known.join(", ")),
            },
        };
        self.problem(
            line,
            &format!("setting `{name}` is not known in `[{section}]`{hint}"),
        );
    }

    /// `; it belongs into ...` when a setting of this name stands in another section.
    fn home_of(&self, name: &str, except: &str) -> String {
        let fixed = SECTIONS.iter().filter(|section| {
            section.name != except && section.entries.iter().any(|entry| entry.spec.name == name)
        });
        let of_policies = self
            .policies
            .iter()
            .filter(|policy| policy.settings.iter().any(|spec| spec.name == name));
        let homes: Vec<String> = fixed
            .map(|section| format!("`[{}]`", section.name))
            .chain(of_policies.map(|policy| format!("`[{POLICY_SECTION}.{}]`", policy.name)))
            .collect();
        if homes.is_empty() {
            String::new()
        } else {
            format!("; it belongs into {}", homes.join(" or "))
        }
    }

    fn unknown_section(&self, name: &str) -> String {
        let names = || {
            SECTIONS
                .iter()
                .map(|section| section.name)
                .chain([POLICY_SECTION])
        };
        if self.policies.iter().any(|policy| policy.name == name) {
            return format!(
                "section `[{name}]` is not known; did you mean `[{POLICY_SECTION}.{name}]`?"
            );
        }
        match nearest(name, names()) {
            Some(known) => format!("section `[{name}]` is not known; did you mean `[{known}]`?"),
            None => {
                let known: Vec<&str> = names().collect();
                format!(
                    "section `[{name}]` is not known; there are {}",
                    known.join(", ")
                )
            }
        }
    }

    fn unknown_policy(&self, name: &str) -> String {
        let known = self.policies.iter().map(|policy| policy.name);
        format!("policy `{name}` is not known; {}", hint(name, known))
    }

    fn problem(&mut self, line: usize, text: &str) {
        let file = self.files.last().copied().unwrap_or(Path::new(""));
        self.problems.add(Problem::new(file, Some(line), text));
    }

    /// A problem of several settings, shown where the first of them that was given stands.
    fn problem_at(&mut self, names: &[&str], text: &str) {
        let place = names.iter().find_map(|name| self.given.get(*name));
        let (file, line) = match place {
            Some(given) => (self.files[given.file], Some(given.line)),
            None => (self.files.last().copied().unwrap_or(Path::new("")), None),
        };
        self.problems.add(Problem::new(file, line, text));
    }
}

/// A table's rows in the order in which they are written, so that problems come by line.
fn in_order<'t, 'i>(
    table: &'t DeTable<'i>,
) -> Vec<(
    &'t Spanned<std::borrow::Cow<'i, str>>,
    &'t Spanned<DeValue<'i>>,
)> {
    let mut rows: Vec<_> = table.iter().collect();
    rows.sort_by_key(|(key, _)| key.span().start);
    rows
}

/// The value that is written there, or what else is.
fn value_of(typed: &DeValue<'_>) -> Result<SettingValue, String> {
    match typed {
        DeValue::String(text) => Ok(SettingValue::Text(text.clone().into_owned())),
        DeValue::Boolean(value) => Ok(SettingValue::Bool(*value)),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map(SettingValue::Integer)
            .map_err(|_too_large| format!("`{}`", number.as_str())),
        DeValue::Float(number) => number
            .as_str()
            .parse()
            .map(SettingValue::Float)
            .map_err(|_no_float| format!("`{}`", number.as_str())),
        DeValue::Datetime(_) => Err("a date".to_owned()),
        DeValue::Array(_) => Err("a list".to_owned()),
        DeValue::Table(_) => Err("a section".to_owned()),
    }
}

/// Where lines begin, to number them.
#[derive(Debug)]
struct Lines {
    starts: Vec<usize>,
}

impl Lines {
    fn of(text: &str) -> Self {
        let breaks = text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n');
        Self {
            starts: std::iter::once(0)
                .chain(breaks.map(|(at, _)| at + 1))
                .collect(),
        }
    }

    /// The line of a byte, from 1.
    fn number(&self, at: usize) -> usize {
        self.starts.partition_point(|&start| start <= at)
    }
}
