//! Vertices sorted by gain, roughly: a queue with constant time for everything.

use super::graph::id;

/// Gains up to this size have a bucket of their own; above, 16 buckets for each power of two.
const FINE_BITS: u32 = 4;
const FINE: u32 = 1 << FINE_BITS;
/// Buckets of one sign: 16 exact ones, then 16 for each of the 27 powers of two that are left.
const HALF: usize = 16 + 27 * 16;
const BUCKETS: usize = 2 * HALF;
const WORDS: usize = BUCKETS.div_ceil(64);
const NONE: u32 = u32::MAX;
const ABSENT: u16 = u16::MAX;

/// A queue of vertices by gain: last in, first out among gains within one sixteenth of each other.
#[derive(Debug)]
pub(super) struct Buckets {
    heads: Vec<u32>,
    used: [u64; WORDS],
    next: Vec<u32>,
    previous: Vec<u32>,
    bucket: Vec<u16>,
    /// No bucket above this one is used.
    top: usize,
}

impl Default for Buckets {
    fn default() -> Self {
        Self {
            heads: vec![NONE; BUCKETS],
            used: [0; WORDS],
            next: Vec::new(),
            previous: Vec::new(),
            bucket: Vec::new(),
            top: 0,
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
    /// Empties the queue and makes room for `count` vertices.
    pub(super) fn clear(&mut self, count: usize) {
        for word in 0..WORDS {
            let mut bits = self.used[word];
            while bits != 0 {
                let mut vertex = self.heads[word * 64 + bits.trailing_zeros() as usize];
                self.heads[word * 64 + bits.trailing_zeros() as usize] = NONE;
                while vertex != NONE {
                    self.bucket[vertex as usize] = ABSENT;
                    vertex = self.next[vertex as usize];
                }
                bits &= bits - 1;
            }
            self.used[word] = 0;
        }
        self.top = 0;
        if self.next.len() < count {
            self.next.resize(count, NONE);
            self.previous.resize(count, NONE);
            self.bucket.resize(count, ABSENT);
        }
    }

    #[inline]
    pub(super) fn contains(&self, vertex: usize) -> bool {
        self.bucket[vertex] != ABSENT
    }

    #[inline]
    pub(super) fn insert(&mut self, vertex: usize, gain: i32) {
        let bucket = bucket_of(gain);
        let place = usize::from(bucket);
        let head = self.heads[place];
        self.next[vertex] = head;
        self.previous[vertex] = NONE;
        if head != NONE {
            self.previous[head as usize] = id(vertex);
        }
        self.heads[place] = id(vertex);
        self.bucket[vertex] = bucket;
        self.used[place / 64] |= 1 << (place % 64);
        self.top = self.top.max(place / 64);
    }

    #[inline]
    pub(super) fn remove(&mut self, vertex: usize) {
        let place = usize::from(self.bucket[vertex]);
        let (next, previous) = (self.next[vertex], self.previous[vertex]);
        if next != NONE {
            self.previous[next as usize] = previous;
        }
        if previous == NONE {
            self.heads[place] = next;
            if next == NONE {
                self.used[place / 64] &= !(1 << (place % 64));
            }
        } else {
            self.next[previous as usize] = next;
        }
        self.bucket[vertex] = ABSENT;
    }

    /// Puts a vertex that is in the queue where its new gain belongs.
    #[inline]
    pub(super) fn update(&mut self, vertex: usize, gain: i32) {
        if self.bucket[vertex] != bucket_of(gain) {
            self.remove(vertex);
            self.insert(vertex, gain);
        }
    }

    /// A vertex of the highest bucket.
    #[inline]
    pub(super) fn best(&mut self) -> Option<usize> {
        loop {
            let bits = self.used[self.top];
            if bits != 0 {
                let place = self.top * 64 + 63 - bits.leading_zeros() as usize;
                return Some(self.heads[place] as usize);
            }
            if self.top == 0 {
                return None;
            }
            self.top -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS, Buckets, bucket_of};

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
        queue.clear(5);
        for (vertex, gain) in [-5, 70, 3, 3, 900].into_iter().enumerate() {
            queue.insert(vertex, gain);
        }
        assert_eq!(queue.best(), Some(4));
        queue.update(4, -900);
        assert_eq!(queue.best(), Some(1));
        queue.remove(1);
        assert_eq!(queue.best(), Some(3), "last in, first out");
        queue.clear(5);
        assert_eq!(queue.best(), None);
        assert!((0..5).all(|vertex| !queue.contains(vertex)));
    }
}
