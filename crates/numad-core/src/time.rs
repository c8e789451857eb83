//! Points in time. The engine is told them and never asks.

use std::fmt;
use std::time::Duration;

/// Nanoseconds on a clock that never goes back (`CLOCK_MONOTONIC` in the daemon, the world's own
/// clock in the simulator).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// The time that much later.
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        let wait = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(wait))
    }

    /// How long after `earlier` this is; zero if it is before, as it is when a clock jumped.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.0 / 1_000_000_000, self.0 / 1_000_000 % 1000);
        write!(f, "{seconds}.{millis:03}s")
    }
}
