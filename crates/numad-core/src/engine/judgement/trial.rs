//! Whether the last placement of threads made things better, and putting it back when not.

use std::collections::{BTreeMap, BTreeSet};

use topology::TaskKey;

use super::pace::Before;
use crate::policy::Program;
use crate::tables::tasks::THREADS_MAX;

/// How far what belongs together is apart in one window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::engine) struct Measure {
    /// Communication between tasks whose nodes are known, and the same times SLIT distance.
    talk: f64,
    talk_far: f64,
    /// Accesses of such tasks to pages of known home, the same times distance, and the local ones.
    accesses: f64,
    accesses_far: f64,
    local: f64,
}

impl Measure {
    /// Mean distance of communication in hundredths, 1000 is all local; none without any.
    pub(in crate::engine) fn talk_centi(&self) -> Option<f64> {
        share(self.talk_far * 100.0, self.talk)
    }

    /// Share of local accesses, 0 to 1; none while unknown.
    pub(in crate::engine) fn local_share(&self) -> Option<f64> {
        share(self.local, self.accesses)
    }

    /// One figure for both: mean distance in hundredths, each counting as much as there is of it.
    pub(super) fn figure(&self) -> Option<f64> {
        let far = self.talk_far + self.accesses_far;
        share(far * 100.0, self.talk + self.accesses)
    }
}

fn share(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

/// Measures this window's communication and accesses with tasks on these nodes.
pub(super) fn measure(program: &Program<'_>, node_of: &[Option<usize>]) -> Measure {
    let distances = program.topology.distances();
    let mut measure = Measure::default();
    program.live.pairs().for_each(|(one, other, said)| {
        if let (Some(here), Some(there)) = (node_of[one], node_of[other]) {
            measure.talk += said as f64;
            measure.talk_far += said as f64 * f64::from(distances.between(here, there));
        }
    });
    for page in program.pages {
        let Some(home) = page.node() else {
            continue;
        };
        for (task, weight) in page.users() {
            if let Some(&Some(here)) = node_of.get(task) {
                measure.accesses += weight;
                measure.accesses_far += weight * f64::from(distances.between(here, home));
                measure.local += if here == home { weight } else { 0.0 };
            }
        }
    }
    measure
}

/// A placement on probation.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Trial {
    /// The window that decided it.
    before: Measure,
    /// How fast the program got on before, where that is counted.
    pub pace: Option<Before>,
    /// Windows in a row that it got on slower.
    slow: u32,
    /// Where the tasks that it moved were.
    pub old: BTreeMap<TaskKey, usize>,
    /// Windows with evidence since the last thread moved.
    windows: u32,
    /// Windows that did not count because pages were still on their way.
    postponed: u32,
}

/// What a window says about a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Too early to say.
    Wait,
    /// It may stay.
    Keep,
    /// The old placement was better.
    Revert,
    /// The program gets on slower, though it talks as near as it did.
    Slower,
}

/// Windows from the last move to the verdict: the first may still show what was moved.
pub(super) const WINDOWS: u32 = 2;
/// Windows that pages may take to follow.
const POSTPONED_MAX: u32 = 8;
/// How much worse is worse: the product's promise is 3 %.
const WORSE: f64 = 1.03;

impl Trial {
    /// None when there is nothing to hold the placement against.
    pub(super) fn new(
        before: Measure,
        pace: Option<Before>,
        old: BTreeMap<TaskKey, usize>,
    ) -> Option<Self> {
        (before.figure().is_some() || pace.is_some()).then_some(Self {
            before,
            pace,
            old,
            ..Self::default()
        })
    }

    /// More threads moved before the verdict: the first figure stands, and the wait begins anew.
    pub(super) fn extend(&mut self, old: BTreeMap<TaskKey, usize>) {
        for (task, node) in old {
            self.old.entry(task).or_insert(node);
        }
        self.windows = 0;
        self.slow = 0;
    }

    /// Once there are more tasks than can be, those that are not here have ended, some at least:
    /// where threads come and go a trial may last as long as their program.
    pub(super) fn forget(&mut self, here: impl Iterator<Item = TaskKey>) {
        if self.old.len() > THREADS_MAX {
            let here: BTreeSet<TaskKey> = here.collect();
            self.old.retain(|task, _| here.contains(task));
        }
    }

    /// Pages are following the threads: the verdict waits for them, but not for ever.
    pub(super) fn postpone(&mut self) {
        if self.postponed < POSTPONED_MAX {
            self.postponed += 1;
            self.windows = self.windows.saturating_sub(1);
        }
    }

    /// Judges by the figure now, by what it would be in the old placement, and by how fast the program
    /// gets on, in instructions per cycle.
    ///
    /// Figures must both speak against the new placement: when the program itself changed, the figure may
    /// be worse than before and the old placement no remedy. The pace must have fallen below what the
    /// program strayed by itself in as many windows in a row as a verdict takes, and is not held against
    /// the placement when the program changed: when those who talk now would be farther apart in the old
    /// placement than they were then, by as much as the program is slower. Memory tells that only where nobody
    /// talks, for it has followed since.
    pub(super) fn judge(&mut self, now: &Measure, in_old: &Measure, ipc: Option<f64>) -> Verdict {
        self.windows += 1;
        if let (Some(before), Some(ipc)) = (self.pace, ipc) {
            self.slow = if ipc < before.floor { self.slow + 1 } else { 0 };
        }
        if self.windows < WINDOWS {
            return Verdict::Wait;
        }
        let all = (self.before.figure(), now.figure(), in_old.figure());
        if let (Some(before), Some(now), Some(in_old)) = all
            && now > before * WORSE
            && in_old < now
        {
            return Verdict::Revert;
        }
        let talk = self.before.talk_centi().zip(in_old.talk_centi());
        let changed = match (talk.or_else(|| all.0.zip(all.2)), self.pace, ipc) {
            (Some((before, in_old)), Some(pace), Some(ipc)) => in_old * ipc > before * pace.ipc,
            _ => false,
        };
        match self.slow {
            0 => Verdict::Keep,
            _ if changed => Verdict::Keep,
            WINDOWS.. => Verdict::Slower,
            // The first window showed what was moved, and this one may show what came of it.
            _ => Verdict::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window with this mean distance of communication, in hundredths.
    fn talk(centi: impl Into<Option<f64>>) -> Measure {
        match centi.into() {
            Some(centi) => Measure {
                talk: 100.0,
                talk_far: centi,
                ..Measure::default()
            },
            None => Measure::default(),
        }
    }

    fn trial(before: f64, pace: Option<Before>) -> Trial {
        Trial::new(talk(before), pace, BTreeMap::new()).unwrap()
    }

    #[track_caller]
    fn check(now: Option<f64>, in_old: Option<f64>, expected: Verdict) {
        let mut trial = trial(1000.0, None);
        assert_eq!(trial.judge(&talk(now), &talk(in_old), None), Verdict::Wait);
        assert_eq!(
            trial.judge(&talk(now), &talk(in_old), None),
            expected,
            "{now:?} {in_old:?}"
        );
    }

    /// Windows of a program that had an IPC of 1.00, with a floor of 0.97, and talked at 1000.
    #[track_caller]
    fn check_pace(ipc: &[f64], (now, in_old): (f64, f64), expected: &[Verdict]) {
        let before = Before {
            ipc: 1.0,
            floor: 0.97,
        };
        let mut trial = trial(1000.0, Some(before));
        let verdicts: Vec<Verdict> = ipc
            .iter()
            .map(|&ipc| trial.judge(&talk(now), &talk(in_old), Some(ipc)))
            .collect();
        assert_eq!(verdicts, expected, "{ipc:?} {now} {in_old}");
    }

    #[test]
    fn a_program_that_gets_on_slower_is_put_back() {
        use Verdict::{Keep, Revert, Slower, Wait};
        let near = (800.0, 1000.0);
        check_pace(&[0.9, 0.96], near, &[Wait, Slower]);
        check_pace(&[0.9, 0.98], near, &[Wait, Keep]);
        check_pace(&[0.98, 0.9, 0.9], near, &[Wait, Wait, Slower]);
        check_pace(&[0.98, 0.9, 1.1], near, &[Wait, Wait, Keep]);
        check_pace(&[2.0, 1.0], near, &[Wait, Keep]);
        // The program itself changed: in its old place it would be farther apart than it was.
        check_pace(&[0.5, 0.5], (1000.0, 2001.0), &[Wait, Keep]);
        // By less than it is slower: that is no excuse.
        check_pace(&[0.5, 0.5], (1000.0, 1500.0), &[Wait, Slower]);
        // Distance speaks first.
        check_pace(&[2.0, 2.0], (1031.0, 1000.0), &[Wait, Revert]);
        check_pace(&[0.5, f64::NAN], near, &[Wait, Keep]);
    }

    #[test]
    fn pages_that_followed_are_no_change_of_the_program() {
        let before = Before {
            ipc: 1.0,
            floor: 0.97,
        };
        let window = |talk_far: f64, accesses_far: f64| Measure {
            talk: 100.0,
            talk_far,
            accesses: 100.0,
            accesses_far,
            local: 0.0,
        };
        let verdict = |talk_in_old: f64| {
            let mut trial =
                Trial::new(window(2000.0, 1000.0), Some(before), BTreeMap::new()).unwrap();
            // Memory has followed, and would be far in the old placement now.
            let (now, in_old) = (window(1000.0, 1000.0), window(talk_in_old, 2000.0));
            trial.judge(&now, &in_old, Some(0.9));
            trial.judge(&now, &in_old, Some(0.9))
        };
        assert_eq!(verdict(2000.0), Verdict::Slower);
        assert_eq!(verdict(2300.0), Verdict::Keep);
    }

    #[test]
    fn pace_alone_is_enough_to_judge_by() {
        let before = Before {
            ipc: 1.0,
            floor: 0.97,
        };
        let mut trial = Trial::new(talk(None), Some(before), BTreeMap::new()).unwrap();
        assert_eq!(
            trial.judge(&talk(None), &talk(None), Some(0.5)),
            Verdict::Wait
        );
        assert_eq!(
            trial.judge(&talk(None), &talk(None), Some(0.5)),
            Verdict::Slower
        );
        assert!(Trial::new(talk(None), None, BTreeMap::new()).is_none());
    }

    #[test]
    fn only_what_is_worse_and_has_a_remedy_is_put_back() {
        check(Some(1029.0), Some(900.0), Verdict::Keep);
        check(Some(1031.0), Some(1030.0), Verdict::Revert);
        check(Some(1500.0), Some(1500.0), Verdict::Keep);
        check(None, Some(900.0), Verdict::Keep);
        check(Some(1500.0), None, Verdict::Keep);
    }

    fn key(tid: u32) -> TaskKey {
        TaskKey {
            pid: topology::Pid(1),
            tid: topology::Tid(tid),
            start: topology::StartTicks(0),
        }
    }

    #[test]
    fn of_threads_that_come_and_go_no_more_are_known_than_can_be() {
        let mut trial = Trial::new(talk(1000.0), None, [(key(1), 0)].into()).unwrap();
        for window in 0..100 {
            let first = 1000 * (1 + window);
            trial.extend((first..first + 100).map(|tid| (key(tid), 1)).collect());
            trial.forget([1].into_iter().chain(first..first + 100).map(key));
            assert_eq!(trial.judge(&talk(None), &talk(None), None), Verdict::Wait);
            assert!(trial.old.len() <= THREADS_MAX, "{window}");
        }
        assert_eq!(trial.old[&key(1)], 0, "it is still there");
    }

    #[test]
    fn more_moves_begin_the_wait_anew_and_keep_the_first_place() {
        let mut trial = Trial::new(talk(1000.0), None, [(key(1), 0)].into()).unwrap();
        trial.judge(&talk(None), &talk(None), None);
        trial.extend([(key(1), 1), (key(2), 1)].into());
        assert_eq!(trial.old, [(key(1), 0), (key(2), 1)].into());
        assert_eq!(trial.judge(&talk(None), &talk(None), None), Verdict::Wait);
    }

    #[test]
    fn pages_that_follow_put_the_verdict_off_for_a_while() {
        let mut trial = trial(1000.0, None);
        let mut windows = 0;
        while trial.judge(&talk(2000.0), &talk(1000.0), None) == Verdict::Wait {
            trial.postpone();
            windows += 1;
        }
        assert_eq!(windows, 9);
    }
}
