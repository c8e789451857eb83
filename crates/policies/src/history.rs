//! What was said in the windows of the last while, and which of it was said at the same time.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use numad_core::figures::whole;
use numad_core::{CommMatrix, Program, Time};
use topology::TaskKey;

use crate::clusters::{Bin, Clusters};

/// Windows that are remembered: a minute at intervals of a second.
const WINDOWS_MAX: usize = 64;

/// Pairs that are remembered of a window, the loudest: 6 MiB for all windows at most.
const PAIRS_MAX: usize = 4096;

/// Clusters that are looked for.
const CLUSTERS_MAX: usize = 16;

/// Two tasks, the lower first.
type Pair = (TaskKey, TaskKey);

/// The windows.
#[derive(Debug, Default)]
pub(crate) struct History {
    windows: VecDeque<Window>,
    /// In which they were, for those who forget other eras.
    era: u32,
}

#[derive(Debug)]
struct Window {
    end: Time,
    length_ns: f64,
    pairs: Vec<(Pair, u64)>,
}

/// How many clusters there are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Count {
    /// One.
    One,
    /// As many as the Bayesian information criterion finds.
    Criterion,
    /// Two or more, until this share of the variance is explained.
    Fit(f64),
}

/// Pairs that talked in the same span of time.
pub(crate) type Group = Vec<Spoken>;

/// What a pair said in a span of time: its tasks by position in the program, how much in all, and
/// in how many windows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spoken {
    pub(crate) low: usize,
    pub(crate) high: usize,
    pub(crate) amount: f64,
    pub(crate) windows: f64,
}

impl History {
    /// Remembers this window.
    pub(crate) fn note(&mut self, now: Time, program: &Program<'_>) {
        let key = |task: usize| program.tasks[task].key;
        let pairs = program.live.pairs();
        let pair = |(one, other, amount)| {
            let (one, other): (TaskKey, TaskKey) = (key(one), key(other));
            ((one.min(other), one.max(other)), amount)
        };
        let mut pairs: Vec<(Pair, u64)> = pairs.map(pair).collect();
        pairs.sort_by_key(|&(_, amount)| std::cmp::Reverse(amount));
        pairs.truncate(PAIRS_MAX);
        if pairs.is_empty() {
            return;
        }
        if self.windows.len() == WINDOWS_MAX {
            self.windows.pop_front();
        }
        self.windows.push_back(Window {
            end: now,
            length_ns: program.window.as_nanos() as f64,
            pairs,
        });
    }

    /// How many windows are remembered.
    pub(crate) fn count(&self) -> usize {
        self.windows.len()
    }

    /// Forgets what was before another era began.
    pub(crate) fn begin_era(&mut self, era: u32) {
        if era != self.era {
            self.windows.clear();
            self.era = era;
        }
    }

    /// What was said, in groups by when; pairs of tasks that are gone are left out, and so are groups of
    /// nothing else.
    pub(crate) fn groups(&self, program: &Program<'_>, count: Count) -> Vec<Group> {
        let positions = positions(program);
        let clusters = || Clusters::new(&self.bins(), CLUSTERS_MAX);
        let lengths: f64 = self.windows.iter().map(|window| window.length_ns).sum();
        let ranges = match count {
            Count::One => std::iter::once(0..self.windows.len()).collect(),
            Count::Criterion => clusters().by_criterion(lengths / self.windows.len().max(1) as f64),
            Count::Fit(share) => clusters().by_fit(share),
        };
        let group = |range: std::ops::Range<usize>| {
            let mut spoken: BTreeMap<(usize, usize), Spoken> = BTreeMap::new();
            for ((one, other), amount) in self.windows.range(range).flat_map(|one| &one.pairs) {
                if let (Some(&one), Some(&other)) = (positions.get(one), positions.get(other)) {
                    let (low, high) = (one.min(other), one.max(other));
                    let sum = spoken.entry((low, high)).or_insert(Spoken {
                        low,
                        high,
                        amount: 0.0,
                        windows: 0.0,
                    });
                    sum.amount += *amount as f64;
                    sum.windows += 1.0;
                }
            }
            spoken.into_values().collect()
        };
        let groups = ranges.into_iter().map(group);
        groups.filter(|group: &Group| !group.is_empty()).collect()
    }

    /// What was said in a window on average, in all groups together; something remains of every pair.
    pub(crate) fn matrix(&self, groups: &[Group], tasks: usize) -> CommMatrix {
        let mut sums: BTreeMap<(usize, usize), f64> = BTreeMap::new();
        for pair in groups.iter().flatten() {
            *sums.entry((pair.low, pair.high)).or_default() += pair.amount;
        }
        let windows = self.windows.len().max(1) as f64;
        let mut matrix = CommMatrix::new(tasks);
        for ((low, high), amount) in sums {
            matrix.add(low, high, whole(amount / windows).max(1));
        }
        matrix
    }

    /// Windows as bins, in their middle.
    fn bins(&self) -> Vec<Bin> {
        let Some(first) = self.windows.front() else {
            return Vec::new();
        };
        let bin = |window: &Window| {
            let said = window.pairs.iter().map(|&(_, amount)| amount as f64);
            Bin {
                at: window.end.since(first.end).as_nanos() as f64 - window.length_ns / 2.0,
                weight: said.sum(),
            }
        };
        self.windows.iter().map(bin).collect()
    }
}

/// When a window began that ends now.
pub(crate) fn began(now: Time, window: Duration) -> Time {
    let length = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
    Time(now.0.saturating_sub(length))
}

/// The position of each task in a program.
pub(crate) fn positions(program: &Program<'_>) -> BTreeMap<TaskKey, usize> {
    let tasks = program.tasks.iter().enumerate();
    tasks.map(|(position, task)| (task.key, position)).collect()
}

#[cfg(test)]
mod tests {
    use testkit::Scene;

    use super::*;

    /// Length of a window of a scene.
    const WINDOW_NS: u64 = 500_000_000;

    /// When a window ended, in windows, and who talked in it.
    type Noted<'a> = (u64, &'a [(usize, usize, u64)]);

    fn noted(windows: &[Noted<'_>]) -> (History, Scene) {
        let mut history = History::default();
        let scene = Scene::new("2x4").with_tasks_on(&[0; 8]);
        for (window, talk) in windows {
            let scene = scene.clone().with_talk(talk);
            history.note(Time(window * WINDOW_NS), &scene.as_program());
        }
        (history, scene)
    }

    #[test]
    fn who_talks_at_another_time_is_in_another_group() {
        let (early, late): (&[_], &[_]) = (&[(0, 1, 500), (2, 3, 400)], &[(4, 5, 600)]);
        let (history, scene) = noted(&[(1, early), (2, early), (60, late), (61, late)]);
        for count in [Count::Criterion, Count::Fit(0.9)] {
            let groups = history.groups(&scene.as_program(), count);
            let pairs: Vec<Vec<(usize, usize)>> = groups
                .iter()
                .map(|group| group.iter().map(|pair| (pair.low, pair.high)).collect())
                .collect();
            assert_eq!(pairs, [vec![(0, 1), (2, 3)], vec![(4, 5)]], "{count:?}");
        }
        let groups = history.groups(&scene.as_program(), Count::Criterion);
        let mean = history.matrix(&groups, 8);
        assert_eq!((mean.between(1, 0), mean.between(4, 5)), (250, 300));
    }

    #[test]
    fn steady_talk_is_one_group_and_the_old_is_forgotten() {
        let talk: &[_] = &[(0, 1, 300)];
        let windows: Vec<Noted<'_>> = (0..100).map(|at| (at, talk)).collect();
        let (history, scene) = noted(&windows);
        let groups = history.groups(&scene.as_program(), Count::Criterion);
        assert_eq!(groups.len(), 1);
        assert!((groups[0][0].windows - 64.0).abs() < 1e-9);
    }

    #[test]
    fn who_is_gone_is_in_no_group() {
        let (history, mut scene) = noted(&[(1, &[(0, 1, 5), (6, 7, 5)])]);
        scene = scene.with_tasks_on(&[0; 7]);
        let groups = history.groups(&scene.as_program(), Count::Criterion);
        assert_eq!(groups.len(), 1);
        assert_eq!(groups[0].len(), 1);
    }
}
