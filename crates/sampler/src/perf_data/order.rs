//! The order of time, as perf makes it, in bounded memory.
//!
//! perf reads the rings of the processors in rounds, and writes a mark after each (`FINISHED_ROUND`).
//! What comes after a mark may be older than what came before it, but not older than what came before
//! the mark before. So at each mark everything goes out, sorted, up to the newest time that had been
//! seen at the mark before. Files without marks (of one ring) are sorted whole, up to the limit.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Most records held back. When there are more, the older half goes out whatever the marks say; what
/// comes later and is older still is counted as late. perf on 512 processors with its usual rings
/// holds about as many in a round.
pub(super) const HELD_MAX: usize = 1 << 20;

/// Something with the time when it happened.
#[derive(Debug)]
struct Held<T> {
    time: u64,
    /// Position in the file, so that what happened at the same time stays in its order.
    place: u64,
    what: T,
}

impl<T> PartialEq for Held<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Held<T> {}

impl<T> PartialOrd for Held<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Held<T> {
    /// The oldest is the greatest, because a heap gives its greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.time, other.place).cmp(&(self.time, self.place))
    }
}

/// Puts things in the order of time.
#[derive(Debug)]
pub(super) struct Sorter<T> {
    held: BinaryHeap<Held<T>>,
    held_max: usize,
    places: u64,
    /// Newest time seen.
    newest: u64,
    /// Newest time seen at the last mark.
    barrier: u64,
    /// Time up to which everything went out.
    released: u64,
    late: u64,
}

impl<T> Sorter<T> {
    pub(super) const fn new(held_max: usize) -> Self {
        Self {
            held: BinaryHeap::new(),
            held_max,
            places: 0,
            newest: 0,
            barrier: 0,
            released: 0,
            late: 0,
        }
    }

    /// Things that came after younger ones had gone out.
    pub(super) const fn late(&self) -> u64 {
        self.late
    }

    /// Time up to which everything went out.
    pub(super) const fn released(&self) -> u64 {
        self.released
    }

    /// Takes a thing; gives out the older half of all if there are too many.
    pub(super) fn push<E>(
        &mut self,
        time: u64,
        what: T,
        out: &mut impl FnMut(u64, T) -> Result<(), E>,
    ) -> Result<(), E> {
        self.late += u64::from(time < self.released);
        self.newest = self.newest.max(time);
        let place = self.places;
        self.places += 1;
        self.held.push(Held { time, place, what });
        if self.held.len() < self.held_max {
            return Ok(());
        }
        for _ in 0..self.held_max / 2 {
            self.release(out)?;
        }
        Ok(())
    }

    /// Takes note of a mark, and gives out what nothing older can follow any more.
    pub(super) fn round<E>(
        &mut self,
        out: &mut impl FnMut(u64, T) -> Result<(), E>,
    ) -> Result<(), E> {
        while self
            .held
            .peek()
            .is_some_and(|held| held.time <= self.barrier)
        {
            self.release(out)?;
        }
        self.barrier = self.newest;
        Ok(())
    }

    /// Gives out everything.
    pub(super) fn finish<E>(
        &mut self,
        out: &mut impl FnMut(u64, T) -> Result<(), E>,
    ) -> Result<(), E> {
        while !self.held.is_empty() {
            self.release(out)?;
        }
        Ok(())
    }

    fn release<E>(&mut self, out: &mut impl FnMut(u64, T) -> Result<(), E>) -> Result<(), E> {
        let Some(Held { time, what, .. }) = self.held.pop() else {
            return Ok(());
        };
        self.released = self.released.max(time);
        out(time, what)
    }
}
