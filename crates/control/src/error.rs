//! The error that every request may end in, and the exit codes that it becomes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What kind of failure; decides the HTTP status and the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// A mistake of ours.
    Internal,
    /// The request or command line makes no sense.
    Usage,
    /// The settings make no sense.
    Configuration,
    /// Something needed is missing: the daemon, a kernel feature, a permission of the daemon.
    Prerequisite,
    /// The caller may not do this.
    NotPermitted,
    /// There is no such process, attachment, policy or unit.
    NotFound,
    /// It is so already, or contradicts what is so.
    Conflict,
    /// The kernel refused.
    Kernel,
    /// A limit is reached; try again later.
    Busy,
    /// A program of the user that was run failed: a command under comparison, a metric.
    Program,
}

impl ErrorKind {
    /// Every kind, in the order of exit codes.
    pub const ALL: [Self; 10] = [
        Self::Internal,
        Self::Usage,
        Self::Configuration,
        Self::Prerequisite,
        Self::NotPermitted,
        Self::NotFound,
        Self::Conflict,
        Self::Kernel,
        Self::Busy,
        Self::Program,
    ];

    /// The exit code of a command that ends in it.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Internal => 1,
            Self::Usage => 2,
            Self::Configuration => 3,
            Self::Prerequisite => 4,
            Self::NotPermitted => 5,
            Self::NotFound => 6,
            Self::Conflict => 7,
            Self::Kernel => 8,
            Self::Busy => 9,
            Self::Program => 10,
        }
    }

    /// The HTTP status of a request that ends in it.
    #[must_use]
    pub const fn http_status(self) -> u16 {
        match self {
            Self::Internal => 500,
            Self::Usage => 400,
            Self::Configuration => 422,
            Self::Prerequisite => 424,
            Self::NotPermitted => 403,
            Self::NotFound => 404,
            Self::Conflict => 409,
            Self::Kernel => 502,
            Self::Busy => 503,
            Self::Program => 412,
        }
    }

    /// Characters of a message: settings files may have many mistakes, everything else has one.
    const fn message_max(self) -> usize {
        match self {
            Self::Configuration => 16_384,
            _ => 1_024,
        }
    }

    /// One sentence for the table of exit codes.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Internal => "a mistake in numad itself",
            Self::Usage => "the command line or request makes no sense",
            Self::Configuration => "a setting or settings file is wrong",
            Self::Prerequisite => {
                "the daemon, a kernel feature or a permission of the daemon is missing"
            }
            Self::NotPermitted => "you may not do this",
            Self::NotFound => "no such process, attachment, policy, unit or file",
            Self::Conflict => "it is so already, or contradicts what is so",
            Self::Kernel => "the kernel refused",
            Self::Busy => "a limit is reached; try again later",
            Self::Program => "a program that numadctl ran for you, or a metric's command, failed",
        }
    }
}

/// What failed, on what, and what to do now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What kind.
    pub kind: ErrorKind,
    /// What failed, with the object in back-ticks; lower case, no full stop.
    pub message: String,
    /// What to do now; empty when there is nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}

impl Failure {
    /// A failure without a remedy.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: shown(&message.into(), kind),
            remedy: String::new(),
        }
    }

    /// The same, with what to do now.
    #[must_use]
    pub fn remedy(self, remedy: impl Into<String>) -> Self {
        Self {
            remedy: shown(&remedy.into(), self.kind),
            ..self
        }
    }
}

/// Text of others may stand in it: escaped where it would change what a terminal shows, and cut. Mistakes in settings have
/// a line each.
fn shown(text: &str, kind: ErrorKind) -> String {
    let most = kind.message_max();
    let lines = kind == ErrorKind::Configuration;
    let mut line = String::with_capacity(text.len().min(most));
    for (count, character) in text.chars().enumerate() {
        if count == most {
            line.push_str("...");
            break;
        }
        let a_line = lines && character == '\n';
        if changes_display(character) && !a_line {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

/// Whether a terminal shows what comes after it in another way: control characters, marks of the
/// direction of writing, and separators of lines and paragraphs.
#[must_use]
pub fn changes_display(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// One line.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if self.remedy.is_empty() {
            Ok(())
        } else {
            write!(f, "; {}", self.remedy)
        }
    }
}

impl std::error::Error for Failure {}

/// The body of every response that is not a success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// The failure.
    pub error: Failure,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_is_cut_and_escaped() {
        let long = Failure::new(ErrorKind::Usage, "x".repeat(60_000)).remedy("y".repeat(60_000));
        assert!(long.to_string().len() < 2_100);
        let told = Failure::new(ErrorKind::Usage, "`a\n\u{1b}[2J\u{202e}b\u{61c}\u{7f}`");
        let told = told.to_string();
        assert_eq!(told, "`a\\n\\u{1b}[2J\\u{202e}b\\u{61c}\\u{7f}`");
    }
}
