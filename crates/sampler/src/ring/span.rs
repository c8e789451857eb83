//! What lies between a ring's tail and head, and the order in which the two are read and stored.
//!
//! Nothing here touches the ring's memory, so the very code that the reader runs can be run by a model
//! checker with counters of its own (`scripts/ring-model`).

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// A counter that two sides share.
pub(crate) trait Counter {
    /// Reads it; what the other side wrote before storing it is visible then.
    fn acquire(&self) -> u64;
    /// Reads it, where nobody else stores it.
    fn own(&self) -> u64;
    /// Stores it, after all that was read and written before.
    fn release(&self, value: u64);
}

impl Counter for AtomicU64 {
    #[inline]
    fn acquire(&self) -> u64 {
        self.load(Ordering::Acquire)
    }

    #[inline]
    fn own(&self) -> u64 {
        self.load(Ordering::Relaxed)
    }

    #[inline]
    fn release(&self, value: u64) {
        self.store(value, Ordering::Release);
    }
}

/// Bytes that were written and not taken, as places in a ring.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    /// Where they begin, counted since the ring began.
    tail: u64,
    /// What the tail becomes when they are taken.
    head: u64,
    /// Bytes that the ring holds, a power of two.
    size: usize,
}

impl Span {
    /// What there is now between the counters of a ring of `size` bytes, a power of two.
    #[inline]
    pub(crate) fn unread(head: &impl Counter, tail: &impl Counter, size: usize) -> Self {
        debug_assert!(size.is_power_of_two());
        // The kernel publishes by storing the head after what it wrote; acquiring it makes that visible.
        let head = head.acquire();
        // Nobody but us stores the tail.
        let tail = tail.own();
        Self { tail, head, size }
    }

    /// Where it begins, counted since the ring began.
    pub(crate) const fn tail(&self) -> u64 {
        self.tail
    }

    /// How many bytes the ring holds.
    pub(crate) const fn size(&self) -> usize {
        self.size
    }

    /// How many bytes there are; 0 if there are more than the ring holds, for those were never promised
    /// to stand still.
    #[inline]
    pub(crate) const fn length(&self) -> usize {
        if self.is_overrun() {
            return 0;
        }
        // The size is a power of two, so this loses no bit of a number up to it.
        let low = self.head.wrapping_sub(self.tail) & (self.size as u64 * 2 - 1);
        low_usize(low)
    }

    /// Whether the head claims more than fits.
    #[inline]
    pub(crate) const fn is_overrun(&self) -> bool {
        self.head.wrapping_sub(self.tail) > self.size as u64
    }

    /// Where the bytes are in the ring; the second piece is empty unless the ring's end lies between.
    #[inline]
    pub(crate) fn pieces(&self) -> (Range<usize>, Range<usize>) {
        let start = low_usize(self.tail & (self.size as u64 - 1));
        let length = self.length();
        let until_end = length.min(self.size - start);
        (start..start + until_end, 0..length - until_end)
    }

    /// The same up to another end; unchanged if that lies outside.
    pub(crate) const fn until(mut self, head: u64) -> Self {
        if head.wrapping_sub(self.tail) <= self.head.wrapping_sub(self.tail) {
            self.head = head;
        }
        self
    }

    /// What lies between two places counted since the ring began, cut to what there is.
    pub(crate) const fn part(mut self, from: u64, to: u64) -> Self {
        let length = self.length() as u64;
        let from = self.clamped(from, length);
        let to = self.clamped(to, length);
        self.head = self.tail.wrapping_add(to);
        self.tail = self.tail.wrapping_add(if from < to { from } else { to });
        self
    }

    /// How far a place is ahead of the tail, between 0 and `length`; the counter may overflow between.
    const fn clamped(&self, place: u64, length: u64) -> u64 {
        let ahead = place.wrapping_sub(self.tail);
        if ahead > i64::MAX.cast_unsigned() {
            0
        } else if ahead > length {
            length
        } else {
            ahead
        }
    }

    /// Gives the space back to the writer.
    #[inline]
    pub(crate) fn give_back(self, tail: &impl Counter) {
        // Releasing keeps our reads before the store that lets the bytes be overwritten.
        tail.release(self.head);
    }
}

/// A number that was made from one of this machine's sizes.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "callers have cut the number to what a size of this machine can be"
)]
const fn low_usize(number: u64) -> usize {
    number as usize
}

#[cfg(all(test, loom))]
mod model;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(tail: u64, head: u64, (first, second): (Range<usize>, Range<usize>)) {
        let span = Span::unread(&AtomicU64::new(head), &AtomicU64::new(tail), 64);
        assert_eq!(span.length(), first.len() + second.len());
        assert_eq!(span.pieces(), (first, second), "{tail}..{head}");
    }

    #[test]
    fn places_wrap_with_the_ring_and_with_the_counter() {
        check(0, 0, (0..0, 0..0));
        check(0, 64, (0..64, 0..0));
        check(8, 72, (8..64, 0..8));
        check(64 * 7 + 60, 64 * 8 + 1, (60..64, 0..1));
        check(u64::MAX - 7, 8, (56..64, 0..8));
        check(0, 65, (0..0, 0..0));
        check(8, 0, (8..8, 0..0));
    }

    #[test]
    fn an_end_outside_changes_nothing() {
        let span = || Span::unread(&AtomicU64::new(40), &AtomicU64::new(8), 64);
        assert_eq!(span().until(16).length(), 8);
        assert_eq!(span().until(8).length(), 0);
        for outside in [0, 7, 41, u64::MAX] {
            assert_eq!(span().until(outside).length(), 32, "{outside}");
        }
    }
}
