//! A cut of few vertices: all that they say to each other as a square of numbers, where telling all of them
//! of a move is cheaper than looking for its partners.

use super::fm::Sides;
use super::graph::{Level, reset};

/// Vertices up to which this is so; sets of them are the bits of a number.
pub(super) const FEW: usize = 64;
/// Rows are a multiple of this long, so that loops over them have no remainder.
const LANES: usize = 8;

/// Sides of a cut of at most [`FEW`] vertices.
#[derive(Debug)]
pub(super) struct Few {
    /// Twice what each vertex says to each, rows of `pitch`.
    twice: Vec<i32>,
    pitch: usize,
    /// Whom each vertex talks to.
    near: [u64; FEW],
    /// What each vertex would save alone on side 0, all others being on side 1.
    alone: [i32; FEW],
    gain: [i32; FEW],
    /// The side of each vertex, 1 as all bits set.
    mask: [i32; FEW],
    all: u64,
    /// Vertices that care from outside.
    biased: u64,
    /// Vertices on side 1.
    ones: u64,
    queued: u64,
    locked: u64,
}

impl Default for Few {
    fn default() -> Self {
        Self {
            twice: Vec::new(),
            pitch: 0,
            near: [0; FEW],
            alone: [0; FEW],
            gain: [0; FEW],
            mask: [0; FEW],
            all: 0,
            biased: 0,
            ones: 0,
            queued: 0,
            locked: 0,
        }
    }
}

impl Sides for Few {
    fn take(&mut self, graph: &Level) {
        let count = graph.count();
        self.pitch = count.next_multiple_of(LANES);
        reset(&mut self.twice, count * self.pitch, 0);
        self.all = u64::MAX >> (FEW - count.clamp(1, FEW));
        self.biased = 0;
        for (vertex, row) in self.twice.chunks_exact_mut(self.pitch.max(1)).enumerate() {
            let (mut near, mut total) = (0, 0);
            for (other, weight) in graph.rows().row(vertex) {
                row[other] = 2 * weight;
                near |= 1 << (other % FEW);
                total += weight;
            }
            let bias = graph.bias[vertex];
            self.biased |= u64::from(bias != 0) << (vertex % FEW);
            self.near[vertex % FEW] = near;
            self.alone[vertex % FEW] = -total - bias;
        }
    }

    fn start(&mut self, graph: &Level, side: &[u8]) -> i64 {
        self.gain = self.alone;
        self.mask = [-1; FEW];
        self.ones = self.all;
        (self.queued, self.locked) = (0, 0);
        let mut cost = 0;
        for (vertex, &side) in side.iter().enumerate() {
            if side == 0 {
                cost -= i64::from(self.gain(vertex));
                self.flip_back(graph, vertex);
            }
        }
        cost
    }

    #[inline]
    fn gain(&self, vertex: usize) -> i32 {
        self.gain[vertex % FEW]
    }

    #[inline]
    fn side(&self, vertex: usize) -> u8 {
        u8::from(self.ones >> (vertex % FEW) & 1 == 1)
    }

    fn queue_all(&mut self) {
        (self.queued, self.locked) = (self.all, 0);
    }

    fn queue_border(&mut self, graph: &Level) {
        (self.queued, self.locked) = (self.biased, 0);
        for (vertex, near) in self.near[..graph.count().min(FEW)].iter().enumerate() {
            let there = if self.ones >> vertex & 1 == 1 {
                !self.ones
            } else {
                self.ones
            };
            self.queued |= u64::from(near & there != 0) << vertex;
        }
    }

    #[inline]
    fn best(&mut self, side: usize) -> Option<usize> {
        let of_side = if side == 0 { !self.ones } else { self.ones };
        let mut open = self.queued & of_side;
        let mut best = None;
        let mut most = i32::MIN;
        while open != 0 {
            let vertex = open.trailing_zeros() as usize;
            open &= open - 1;
            let gain = self.gain[vertex % FEW];
            if gain > most {
                (best, most) = (Some(vertex), gain);
            }
        }
        best
    }

    #[inline]
    fn flip(&mut self, graph: &Level, vertex: usize) {
        self.locked |= 1 << (vertex % FEW);
        self.queued = (self.queued | self.near[vertex % FEW]) & !self.locked;
        self.flip_back(graph, vertex);
    }

    #[inline]
    fn flip_back(&mut self, _: &Level, vertex: usize) {
        let row = &self.twice[vertex * self.pitch..][..self.pitch];
        let from = self.mask[vertex % FEW];
        let told = self.gain.iter_mut().zip(&self.mask).zip(row);
        for ((gain, mask), twice) in told {
            // Less what is said to those on the other side.
            let other = mask ^ from;
            *gain += (twice ^ other) - other;
        }
        self.gain[vertex % FEW] = -self.gain[vertex % FEW];
        self.mask[vertex % FEW] = !from;
        self.ones ^= 1 << (vertex % FEW);
    }
}

#[cfg(test)]
mod tests {
    use super::super::fm::Sides;
    use super::super::graph::{Dice, Level, id};
    use super::super::heaps::Heaps;
    use super::{FEW, Few};

    /// A graph of chance in which one pair in `rare` talks, with some that care from outside.
    fn graph(count: usize, rare: usize, dice: &mut Dice) -> Level {
        let mut said = vec![0; count * count];
        for one in 0..count {
            for other in 0..one {
                if dice.below(rare) == 0 {
                    let weight = id(1 + dice.below(100));
                    said[one * count + other] = weight;
                    said[other * count + one] = weight;
                }
            }
        }
        let mut level = Level::default();
        level.clear();
        for row in said.chunks_exact(count) {
            for (other, &weight) in row.iter().enumerate().filter(|entry| *entry.1 > 0) {
                level.partners.push(id(other));
                level.weights.push(weight);
            }
            level.size.push(1);
            let bias = [0, 0, 7, -9][dice.below(4)];
            level.bias.push(bias);
            level.end_row();
        }
        level
    }

    /// Both ways to keep a cut say the same of it, whatever is moved.
    #[track_caller]
    fn check_same(count: usize, rare: usize) {
        let mut dice = Dice::new(count as u64);
        let graph = graph(count, rare, &mut dice);
        let side: Vec<u8> = (0..count).map(|_| u8::from(dice.below(2) == 1)).collect();
        let (mut few, mut many) = (Few::default(), Heaps::default());
        few.take(&graph);
        many.take(&graph);
        assert_eq!(few.start(&graph, &side), many.start(&graph, &side));
        few.queue_border(&graph);
        many.queue_border(&graph);
        for _ in 0..4 * count {
            let seen =
                |sides: &dyn Fn(usize) -> (u8, i32)| (0..count).map(sides).collect::<Vec<_>>();
            let one = seen(&|vertex| (few.side(vertex), few.gain(vertex)));
            let other = seen(&|vertex| (many.side(vertex), many.gain(vertex)));
            assert_eq!(one, other);
            for side in 0..2 {
                // Both have somebody, or nobody; and ours has the highest gain to the unit.
                let (best, about) = (few.best(side), many.best(side));
                assert_eq!(best.is_some(), about.is_some());
                if let (Some(best), Some(about)) = (best, about) {
                    assert!(few.gain(best) >= few.gain(about));
                }
            }
            match few.best(dice.below(2)) {
                Some(vertex) => {
                    few.flip(&graph, vertex);
                    many.flip(&graph, vertex);
                }
                None => {
                    let vertex = dice.below(count);
                    few.flip_back(&graph, vertex);
                    many.flip_back(&graph, vertex);
                    few.queue_all();
                    many.queue_all();
                }
            }
        }
        // The next cut begins with none queued, whatever is left of this one.
        few.queue_all();
        many.queue_all();
        assert_eq!(few.start(&graph, &side), many.start(&graph, &side));
        for side in 0..2 {
            assert_eq!((few.best(side), many.best(side)), (None, None));
        }
    }

    #[test]
    fn few_are_kept_as_many_are() {
        for count in [1, 2, 7, 8, 9, 31, FEW - 1, FEW] {
            for rare in [1, 4, 20] {
                check_same(count, rare);
            }
        }
    }
}
