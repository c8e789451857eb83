//! Every setting of the daemon, defined once: name, type, bounds, default, help, and when a change
//! takes effect. From the one list in [`schema`] come the reader, the commented default file,
//! `docs/config.md`, the manual page and what `numadctl config show` prints.
//!
//! Two steps. [`load()`] reads `numad.toml` and its drop-ins and checks everything that text alone
//! can tell: it opens these files and makes no other system call. What a valid [`Config`] means on
//! this machine (does the group exist, can perf events be opened) is the daemon's to find out.
//!
//! Settings of policies are not listed here: they come from the registry of policies.

#![forbid(unsafe_code)]

mod differ;
mod error;
mod load;
mod read;
mod render;
pub mod schema;
mod typed;

pub use differ::Difference;
pub use error::{ConfigError, Problem};
pub use load::{Loaded, Paths, check_bytes, load};
/// The known name nearest to a typed one; for those who report wrong names to people.
pub use numad_core::setting::nearest;
pub use render::{
    SectionDoc, SettingDoc, documented, render_default, render_effective, render_markdown,
};
pub use schema::Effect;
pub use typed::{
    Access, Config, Daemon, Engine, Evidence, External, IntervalKind, Limits, LogLevel, Overhead,
    Provoke, Sampling, SourceChoice, Users,
};

/// The settings file read unless another is named.
pub const FILE_DEFAULT: &str = "/etc/numad/numad.toml";

#[cfg(test)]
mod tests;
