//! How much threads said to each other, by seat, as [`super::pages::PageTable::touch`] tells it (LAPT).

use std::ops::Range;

use super::bits::Bits;
use super::{Seat, positions};
use crate::likeness::Said;
use crate::matrix::CommMatrix;

/// Amounts per pair of seats: in this window, and faded from the windows before.
///
/// A triangle, so that the first seats, which are taken first, lie close together, and as large as the seats
/// need that were ever used: 256 of them are 319 KiB, 1,024 are 5 MiB. Amounts that are more than 32 bits can
/// say are kept in units of [`COARSER`] or its powers, so that the smallest are a billionth of the largest.
#[derive(Debug, Default)]
pub(crate) struct CommTable {
    live: Vec<u32>,
    past: Vec<u32>,
    /// What was live in the window that was rolled last, for those who show it: 16 bits each, and how
    /// many were left out.
    last: (Vec<u16>, u32),
    /// What blocks of memory that are too seldom sampled page by page tell of this window, beside that. There
    /// once a block told something, to the end of the window.
    inferred: Vec<u64>,
    /// Bits of an amount that are left out.
    shift: u32,
    /// Seats below this were ever used.
    high: usize,
}

/// Bits by which amounts get coarser at a time.
const COARSER: u32 = 4;
/// Seats that get room at a time.
const SEATS: usize = 64;

impl CommTable {
    /// Two different seats said this much to each other. A seat's talk with itself is ignored, by adding nothing and
    /// without a branch.
    #[inline]
    pub(crate) fn add(&mut self, one: Seat, other: Seat, amount: u64) {
        let (low, high) = (usize::from(one.min(other)), usize::from(one.max(other)));
        let amount = if low == high { 0 } else { amount };
        if high >= self.high {
            self.make_room(high);
        }
        let at = pair(low, high);
        loop {
            let sum = u64::from(self.live[at]).saturating_add(amount >> self.shift);
            if let Ok(sum) = u32::try_from(sum) {
                self.live[at] = sum;
                return;
            }
            self.be_coarser();
        }
    }

    #[cold]
    fn make_room(&mut self, seat: usize) {
        self.high = seat + 1;
        // One more than there are pairs: where the last seat with itself would be.
        let pairs = pair(0, self.high.next_multiple_of(SEATS)) + 1;
        if pairs > self.live.len() {
            for amounts in [&mut self.live, &mut self.past] {
                amounts.reserve_exact(pairs - amounts.len());
                amounts.resize(pairs, 0);
            }
            let last = &mut self.last.0;
            last.reserve_exact(pairs - last.len());
            last.resize(pairs, 0);
            if !self.inferred.is_empty() {
                self.inferred.resize(pairs, 0);
            }
        }
    }

    #[cold]
    fn be_coarser(&mut self) {
        self.shift += COARSER;
        for amounts in [&mut self.live, &mut self.past] {
            amounts.iter_mut().for_each(|amount| *amount >>= COARSER);
        }
    }

    /// Forgets what blocks said of this window.
    pub(crate) fn forget_inferred(&mut self) {
        self.inferred = Vec::new();
    }

    /// Two different seats share blocks in this window by so much.
    pub(crate) fn infer(&mut self, one: Seat, other: Seat, amount: u64) {
        let (low, high) = (usize::from(one.min(other)), usize::from(one.max(other)));
        if low < high {
            if high >= self.high {
                self.make_room(high);
            }
            if self.inferred.len() < self.live.len() {
                self.inferred.resize(self.live.len(), 0);
            }
            let there = &mut self.inferred[pair(low, high)];
            *there = there.saturating_add(amount);
        }
    }

    /// What the pair at a place said in this window.
    #[inline]
    fn now(&self, at: usize) -> u64 {
        let inferred = self.inferred.get(at).copied().unwrap_or(0);
        (u64::from(self.live[at]) << self.shift).saturating_add(inferred)
    }

    /// The same before, faded.
    #[inline]
    fn was(&self, at: usize) -> u64 {
        u64::from(self.past[at]) << self.shift
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
        self.each_pair(&self.live, seats, |one, other, at| {
            let now = self.now(at);
            live.add(one, other, now);
            decayed.add(one, other, now.saturating_add(self.was(at)));
        });
    }

    /// As [`Self::read`] gave them before the last [`Self::roll`].
    pub(crate) fn read_last(&self, seats: &[Option<Seat>]) -> (CommMatrix, CommMatrix) {
        let (mut last, mut decayed) = (CommMatrix::new(seats.len()), CommMatrix::new(seats.len()));
        self.each_pair(&self.last.0, seats, |one, other, at| {
            let then = u64::from(self.last.0[at]) << self.last.1;
            last.add(one, other, then);
            decayed.add(one, other, self.was(at).saturating_mul(2).max(then));
        });
        (last, decayed)
    }

    /// What pairs of such seats that said anything said in this window, but for what blocks tell,
    /// and before.
    pub(crate) fn pairs<'a>(
        &'a self,
        is_meant: impl Fn(usize) -> bool + Copy + 'a,
    ) -> impl Iterator<Item = Said> + Clone + 'a {
        let seats = (0..self.high).filter(move |seat| is_meant(*seat));
        seats.flat_map(move |seat| {
            let row = pair(0, seat);
            let told = self.told(&self.live, row..row + seat);
            let meant = told.filter(move |at| is_meant(at - row));
            meant.map(move |at| ((at - row, seat), (self.now(at) as f64, self.was(at) as f64)))
        })
    }

    /// Visits pairs of which there is something among these amounts, or that said something before.
    fn each_pair<T: Copy + Into<u32>>(
        &self,
        amounts: &[T],
        seats: &[Option<Seat>],
        mut visit: impl FnMut(usize, usize, usize),
    ) {
        let positions = positions(seats);
        for (seat, one) in positions.iter().enumerate().take(self.high) {
            let Some(one) = *one else { continue };
            let row = pair(0, seat);
            for at in self.told(amounts, row..row + seat) {
                if let Some(other) = positions[at - row] {
                    visit(one as usize, other as usize, at);
                }
            }
        }
    }

    /// Those of some places that have any of these amounts, or had. Most pairs of many seats have
    /// none, so eight are looked at together.
    fn told<T: Copy + Into<u32>>(
        &self,
        amounts: &[T],
        places: Range<usize>,
    ) -> impl Iterator<Item = usize> + Clone {
        const STEP: usize = 8;
        let mut next = places.start;
        std::iter::from_fn(move || {
            while next < places.end {
                let at = next;
                if self.is_silent::<STEP, T>(amounts, at) {
                    next += STEP;
                    continue;
                }
                next += 1;
                if !self.is_silent::<1, T>(amounts, at) {
                    return Some(at);
                }
            }
            None
        })
    }

    /// Whether so many places have nothing.
    #[inline]
    fn is_silent<const COUNT: usize, T: Copy + Into<u32>>(&self, amounts: &[T], at: usize) -> bool {
        let are_told = || {
            let found = self.inferred[at..].first_chunk::<COUNT>();
            found.is_none_or(|found| found.iter().fold(0, |all, it| all | it) > 0)
        };
        are_none::<COUNT, T>(&amounts[at..])
            && are_none::<COUNT, u32>(&self.past[at..])
            && (self.inferred.is_empty() || !are_told())
    }

    /// Ends a window: what was live joins the past, and the past counts half.
    pub(crate) fn roll(&mut self) {
        let end = pair(0, self.high).min(self.live.len());
        let told = self.told(&self.live, 0..end);
        let told = told.map(|at| (at, self.now(at), self.was(at)));
        let told: Vec<(usize, u64, u64)> = told.collect();
        let most = told.iter().fold(0, |bits, it| bits | it.1);
        let bits = told.iter().fold(most, |bits, it| bits | it.2);
        // Past and present fit into the same bits again, or do not.
        self.shift = 0;
        while bits >> self.shift > u64::from(u32::MAX) {
            self.shift += COARSER;
        }
        self.forget_inferred();
        self.live[..end].fill(0);
        self.last.0[..end].fill(0);
        let fit = |amount: u64| u32::try_from(amount >> self.shift).unwrap_or(u32::MAX);
        self.last.1 = (u64::BITS - most.leading_zeros()).saturating_sub(u16::BITS);
        for (at, said, past) in told {
            self.last.0[at] = u16::try_from(said >> self.last.1).unwrap_or(u16::MAX);
            self.past[at] = fit(past.saturating_add(said) / 2);
        }
    }

    /// Forgets what was said in this window and before.
    pub(crate) fn begin_anew(&mut self) {
        self.inferred.clear();
        for amounts in [&mut self.live, &mut self.past] {
            amounts.fill(0);
        }
    }

    /// Forgets everything that these seats said.
    pub(crate) fn forget(&mut self, seats: &Bits) {
        for seat in seats.iter().take_while(|&seat| seat < self.high) {
            for partner in (0..self.high).filter(|&partner| partner != seat) {
                let at = pair(seat.min(partner), seat.max(partner));
                self.live[at] = 0;
                self.last.0[at] = 0;
                self.past[at] = 0;
                if let Some(inferred) = self.inferred.get_mut(at) {
                    *inferred = 0;
                }
            }
        }
    }
}

/// Whether the first so many are all zero.
#[inline]
fn are_none<const COUNT: usize, T: Copy + Into<u32>>(amounts: &[T]) -> bool {
    let found = amounts.first_chunk::<COUNT>();
    found.is_some_and(|found| found.iter().fold(0, |all, &it| all | it.into()) == 0)
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
        let (mut pages, mut comm) = (PageTable::new(64), CommTable::default());
        let page = Tag::new(1, 1).unwrap();
        for seat in [4, 1, 2, 0] {
            pages.touch(page, seat, 1);
        }
        for (other, amount) in pages.touch(page, 3, 1).amounts(1) {
            comm.add(3, other, amount.into());
        }
        let (live, _) = read(&comm, &all(5));
        assert_eq!(live.row(3), [1, 1, 1, 0, 1]);
        assert_eq!(live.pairs().count(), 4);
    }

    #[test]
    fn the_past_counts_half_per_window() {
        let mut comm = CommTable::default();
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
        let mut comm = CommTable::default();
        comm.add(5, 2, 7);
        comm.add(1, 1, 9);
        let (live, _) = read(&comm, &[Some(5), None, Some(0), Some(2)]);
        assert_eq!(live.pairs().collect::<Vec<_>>(), [(0, 3, 7)]);
    }

    #[test]
    fn a_forgotten_seat_has_said_nothing() {
        let mut comm = CommTable::default();
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

    #[test]
    fn large_amounts_are_kept_coarser_and_become_fine_again() {
        let mut comm = CommTable::default();
        let large = 1 << 40;
        comm.add(0, 1, 1 << 20);
        comm.add(1, 2, large);
        comm.add(1, 2, u32::MAX.into());
        comm.forget_inferred();
        comm.infer(2, 3, large);
        let near = |found: u64, expected: u64| found.abs_diff(expected) <= expected >> 11;
        for _ in 0..2 {
            let (live, decayed) = read(&comm, &all(4));
            assert!(near(live.between(0, 1), 1 << 20), "{}", live.between(0, 1));
            assert!(near(live.between(1, 2), large + u64::from(u32::MAX)));
            assert_eq!(live.between(2, 3), large);
            assert_eq!(live, decayed);
        }
        comm.roll();
        let (last, decayed) = comm.read_last(&all(4));
        assert!(near(last.between(2, 3), large) && near(decayed.between(2, 3), large));
        for _ in 0..64 {
            comm.roll();
        }
        comm.add(0, 1, 3);
        let (live, _) = read(&comm, &all(4));
        assert_eq!(live.between(0, 1), 3);
    }
}
