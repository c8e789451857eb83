//! A run in the figures of the matrix.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::driver::{Run, WindowRow};
use crate::world::World;

use super::oracle::Best;

/// The figures of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Work done in the whole run, as part of what an idle machine with everything local would do.
    pub speed: f64,
    /// Part of all accesses that was local.
    pub local_share: f64,
    /// The same in the last window.
    pub local_at_end: f64,
    /// The busiest controller's traffic over the mean.
    pub imbalance: f64,
    /// Share of its bandwidth that the most used controller delivers in the end.
    pub busiest: f64,
    /// Threads that changed node, whoever moved them.
    pub task_moves: f64,
    /// Pages that changed node.
    pub page_moves: f64,
    /// Windows until nothing was moved any more, of the program and seed that took longest.
    pub settled: u32,
    /// Threads bound and pages moved after the fifth window: whether what is late is much.
    pub late_moves: u64,
    /// Windows after a change of phase until it was followed.
    pub follow: Follow,
    /// Rules that were broken; must be none.
    pub violations: u32,
}

/// Whether a change of phase was followed: work is done at 95 % of the speed before the change again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Follow {
    /// Nothing changed.
    NotAsked,
    /// After so many windows that were slower, the one in which the change fell included.
    After(u32),
    /// Not before the end.
    Never,
}

/// Windows that a policy has to settle in.
pub(super) const SETTLE_WINDOWS: u32 = 5;

/// Speed after a change, compared to before, at which it counts as followed.
const FOLLOWED: f64 = 0.95;

impl Measured {
    /// One cell from its seeds: means, and the worst where a bound is asked for.
    pub(super) fn mean(seeds: &[Self]) -> Self {
        let mean = |figure: fn(&Self) -> f64| {
            seeds.iter().map(figure).sum::<f64>() / seeds.len().max(1) as f64
        };
        Self {
            speed: mean(|one| one.speed),
            local_share: mean(|one| one.local_share),
            local_at_end: mean(|one| one.local_at_end),
            imbalance: mean(|one| one.imbalance),
            busiest: mean(|one| one.busiest),
            task_moves: mean(|one| one.task_moves),
            page_moves: mean(|one| one.page_moves),
            settled: seeds.iter().map(|one| one.settled).max().unwrap_or(0),
            late_moves: seeds.iter().map(|one| one.late_moves).max().unwrap_or(0),
            follow: seeds
                .iter()
                .map(|one| one.follow)
                .max()
                .unwrap_or(Follow::NotAsked),
            violations: seeds.iter().map(|one| one.violations).sum(),
        }
    }
}

impl Best {
    pub(super) fn mean(seeds: &[Self]) -> Self {
        let mean = |figure: fn(&Self) -> f64| {
            seeds.iter().map(figure).sum::<f64>() / seeds.len().max(1) as f64
        };
        Self {
            speed: mean(|one| one.speed),
            local_share: mean(|one| one.local_share),
            imbalance: mean(|one| one.imbalance),
        }
    }
}

/// A run and what it was run on.
pub(super) struct Ran<'a> {
    pub(super) run: &'a Run,
    pub(super) world: &'a World,
    pub(super) duration: Duration,
    /// How long a phase lasts, if anything changes.
    pub(super) phase: Option<Duration>,
}

impl Ran<'_> {
    pub(super) fn measured(&self) -> Measured {
        let (totals, windows) = (self.world.totals(), &self.run.windows);
        let duration_ns = self.duration.as_nanos() as f64;
        let at_end = windows.last().and_then(|row| row.local_share);
        Measured {
            speed: totals.work() / (totals.work_ns.len() as f64 * duration_ns),
            local_share: totals.local_share(),
            local_at_end: at_end.unwrap_or(0.0),
            imbalance: totals.imbalance(),
            busiest: self.world.busiest_controller(),
            task_moves: totals.task_moves as f64,
            page_moves: totals.page_moves as f64,
            settled: settled(windows),
            late_moves: late_moves(windows),
            follow: self
                .phase
                .map_or(Follow::NotAsked, |phase| follow(windows, phase)),
            violations: u32::try_from(self.run.violations.len()).unwrap_or(u32::MAX),
        }
    }
}

/// The number of the last window of any program after which something was moved, from 1.
fn settled(windows: &[WindowRow]) -> u32 {
    let numbered = numbered(windows).into_iter();
    let busy = numbered.filter(|(_, row)| row.bound > 0 || row.moved_pages > 0);
    busy.map(|(number, _)| number).max().unwrap_or(0)
}

fn late_moves(windows: &[WindowRow]) -> u64 {
    let numbered = numbered(windows).into_iter();
    let late = numbered.filter(|(number, _)| *number > SETTLE_WINDOWS);
    late.map(|(_, row)| row.bound + row.moved_pages).sum()
}

/// Each window with its number among those of its program.
fn numbered(windows: &[WindowRow]) -> Vec<(u32, &WindowRow)> {
    let mut seen: BTreeMap<u32, u32> = BTreeMap::new();
    let mut number = |row: &WindowRow| {
        let number = seen.entry(row.program).or_default();
        *number += 1;
        *number
    };
    windows.iter().map(|row| (number(row), row)).collect()
}

/// How many windows after the first change were slower than the last before it.
fn follow(windows: &[WindowRow], phase: Duration) -> Follow {
    let change = u64::try_from(phase.as_millis()).unwrap_or(u64::MAX);
    let (before, after): (Vec<_>, Vec<_>) = windows.iter().partition(|row| row.time_ms <= change);
    let Some(speed) = before.last().and_then(|row| row.speed) else {
        return Follow::Never;
    };
    let slow = |row: &&WindowRow| row.speed.is_none_or(|now| now < speed * FOLLOWED);
    match after.iter().rposition(slow) {
        None => Follow::After(0),
        Some(last) if last + 1 == after.len() => Follow::Never,
        Some(last) => Follow::After(u32::try_from(last + 1).unwrap_or(u32::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use numad_core::event::WindowSummary;

    use super::*;

    fn rows(figures: &[(u64, u32, u64, f64)]) -> Vec<WindowRow> {
        let row = |&(time_ms, program, bound, speed): &(u64, u32, u64, f64)| WindowRow {
            time_ms,
            program,
            summary: WindowSummary::default(),
            bound,
            moved_pages: 0,
            refused: 0,
            local_share: None,
            untouched_share: None,
            speed: Some(speed),
        };
        figures.iter().map(row).collect()
    }

    #[test]
    fn settled_is_the_last_window_with_moves_of_any_program() {
        let two = rows(&[
            (1, 1, 3, 1.0),
            (1, 2, 0, 1.0),
            (2, 2, 1, 1.0),
            (2, 1, 0, 1.0),
        ]);
        assert_eq!(settled(&two), 2);
        assert_eq!(settled(&rows(&[(1, 1, 0, 1.0)])), 0);
        let late: Vec<_> = (1..=7).map(|at| (at, 1, at, 1.0)).collect();
        assert_eq!((settled(&rows(&late)), late_moves(&rows(&late))), (7, 13));
        assert_eq!(late_moves(&two), 0);
    }

    #[test]
    fn a_change_is_followed_when_speed_is_back() {
        let after = |speeds: &[f64]| {
            let mut all = vec![(900, 1, 0, 0.5), (1000, 1, 0, 0.8)];
            all.extend(
                (2..)
                    .zip(speeds)
                    .map(|(at, &speed)| (at * 1000, 1, 0, speed)),
            );
            follow(&rows(&all), Duration::from_secs(1))
        };
        assert_eq!(after(&[0.6, 0.6, 0.8, 0.79]), Follow::After(2));
        assert_eq!(after(&[0.8, 0.6, 0.8]), Follow::After(2));
        assert_eq!(after(&[0.8, 0.77]), Follow::After(0));
        assert_eq!(after(&[0.8, 0.6]), Follow::Never);
        assert!(Follow::NotAsked < Follow::After(9) && Follow::After(9) < Follow::Never);
    }
}
