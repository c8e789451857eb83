//! Memory of one block that is several: used on each node from there.
//!
//! Blocks are told apart by who uses them, and of large memory that was dealt out in small parts
//! there are too few samples for that. But where each part is, and who used it, is known of every
//! sampled page. If those who use what is on a node are there more often than chance explains, who
//! uses the rest of the block says nothing of it.

use super::lasting::Nodes;
use super::program::Positions;
use crate::tables::forest::{Point, SAMPLE};

/// How many standard deviations more samples than by chance must be of users beside the memory.
const SURE: f64 = 3.0;

/// Whether a block of these samples, with where their pages are, is several.
pub(super) fn is_apart(points: &[Point], homes: &[Option<u16>], nodes: &Nodes) -> bool {
    let (mut all, mut beside) = (0.0, 0.0);
    let mut from = vec![0.0; nodes.count()];
    let mut on = from.clone();
    for (point, home) in points.iter().zip(homes) {
        let places = nodes.of(point.seat()).zip(home.map(usize::from));
        let Some((node, home)) = places.filter(|&(_, home)| home < on.len()) else {
            continue;
        };
        let samples = samples(point);
        all += samples;
        from[node] += samples;
        on[home] += samples;
        beside += if node == home { samples } else { 0.0 };
    }
    if all <= 0.0 {
        return false;
    }
    let both = from.iter().zip(&on);
    let by_chance = both.map(|(from, on)| from * on).sum::<f64>() / all;
    let spread = by_chance * (1.0 - by_chance / all);
    beside - by_chance > SURE * spread.max(0.0).sqrt()
}

/// Who uses what is on a node, those most who use it most, with their samples.
pub(super) fn users_on(
    node: usize,
    (points, homes): (&[Point], &[Option<u16>]),
    positions: &Positions,
) -> Vec<(u32, f64)> {
    let own = points.iter().zip(homes);
    let own = own.filter(|(_, home)| home.map(usize::from) == Some(node));
    let own = own.filter_map(|(point, _)| Some((positions.of(point.seat())?, samples(point))));
    let mut users: Vec<(u32, f64)> = own.collect();
    users.sort_unstable_by_key(|&(task, _)| task);
    users.dedup_by(|one, kept| {
        let same = one.0 == kept.0;
        kept.1 += if same { one.1 } else { 0.0 };
        same
    });
    users.sort_by(|one, other| other.1.total_cmp(&one.1));
    users
}

fn samples(point: &Point) -> f64 {
    f64::from(point.samples()) / f64::from(SAMPLE)
}
