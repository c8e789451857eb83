//! Who ran on a processor when, as far as it matters for samples that are still to come.

use std::collections::VecDeque;

/// Changes kept for each processor. Trace is read at least each time that half of its area is full, and
/// changes between threads that are not followed leave one entry. At 24 bytes each this is 192 KiB.
const CHANGES_MAX: usize = 8192;

/// Who ran at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// A thread of a process.
    Task {
        /// The process.
        pid: u32,
        /// The thread.
        tid: u32,
    },
    /// Nobody who is followed.
    Other,
    /// The records that would tell are lost, or that time is too long ago.
    Unknown,
}

#[derive(Clone, Copy, Debug)]
struct Change {
    time: u64,
    who: Who,
}

/// Changes of who runs, in the order of time, which is how the kernel writes them.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    /// What was in force before the first of `changes`, and since when.
    before: Option<Change>,
    changes: VecDeque<Change>,
}

impl Timeline {
    /// Someone runs from this time on. `follows` says whether a process is followed.
    pub(crate) fn runs(
        &mut self,
        time: u64,
        (pid, tid): (u32, u32),
        follows: impl FnOnce(u32) -> bool,
    ) {
        let who = Who::Task { pid, tid };
        let Some(last) = self.changes.back_mut() else {
            if self.before.is_none_or(|before| before.who != who) {
                self.push(Change { time, who });
            }
            return;
        };
        match last.who {
            current if current == who => return,
            // The one who runs now is kept by name even if not followed, for that may come. Who went is
            // not followed and will not be asked for.
            Who::Task { pid, .. } if !follows(pid) => last.who = Who::Other,
            _ => {}
        }
        self.merge();
        self.push(Change { time, who });
    }

    /// Records are missing: nobody knows who ran since the last change.
    pub(crate) fn gap(&mut self) {
        if let Some(last) = self.changes.back_mut() {
            last.who = Who::Unknown;
        } else if let Some(before) = &mut self.before {
            before.who = Who::Unknown;
        }
    }

    /// Who ran then. Times are asked in about the order that they passed: what is before the change
    /// before the one in force is forgotten.
    pub(crate) fn at(&mut self, time: u64) -> Who {
        while let Some(next) = self.changes.front()
            && next.time <= time
        {
            self.before = self.changes.pop_front();
        }
        match self.before {
            Some(change) if change.time <= time => change.who,
            _ => Who::Unknown,
        }
    }

    /// How full it is, in per mille.
    pub(crate) fn fill_permille(&self) -> u16 {
        u16::try_from(self.changes.len() * 1000 / CHANGES_MAX).unwrap_or(1000)
    }

    /// Makes one of the last two if both are of others.
    fn merge(&mut self) {
        let mut last_two = self.changes.iter().rev().take(2);
        let others =
            |change: Option<&Change>| change.is_some_and(|change| change.who == Who::Other);
        if others(last_two.next()) && others(last_two.next()) {
            self.changes.pop_back();
        }
    }

    fn push(&mut self, change: Change) {
        if self.changes.len() == CHANGES_MAX {
            // What is asked for now would be answered with what was in force later.
            self.before = None;
            self.changes.pop_front();
        }
        self.changes.push_back(change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn task(pid: u32, tid: u32) -> Who {
        Who::Task { pid, tid }
    }

    /// Follows process 7.
    fn runs(timeline: &mut Timeline, time: u64, pid: u32, tid: u32) {
        timeline.runs(time, (pid, tid), |pid| pid == 7);
    }

    #[test]
    fn who_ran_is_known_from_change_to_change() {
        let mut timeline = Timeline::default();
        assert_eq!(timeline.at(5), Who::Unknown);
        runs(&mut timeline, 10, 7, 71);
        runs(&mut timeline, 20, 0, 0);
        runs(&mut timeline, 30, 7, 72);
        assert_eq!(timeline.at(9), Who::Unknown);
        assert_eq!(timeline.at(10), task(7, 71));
        assert_eq!(timeline.at(19), task(7, 71));
        assert_eq!(timeline.at(20), Who::Other);
        assert_eq!(timeline.at(35), task(7, 72));
        assert_eq!(timeline.at(1_000), task(7, 72), "and still runs");
        assert_eq!(timeline.at(29), Who::Unknown, "long ago");
        runs(&mut timeline, 40, 7, 72);
        runs(&mut timeline, 50, 7, 71);
        assert_eq!(timeline.at(45), task(7, 72));
        assert_eq!(timeline.at(50), task(7, 71));
    }

    #[test]
    fn others_leave_one_entry() {
        let mut timeline = Timeline::default();
        runs(&mut timeline, 1, 7, 71);
        for time in 2..2_000 {
            runs(&mut timeline, time, 9 + u32::try_from(time % 2).unwrap(), 9);
        }
        assert_eq!(timeline.changes.len(), 3);
        assert_eq!(timeline.at(1), task(7, 71));
        assert_eq!(timeline.at(1_500), Who::Other);
        assert_eq!(timeline.at(1_999), task(10, 9), "who may yet be attached");
    }

    #[test]
    fn what_is_missing_is_unknown_until_the_next_change() {
        let mut timeline = Timeline::default();
        timeline.gap();
        runs(&mut timeline, 10, 7, 71);
        timeline.gap();
        assert_eq!(timeline.at(15), Who::Unknown);
        runs(&mut timeline, 20, 7, 71);
        assert_eq!(timeline.at(25), task(7, 71));
        timeline.gap();
        assert_eq!(timeline.at(30), Who::Unknown);
        runs(&mut timeline, 40, 7, 71);
        assert_eq!(
            (timeline.at(39), timeline.at(40)),
            (Who::Unknown, task(7, 71))
        );
    }

    #[test]
    fn there_is_a_limit_and_what_it_costs_is_known() {
        let mut timeline = Timeline::default();
        for time in 0..CHANGES_MAX as u64 + 10 {
            runs(&mut timeline, time, 7, u32::try_from(time).unwrap());
        }
        assert_eq!(timeline.fill_permille(), 1000);
        assert_eq!(timeline.at(5), Who::Unknown);
        assert_eq!(timeline.at(500), task(7, 500));
    }
}
