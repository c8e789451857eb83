//! What a setting is: defined once, read from a file or the command line, documented from the same
//! definition.

use std::collections::BTreeMap;
use std::fmt;

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct SettingSpec {
    /// Name as typed, lower case with underscores, unit last.
    pub name: &'static str,
    /// Type, bounds and default.
    pub kind: SettingKind,
    /// One sentence, starting with a capital, ending in a full stop.
    pub help: &'static str,
}

/// Type, bounds and default of a setting. Bounds are least and most, both inclusive; the default,
/// which is the value when none is given, comes last.
#[derive(Clone, Copy, Debug)]
pub enum SettingKind {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer((i64, i64), i64),
    /// A number.
    Float((f64, f64), f64),
    /// One of a few words.
    Choice(&'static [&'static str], &'static str),
    /// Any text. A number is taken for the text that it is written as.
    Text(&'static str),
}

/// A value of a setting.
#[derive(Clone, Debug, PartialEq)]
pub enum SettingValue {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A number.
    Float(f64),
    /// A word or text.
    Text(String),
}

impl fmt::Display for SettingValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::Integer(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
            Self::Text(value) => value.fmt(f),
        }
    }
}

/// Why a value is not taken.
#[derive(Clone, Debug, PartialEq)]
pub struct SettingsError {
    /// The setting.
    pub name: String,
    /// What is wrong, and what would be right.
    pub reason: String,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "setting `{}` {}", self.name, self.reason)
    }
}

impl std::error::Error for SettingsError {}

impl SettingsError {
    /// The setting of this name is not taken, for this reason.
    pub fn new(name: &str, reason: impl Into<String>) -> Self {
        let (name, reason) = (name.to_owned(), reason.into());
        Self { name, reason }
    }
}

/// A full set of values for a list of settings: every one has a value within its bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    values: BTreeMap<&'static str, SettingValue>,
}

impl SettingSpec {
    /// The default as a value.
    #[must_use]
    pub fn default_value(&self) -> SettingValue {
        match self.kind {
            SettingKind::Bool(default) => SettingValue::Bool(default),
            SettingKind::Integer(_, default) => SettingValue::Integer(default),
            SettingKind::Float(_, default) => SettingValue::Float(default),
            SettingKind::Choice(_, default) | SettingKind::Text(default) => {
                SettingValue::Text(default.to_owned())
            }
        }
    }

    /// Whether a value is of the right type and within bounds; a whole number is taken for a number.
    ///
    /// # Errors
    /// Says what would be right.
    pub fn check(&self, value: SettingValue) -> Result<SettingValue, SettingsError> {
        let value = match (self.kind, value) {
            (SettingKind::Float(..), SettingValue::Integer(whole)) => {
                SettingValue::Float(whole as f64)
            }
            (SettingKind::Text(_), value @ (SettingValue::Integer(_) | SettingValue::Float(_))) => {
                SettingValue::Text(value.to_string())
            }
            (_, value) => value,
        };
        let fits = match (self.kind, &value) {
            (SettingKind::Bool(_), SettingValue::Bool(_))
            | (SettingKind::Text(_), SettingValue::Text(_)) => true,
            (SettingKind::Integer((min, max), _), SettingValue::Integer(number)) => {
                (min..=max).contains(number)
            }
            (SettingKind::Float((min, max), _), SettingValue::Float(number)) => {
                (min..=max).contains(number)
            }
            (SettingKind::Choice(of, _), SettingValue::Text(word)) => of.contains(&word.as_str()),
            _ => false,
        };
        if fits {
            return Ok(value);
        }
        let reason = format!("is `{value}`, must be {}", self.expectation());
        Err(SettingsError::new(self.name, reason))
    }

    /// Reads a value from text, as typed after `--set name=`.
    ///
    /// # Errors
    /// Says what would be right.
    pub fn parse(&self, text: &str) -> Result<SettingValue, SettingsError> {
        let value = match self.kind {
            SettingKind::Bool(_) => text.parse().ok().map(SettingValue::Bool),
            SettingKind::Integer(..) => text.parse().ok().map(SettingValue::Integer),
            SettingKind::Float(..) => text.parse().ok().map(SettingValue::Float),
            SettingKind::Choice(..) | SettingKind::Text(_) => None,
        };
        self.check(value.unwrap_or_else(|| SettingValue::Text(text.to_owned())))
    }

    /// Type and bounds in words, as in `a whole number from 1 to 8`.
    #[must_use]
    pub fn expectation(&self) -> String {
        match self.kind {
            SettingKind::Bool(_) => "true or false".to_owned(),
            SettingKind::Integer((min, max), _) => format!("a whole number from {min} to {max}"),
            SettingKind::Float((min, max), _) => format!("a number from {min} to {max}"),
            SettingKind::Choice(of, _) => format!("one of {}", of.join(", ")),
            SettingKind::Text(_) => "a text".to_owned(),
        }
    }
}

impl Settings {
    /// Every setting at its default.
    #[must_use]
    pub fn defaults(specs: &[SettingSpec]) -> Self {
        Self {
            values: specs
                .iter()
                .map(|spec| (spec.name, spec.default_value()))
                .collect(),
        }
    }

    /// Defaults, with these values in place of some.
    ///
    /// # Errors
    /// Names an unknown setting and the nearest known one, or says why a value is not taken.
    pub fn with(
        specs: &[SettingSpec],
        given: impl IntoIterator<Item = (String, SettingValue)>,
    ) -> Result<Self, SettingsError> {
        let mut settings = Self::defaults(specs);
        for (name, value) in given {
            let spec = find(specs, &name)?;
            settings.values.insert(spec.name, spec.check(value)?);
        }
        Ok(settings)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &SettingValue)> {
        self.values.iter().map(|(&name, value)| (name, value))
    }

    /// The value of a setting that is `true` or `false`.
    ///
    /// # Panics
    /// As all four readers do: when there is no such setting or it is of another type. The one who
    /// asks has written the list of settings, so that is a mistake of ours.
    #[must_use]
    pub fn bool(&self, name: &str) -> bool {
        match self.values.get(name) {
            Some(SettingValue::Bool(value)) => *value,
            other => panic!("setting `{name}` is not a bool but {other:?}"),
        }
    }

    /// The value of a whole number.
    ///
    /// # Panics
    /// As [`Self::bool`].
    #[must_use]
    pub fn integer(&self, name: &str) -> i64 {
        match self.values.get(name) {
            Some(SettingValue::Integer(value)) => *value,
            other => panic!("setting `{name}` is not a whole number but {other:?}"),
        }
    }

    /// The value of a number.
    ///
    /// # Panics
    /// As [`Self::bool`].
    #[must_use]
    pub fn float(&self, name: &str) -> f64 {
        match self.values.get(name) {
            Some(SettingValue::Float(value)) => *value,
            other => panic!("setting `{name}` is not a number but {other:?}"),
        }
    }

    /// The value of a choice or text.
    ///
    /// # Panics
    /// As [`Self::bool`].
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        match self.values.get(name) {
            Some(SettingValue::Text(value)) => value,
            other => panic!("setting `{name}` is not a text but {other:?}"),
        }
    }
}

/// The setting of this name.
///
/// # Errors
/// Names the nearest known one.
pub fn find<'a>(specs: &'a [SettingSpec], name: &str) -> Result<&'a SettingSpec, SettingsError> {
    specs.iter().find(|spec| spec.name == name).ok_or_else(|| {
        let hint = match specs {
            [] => "there are no settings here".to_owned(),
            _ => hint(name, specs.iter().map(|spec| spec.name)),
        };
        SettingsError::new(name, format!("is not known; {hint}"))
    })
}

/// What to write instead of a name that is not known: the one that is near, or any of all.
#[must_use]
pub fn hint<'a>(typed: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    match nearest(typed, known.clone()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("there are {}", known.collect::<Vec<_>>().join(", ")),
    }
}

/// The known name nearest to what was typed, if it is near enough to be meant.
#[must_use]
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (typed.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|name| (edit_distance(typed, name), name))
        .filter(|&(distance, _)| distance <= limit)
        .min()
        .map(|(_, name)| name)
}

/// Insertions, deletions and replacements that turn one text into the other (Levenshtein).
fn edit_distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (above, left) in one.chars().zip(1..) {
        let mut diagonal = std::mem::replace(&mut row[0], left);
        for (index, &right) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(above != right);
            diagonal = row[index + 1];
            row[index + 1] = replaced.min(diagonal + 1).min(row[index] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPECS: &[SettingSpec] = &[
        SettingSpec {
            name: "vector",
            kind: SettingKind::Integer((1, 4), 4),
            help: "How many.",
        },
        SettingSpec {
            name: "factor",
            kind: SettingKind::Float((1.0, 9.0), 2.0),
            help: "How much.",
        },
        SettingSpec {
            name: "order",
            kind: SettingKind::Choice(&["up", "down"], "up"),
            help: "Which way.",
        },
    ];

    #[track_caller]
    fn refused(name: &str, value: SettingValue, reason: &str) {
        let error = Settings::with(SPECS, [(name.to_owned(), value)]).unwrap_err();
        assert_eq!(error.to_string(), format!("setting `{name}` {reason}"));
    }

    #[test]
    fn values_within_bounds_are_taken() {
        let given = [("factor".to_owned(), SettingValue::Integer(3))];
        let settings = Settings::with(SPECS, given).unwrap();
        assert!((settings.float("factor") - 3.0).abs() < f64::EPSILON);
        assert_eq!(
            (settings.integer("vector"), settings.text("order")),
            (4, "up")
        );
    }

    #[test]
    fn others_are_refused_with_what_would_be_right() {
        refused(
            "vector",
            SettingValue::Integer(5),
            "is `5`, must be a whole number from 1 to 4",
        );
        refused(
            "factor",
            SettingValue::Float(0.5),
            "is `0.5`, must be a number from 1 to 9",
        );
        refused(
            "order",
            SettingValue::Bool(true),
            "is `true`, must be one of up, down",
        );
        refused(
            "vektor",
            SettingValue::Integer(1),
            "is not known; did you mean `vector`?",
        );
        refused(
            "zzz",
            SettingValue::Integer(1),
            "is not known; there are vector, factor, order",
        );
    }

    #[test]
    fn text_is_read_by_the_type_of_the_setting() {
        assert_eq!(SPECS[0].parse("3"), Ok(SettingValue::Integer(3)));
        assert_eq!(
            SPECS[2].parse("down"),
            Ok(SettingValue::Text("down".to_owned()))
        );
        SPECS[0].parse("three").unwrap_err();
        SPECS[1].parse("NaN").unwrap_err();
    }
}
