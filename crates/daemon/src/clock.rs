//! The one clock of the daemon: the same that stamps samples.

use nix::time::{ClockId, clock_gettime};
use numad_core::Time;

/// Tells what time it is. The daemon has [`monotonic`]; tests have their own.
pub type Clock = Box<dyn Fn() -> Time + Send>;

/// Nanoseconds of `CLOCK_MONOTONIC`, which the kernel also stamps samples with.
///
/// Zero if the kernel refused, which it does not do for this clock; every difference is then zero
/// and nothing becomes due, so the daemon would do nothing rather than something wrong.
#[must_use]
pub fn monotonic() -> Time {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Time(0), |now| {
        let seconds = u64::try_from(now.tv_sec()).unwrap_or(0);
        let nanoseconds = u64::try_from(now.tv_nsec()).unwrap_or(0);
        Time(
            seconds
                .saturating_mul(1_000_000_000)
                .saturating_add(nanoseconds),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_goes_back() {
        let first = monotonic();
        assert!(first > Time(0));
        assert!(monotonic() >= first);
    }
}
