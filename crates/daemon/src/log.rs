//! Lines on standard error, for people and for the system log.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use control::changes_display;

use crate::subordinate::Subordinates;

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

/// Writes lines up to a level. Copies share the level, and the count of lines that users cause.
#[derive(Clone)]
pub struct Log {
    most: Arc<AtomicU8>,
    prefixed: bool,
    caused: Arc<Mutex<BTreeMap<u32, Caused>>>,
    subordinates: Arc<Mutex<Subordinates>>,
    out: Arc<Mutex<dyn Write + Send>>,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("most", &self.most)
            .finish_non_exhaustive()
    }
}

/// Lines that one user causes in a minute; what is more is counted and told once.
const CAUSED_MAX: u32 = 30;
/// That minute.
const CAUSED_TIME: Duration = Duration::from_secs(60);
/// Users that are counted; when there are more, those whose minute is over are forgotten.
const CAUSED_USERS_MAX: usize = 256;

/// Lines that one user has caused since a moment.
#[derive(Clone, Copy, Debug)]
struct Caused {
    since: Instant,
    count: u32,
}

impl Log {
    /// A log that writes lines up to `level`; with syslog prefixes when standard error is the
    /// system journal, which says so in `JOURNAL_STREAM`.
    #[must_use]
    pub fn to_stderr(level: Level) -> Self {
        let prefixed = std::env::var_os("JOURNAL_STREAM").is_some();
        Self::to(level, prefixed, Arc::new(Mutex::new(io::stderr())))
    }

    /// A log that writes lines up to `level` there.
    pub(crate) fn to(level: Level, prefixed: bool, out: Arc<Mutex<dyn Write + Send>>) -> Self {
        Self {
            most: Arc::new(AtomicU8::new(level.rank())),
            prefixed,
            caused: Arc::default(),
            subordinates: Arc::default(),
            out,
        }
    }

    /// From now on lines up to this level.
    pub fn set_level(&self, level: Level) {
        self.most.store(level.rank(), Ordering::Relaxed);
    }

    /// From now on lines of a user count to the one that pays for it.
    pub fn count_by(&self, subordinates: Subordinates) {
        let known = self.subordinates.lock();
        *known.unwrap_or_else(PoisonError::into_inner) = subordinates;
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

    /// As [`Self::info`], of something that a user caused; none for admins. One user cannot fill the
    /// log.
    pub fn info_by(&self, user: Option<u32>, line: fmt::Arguments<'_>) {
        self.write_by(Level::Info, user, line);
    }

    /// As [`Self::warn`], of something that a user caused; counted together with [`Self::info_by`].
    pub fn warn_by(&self, user: Option<u32>, line: fmt::Arguments<'_>) {
        self.write_by(Level::Warn, user, line);
    }

    fn write_by(&self, level: Level, user: Option<u32>, line: fmt::Arguments<'_>) {
        let Some(user) = user else {
            return self.write(level, line);
        };
        // What is not written anyway takes no place.
        if !self.wants(level) {
            return;
        }
        let subordinates = self.subordinates.lock();
        let user = subordinates
            .unwrap_or_else(PoisonError::into_inner)
            .payer(user);
        let (may, left_out) = self.may_cause(user, Instant::now());
        if left_out > 0 {
            self.info(format_args!(
                "{left_out} more lines about user {user} were left out"
            ));
        }
        if may {
            self.write(level, line);
        }
    }

    /// Whether a user may cause one more line, and how many were left out in a minute that is over.
    fn may_cause(&self, user: u32, now: Instant) -> (bool, u32) {
        let mut caused = self.caused.lock().unwrap_or_else(PoisonError::into_inner);
        if caused.len() >= CAUSED_USERS_MAX && !caused.contains_key(&user) {
            caused.retain(|_, caused| now.duration_since(caused.since) < CAUSED_TIME);
        }
        let fresh = Caused {
            since: now,
            count: 0,
        };
        let known = caused.entry(user).or_insert(fresh);
        let mut left_out = 0;
        if now.duration_since(known.since) >= CAUSED_TIME {
            left_out = known.count.saturating_sub(CAUSED_MAX);
            *known = fresh;
        }
        known.count = known.count.saturating_add(1);
        (known.count <= CAUSED_MAX, left_out)
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
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        drop(out.write_all(text.as_bytes()));
    }
}

/// One line, whatever is in the text: names of processes may hold line breaks, and marks of
/// direction with which a terminal shows another line than was written.
fn render(level: Level, prefixed: bool, line: fmt::Arguments<'_>) -> String {
    let mut text = if prefixed {
        level.syslog_prefix().to_owned()
    } else {
        format!("numad: {}: ", level.name())
    };
    for character in line.to_string().chars() {
        if changes_display(character) {
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
        check(
            Level::Info,
            true,
            "a\u{202e}b\u{61c}c\u{2028}d",
            "<6>a\u{fffd}b\u{fffd}c\u{fffd}d\n",
        );
        check(Level::Info, false, "serving", "numad: info: serving\n");
    }

    #[test]
    fn one_user_causes_so_many_lines_a_minute() {
        let log = Log::to_stderr(Level::Error);
        let mut now = Instant::now();
        let said = (0..1000).filter(|_| log.may_cause(7, now).0).count();
        assert_eq!(said, 30);
        assert_eq!(log.may_cause(8, now), (true, 0));
        now += CAUSED_TIME;
        assert_eq!(log.may_cause(7, now), (true, 970));
        assert_eq!(log.may_cause(7, now), (true, 0));
        for user in 1000..3000 {
            log.may_cause(user, now);
            now += CAUSED_TIME;
        }
        assert!(log.caused.lock().unwrap().len() <= CAUSED_USERS_MAX + 1);
    }

    #[test]
    fn lines_count_to_the_user_that_pays() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let log = Log::to(Level::Info, false, written.clone());
        log.count_by(Subordinates::parse("7:100000:65536"));
        for user in 100_000..100_100 {
            log.info_by(Some(user), format_args!("a line"));
            log.warn_by(Some(7), format_args!("a line"));
        }
        let lines = written
            .lock()
            .unwrap()
            .iter()
            .filter(|&&byte| byte == b'\n')
            .count();
        assert_eq!(lines, 30);
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
