//! How long something that moved stays where it is.

use std::time::Duration;

use crate::time::Time;

/// What is remembered of the moves of one thread or page.
///
/// After each move it stays for `hold`. Coming back to a node it was on before is a strike, and each
/// strike doubles the stay: what goes back and forth is soon left alone. A strike is forgiven for every
/// [`FORGIVE`] holds that it stayed put.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stay {
    /// When it may move.
    pub until: Time,
    /// When it moved last, or could not be moved.
    pub last: Time,
    strikes: u8,
    /// Nodes it was on, by position. Positions from 64 on share bits, which at worst makes a stay
    /// longer on machines of more nodes than any that is known.
    visited: u64,
}

/// Holds that it takes to be forgiven one strike.
const FORGIVE: u32 = 16;
/// Doublings that are kept: a thousand holds.
const STRIKES_MAX: u8 = 10;

impl Stay {
    /// Whether it may move.
    pub(crate) fn is_over(&self, now: Time) -> bool {
        now >= self.until
    }

    /// It moved.
    pub(crate) fn moved(&mut self, now: Time, from: Option<usize>, to: usize, hold: Duration) {
        self.forgive(now, hold);
        let bit = |node: usize| 1u64 << (node % 64);
        if self.visited & bit(to) != 0 {
            self.strikes = (self.strikes + 1).min(STRIKES_MAX);
        }
        self.visited |= bit(to) | from.map_or(0, bit);
        self.rest(now, hold);
    }

    /// It could not be moved: it is left alone as long as after a return, each time longer.
    pub(crate) fn refused(&mut self, now: Time, hold: Duration) {
        self.forgive(now, hold);
        self.strikes = (self.strikes + 1).min(STRIKES_MAX);
        self.rest(now, hold);
    }

    fn rest(&mut self, now: Time, hold: Duration) {
        self.last = now;
        self.until = now.after(hold.saturating_mul(1 << self.strikes));
    }

    fn forgive(&mut self, now: Time, hold: Duration) {
        let step = hold.saturating_mul(FORGIVE).as_nanos().max(1);
        let steps = now.since(self.last).as_nanos() / step;
        self.strikes = self
            .strikes
            .saturating_sub(u8::try_from(steps).unwrap_or(u8::MAX));
        if self.strikes == 0 && steps > 0 {
            self.visited = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLD: Duration = Duration::from_secs(1);

    const fn at(seconds: u64) -> Time {
        Time(seconds * 1_000_000_000)
    }

    /// Moves as soon as it may, by the nodes given; tells how long each stay was, in seconds.
    #[track_caller]
    fn check(nodes: &[usize], expected: &[u64]) {
        let mut stay = Stay::default();
        let (mut now, mut from) = (100, None);
        let mut stays = Vec::new();
        for &node in nodes {
            stay.moved(at(now), from, node, HOLD);
            let begun = now;
            while !stay.is_over(at(now)) {
                now += 1;
            }
            stays.push(now - begun);
            from = Some(node);
        }
        assert_eq!(stays, expected, "{nodes:?}");
    }

    #[test]
    fn each_return_doubles_the_stay() {
        check(&[0, 1, 2, 3], &[1, 1, 1, 1]);
        check(&[0, 1, 0, 1, 0, 2], &[1, 1, 2, 4, 8, 8]);
    }

    #[test]
    fn strikes_are_forgiven_slowly() {
        let mut stay = Stay::default();
        for (second, node) in [(100, 0), (101, 1), (102, 0), (104, 1)] {
            stay.moved(at(second), None, node, HOLD);
        }
        assert_eq!(stay.strikes, 2);
        stay.moved(at(104 + 15), None, 5, HOLD);
        assert_eq!(stay.strikes, 2);
        stay.moved(at(119 + 16), None, 6, HOLD);
        assert_eq!(stay.strikes, 1);
        stay.moved(at(10_000), None, 0, HOLD);
        assert_eq!(stay.strikes, 0);
    }

    #[test]
    fn a_refusal_counts_as_a_return() {
        let mut stay = Stay::default();
        stay.refused(at(10), HOLD);
        assert!(!stay.is_over(at(11)) && stay.is_over(at(12)));
        stay.refused(at(12), HOLD);
        assert!(!stay.is_over(at(15)) && stay.is_over(at(16)));
        let mut forever = Stay::default();
        (0..100).for_each(|_| forever.refused(at(10), Duration::MAX));
        assert!(!forever.is_over(at(u64::MAX / 2_000_000_000)));
    }
}
