//! Events as perf writes them between the slashes, and the words of an event's attribute.
//!
//! One difference to perf is on purpose. Where an alias and the one who uses it both give a term
//! (`mem-loads` holds `ldlat=3`, the user wants `ldlat=30`), perf up to at least 6.1 sets the bits of
//! both, 31; here the user's value stands alone.

use std::collections::BTreeMap;
use std::fmt;

use super::files::shown;
use super::{Format, Pmu, WORDS};

/// Longest description that is read.
pub const DESCRIPTION_BYTES_MAX: usize = 4096;

/// What perf takes between the slashes and is not part of the event, with who decides it here.
const FOREIGN_TERMS: [&str; 22] = [
    "aux-action",
    "aux-output",
    "aux-sample-size",
    "branch_type",
    "call-graph",
    "driver-config",
    "freq",
    "inherit",
    "max-events",
    "max-stack",
    "metric-id",
    "name",
    "no-inherit",
    "no-overwrite",
    "nr",
    "overwrite",
    "percore",
    "period",
    "ratio-to-prev",
    "raw",
    "stack-size",
    "time",
];

/// Terms that every source has: whole words.
const WHOLE_WORDS: [&str; WORDS] = ["config", "config1", "config2", "config3"];

/// The words of an event's attribute that say which event it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventConfig {
    /// `config`, `config1`, `config2` and `config3`.
    pub config: [u64; WORDS],
}

/// Why a description is no event of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescriptionError {
    /// The source.
    pub pmu: String,
    /// The term, or what stands where one should be.
    pub term: String,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The source has neither a term nor an event of that name.
    Unknown {
        /// The most similar that it has.
        nearest: Option<String>,
    },
    /// The value does not fit.
    TooLarge {
        /// The value.
        value: u64,
        /// The largest that fits.
        largest: u64,
    },
    /// The value is no number.
    NotANumber {
        /// What stands there.
        value: String,
    },
    /// The alias leaves the value to its user.
    WantsValue,
    /// It says how to measure, not what.
    NotOfTheEvent,
    /// It is the name of an event, where a term should be.
    NotATerm,
    /// A second alias; an event has one.
    SecondAlias,
    /// Two commas with nothing between.
    Empty,
    /// The description is longer than [`DESCRIPTION_BYTES_MAX`].
    TooLong,
}

impl fmt::Display for DescriptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (pmu, term) = (shown(&self.pmu), shown(&self.term));
        match &self.problem {
            Problem::Unknown { nearest } => {
                write!(f, "`{pmu}` has neither a term nor an event `{term}`")?;
                match nearest {
                    Some(nearest) => write!(f, "; did you mean `{}`", shown(nearest)),
                    None => Ok(()),
                }
            }
            Problem::TooLarge { value, largest } => write!(
                f,
                "`{term}={value:#x}` is too large for `{pmu}`: the largest is {largest:#x}"
            ),
            Problem::NotANumber { value } => write!(
                f,
                "`{term}={}` of `{pmu}` is not a number of 64 bits, decimal or with 0x",
                shown(value)
            ),
            Problem::WantsValue => write!(f, "`{term}` of `{pmu}` wants a value: `{term}=NUMBER`"),
            Problem::NotOfTheEvent => write!(
                f,
                "`{term}` is not part of an event of `{pmu}`: the source of samples decides it"
            ),
            Problem::NotATerm => {
                write!(
                    f,
                    "`{term}` is an event of `{pmu}`, and stands where a term should"
                )
            }
            Problem::SecondAlias => write!(f, "`{term}` is a second event of `{pmu}`; give one"),
            Problem::Empty => write!(f, "an event of `{pmu}` has an empty term after `{term}`"),
            Problem::TooLong => write!(
                f,
                "the description of an event of `{pmu}` is longer than {DESCRIPTION_BYTES_MAX} bytes"
            ),
        }
    }
}

impl std::error::Error for DescriptionError {}

/// What was said of a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Value(u64),
    /// `?`: whoever uses the alias says it.
    Wanted,
}

impl Pmu {
    /// The event that a description means, as perf takes it between the slashes: terms with values
    /// (`event=0xcd,umask=0x1`), flags without (`edge`, the same as `edge=1`), the name of an alias,
    /// or an alias and terms that take the place of its own (`mem-loads,ldlat=50`), in any order.
    ///
    /// A term that is given twice has its last value. Terms may share bits, which are then set by
    /// either. Nothing at all is the event of all zeros.
    ///
    /// # Errors
    /// Names the source and the term, in one line.
    pub fn encode(&self, description: &str) -> Result<EventConfig, DescriptionError> {
        let mut said = BTreeMap::new();
        let mut alias = None;
        let description = description.trim();
        for (name, value) in self.terms(description)? {
            match self.aliases.get(name) {
                // A term of the same name counts more: perf looks for it first.
                Some(found) if value.is_none() && self.format(name).is_none() => {
                    if alias.replace(found).is_some() {
                        return Err(self.error(name, Problem::SecondAlias));
                    }
                }
                _ => {
                    said.insert(name, self.value(name, value)?);
                }
            }
        }
        if let Some(alias) = alias {
            for (name, value) in self.terms(&alias.terms)? {
                let value = self.value(name, value)?;
                said.entry(name).or_insert(value);
            }
        }
        let mut event = EventConfig::default();
        for (name, value) in said {
            let Said::Value(value) = value else {
                return Err(self.error(name, Problem::WantsValue));
            };
            let format = self.known(name)?;
            let largest = format.largest();
            let placed = format
                .place(value)
                .ok_or_else(|| self.error(name, Problem::TooLarge { value, largest }))?;
            event.config[format.word] |= placed;
        }
        Ok(event)
    }

    /// The terms of a description: name, and value where there is one.
    fn terms<'a>(
        &self,
        description: &'a str,
    ) -> Result<Vec<(&'a str, Option<&'a str>)>, DescriptionError> {
        if description.len() > DESCRIPTION_BYTES_MAX {
            return Err(self.error("", Problem::TooLong));
        }
        if description.is_empty() {
            return Ok(Vec::new());
        }
        let mut terms: Vec<(&str, Option<&str>)> = Vec::new();
        for term in description.split(',') {
            let (name, value) = match term.split_once('=') {
                Some((name, value)) => (name.trim(), Some(value.trim())),
                None => (term.trim(), None),
            };
            if name.is_empty() {
                let before = terms.last().map_or("", |(name, _)| name);
                return Err(self.error(before, Problem::Empty));
            }
            terms.push((name, value));
        }
        Ok(terms)
    }

    fn value(&self, name: &str, value: Option<&str>) -> Result<Said, DescriptionError> {
        self.known(name)?;
        match value {
            None => Ok(Said::Value(1)),
            Some("?") => Ok(Said::Wanted),
            Some(text) => number(text).map(Said::Value).ok_or_else(|| {
                let value = text.to_owned();
                self.error(name, Problem::NotANumber { value })
            }),
        }
    }

    fn known(&self, name: &str) -> Result<Format, DescriptionError> {
        if let Some(format) = self.format(name) {
            return Ok(format);
        }
        if FOREIGN_TERMS.contains(&name) {
            return Err(self.error(name, Problem::NotOfTheEvent));
        }
        if self.aliases.contains_key(name) {
            return Err(self.error(name, Problem::NotATerm));
        }
        let nearest = self.nearest(name);
        Err(self.error(name, Problem::Unknown { nearest }))
    }

    /// The source's own formats come first: some call one of them `config`.
    fn format(&self, name: &str) -> Option<Format> {
        let whole = || {
            let word = WHOLE_WORDS.iter().position(|whole| *whole == name)?;
            Some(Format {
                word,
                mask: u64::MAX,
            })
        };
        self.formats.get(name).copied().or_else(whole)
    }

    /// The most similar name, if it is similar at all; of equally similar ones the first.
    fn nearest(&self, name: &str) -> Option<String> {
        /// Names in use are shorter; comparing costs the product of the lengths.
        const NAME_BYTES_MAX: usize = 64;
        if name.len() > NAME_BYTES_MAX {
            return None;
        }
        let names = self.formats.keys().chain(self.aliases.keys());
        let short = names.filter(|known| known.len() <= NAME_BYTES_MAX);
        let (changes, nearest) = short
            .map(|known| (distance(name, known), known))
            .min_by_key(|&(changes, _)| changes)?;
        (changes <= name.len().max(3) / 3).then(|| nearest.clone())
    }

    fn error(&self, term: &str, problem: Problem) -> DescriptionError {
        DescriptionError {
            pmu: self.name.clone(),
            term: term.to_owned(),
            problem,
        }
    }
}

fn number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    // `+1` parses as a number too.
    let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(digits, radix).ok().filter(|_| plain)
}

/// How many bytes must be changed, added or taken to make one text of the other.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (above, left) in a.bytes().enumerate() {
        let mut diagonal = above;
        row[0] = above + 1;
        for (column, right) in b.bytes().enumerate() {
            let changed = diagonal + usize::from(left != right);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[b.len()]
}

/// Reads formats and a description from one text, for the fuzzer: lines `NAME=FORMAT`, then a line
/// `-`, lines `ALIAS=TERMS`, a line `-`, and the description. What is missing is empty.
///
/// # Errors
/// As [`Pmu::encode`].
pub fn encode_text(text: &str) -> Result<EventConfig, DescriptionError> {
    let mut pmu = Pmu {
        name: "text".to_owned(),
        ..Pmu::default()
    };
    let mut lines = text.lines();
    for line in lines.by_ref().take_while(|line| *line != "-") {
        if let Some((name, format)) = line.split_once('=')
            && let Ok(format) = Format::parse(format)
        {
            pmu.formats.insert(name.to_owned(), format);
        }
    }
    for line in lines.by_ref().take_while(|line| *line != "-") {
        if let Some((name, terms)) = line.split_once('=') {
            let alias = super::Alias {
                terms: terms.to_owned(),
                ..super::Alias::default()
            };
            pmu.aliases.insert(name.to_owned(), alias);
        }
    }
    let description: Vec<&str> = lines.collect();
    pmu.encode(&description.join("\n"))
}

#[cfg(test)]
mod tests;
