//! Memory of one block that is several: used on each node from there.
//!
//! Blocks are told apart by who uses them, and of large memory that was dealt out in small parts
//! there are too few samples for that. But where each part is, and who used it, is known of every
//! sampled page. If those who use what is on a node are there more often than chance explains, who
//! uses the rest of the block says nothing of it.

use super::pieces::put_most_first;
use super::program::Positions;
use crate::tables::forest::{Point, SAMPLE};

/// How many standard deviations more samples than by chance must be of users beside the memory.
const SURE: f64 = 3.0;

/// Samples of a block, by where their thread and their page are.
#[derive(Debug, Default)]
pub(super) struct Apart {
    from: Vec<u32>,
    on: Vec<u32>,
    beside: u32,
}

impl Apart {
    /// Those of another block, on a machine with so many nodes.
    pub(super) fn begin(&mut self, nodes: usize) {
        for counts in [&mut self.from, &mut self.on] {
            counts.clear();
            counts.resize(nodes, 0);
        }
        self.beside = 0;
    }

    /// Counts samples of a thread on a node of memory on another, or on the same.
    #[inline]
    pub(super) fn put(&mut self, node: usize, home: usize, samples: u32) {
        if let (Some(from), Some(on)) = (self.from.get_mut(node), self.on.get_mut(home)) {
            *from += samples;
            *on += samples;
            self.beside += if node == home { samples } else { 0 };
        }
    }

    /// Whether the block is several.
    pub(super) fn is_sure(&self) -> bool {
        let samples = |count: u32| f64::from(count) / f64::from(SAMPLE);
        let all = samples(self.on.iter().sum());
        if all <= 0.0 {
            return false;
        }
        let both = self.from.iter().zip(&self.on);
        let products = both.map(|(&from, &on)| samples(from) * samples(on));
        let by_chance = products.sum::<f64>() / all;
        let spread = by_chance * (1.0 - by_chance / all);
        samples(self.beside) - by_chance > SURE * spread.max(0.0).sqrt()
    }
}

/// Samples of what is on a node, each with whose it is.
pub(super) fn samples_on(
    node: usize,
    (points, homes): (&[Point], &[Option<u16>]),
    positions: &Positions,
) -> impl Iterator<Item = (u32, f64)> {
    let own = points.iter().zip(homes);
    let own = own.filter(move |(_, home)| home.map(usize::from) == Some(node));
    own.filter_map(|(point, _)| {
        let samples = f64::from(point.samples()) / f64::from(SAMPLE);
        Some((positions.of(point.seat)?, samples))
    })
}

/// Who uses what is on a node, those most who use it most, with their samples.
pub(super) fn users_on(
    node: usize,
    known: (&[Point], &[Option<u16>]),
    positions: &Positions,
) -> Vec<(u32, f64)> {
    let mut users: Vec<(u32, f64)> = samples_on(node, known, positions).collect();
    users.sort_unstable_by_key(|&(task, _)| task);
    users.dedup_by(|one, kept| {
        let same = one.0 == kept.0;
        kept.1 += if same { one.1 } else { 0.0 };
        same
    });
    put_most_first(&mut users);
    users
}

/// Whether of most samples of a block nobody has more than half in their piece: else its threads
/// only lie beside each other, and are not told apart yet. Both halves are halved and doubled in
/// docs/measurements.md.
pub(super) fn is_mixed(points: &[Point], all: u64, bits: u32) -> bool {
    let (mut mixed, mut rest) = (0, 0);
    let number = |point: &Point| point.tag.page() >> bits;
    for piece in points.chunk_by(|one, other| number(one) == number(other)) {
        let (own, samples) = most_of(piece);
        match own * 2 <= samples {
            true => mixed += u64::from(samples),
            false => rest += u64::from(samples),
        }
        if mixed.max(rest) * 2 > all {
            break;
        }
    }
    mixed > rest
}

/// Samples of the thread that has more than half of a piece, if one has, and all (the vote of Boyer
/// and Moore). If none has, the first figure is no more than half.
fn most_of(piece: &[Point]) -> (u32, u32) {
    let (mut seat, mut lead, mut all) = (piece[0].seat, 0, 0);
    for point in piece {
        let samples = point.samples();
        all += samples;
        if point.seat == seat {
            lead += samples;
        } else if samples <= lead {
            lead -= samples;
        } else {
            (seat, lead) = (point.seat, samples - lead);
        }
    }
    if lead == 0 {
        return (0, all);
    }
    let own = piece.iter().filter(|point| point.seat == seat);
    (own.map(|point| point.samples()).sum(), all)
}
