//! Whether memory goes on to be used from where it was used before.
//!
//! Where several threads sweep the same memory, page faults show of each stretch who came to it first, another each
//! time. So every stretch looks like one thread's, and its pages would follow whoever came last, in window after
//! window. What tells this from memory that is a thread's is that it does not last.
//!
//! Of a sample in this window be `q` the part that its node has of the samples of windows before around it, and `b` the
//! part that it has of all samples of the program. Where memory is used as before, `q - b` is in the mean what those
//! samples let expect, the sum of `p (p - b)` over nodes with part `p`. How much of what was expected comes true is 1
//! there, and 0 where who uses memory next is anyone.

use std::ops::Range;

use super::program::Positions;
use crate::policy::Task;
use crate::tables::forest::{AROUND, Point, SAMPLE};

/// How the memory of a program lasts with those who use it, of either kind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lasting {
    steady: Kept,
    mixed: Kept,
}

/// What was expected of samples, and what came true, in samples.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    expected: f64,
    came: f64,
}

/// Part of all samples of steady memory that one node has at least.
const MOST: f64 = 0.75;

/// Samples that come true before any has come.
const TRUSTED: f64 = 8.0;

/// What part of what was expected comes true at least of memory that is used from where it was before. Of memory that
/// two of four nodes use a third does.
const LASTS: f64 = 0.2;

/// What windows before count, from one to the next: whether memory lasts is known of many, for stretches that one
/// thread came to first are few.
const REMEMBERED: f64 = 1.0 - 1.0 / 16.0;

impl Lasting {
    /// Holds what the points of a block say of this window against what they say of those before.
    pub(super) fn learn(&mut self, points: &[Point], nodes: &Nodes) {
        let mut around = Around::new(nodes);
        let (mut from, mut to) = (0, 0);
        for (at, point) in points.iter().enumerate() {
            while to < points.len().min(at + AROUND + 1) {
                around.take(&points[to]);
                to += 1;
            }
            while from + AROUND < at {
                around.leave(&points[from]);
                from += 1;
            }
            let node = nodes.of(point).filter(|_| point.live() > 0);
            if let Some((is_steady, expected, came)) = node.and_then(|node| around.judge(node)) {
                let samples = f64::from(point.live()) / f64::from(SAMPLE);
                let kept = match is_steady {
                    true => &mut self.steady,
                    false => &mut self.mixed,
                };
                kept.expected += samples * expected;
                kept.came += samples * came;
            }
        }
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

    /// Whether memory does that is not steady.
    pub(super) fn mixed_lasts(&self) -> bool {
        self.mixed.lasts()
    }

    /// Whether a block with these points is used from where it was before, as far as is known.
    pub(super) fn lasts(&self, points: &[Point], nodes: &Nodes) -> bool {
        match nodes.is_steady(points) {
            true => self.steady.lasts(),
            false => self.mixed.lasts(),
        }
    }
}

impl Kept {
    fn lasts(self) -> bool {
        self.came + TRUSTED >= LASTS * (self.expected + TRUSTED)
    }
}

/// Which nodes threads are on, and what part of all samples each node has.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    of_seats: Vec<Option<usize>>,
    parts: Vec<f64>,
}

impl Nodes {
    pub(super) fn new(points: &[Point], positions: &Positions, tasks: &[Task]) -> Self {
        let node = |position: Option<u32>| tasks.get(position? as usize)?.node;
        let of_seats: Vec<Option<usize>> = positions.by_seat().iter().copied().map(node).collect();
        let count = of_seats.iter().flatten().max().map_or(0, |most| most + 1);
        let mut nodes = Self {
            of_seats,
            parts: vec![0.0; count],
        };
        for point in points {
            if let Some(node) = nodes.of(point) {
                nodes.parts[node] += f64::from(point.samples());
            }
        }
        let all: f64 = nodes.parts.iter().sum();
        nodes
            .parts
            .iter_mut()
            .for_each(|part| *part /= all.max(1.0));
        nodes
    }

    fn of(&self, point: &Point) -> Option<usize> {
        *self.of_seats.get(usize::from(point.seat()))?
    }

    /// Whether one node has most samples of a block.
    fn is_steady(&self, points: &[Point]) -> bool {
        let mut of_nodes = vec![0; self.parts.len()];
        let mut all = 0;
        for point in points {
            if let Some(node) = self.of(point) {
                of_nodes[node] += point.samples();
                all += point.samples();
            }
        }
        let most = of_nodes.into_iter().max().unwrap_or(0);
        f64::from(most) >= MOST * f64::from(all)
    }

    /// Appends all who use memory, those of one node after those of another, with their samples.
    pub(super) fn everyone(
        &self,
        points: &[Point],
        positions: &Positions,
        users: &mut Vec<(u32, f64)>,
    ) -> Range<usize> {
        let mut samples = vec![0.0; self.of_seats.len()];
        for point in points {
            if let Some(samples) = samples.get_mut(usize::from(point.seat())) {
                *samples += f64::from(point.samples()) / f64::from(SAMPLE);
            }
        }
        let begin = users.len();
        let seats = self.of_seats.iter().zip(positions.by_seat()).zip(samples);
        let mut all: Vec<(Option<usize>, u32, f64)> = seats
            .filter_map(|((&node, &position), samples)| Some((node, position?, samples)))
            .filter(|&(_, _, samples)| samples > 0.0)
            .collect();
        all.sort_unstable_by_key(|&(node, position, _)| (node, position));
        users.extend(
            all.into_iter()
                .map(|(_, position, samples)| (position, samples)),
        );
        begin..users.len()
    }
}

/// Samples of windows before among the points around one.
struct Around<'a> {
    nodes: &'a Nodes,
    of_nodes: Vec<f64>,
    all: f64,
    /// Sum of the squares of what nodes have, and of the parts that those have of all who have these.
    squares: f64,
    usual: f64,
}

/// What a sample of the last window counts.
const LAST: u16 = SAMPLE / 2;

impl<'a> Around<'a> {
    fn new(nodes: &'a Nodes) -> Self {
        Self {
            nodes,
            of_nodes: vec![0.0; nodes.parts.len()],
            all: 0.0,
            squares: 0.0,
            usual: 0.0,
        }
    }

    fn take(&mut self, point: &Point) {
        self.change(point, 1.0);
    }

    fn leave(&mut self, point: &Point) {
        self.change(point, -1.0);
    }

    fn change(&mut self, point: &Point, by: f64) {
        let Some(node) = self.nodes.of(point).filter(|_| point.past() > 0) else {
            return;
        };
        let past = by * f64::from(point.past()) / f64::from(LAST);
        let before = self.of_nodes[node];
        self.of_nodes[node] += past;
        self.squares += self.of_nodes[node] * self.of_nodes[node] - before * before;
        self.all += past;
        self.usual += past * self.nodes.parts[node];
    }

    /// Whether memory is steady, what is expected of a sample of it, and what comes true by one from a node; none where
    /// too little was seen before.
    fn judge(&self, node: usize) -> Option<(bool, f64, f64)> {
        if self.all < 2.0 {
            return None;
        }
        let most = self.of_nodes.iter().copied().fold(0.0, f64::max);
        let is_steady = most >= MOST * self.all;
        // Squares of what few samples show are too large in the mean.
        let alike = (self.squares / self.all - 1.0) / (self.all - 1.0);
        let came = self.of_nodes[node] / self.all - self.nodes.parts[node];
        Some((is_steady, alike - self.usual / self.all, came))
    }
}
