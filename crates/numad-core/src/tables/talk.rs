//! What few pairs of seats say to each other: what other cores' caches answered, and messages.

use std::collections::BTreeMap;

use super::bits::Bits;
use super::{Seat, positions};
use crate::matrix::CommMatrix;

/// Pairs that are known at a time: all of 256 seats. What further ones say is counted and left out.
pub(crate) const PAIRS_MAX: usize = 1 << 15;

/// Amounts of the pairs that have any: in this window, and faded from the windows before.
#[derive(Debug, Default)]
pub(crate) struct Talk {
    said: BTreeMap<(Seat, Seat), Said>,
    /// Times that a pair found no room.
    pub(crate) dropped: u64,
}

/// What a pair said, in this window and before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Said {
    pub live: u32,
    /// Faded.
    pub past: u32,
}

impl Talk {
    /// Two seats said this much to each other; a seat's talk with itself is ignored.
    pub(crate) fn add(&mut self, one: Seat, other: Seat, amount: u64) {
        if one == other || amount == 0 {
            return;
        }
        let pair = (one.min(other), one.max(other));
        if self.said.len() >= PAIRS_MAX && !self.said.contains_key(&pair) {
            self.dropped += 1;
            return;
        }
        let said = self.said.entry(pair).or_default();
        let amount = u32::try_from(amount).unwrap_or(u32::MAX);
        said.live = said.live.saturating_add(amount);
    }

    /// What was said among these seats.
    pub(crate) fn read(&self, seats: &[Option<Seat>], amount: impl Fn(&Said) -> u64) -> CommMatrix {
        let mut read = CommMatrix::new(seats.len());
        let positions = positions(seats);
        let position = |seat: Seat| positions.get(usize::from(seat)).copied().flatten();
        for (&(one, other), said) in &self.said {
            if let (Some(one), Some(other)) = (position(one), position(other)) {
                read.add(one as usize, other as usize, amount(said));
            }
        }
        read
    }

    /// Ends a window: what was live joins the past, and the past counts half.
    pub(crate) fn roll(&mut self) {
        self.said.retain(|_, said| {
            said.past = said.past.midpoint(std::mem::take(&mut said.live));
            said.past > 0
        });
    }

    /// Forgets what was said before this window.
    pub(crate) fn begin_anew(&mut self) {
        self.said.retain(|_, said| {
            said.past = 0;
            said.live > 0
        });
    }

    /// Forgets everything that these seats said.
    pub(crate) fn forget(&mut self, gone: &Bits) {
        let is_gone = |seat: Seat| gone.contains(usize::from(seat));
        self.said
            .retain(|&(one, other), _| !is_gone(one) && !is_gone(other));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(talk: &Talk, seats: &[Option<Seat>]) -> (CommMatrix, CommMatrix) {
        (
            talk.read(seats, |said| said.live.into()),
            talk.read(seats, |said| u64::from(said.live) + u64::from(said.past)),
        )
    }

    #[test]
    fn talk_fades_and_gone_seats_have_said_nothing() {
        let mut talk = Talk::default();
        talk.add(3, 0, 8);
        talk.add(0, 3, 1);
        talk.add(2, 2, 9);
        talk.add(1, 2, 1);
        let seats = [Some(3), None, Some(0), Some(2), Some(1)];
        let (live, decayed) = read(&talk, &seats);
        assert_eq!(live.pairs().collect::<Vec<_>>(), [(0, 2, 9), (3, 4, 1)]);
        assert_eq!(live, decayed);
        talk.roll();
        talk.add(1, 3, 5);
        let (live, decayed) = read(&talk, &seats);
        assert_eq!(live.pairs().collect::<Vec<_>>(), [(0, 4, 5)]);
        assert_eq!(decayed.pairs().collect::<Vec<_>>(), [(0, 2, 4), (0, 4, 5)]);
        let mut gone = Bits::new(4);
        gone.insert(3);
        talk.forget(&gone);
        assert_eq!(read(&talk, &seats).1.pairs().count(), 0);
    }

    #[test]
    fn more_pairs_than_there_is_room_for_are_counted() {
        let mut talk = Talk::default();
        for one in 0..300 {
            for other in 0..one {
                talk.add(one, other, 2);
            }
        }
        let pairs = 300 * 299 / 2;
        assert_eq!(talk.dropped, pairs - PAIRS_MAX as u64);
        talk.dropped = 0;
        let seats: Vec<Option<Seat>> = (0..300).map(Some).collect();
        assert_eq!(read(&talk, &seats).0.pairs().count(), PAIRS_MAX);
        // What has faded makes room.
        talk.roll();
        talk.roll();
        talk.add(298, 299, 1);
        assert_eq!(talk.dropped, 0);
    }
}
