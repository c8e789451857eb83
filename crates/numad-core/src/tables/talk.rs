//! What few pairs of seats say to each other: what other cores' caches answered, and messages.

use super::Seat;
use super::bits::Bits;
use super::index::{Index, Spot};
use crate::matrix::CommMatrix;

/// Pairs that are known at a time: all of 256 seats. What further ones say is counted and left out.
pub(crate) const PAIRS_MAX: usize = 1 << 15;

/// Amounts of the pairs that have any: in this window, and faded from the windows before.
#[derive(Debug)]
pub(crate) struct Talk {
    /// Places in the list, by the number of the pair.
    index: Index,
    said: Vec<Said>,
    /// Times that a pair found no room.
    dropped: u64,
}

#[derive(Clone, Copy, Debug)]
struct Said {
    pair: u32,
    live: u64,
    past: u64,
}

impl Said {
    fn seats(&self) -> (usize, usize) {
        let pair = self.pair as usize - 1;
        (pair >> Seat::BITS, pair & usize::from(Seat::MAX))
    }
}

impl Talk {
    pub(crate) fn new() -> Self {
        Self {
            index: Index::new(),
            said: Vec::new(),
            dropped: 0,
        }
    }

    /// Two seats said this much to each other; a seat's talk with itself is ignored.
    pub(crate) fn add(&mut self, one: Seat, other: Seat, amount: u64) {
        if one == other || amount == 0 {
            return;
        }
        // The lower in the upper half: no pair has the number of all ones, and none is 0.
        let pair = (u32::from(one.min(other)) << Seat::BITS | u32::from(one.max(other))) + 1;
        let at = match self.index.find(pair) {
            Some(spot) => spot.slot,
            None if self.said.len() < PAIRS_MAX => {
                let (live, past) = (0, 0);
                self.said.push(Said { pair, live, past });
                self.note(self.said.len() - 1)
            }
            None => {
                self.dropped += 1;
                return;
            }
        };
        let live = &mut self.said[at as usize].live;
        *live = live.saturating_add(amount);
    }

    fn note(&mut self, at: usize) -> u32 {
        let slot = u32::try_from(at).unwrap_or_default();
        self.index
            .insert(self.said[at].pair, Spot { place: 0, slot });
        slot
    }

    /// Times that a pair found no room.
    pub(crate) const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Begins to count those anew.
    pub(crate) const fn forget_dropped(&mut self) {
        self.dropped = 0;
    }

    /// Among these seats what was said in this window, and with what was said before.
    pub(crate) fn read(&self, seats: &[Option<Seat>]) -> (CommMatrix, CommMatrix) {
        let [mut live, mut decayed] = [(); 2].map(|()| CommMatrix::new(seats.len()));
        let end = seats.iter().flatten().max().map_or(0, |&seat| seat + 1);
        let mut positions = vec![None; usize::from(end)];
        for (position, seat) in seats.iter().enumerate() {
            if let Some(seat) = seat {
                positions[usize::from(*seat)] = Some(position);
            }
        }
        for said in &self.said {
            let (one, other) = said.seats();
            let position = |seat: usize| positions.get(seat).copied().flatten();
            if let (Some(one), Some(other)) = (position(one), position(other)) {
                live.add(one, other, said.live);
                decayed.add(one, other, said.live.saturating_add(said.past));
            }
        }
        (live, decayed)
    }

    /// Ends a window: what was live joins the past, and the past counts half.
    pub(crate) fn roll(&mut self) {
        for said in &mut self.said {
            said.past = said.past.saturating_add(std::mem::take(&mut said.live)) / 2;
        }
        self.keep(|said| said.past > 0);
    }

    /// Forgets what was said before this window.
    pub(crate) fn begin_anew(&mut self) {
        self.said.iter_mut().for_each(|said| said.past = 0);
        self.keep(|said| said.live > 0);
    }

    /// Forgets everything that these seats said.
    pub(crate) fn forget(&mut self, gone: &Bits) {
        if !gone.is_empty() {
            self.keep(|said| {
                let (one, other) = said.seats();
                !gone.contains(one) && !gone.contains(other)
            });
        }
    }

    fn keep(&mut self, stays: impl Fn(&Said) -> bool) {
        let before = self.said.len();
        self.said.retain(stays);
        if self.said.len() < before {
            self.index = Index::new();
            for at in 0..self.said.len() {
                self.note(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn talk_fades_and_gone_seats_have_said_nothing() {
        let mut talk = Talk::new();
        talk.add(3, 0, 8);
        talk.add(0, 3, 1);
        talk.add(2, 2, 9);
        talk.add(1, 2, 1);
        let seats = [Some(3), None, Some(0), Some(2), Some(1)];
        let (live, decayed) = talk.read(&seats);
        assert_eq!(live.pairs().collect::<Vec<_>>(), [(0, 2, 9), (3, 4, 1)]);
        assert_eq!(live, decayed);
        talk.roll();
        talk.add(1, 3, 5);
        let (live, decayed) = talk.read(&seats);
        assert_eq!(live.pairs().collect::<Vec<_>>(), [(0, 4, 5)]);
        assert_eq!(decayed.pairs().collect::<Vec<_>>(), [(0, 2, 4), (0, 4, 5)]);
        let mut gone = Bits::new(4);
        gone.insert(3);
        talk.forget(&gone);
        assert_eq!(talk.read(&seats).1.pairs().count(), 0);
    }

    #[test]
    fn more_pairs_than_there_is_room_for_are_counted() {
        let mut talk = Talk::new();
        for one in 0..300 {
            for other in 0..one {
                talk.add(one, other, 2);
            }
        }
        let pairs = 300 * 299 / 2;
        assert_eq!(talk.dropped(), pairs - PAIRS_MAX as u64);
        talk.forget_dropped();
        let seats: Vec<Option<Seat>> = (0..300).map(Some).collect();
        assert_eq!(talk.read(&seats).0.pairs().count(), PAIRS_MAX);
        // What has faded makes room.
        talk.roll();
        talk.roll();
        talk.add(298, 299, 1);
        assert_eq!(talk.dropped(), 0);
    }
}
