//! How much threads said to each other, by seat, as [`super::pages::PageTable::touch`] tells it (LAPT).

use super::Seat;
use super::bits::Bits;
use crate::matrix::CommMatrix;

/// Amounts per pair of seats: in this window, and faded from the windows before.
///
/// A triangle, so that the first seats, which are taken first, lie close together: 256 of them are
/// 255 KiB.
#[derive(Debug)]
pub(crate) struct CommTable {
    live: Vec<u64>,
    /// What blocks of memory that are too seldom sampled page by page tell of this window, beside that.
    inferred: Vec<u64>,
    /// What was live in the window that was rolled last, for those who show it.
    last: Vec<u64>,
    past: Vec<u64>,
    /// Seats below this were ever used.
    high: usize,
}

impl CommTable {
    pub(crate) fn new(seats: usize) -> Self {
        // One more than there are pairs: where the last seat with itself would be.
        let pairs = seats * seats.saturating_sub(1) / 2 + 1;
        Self {
            live: vec![0; pairs],
            inferred: vec![0; pairs],
            last: vec![0; pairs],
            past: vec![0; pairs],
            high: 0,
        }
    }

    /// Two different seats said this much to each other. A seat's talk with itself is ignored, by adding nothing and
    /// without a branch.
    #[inline]
    pub(crate) fn add(&mut self, one: Seat, other: Seat, amount: u32) {
        let (low, high) = (usize::from(one.min(other)), usize::from(one.max(other)));
        self.high = self.high.max(high + 1);
        let there = &mut self.live[pair(low, high)];
        let amount = if low == high { 0 } else { u64::from(amount) };
        *there = there.saturating_add(amount);
    }

    /// The same for an amount of any size.
    pub(crate) fn add_all(&mut self, one: Seat, other: Seat, amount: u64) {
        let (low, high) = (usize::from(one.min(other)), usize::from(one.max(other)));
        if low < high {
            self.high = self.high.max(high + 1);
            let there = &mut self.live[pair(low, high)];
            *there = there.saturating_add(amount);
        }
    }

    /// Begins anew to tell what blocks say of this window.
    pub(crate) fn clear_inferred(&mut self) {
        self.inferred[..pair(0, self.high)].fill(0);
    }

    /// Two different seats share blocks in this window by so much.
    pub(crate) fn infer(&mut self, one: Seat, other: Seat, amount: u64) {
        let (low, high) = (usize::from(one.min(other)), usize::from(one.max(other)));
        if low < high {
            self.high = self.high.max(high + 1);
            let there = &mut self.inferred[pair(low, high)];
            *there = there.saturating_add(amount);
        }
    }

    /// The matrices among these seats: of this window, and of this one and the faded ones before.
    pub(crate) fn read(
        &self,
        seats: &[Option<Seat>],
        live: &mut CommMatrix,
        decayed: &mut CommMatrix,
    ) {
        live.reset(seats.len());
        decayed.reset(seats.len());
        self.each_pair(seats, |one, other, at| {
            let now = self.live[at].saturating_add(self.inferred[at]);
            let all = now.saturating_add(self.past[at]);
            if all > 0 {
                live.add(one, other, now);
                decayed.add(one, other, all);
            }
        });
    }

    /// As [`Self::read`] gave them before the last [`Self::roll`].
    pub(crate) fn read_last(&self, seats: &[Option<Seat>]) -> (CommMatrix, CommMatrix) {
        let (mut last, mut decayed) = (CommMatrix::new(seats.len()), CommMatrix::new(seats.len()));
        self.each_pair(seats, |one, other, at| {
            last.add(one, other, self.last[at]);
            decayed.add(
                one,
                other,
                self.past[at].saturating_mul(2).max(self.last[at]),
            );
        });
        (last, decayed)
    }

    fn each_pair(&self, seats: &[Option<Seat>], mut visit: impl FnMut(usize, usize, usize)) {
        let used = seats.iter().enumerate().filter_map(|(position, seat)| {
            let seat = usize::from((*seat)?);
            (seat < self.high).then_some((position, seat))
        });
        let used: Vec<(usize, usize)> = used.collect();
        for (index, &(one, seat)) in used.iter().enumerate() {
            let row = pair(0, seat);
            for &(other, partner) in &used[..index] {
                // Seats mostly rise with positions: then this reads the row from left to right.
                let at = if partner < seat {
                    row + partner
                } else {
                    pair(seat, partner)
                };
                visit(one, other, at);
            }
        }
    }

    /// Ends a window: what was live joins the past, and the past counts half.
    pub(crate) fn roll(&mut self) {
        std::mem::swap(&mut self.live, &mut self.last);
        let end = pair(0, self.high);
        self.live[..end].fill(0);
        for (last, inferred) in self.last[..end].iter_mut().zip(&mut self.inferred[..end]) {
            *last = last.saturating_add(std::mem::take(inferred));
        }
        for (last, past) in self.last[..end].iter().zip(&mut self.past[..end]) {
            *past = past.saturating_add(*last) / 2;
        }
    }

    /// Forgets everything that these seats said.
    pub(crate) fn forget(&mut self, seats: &Bits) {
        for seat in seats.iter().take_while(|&seat| seat < self.high) {
            for partner in (0..self.high).filter(|&partner| partner != seat) {
                let at = pair(seat.min(partner), seat.max(partner));
                self.live[at] = 0;
                self.inferred[at] = 0;
                self.last[at] = 0;
                self.past[at] = 0;
            }
        }
    }
}

/// Where a pair stands, `low < high`; with `low` 0, also where the row of `high` begins.
#[inline]
const fn pair(low: usize, high: usize) -> usize {
    high * high.saturating_sub(1) / 2 + low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::pages::{PageTable, Tag};

    fn read(table: &CommTable, seats: &[Option<Seat>]) -> (CommMatrix, CommMatrix) {
        let (mut live, mut decayed) = (CommMatrix::default(), CommMatrix::default());
        table.read(seats, &mut live, &mut decayed);
        (live, decayed)
    }

    fn all(count: Seat) -> Vec<Option<Seat>> {
        (0..count).map(Some).collect()
    }

    #[test]
    fn page_sharing_golden_case() {
        let (mut pages, mut comm) = (PageTable::new(64, 4), CommTable::new(8));
        let page = Tag::new(1, 1).unwrap();
        for seat in [4, 1, 2, 0] {
            pages.touch(page, seat, 1);
        }
        for (other, amount) in pages.touch(page, 3, 1).amounts(1) {
            comm.add(3, other, amount);
        }
        let (live, _) = read(&comm, &all(5));
        assert_eq!(live.row(3), [1, 1, 1, 0, 1]);
        assert_eq!(live.pairs().count(), 4);
    }

    #[test]
    fn the_past_counts_half_per_window() {
        let mut comm = CommTable::new(4);
        comm.add(0, 3, 8);
        comm.roll();
        comm.add(3, 0, 1);
        let (live, decayed) = read(&comm, &all(4));
        assert_eq!((live.between(0, 3), decayed.between(0, 3)), (1, 5));
        comm.roll();
        let (live, decayed) = read(&comm, &all(4));
        assert_eq!((live.between(0, 3), decayed.between(0, 3)), (0, 2));
        let (last, decayed) = comm.read_last(&all(4));
        assert_eq!((last.between(0, 3), decayed.between(0, 3)), (1, 4));
    }

    #[test]
    fn positions_follow_the_seats_asked_for() {
        let mut comm = CommTable::new(6);
        comm.add(5, 2, 7);
        comm.add(1, 1, 9);
        let (live, _) = read(&comm, &[Some(5), None, Some(0), Some(2)]);
        assert_eq!(live.pairs().collect::<Vec<_>>(), [(0, 3, 7)]);
    }

    #[test]
    fn a_forgotten_seat_has_said_nothing() {
        let mut comm = CommTable::new(4);
        for (one, other) in [(0, 1), (1, 2), (2, 3)] {
            comm.add(one, other, 4);
        }
        comm.roll();
        comm.add(1, 3, 4);
        let mut seats = Bits::new(4);
        seats.insert(1);
        comm.forget(&seats);
        let (live, decayed) = read(&comm, &all(4));
        assert_eq!(live.pairs().count(), 0);
        assert_eq!(decayed.pairs().collect::<Vec<_>>(), [(2, 3, 2)]);
    }
}
