//! What few pairs of seats say to each other: what other cores' caches answered, and messages.

use super::bits::Bits;
use super::{Seat, positions};
use crate::matrix::CommMatrix;

/// Pairs that are known at a time: all of 256 seats. What further ones say is counted and left out.
pub(crate) const PAIRS_MAX: usize = 1 << 15;

/// Amounts of the pairs that have any: in this window, and faded from the windows before.
#[derive(Debug, Default)]
pub(crate) struct Talk {
    /// By the lower seat, each ascending by the higher.
    said: Vec<Vec<Said>>,
    pairs: usize,
    /// Times that a pair found no room.
    dropped: u64,
}

/// What a pair said, in this window and before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said {
    higher: Seat,
    live: u32,
    past: u32,
}

impl Said {
    /// In this window.
    pub(crate) fn live(&self) -> u64 {
        self.live.into()
    }

    /// In this window, and before, faded.
    pub(crate) fn decayed(&self) -> u64 {
        u64::from(self.live) + u64::from(self.past)
    }
}

impl Talk {
    /// Two seats said this much to each other; a seat's talk with itself is ignored.
    pub(crate) fn add(&mut self, one: Seat, other: Seat, amount: u64) {
        if one == other || amount == 0 {
            return;
        }
        let (lower, higher) = (usize::from(one.min(other)), one.max(other));
        if self.said.len() <= lower {
            self.said.resize(lower + 1, Vec::new());
        }
        let said = &mut self.said[lower];
        let at = match said.binary_search_by_key(&higher, |said| said.higher) {
            Ok(at) => at,
            Err(_) if self.pairs >= PAIRS_MAX => {
                self.dropped += 1;
                return;
            }
            Err(at) => {
                let (live, past) = (0, 0);
                if said.len() == said.capacity() {
                    // Not twice as much: rows are many, and all of them may be full.
                    said.reserve_exact(said.len() / 8 + 4);
                }
                said.insert(at, Said { higher, live, past });
                self.pairs += 1;
                at
            }
        };
        let amount = u32::try_from(amount).unwrap_or(u32::MAX);
        said[at].live = said[at].live.saturating_add(amount);
    }

    /// Times that a pair found no room.
    pub(crate) const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Begins to count those anew.
    pub(crate) const fn forget_dropped(&mut self) {
        self.dropped = 0;
    }

    /// What was said among these seats.
    pub(crate) fn read(&self, seats: &[Option<Seat>], amount: impl Fn(&Said) -> u64) -> CommMatrix {
        let mut read = CommMatrix::new(seats.len());
        let positions = positions(seats);
        for (one, all) in positions.iter().zip(&self.said) {
            for said in all {
                let other = positions.get(usize::from(said.higher));
                if let (Some(one), Some(Some(other))) = (*one, other.copied()) {
                    read.add(one as usize, other as usize, amount(said));
                }
            }
        }
        read
    }

    /// Ends a window: what was live joins the past, and the past counts half.
    pub(crate) fn roll(&mut self) {
        self.retain(|_, said| {
            said.past = said.past.midpoint(std::mem::take(&mut said.live));
            said.past > 0
        });
    }

    /// Forgets what was said before this window.
    pub(crate) fn begin_anew(&mut self) {
        self.retain(|_, said| {
            said.past = 0;
            said.live > 0
        });
    }

    /// Forgets everything that these seats said.
    pub(crate) fn forget(&mut self, gone: &Bits) {
        if !gone.is_empty() {
            self.retain(|lower, said| {
                !gone.contains(lower) && !gone.contains(usize::from(said.higher))
            });
        }
    }

    fn retain(&mut self, mut stays: impl FnMut(usize, &mut Said) -> bool) {
        for (lower, all) in self.said.iter_mut().enumerate() {
            all.retain_mut(|said| stays(lower, said));
        }
        self.pairs = self.said.iter().map(Vec::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(talk: &Talk, seats: &[Option<Seat>]) -> (CommMatrix, CommMatrix) {
        (
            talk.read(seats, Said::live),
            talk.read(seats, Said::decayed),
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
        assert_eq!(talk.dropped(), pairs - PAIRS_MAX as u64);
        talk.forget_dropped();
        let seats: Vec<Option<Seat>> = (0..300).map(Some).collect();
        assert_eq!(read(&talk, &seats).0.pairs().count(), PAIRS_MAX);
        // What has faded makes room.
        talk.roll();
        talk.roll();
        talk.add(298, 299, 1);
        assert_eq!(talk.dropped(), 0);
    }
}
