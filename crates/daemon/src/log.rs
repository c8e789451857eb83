//! Lines on standard error, for people and for the system log.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// An operator must act.
    Error,
    /// Something is degraded.
    Warn,
    /// A rare change of state.
    Info,
    /// Everything else.
    Debug,
}

impl Level {
    const ALL: [Self; 4] = [Self::Error, Self::Warn, Self::Info, Self::Debug];

    /// The level of this name, as in the settings.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }

    /// Its name, as in the settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }

    const fn rank(self) -> u8 {
        match self {
            Self::Error => 0,
            Self::Warn => 1,
            Self::Info => 2,
            Self::Debug => 3,
        }
    }

    /// What systemd reads from the start of a line (`sd-daemon(3)`).
    const fn syslog_prefix(self) -> &'static str {
        match self {
            Self::Error => "<3>",
            Self::Warn => "<4>",
            Self::Info => "<6>",
            Self::Debug => "<7>",
        }
    }
}

/// Writes lines up to a level. Copies share the level.
#[derive(Clone, Debug)]
pub struct Log {
    most: Arc<AtomicU8>,
    prefixed: bool,
}

impl Log {
    /// A log that writes lines up to `level`; with syslog prefixes when standard error is the
    /// system journal, which says so in `JOURNAL_STREAM`.
    #[must_use]
    pub fn to_stderr(level: Level) -> Self {
        Self {
            most: Arc::new(AtomicU8::new(level.rank())),
            prefixed: std::env::var_os("JOURNAL_STREAM").is_some(),
        }
    }

    /// From now on lines up to this level.
    pub fn set_level(&self, level: Level) {
        self.most.store(level.rank(), Ordering::Relaxed);
    }

    /// Whether a line of this level would be written.
    #[must_use]
    pub fn wants(&self, level: Level) -> bool {
        level.rank() <= self.most.load(Ordering::Relaxed)
    }

    /// An operator must act.
    pub fn error(&self, line: fmt::Arguments<'_>) {
        self.write(Level::Error, line);
    }

    /// Something is degraded.
    pub fn warn(&self, line: fmt::Arguments<'_>) {
        self.write(Level::Warn, line);
    }

    /// A rare change of state.
    pub fn info(&self, line: fmt::Arguments<'_>) {
        self.write(Level::Info, line);
    }

    /// Everything else.
    pub fn debug(&self, line: fmt::Arguments<'_>) {
        self.write(Level::Debug, line);
    }

    fn write(&self, level: Level, line: fmt::Arguments<'_>) {
        if !self.wants(level) {
            return;
        }
        let text = render(level, self.prefixed, line);
        // Nobody is left to tell when standard error is gone, and the daemon must go on.
        drop(io::stderr().lock().write_all(text.as_bytes()));
    }
}

/// One line, whatever is in the text: names of processes may hold line breaks.
fn render(level: Level, prefixed: bool, line: fmt::Arguments<'_>) -> String {
    let mut text = if prefixed {
        level.syslog_prefix().to_owned()
    } else {
        format!("numad: {}: ", level.name())
    };
    for character in line.to_string().chars() {
        if character.is_control() {
            text.push('\u{fffd}');
        } else {
            text.push(character);
        }
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(level: Level, prefixed: bool, line: &str, expected: &str) {
        assert_eq!(render(level, prefixed, format_args!("{line}")), expected);
    }

    #[test]
    fn a_line_is_one_line() {
        check(
            Level::Error,
            true,
            "a\nb\u{1b}[m",
            "<3>a\u{fffd}b\u{fffd}[m\n",
        );
        check(Level::Info, false, "serving", "numad: info: serving\n");
    }

    #[test]
    fn copies_share_the_level() {
        let log = Log::to_stderr(Level::Warn);
        let copy = log.clone();
        assert!(copy.wants(Level::Error) && !copy.wants(Level::Info));
        log.set_level(Level::named("debug").unwrap());
        assert!(copy.wants(Level::Debug));
        assert_eq!(Level::named("loud"), None);
    }
}
