//! From the processor's timer to the kernel's clock, and from that to the daemon's.

use std::sync::atomic::Ordering;

use numad_core::Time;

use crate::ring::Ring;

/// How the kernel makes nanoseconds of its timer, as the header page of a ring says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conversion {
    zero: u64,
    mult: u32,
    shift: u16,
    /// Where the timer's count is short and overflows: a count, and the bits that there are.
    short: Option<(u64, u64)>,
}

impl Conversion {
    /// Reads it; none if the kernel does not say, or rewrites it all the time.
    pub(crate) fn read(ring: &Ring) -> Option<Self> {
        let number = |offset: usize| ring.word(offset).load(Ordering::Acquire);
        for _ in 0..TRIES_MAX {
            // The kernel makes this odd, writes, and makes it even again.
            let before = number(LOCK);
            let capabilities = number(CAPABILITIES);
            let scale = number(SCALE).to_ne_bytes();
            let zero = number(TIME_ZERO);
            let (cycles, mask) = (number(TIME_CYCLES), number(TIME_MASK));
            if number(LOCK) != before || first_half(before) % 2 == 1 {
                continue;
            }
            if capabilities & CAN_ZERO == 0 {
                return None;
            }
            let [_, _, s0, s1, m0, m1, m2, m3] = scale;
            return Some(Self {
                zero,
                mult: u32::from_ne_bytes([m0, m1, m2, m3]),
                shift: u16::from_ne_bytes([s0, s1]).min(63),
                short: (capabilities & CAN_SHORT != 0).then_some((cycles, mask)),
            });
        }
        None
    }

    /// When the timer showed this count, in nanoseconds of the kernel's clock of events.
    #[inline]
    pub(crate) const fn nanoseconds(&self, count: u64) -> u64 {
        let count = match self.short {
            Some((cycles, mask)) => cycles.wrapping_add(count.wrapping_sub(cycles) & mask),
            None => count,
        };
        let mult = self.mult as u64;
        let whole = (count >> self.shift).wrapping_mul(mult);
        let rest = (count & ((1 << self.shift) - 1)).wrapping_mul(mult) >> self.shift;
        self.zero.wrapping_add(whole).wrapping_add(rest)
    }
}

fn first_half(word: u64) -> u32 {
    let [a, b, c, d, ..] = word.to_ne_bytes();
    u32::from_ne_bytes([a, b, c, d])
}

/// From the kernel's clock of events to the daemon's.
///
/// The two go at the same pace but for corrections of the daemon's, and nothing tells how far they are
/// apart. But whatever was written before we look is not younger than now, so now less the youngest
/// time seen is never too small, and the smallest of many is nearly right: on a busy machine something
/// is written some microseconds before we look. Times are only compared with each other and with
/// windows of a tenth of a second and more, for which milliseconds would do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shift {
    /// The smallest distance of this term and of the one before.
    smallest: [Option<u64>; 2],
    /// When this term began.
    since: Option<Time>,
}

impl Shift {
    /// Takes note that a record of this time was found now.
    pub(crate) fn learn(&mut self, now: Time, youngest: u64) {
        if self.since.is_none_or(|since| now.since(since) >= TERM) {
            self.smallest = [None, self.smallest[0]];
            self.since = Some(now);
        }
        let distance = now.0.wrapping_sub(youngest);
        let smallest = self.smallest[0].get_or_insert(distance);
        // The distance is a difference of clocks and may be negative.
        if distance.wrapping_sub(*smallest).cast_signed() < 0 {
            *smallest = distance;
        }
    }

    /// What is to be added; none if nothing was learned yet.
    pub(crate) fn known(&self) -> Option<u64> {
        match self.smallest {
            [Some(now), Some(before)] if now.wrapping_sub(before).cast_signed() < 0 => Some(now),
            [_, Some(before)] => Some(before),
            [now, None] => now,
        }
    }
}

/// A clock that is corrected runs at most half a thousandth faster or slower, so what is learned in
/// one term is wrong by five milliseconds at its end, and in practice by microseconds.
const TERM: std::time::Duration = std::time::Duration::from_secs(10);

/// Readings of the header before it is given up; the kernel writes it within a microsecond.
const TRIES_MAX: usize = 64;

// Offsets in `struct perf_event_mmap_page`.
pub(super) const LOCK: usize = 8;
pub(super) const CAPABILITIES: usize = 40;
/// `pmc_width`, `time_shift` and `time_mult`, 16, 16 and 32 bits.
pub(super) const SCALE: usize = 48;
pub(super) const TIME_ZERO: usize = 64;
pub(super) const TIME_CYCLES: usize = 80;
pub(super) const TIME_MASK: usize = 88;

/// `cap_user_time_zero`.
pub(super) const CAN_ZERO: u64 = 1 << 4;
/// `cap_user_time_short`.
pub(super) const CAN_SHORT: u64 = 1 << 5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::fake::FakeKernel;

    fn scale(shift: u16, mult: u32) -> u64 {
        let mut bytes = [0; 8];
        bytes[2..4].copy_from_slice(&shift.to_ne_bytes());
        bytes[4..].copy_from_slice(&mult.to_ne_bytes());
        u64::from_ne_bytes(bytes)
    }

    #[test]
    fn the_header_page_says_how_counts_become_times() {
        let (ring, kernel) = FakeKernel::new(1, 0).unwrap();
        assert_eq!(Conversion::read(&ring), None, "no capability");
        // A timer of 25 MHz, as on Neoverse servers: 40 ns a count.
        kernel.set_word(CAPABILITIES, CAN_ZERO | 1 << 3);
        kernel.set_word(SCALE, scale(24, 40 << 24));
        kernel.set_word(TIME_ZERO, 1_000_000);
        let conversion = Conversion::read(&ring).unwrap();
        assert_eq!(conversion.nanoseconds(0), 1_000_000);
        assert_eq!(
            conversion.nanoseconds(44_731_163_950),
            1_000_000 + 44_731_163_950 * 40
        );
        kernel.set_word(LOCK, u64::from_ne_bytes([1, 0, 0, 0, 0, 0, 0, 0]));
        assert_eq!(Conversion::read(&ring), None, "being written for ever");
    }

    #[test]
    fn a_short_timer_is_prolonged() {
        let (ring, kernel) = FakeKernel::new(1, 0).unwrap();
        kernel.set_word(CAPABILITIES, CAN_ZERO | CAN_SHORT);
        kernel.set_word(SCALE, scale(1, 3)); // 1.5 ns
        kernel.set_word(TIME_CYCLES, 0xf_ff00);
        kernel.set_word(TIME_MASK, 0xffff);
        let conversion = Conversion::read(&ring).unwrap();
        assert_eq!(conversion.nanoseconds(0xff10), 0xf_ff10 / 2 * 3);
        assert_eq!(conversion.nanoseconds(0x0011), 0x10_0011 / 2 * 3 + 1);
    }

    #[test]
    fn the_distance_of_clocks_is_the_smallest_seen_of_late() {
        let mut shift = Shift::default();
        assert_eq!(shift.known(), None);
        shift.learn(Time(1_000), 5_000);
        assert_eq!(shift.known(), Some(0u64.wrapping_sub(4_000)));
        shift.learn(Time(2_000), 6_100);
        assert_eq!(shift.known(), Some(0u64.wrapping_sub(4_100)));
        shift.learn(Time(3_000), 6_900);
        assert_eq!(shift.known(), Some(0u64.wrapping_sub(4_100)));
        // Two terms later, what was seen then is forgotten.
        let second = 1_000_000_000;
        shift.learn(Time(11 * second), 11 * second + 3_800);
        assert_eq!(shift.known(), Some(0u64.wrapping_sub(4_100)));
        shift.learn(Time(22 * second), 22 * second + 3_700);
        assert_eq!(shift.known(), Some(0u64.wrapping_sub(3_800)));
    }
}
