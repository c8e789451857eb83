//! What a counter says, and what it says of the time between two readings.

/// Bytes of one reading: value, time enabled, time running (`PERF_FORMAT_TOTAL_TIME_ENABLED` and
/// `PERF_FORMAT_TOTAL_TIME_RUNNING`, no group).
pub const READING_BYTES: usize = 24;

/// A counter as it was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Events counted while it was running.
    pub value: u64,
    /// How long it was asked to count, in nanoseconds; of all tasks that it counts, added up.
    pub enabled_ns: u64,
    /// How long it did. Less when more counters are wanted than the hardware has, which gives each
    /// its turn.
    pub running_ns: u64,
}

impl Reading {
    /// Reads what the kernel wrote; none when that is not one reading. The kernel writes nothing for
    /// a counter that failed.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; READING_BYTES] = bytes.try_into().ok()?;
        let mut words = bytes.chunks_exact(8).map(|word| {
            let mut number = [0; 8];
            number.copy_from_slice(word);
            u64::from_ne_bytes(number)
        });
        Some(Self {
            value: words.next()?,
            enabled_ns: words.next()?,
            running_ns: words.next()?,
        })
    }

    /// What was counted since an earlier reading of the same counter; none when that makes no sense.
    ///
    /// A number that is smaller than before belongs to a counter that was set back (a driver that was
    /// loaded anew, a machine that slept): there is no telling what it missed, so nothing is told. The
    /// kernel extends what the hardware counts to 64 bits, so that none wraps in a lifetime.
    #[must_use]
    pub fn since(self, earlier: Self) -> Option<Counted> {
        Some(Counted {
            value: self.value.checked_sub(earlier.value)?,
            enabled_ns: self.enabled_ns.checked_sub(earlier.enabled_ns)?,
            running_ns: self.running_ns.checked_sub(earlier.running_ns)?,
        })
    }
}

/// What a counter counted in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Events counted while it was running.
    pub value: u64,
    /// How long it was asked to count, in nanoseconds.
    pub enabled_ns: u64,
    /// How long it did.
    pub running_ns: u64,
}

impl Counted {
    /// The events there were, taken to come as often while the counter waited for its turn as while
    /// it ran; none when it never ran though it was asked to, for then nothing is known. A task that did
    /// not run is not counted and did nothing: 0.
    #[must_use]
    pub fn scaled(self) -> Option<f64> {
        if self.running_ns == 0 {
            return (self.enabled_ns == 0).then_some(0.0);
        }
        // Some drivers let `running` run ahead of `enabled` by a few nanoseconds.
        let factor = (self.enabled_ns as f64 / self.running_ns as f64).max(1.0);
        Some(self.value as f64 * factor)
    }

    /// Share of the time that it ran, 0 to 1; 1 where it was not asked to.
    #[must_use]
    pub fn coverage(self) -> f64 {
        if self.enabled_ns == 0 {
            return 1.0;
        }
        (self.running_ns as f64 / self.enabled_ns as f64).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counted(value: u64, enabled_ns: u64, running_ns: u64) -> Counted {
        Counted {
            value,
            enabled_ns,
            running_ns,
        }
    }

    #[track_caller]
    fn check(counted: Counted, expected: Option<f64>) {
        match (counted.scaled(), expected) {
            (Some(found), Some(expected)) => {
                assert!(
                    (found - expected).abs() <= 1e-9 * expected,
                    "{counted:?}: {found}"
                );
            }
            (found, expected) => assert_eq!(found, expected, "{counted:?}"),
        }
    }

    #[test]
    fn a_counter_that_took_turns_is_scaled() {
        check(counted(1000, 500, 500), Some(1000.0));
        check(counted(1000, 500, 250), Some(2000.0));
        check(counted(7, 300, 100), Some(21.0));
        check(counted(1000, 500, 501), Some(1000.0));
        check(counted(0, 500, 500), Some(0.0));
        check(counted(0, 0, 0), Some(0.0));
        check(counted(0, 500, 0), None);
        assert!((counted(0, 400, 100).coverage() - 0.25).abs() < 1e-12);
        assert!((counted(0, 0, 0).coverage() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn one_that_went_back_tells_nothing() {
        let of = |value, enabled_ns, running_ns| Reading {
            value,
            enabled_ns,
            running_ns,
        };
        let before = of(100, 50, 50);
        assert_eq!(of(130, 70, 60).since(before), Some(counted(30, 20, 10)));
        for after in [of(99, 70, 60), of(130, 49, 60), of(130, 70, 49)] {
            assert_eq!(after.since(before), None);
        }
        assert_eq!(before.since(before), Some(Counted::default()));
    }

    #[test]
    fn only_one_whole_reading_is_read() {
        let mut bytes: Vec<u8> = [1_u64, 2, 3]
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        let whole = Reading {
            value: 1,
            enabled_ns: 2,
            running_ns: 3,
        };
        assert_eq!(Reading::parse(&bytes), Some(whole));
        bytes.push(0);
        assert_eq!(Reading::parse(&bytes), None);
        for length in 0..READING_BYTES {
            assert_eq!(Reading::parse(&bytes[..length]), None);
        }
    }

    proptest! {
        #[test]
        fn scaling_is_finite_and_never_less_than_what_was_counted(
            value: u64, enabled: u64, running: u64
        ) {
            if let Some(scaled) = counted(value, enabled, running).scaled() {
                prop_assert!(scaled.is_finite() && (running == 0 || scaled >= value as f64));
            }
        }
    }
}
