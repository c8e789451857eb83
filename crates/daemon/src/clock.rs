//! The one clock of the daemon: the same that stamps samples.

use std::time::Duration;

pub use actuator::thread_processor_time;
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
    Time(nanoseconds(ClockId::CLOCK_MONOTONIC))
}

/// Processor time of all threads of this process so far. In nanoseconds, where `/proc` counts in
/// hundredths of a second: a budget of a per cent is a few of those a second.
#[must_use]
pub fn own_processor_time() -> Duration {
    Duration::from_nanos(nanoseconds(ClockId::CLOCK_PROCESS_CPUTIME_ID))
}

fn nanoseconds(clock: ClockId) -> u64 {
    clock_gettime(clock).map_or(0, |now| {
        let seconds = u64::try_from(now.tv_sec()).unwrap_or(0);
        let nanoseconds = u64::try_from(now.tv_nsec()).unwrap_or(0);
        seconds
            .saturating_mul(1_000_000_000)
            .saturating_add(nanoseconds)
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
        let used = own_processor_time();
        assert!(used > Duration::ZERO && own_processor_time() >= used);
        let ours = thread_processor_time();
        assert!(ours > Duration::ZERO && own_processor_time() >= ours);
    }
}
