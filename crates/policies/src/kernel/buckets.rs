//! Vertices of both sides of a cut by gain, roughly: queues with constant time for everything.

use super::fm::Sides;
use super::graph::{Level, id};

/// Gains up to this size have a bucket of their own; above, 16 buckets for each power of two.
const FINE_BITS: u32 = 4;
const FINE: u32 = 1 << FINE_BITS;
/// Buckets of one sign: 16 exact ones, then 16 for each of the 27 powers of two that are left.
const HALF: usize = 16 + 27 * 16;
const BUCKETS: usize = 2 * HALF;
const WORDS: usize = BUCKETS.div_ceil(64);
const NONE: u32 = u32::MAX;
/// In no queue, and may enter one.
const ABSENT: u16 = u16::MAX;
/// In no queue, and must stay out.
const LOCKED: u16 = u16::MAX - 1;

/// A vertex: all that a move of a partner touches, side by side.
#[derive(Clone, Copy, Debug)]
struct Cell {
    /// What moving the vertex to the other side saves.
    gain: i32,
    next: u32,
    previous: u32,
    bucket: u16,
    /// 0 or 1.
    side: u8,
}

impl Cell {
    const fn new(gain: i32, side: u8) -> Self {
        Self {
            gain,
            next: NONE,
            previous: NONE,
            bucket: ABSENT,
            side,
        }
    }

    /// Goes to the other side; where it was.
    #[inline]
    const fn turn(&mut self) -> u8 {
        let from = self.side;
        self.side = 1 - from;
        self.gain = -self.gain;
        from
    }
}

/// A queue for each side: last in, first out among gains within one sixteenth of each other.
#[derive(Debug)]
pub(super) struct Buckets {
    cells: Vec<Cell>,
    heads: [[u32; BUCKETS]; 2],
    used: [[u64; WORDS]; 2],
    /// No bucket above this word is used.
    top: [usize; 2],
}

impl Default for Buckets {
    fn default() -> Self {
        Self {
            cells: Vec::new(),
            heads: [[NONE; BUCKETS]; 2],
            used: [[0; WORDS]; 2],
            top: [0; 2],
        }
    }
}

/// Which bucket a gain belongs to: monotone.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "there are fewer than 1000 buckets"
)]
const fn bucket_of(gain: i32) -> u16 {
    let size = gain.unsigned_abs();
    let place = if size < FINE {
        size
    } else {
        let power = 31 - size.leading_zeros();
        ((power - FINE_BITS + 1) << FINE_BITS) + ((size >> (power - FINE_BITS)) & (FINE - 1))
    };
    let place = if place as usize >= HALF {
        HALF - 1
    } else {
        place as usize
    };
    (if gain < 0 { HALF - place } else { HALF + place }) as u16
}

impl Buckets {
    /// Empties both queues and unlocks all vertices.
    fn clear(&mut self) {
        for (heads, used) in self.heads.iter_mut().zip(&mut self.used) {
            for (word, bits) in used.iter_mut().enumerate() {
                while *bits != 0 {
                    heads[word * 64 + bits.trailing_zeros() as usize] = NONE;
                    *bits &= *bits - 1;
                }
            }
        }
        self.top = [0; 2];
        for cell in &mut self.cells {
            cell.bucket = ABSENT;
        }
    }

    /// Puts a vertex into the queue of its side.
    #[inline]
    fn insert(&mut self, vertex: usize) {
        let cell = &mut self.cells[vertex];
        let side = usize::from(cell.side & 1);
        let bucket = bucket_of(cell.gain);
        let place = usize::from(bucket);
        let head = self.heads[side][place];
        cell.next = head;
        cell.previous = NONE;
        cell.bucket = bucket;
        if head != NONE {
            self.cells[head as usize].previous = id(vertex);
        }
        self.heads[side][place] = id(vertex);
        self.used[side][place / 64] |= 1 << (place % 64);
        self.top[side] = self.top[side].max(place / 64);
    }

    #[inline]
    fn remove(&mut self, vertex: usize) {
        let Cell {
            next,
            previous,
            bucket,
            side,
            ..
        } = self.cells[vertex];
        let side = usize::from(side & 1);
        let place = usize::from(bucket);
        if next != NONE {
            self.cells[next as usize].previous = previous;
        }
        if previous == NONE {
            self.heads[side][place] = next;
            if next == NONE {
                self.used[side][place / 64] &= !(1 << (place % 64));
            }
        } else {
            self.cells[previous as usize].next = next;
        }
    }

    /// Adds to the gain of a vertex, and puts it where it then belongs unless it is locked.
    #[inline]
    fn add(&mut self, vertex: usize, more: i32) {
        let cell = &mut self.cells[vertex];
        cell.gain += more;
        if cell.bucket == LOCKED || cell.bucket == bucket_of(cell.gain) {
            return;
        }
        if cell.bucket != ABSENT {
            self.remove(vertex);
        }
        self.insert(vertex);
    }

    #[inline]
    fn top(&mut self, side: usize) -> Option<usize> {
        loop {
            let top = self.top[side];
            let bits = self.used[side][top];
            if bits != 0 {
                let place = top * 64 + 63 - bits.leading_zeros() as usize;
                return Some(self.heads[side][place] as usize);
            }
            self.top[side] = top.checked_sub(1)?;
        }
    }
}

impl Sides for Buckets {
    fn take(&mut self, _: &Level) {}

    fn start(&mut self, graph: &Level, side: &[u8]) -> i64 {
        let rows = graph.rows();
        // Vertices of the cut before may still be queued.
        self.clear();
        self.cells.clear();
        let mut twice = 0_i64;
        for (vertex, &own) in side.iter().enumerate() {
            let (mut across, mut total) = (0, 0);
            for (other, weight) in rows.row(vertex) {
                total += weight;
                across += if side[other] == own { 0 } else { weight };
            }
            let bias = graph.bias[vertex];
            let signed = if own == 0 { bias } else { -bias };
            self.cells.push(Cell::new(2 * across - total + signed, own));
            twice += i64::from(across);
            if own == 0 {
                twice += 2 * i64::from(bias);
            }
        }
        twice / 2
    }

    #[inline]
    fn gain(&self, vertex: usize) -> i32 {
        self.cells[vertex].gain
    }

    #[inline]
    fn side(&self, vertex: usize) -> u8 {
        self.cells[vertex].side
    }

    fn queue_all(&mut self) {
        self.clear();
        (0..self.cells.len()).for_each(|vertex| self.insert(vertex));
    }

    fn queue_border(&mut self, graph: &Level) {
        self.clear();
        for vertex in 0..self.cells.len() {
            let side = self.cells[vertex].side;
            let crosses = |(other, _): (usize, i32)| self.cells[other].side != side;
            if graph.bias[vertex] != 0 || graph.rows().row(vertex).any(crosses) {
                self.insert(vertex);
            }
        }
    }

    #[inline]
    fn best(&mut self, side: usize) -> Option<usize> {
        self.top(side)
    }

    #[inline]
    fn flip(&mut self, graph: &Level, vertex: usize) {
        if self.cells[vertex].bucket < LOCKED {
            self.remove(vertex);
        }
        let cell = &mut self.cells[vertex];
        cell.bucket = LOCKED;
        let from = cell.turn();
        for (other, weight) in graph.rows().row(vertex) {
            let stayed = self.cells[other].side == from;
            self.add(other, if stayed { 2 * weight } else { -2 * weight });
        }
    }

    #[inline]
    fn flip_back(&mut self, graph: &Level, vertex: usize) {
        let from = self.cells[vertex].turn();
        for (other, weight) in graph.rows().row(vertex) {
            let cell = &mut self.cells[other];
            let stayed = cell.side == from;
            cell.gain += if stayed { 2 * weight } else { -2 * weight };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS, Buckets, Cell, LOCKED, bucket_of};

    #[test]
    fn buckets_are_monotone_and_within_bounds() {
        let mut gains = vec![i32::MIN, i32::MIN + 1, i32::MAX, 0];
        for power in 0..31 {
            for step in -2..=2 {
                gains.push((1_i32 << power).saturating_add(step));
                gains.push(-(1_i32 << power).saturating_add(step));
            }
        }
        gains.sort_unstable();
        for pair in gains.windows(2) {
            assert!(bucket_of(pair[0]) <= bucket_of(pair[1]), "{pair:?}");
        }
        assert!(usize::from(bucket_of(i32::MAX)) < BUCKETS);
        assert!(bucket_of(-1) < bucket_of(0) && bucket_of(0) < bucket_of(1));
    }

    #[test]
    fn the_best_comes_first_and_clear_empties() {
        let mut queue = Buckets::default();
        queue
            .cells
            .extend([-5, 70, 3, 3, 900].map(|gain| Cell::new(gain, 0)));
        queue.cells.push(Cell::new(5000, 1));
        queue.clear();
        (0..6).for_each(|vertex| queue.insert(vertex));
        assert_eq!(queue.top(0), Some(4));
        assert_eq!(queue.top(1), Some(5));
        queue.add(4, -1800);
        assert_eq!(queue.top(0), Some(1));
        queue.remove(1);
        queue.cells[1].bucket = LOCKED;
        queue.add(1, 9999);
        assert_eq!(
            queue.top(0),
            Some(3),
            "last in, first out; what is locked stays out"
        );
        queue.clear();
        assert_eq!((queue.top(0), queue.top(1)), (None, None));
    }
}
