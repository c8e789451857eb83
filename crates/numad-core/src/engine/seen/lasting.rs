//! Whether memory goes on to be used from where it was used before.
//!
//! Where several threads sweep the same memory, page faults show of each stretch who came to it
//! first, another each time. So every stretch looks like one thread's, and its pages would follow
//! whoever came last, in window after window. What tells this from memory that is a thread's is
//! that it does not last.
//!
//! Of a sample in this window be `q` the part that its node has of the samples of windows before
//! on the same stretch of memory, and `b` the part that it has of all samples of the program.
//! Where memory is used as before, `q - b` is in the mean what those samples let expect, the sum
//! of `p (p - b)` over nodes with part `p`. There all that was expected comes true, and nothing
//! where who uses memory next is anyone.
//!
//! A stretch that came to the same node twice by chance looks like memory that lasts. So a block is
//! not judged by what it did itself, but by what all memory of its kind did lately: of memory that
//! one node has nearly all samples of, whatever the window, that is nearly all of what is some
//! thread's own, and little of what all sweep.

use std::ops::Range;

use super::program::Positions;
use crate::policy::Task;
use crate::tables::Seat;
use crate::tables::forest::{Blocks, Point, SAMPLE, User};

/// How the memory of a program lasts with those who use it, of either kind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lasting {
    steady: Kept,
    pub mixed: Kept,
}

/// What was expected of samples, and what came true, in samples.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kept {
    expected: f64,
    came: f64,
}

/// Sum of the squares of the parts of all samples that nodes have of steady memory, at least: if
/// one has three quarters, and another the rest.
const STEADY: f64 = 0.625;

/// Points of a stretch of memory, of which those of this window are held against those of windows
/// before.
const STRETCH: usize = 16;

/// What a sample of the last window counts.
const LAST: u16 = SAMPLE / 2;

/// Samples that come true before any has come.
const TRUSTED: f64 = 8.0;

/// What part of what was expected comes true at least of memory that is used from where it was
/// before. Of memory that two of four nodes use a third does.
const LASTS: f64 = 0.2;

/// What windows before count, from one to the next: whether memory lasts is known of many, for
/// stretches that one thread came to first are few.
const REMEMBERED: f64 = 1.0 - 1.0 / 16.0;

impl Lasting {
    /// Holds what a block says of this window against what it says of those before, and tells
    /// whether it is used from where it was, as far as was known before.
    pub(super) fn learn(
        &self,
        window: &mut Self,
        (users, points): (&[User], &[Point]),
        nodes: &Nodes,
    ) -> bool {
        let Some(first) = users.iter().find_map(|user| nodes.of(user.seat)) else {
            return true;
        };
        let past: u32 = users.iter().map(|user| user.all - user.live).sum();
        let knows = past >= u32::from(LAST);
        if nodes.are_one(users) {
            if knows {
                // What one node alone uses goes on as it was.
                let here = users.iter().filter(|user| nodes.of(user.seat).is_some());
                let live: u32 = here.map(|user| user.live).sum();
                let came = f64::from(live) / f64::from(SAMPLE) * (1.0 - nodes.parts[first]);
                window.steady.expected += came;
                window.steady.came += came;
            }
            return self.steady.lasts();
        }
        if knows {
            window.learn_mixed(points, nodes);
        }
        match nodes.are_steady(users) {
            true => self.steady.lasts(),
            false => self.mixed.lasts(),
        }
    }

    /// The same of memory that is used from several nodes, stretch by stretch.
    fn learn_mixed(&mut self, points: &[Point], nodes: &Nodes) {
        let mut counts = vec![(0, 0); nodes.parts.len()];
        for stretch in points.chunks(STRETCH) {
            counts.fill((0, 0));
            for point in stretch {
                if let Some(node) = nodes.of(point.seat) {
                    counts[node].0 += u32::from(point.past);
                    counts[node].1 += u32::from(point.live);
                }
            }
            self.hold(&counts, &nodes.parts);
        }
    }

    /// Holds what nodes have of a stretch in this window against what they had of it before, and
    /// against the parts that they have of everything.
    fn hold(&mut self, counts: &[(u32, u32)], parts: &[f64]) {
        let (mut all, mut squares, mut usual) = (0.0, 0.0, 0.0);
        let (mut live, mut as_before, mut anyway) = (0.0, 0.0, 0.0);
        for (&(before, now), part) in counts.iter().zip(parts) {
            let before = f64::from(before) / f64::from(LAST);
            let now = f64::from(now) / f64::from(SAMPLE);
            all += before;
            squares += before * before;
            usual += before * part;
            live += now;
            as_before += now * before;
            anyway += now * part;
        }
        if all < 2.0 {
            return;
        }
        let kept = match is_steady(squares, all) {
            true => &mut self.steady,
            false => &mut self.mixed,
        };
        // Squares of what few samples show are too large in the mean.
        let alike = (squares / all - 1.0) / (all - 1.0);
        kept.expected += live * (alike - usual / all);
        kept.came += as_before / all - anyway;
    }

    /// Takes what a window says.
    pub(super) fn take(&mut self, window: Self) {
        for (kept, now) in [
            (&mut self.steady, window.steady),
            (&mut self.mixed, window.mixed),
        ] {
            kept.expected = kept.expected * REMEMBERED + now.expected;
            kept.came = kept.came * REMEMBERED + now.came;
        }
    }
}

impl Kept {
    pub(super) fn lasts(self) -> bool {
        self.came + TRUSTED >= LASTS * (self.expected + TRUSTED)
    }
}

/// Which nodes threads are on, and how many samples each thread and what part of all each node has.
#[derive(Debug)]
pub(super) struct Nodes {
    of_seats: Vec<Option<usize>>,
    samples: Vec<f64>,
    /// By node, up to the last with a thread.
    pub parts: Vec<f64>,
}

impl Nodes {
    pub(super) fn new(blocks: &Blocks, positions: &Positions, tasks: &[Task]) -> Self {
        let node = |position: Option<u32>| tasks.get(position? as usize)?.node;
        let of_seats: Vec<Option<usize>> = positions.of_seats.iter().copied().map(node).collect();
        let mut samples = vec![0.0; of_seats.len()];
        for user in &blocks.users {
            if let Some(samples) = samples.get_mut(usize::from(user.seat)) {
                *samples += f64::from(user.all) / f64::from(SAMPLE);
            }
        }
        let count = of_seats.iter().flatten().max().map_or(0, |most| most + 1);
        let mut parts = vec![0.0; count];
        for (&node, samples) in of_seats.iter().zip(&samples) {
            if let Some(node) = node {
                parts[node] += samples;
            }
        }
        let all: f64 = parts.iter().sum();
        parts.iter_mut().for_each(|part| *part /= all.max(1.0));
        Self {
            of_seats,
            samples,
            parts,
        }
    }

    /// Whether users are all on one node.
    pub(super) fn are_one(&self, users: &[User]) -> bool {
        let mut nodes = users.iter().filter_map(|user| self.of(user.seat));
        let first = nodes.next();
        nodes.all(|node| Some(node) == first)
    }

    /// The node of a thread.
    pub(super) fn of(&self, seat: Seat) -> Option<usize> {
        *self.of_seats.get(usize::from(seat))?
    }

    /// Whether one node has most of what these users have.
    fn are_steady(&self, users: &[User]) -> bool {
        let mut of_nodes = vec![0.0; self.parts.len()];
        for user in users {
            if let Some(node) = self.of(user.seat) {
                of_nodes[node] += f64::from(user.all);
            }
        }
        is_steady(
            of_nodes.iter().map(|samples| samples * samples).sum(),
            of_nodes.iter().sum(),
        )
    }

    /// Appends all who use memory, those of one node after those of another, with their samples.
    pub(super) fn everyone(
        &self,
        positions: &Positions,
        users: &mut Vec<(u32, f64)>,
    ) -> Range<usize> {
        let begin = users.len();
        let seats = self.of_seats.iter().zip(&positions.of_seats);
        let used = seats
            .zip(&self.samples)
            .filter(|(_, samples)| **samples > 0.0);
        let mut all: Vec<(Option<usize>, u32, f64)> = used
            .filter_map(|((&node, &position), &samples)| Some((node, position?, samples)))
            .collect();
        all.sort_unstable_by_key(|&(node, position, _)| (node, position));
        let all = all.into_iter();
        users.extend(all.map(|(_, position, samples)| (position, samples)));
        begin..users.len()
    }
}

/// Whether one node has most of all samples, by the squares of what each has.
fn is_steady(squares: f64, all: f64) -> bool {
    squares >= STEADY * all * all
}
