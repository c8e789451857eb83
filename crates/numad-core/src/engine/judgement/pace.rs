//! How fast a program gets on, in instructions per cycle, and how much that varies by itself.

use std::collections::VecDeque;

use crate::observation::Progress;

/// What is remembered of a program's pace.
#[derive(Clone, Debug, Default)]
pub(super) struct Pace {
    /// Since the last window that was judged.
    gathered: Progress,
    /// Instructions per cycle of the last windows, latest last.
    recent: VecDeque<f64>,
}

/// Instructions per cycle before a change, and how far they strayed by themselves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Before {
    /// On average.
    pub ipc: f64,
    /// Below this they have fallen.
    pub floor: f64,
}

/// Windows that are remembered.
const RECENT_MAX: usize = 8;
/// Windows that must have been seen before anything is held against what comes after.
const RECENT_MIN: usize = 2;
/// The product's promise is 3 %: less is noise even in a program that never varied before.
const BAND_MIN: f64 = 0.03;
/// Mean deviations from the mean that are noise: for a normal spread 2.5 of them are two standard
/// deviations.
const BAND_DEVIATIONS: f64 = 2.5;

impl Pace {
    /// Takes what an observation says.
    pub(super) const fn add(&mut self, progress: Progress) {
        self.gathered.add(progress);
    }

    /// Ends the window; gives its instructions per cycle, if it had cycles enough.
    pub(super) fn close(&mut self) -> Option<f64> {
        let ipc = std::mem::take(&mut self.gathered).ipc()?;
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(ipc);
        Some(ipc)
    }

    /// Forgets what was before: the program is in another place now.
    pub(super) fn begin_anew(&mut self) {
        self.recent.clear();
    }

    /// What later windows are held against; none when too little is known.
    pub(super) fn before(&self) -> Option<Before> {
        if self.recent.len() < RECENT_MIN {
            return None;
        }
        let count = self.recent.len() as f64;
        let ipc = self.recent.iter().sum::<f64>() / count;
        let strayed = self.recent.iter().map(|one| (one - ipc).abs());
        let deviation = strayed.sum::<f64>() / count;
        let band = (BAND_DEVIATIONS * deviation).max(BAND_MIN * ipc);
        Some(Before {
            ipc,
            floor: ipc - band,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(windows: &[u64]) -> Pace {
        let mut pace = Pace::default();
        for &instructions in windows {
            for _ in 0..2 {
                pace.add(Progress {
                    instructions: instructions * 5_000,
                    cycles: 5_000_000,
                });
            }
            assert_eq!(pace.close(), Some(instructions as f64 / 1000.0));
        }
        pace
    }

    #[track_caller]
    fn check(windows: &[u64], expected: Option<(f64, f64)>) {
        let found = pace(windows).before();
        match (found, expected) {
            (Some(found), Some((ipc, floor))) => {
                let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
                assert!(
                    near(found.ipc, ipc) && near(found.floor, floor),
                    "{found:?}"
                );
            }
            (found, expected) => assert!(found.is_none() && expected.is_none(), "{found:?}"),
        }
    }

    #[test]
    fn the_band_is_three_per_cent_or_what_the_program_strays_by_itself() {
        check(&[], None);
        check(&[1000], None);
        check(&[1000, 1000], Some((1.0, 0.97)));
        check(&[900, 1100, 900, 1100], Some((1.0, 0.75)));
        // Only the last eight count.
        check(
            &[9000, 1, 2000, 2000, 2000, 2000, 2000, 2000, 2000, 2000],
            Some((2.0, 1.94)),
        );
    }

    #[test]
    fn a_window_that_hardly_ran_says_nothing() {
        let mut pace = pace(&[1000, 1000]);
        pace.add(Progress {
            instructions: 1,
            cycles: 999_999,
        });
        assert_eq!(pace.close(), None);
        assert_eq!(pace.close(), None);
        assert!(pace.before().is_some());
        pace.begin_anew();
        assert_eq!(pace.before(), None);
    }
}
