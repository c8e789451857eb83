//! Vertices of both sides of a cut by gain, in a heap for each side.
//!
//! A vertex whose gain changes enters anew, and what it left behind is passed over when it comes to the top:
//! that is cheaper than finding it.

use std::collections::BinaryHeap;

use super::fm::Sides;
use super::graph::{Level, id, reset};

/// In no queue, and may enter one.
const ABSENT: u32 = 0;
/// In no queue, and must stay out.
const LOCKED: u32 = u32::MAX;

/// A queue for each side: the highest gain first, of equals the last in.
#[derive(Debug, Default)]
pub(super) struct Heaps {
    /// What moving each vertex to the other side saves.
    gain: Vec<i32>,
    side: Vec<u8>,
    /// The number of the entry that counts for each vertex, or [`ABSENT`] or [`LOCKED`].
    entry: Vec<u32>,
    entries: u32,
    queues: [BinaryHeap<(i32, u32, u32)>; 2],
}

impl Heaps {
    /// Empties both queues and unlocks all vertices.
    fn clear(&mut self) {
        self.queues.iter_mut().for_each(BinaryHeap::clear);
        reset(&mut self.entry, self.side.len(), ABSENT);
        self.entries = ABSENT;
    }

    /// Puts a vertex into the queue of its side.
    #[inline]
    fn insert(&mut self, vertex: usize) {
        self.entries += 1;
        self.entry[vertex] = self.entries;
        let queue = &mut self.queues[usize::from(self.side[vertex] & 1)];
        queue.push((self.gain[vertex], self.entries, id(vertex)));
    }
}

impl Sides for Heaps {
    fn take(&mut self, _: &Level) {}

    fn start(&mut self, graph: &Level, side: &[u8]) -> i64 {
        let rows = graph.rows();
        side.clone_into(&mut self.side);
        self.clear();
        self.gain.clear();
        let mut twice = 0_i64;
        for (vertex, &own) in side.iter().enumerate() {
            let (mut across, mut total) = (0, 0);
            for (other, weight) in rows.row(vertex) {
                total += weight;
                across += if side[other] == own { 0 } else { weight };
            }
            let bias = graph.bias[vertex];
            let signed = if own == 0 { bias } else { -bias };
            self.gain.push(2 * across - total + signed);
            twice += i64::from(across);
            if own == 0 {
                twice += 2 * i64::from(bias);
            }
        }
        twice / 2
    }

    #[inline]
    fn gain(&self, vertex: usize) -> i32 {
        self.gain[vertex]
    }

    #[inline]
    fn side(&self, vertex: usize) -> u8 {
        self.side[vertex]
    }

    fn queue_all(&mut self) {
        self.clear();
        (0..self.side.len()).for_each(|vertex| self.insert(vertex));
    }

    fn queue_border(&mut self, graph: &Level) {
        self.clear();
        for vertex in 0..self.side.len() {
            let crosses = |(other, _): (usize, i32)| self.side[other] != self.side[vertex];
            if graph.bias[vertex] != 0 || graph.rows().row(vertex).any(crosses) {
                self.insert(vertex);
            }
        }
    }

    #[inline]
    fn best(&mut self, side: usize) -> Option<usize> {
        while let Some(&(_, entry, vertex)) = self.queues[side].peek() {
            if self.entry[vertex as usize] == entry {
                return Some(vertex as usize);
            }
            self.queues[side].pop();
        }
        None
    }

    #[inline]
    fn flip(&mut self, graph: &Level, vertex: usize) {
        self.entry[vertex] = LOCKED;
        self.flip_back(graph, vertex);
        for (other, _) in graph.rows().row(vertex) {
            if self.entry[other] != LOCKED {
                self.insert(other);
            }
        }
    }

    #[inline]
    fn flip_back(&mut self, graph: &Level, vertex: usize) {
        let from = self.side[vertex];
        self.side[vertex] = 1 - from;
        self.gain[vertex] = -self.gain[vertex];
        for (other, weight) in graph.rows().row(vertex) {
            let stayed = self.side[other] == from;
            self.gain[other] += if stayed { 2 * weight } else { -2 * weight };
        }
    }
}
