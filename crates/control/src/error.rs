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
}

impl ErrorKind {
    /// Every kind, in the order of exit codes.
    pub const ALL: [Self; 9] = [
        Self::Internal,
        Self::Usage,
        Self::Configuration,
        Self::Prerequisite,
        Self::NotPermitted,
        Self::NotFound,
        Self::Conflict,
        Self::Kernel,
        Self::Busy,
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
            message: message.into(),
            remedy: String::new(),
        }
    }

    /// The same, with what to do now.
    #[must_use]
    pub fn remedy(self, remedy: impl Into<String>) -> Self {
        Self {
            remedy: remedy.into(),
            ..self
        }
    }
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
