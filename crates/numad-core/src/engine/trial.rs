//! Whether the last placement of threads made things better, and putting it back when not.

use topology::TaskKey;

use crate::policy::Program;

/// How far what belongs together is apart in one window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Measure {
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
    pub(super) fn talk_centi(&self) -> Option<f64> {
        share(self.talk_far * 100.0, self.talk)
    }

    /// Share of local accesses, 0 to 1; none while unknown.
    pub(super) fn local_share(&self) -> Option<f64> {
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
    for one in 0..program.live.count() {
        let Some(here) = node_of[one] else { continue };
        let row = program.live.row(one);
        for (other, &said) in row.iter().enumerate().skip(one + 1) {
            if said > 0
                && let Some(there) = node_of[other]
            {
                measure.talk += said as f64;
                measure.talk_far += said as f64 * f64::from(distances.between(here, there));
            }
        }
    }
    for page in program.pages {
        let Some(home) = page.home.map(usize::from) else {
            continue;
        };
        for accessor in page.accessors() {
            let user = node_of.get(accessor.task as usize).copied().flatten();
            if let Some(here) = user {
                let weight = f64::from(accessor.weight);
                measure.accesses += weight;
                measure.accesses_far += weight * f64::from(distances.between(here, home));
                measure.local += if here == home { weight } else { 0.0 };
            }
        }
    }
    measure
}

/// A placement on probation.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Trial {
    /// The figure of the window that decided it.
    before: f64,
    /// Where the tasks that it moved were.
    pub old: Vec<(TaskKey, usize)>,
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
}

/// Windows from the last move to the verdict: the first may still show what was moved.
const WINDOWS: u32 = 2;
/// Windows that pages may take to follow.
const POSTPONED_MAX: u32 = 8;
/// How much worse is worse: the product's promise is 3 %.
const WORSE: f64 = 1.03;

impl Trial {
    pub(super) const fn new(before: f64, old: Vec<(TaskKey, usize)>) -> Self {
        Self {
            before,
            old,
            windows: 0,
            postponed: 0,
        }
    }

    /// More threads moved before the verdict: the first figure stands, and the wait begins anew.
    pub(super) fn extend(&mut self, old: Vec<(TaskKey, usize)>) {
        for (task, node) in old {
            if !self.old.iter().any(|(known, _)| *known == task) {
                self.old.push((task, node));
            }
        }
        self.windows = 0;
    }

    /// Pages are following the threads: the verdict waits for them, but not for ever.
    pub(super) fn postpone(&mut self) {
        if self.postponed < POSTPONED_MAX {
            self.postponed += 1;
            self.windows = self.windows.saturating_sub(1);
        }
    }

    /// Judges by the figure now and by what it would be in the old placement.
    ///
    /// Both must speak against the new one: when the program itself changed, the figure may be worse
    /// than before and the old placement no remedy.
    pub(super) fn judge(&mut self, now: Option<f64>, in_old: Option<f64>) -> Verdict {
        self.windows += 1;
        if self.windows < WINDOWS {
            return Verdict::Wait;
        }
        match (now, in_old) {
            (Some(now), Some(in_old)) if now > self.before * WORSE && in_old < now => {
                Verdict::Revert
            }
            _ => Verdict::Keep,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(now: Option<f64>, in_old: Option<f64>, expected: Verdict) {
        let mut trial = Trial::new(1000.0, Vec::new());
        assert_eq!(trial.judge(now, in_old), Verdict::Wait);
        assert_eq!(trial.judge(now, in_old), expected, "{now:?} {in_old:?}");
    }

    #[test]
    fn only_what_is_worse_and_has_a_remedy_is_put_back() {
        check(Some(1029.0), Some(900.0), Verdict::Keep);
        check(Some(1031.0), Some(1030.0), Verdict::Revert);
        check(Some(1500.0), Some(1500.0), Verdict::Keep);
        check(None, Some(900.0), Verdict::Keep);
        check(Some(1500.0), None, Verdict::Keep);
    }

    #[test]
    fn more_moves_begin_the_wait_anew_and_keep_the_first_place() {
        let key = |tid| TaskKey {
            pid: topology::Pid(1),
            tid: topology::Tid(tid),
            start: topology::StartTicks(0),
        };
        let mut trial = Trial::new(1000.0, vec![(key(1), 0)]);
        trial.judge(None, None);
        trial.extend(vec![(key(1), 1), (key(2), 1)]);
        assert_eq!(trial.old, [(key(1), 0), (key(2), 1)]);
        assert_eq!(trial.judge(None, None), Verdict::Wait);
    }

    #[test]
    fn pages_that_follow_put_the_verdict_off_for_a_while() {
        let mut trial = Trial::new(1000.0, Vec::new());
        let mut windows = 0;
        while trial.judge(Some(2000.0), Some(1000.0)) == Verdict::Wait {
            trial.postpone();
            windows += 1;
        }
        assert_eq!(windows, 9);
    }
}
