//! Which seats, or local numbers of spaces, are free, taken, or waiting to be cleaned.

use super::Seat;
use super::bits::Bits;

/// Seats of one program.
#[derive(Debug)]
pub(crate) struct Seats {
    free: Bits,
    /// Given back, but the tables still speak of their last holders, and must be cleaned of them.
    pub dirty: Bits,
}

impl Seats {
    pub(crate) fn new(count: usize) -> Self {
        let mut free = Bits::new(count);
        (0..count).for_each(|seat| free.insert(seat));
        Self {
            free,
            dirty: Bits::new(count),
        }
    }

    /// The lowest free seat: low seats keep the matrices small.
    pub(crate) fn take(&mut self) -> Option<Seat> {
        let seat = self.free.first()?;
        self.free.remove(seat);
        Seat::try_from(seat).ok()
    }

    /// Gives a seat back; it is free only after [`Self::cleaned`].
    pub(crate) fn give_back(&mut self, seat: Seat) {
        self.dirty.insert(usize::from(seat));
    }

    /// The tables speak of no dirty seat any more.
    pub(crate) fn cleaned(&mut self) {
        for seat in self.dirty.iter() {
            self.free.insert(seat);
        }
        self.dirty.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_is_given_again_only_after_cleaning() {
        let mut seats = Seats::new(2);
        assert_eq!(
            (seats.take(), seats.take(), seats.take()),
            (Some(0), Some(1), None)
        );
        seats.give_back(0);
        assert_eq!(seats.take(), None);
        assert_eq!(seats.dirty.iter().collect::<Vec<_>>(), [0]);
        seats.cleaned();
        assert_eq!((seats.take(), seats.dirty.is_empty()), (Some(0), true));
    }
}
