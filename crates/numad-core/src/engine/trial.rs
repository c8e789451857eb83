//! Whether the last placement of threads made things better, and putting it back when not.

use topology::TaskKey;

use crate::policy::Program;

/// How far what talks is apart, in hundredths of SLIT distance (1000 is all local).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Measure {
    /// Between tasks, weighted by amount.
    pub talk: Option<f64>,
    /// Between tasks and the pages they use, weighted by accesses.
    pub pages: Option<f64>,
    /// Share of accesses to pages of known place that are local, 0 to 1.
    pub local: Option<f64>,
}

impl Measure {
    /// One figure for both: their mean, or the one that is known.
    pub(super) fn figure(&self) -> Option<f64> {
        match (self.talk, self.pages) {
            (Some(talk), Some(pages)) => Some((talk + pages) / 2.0),
            (one, other) => one.or(other),
        }
    }
}

/// Measures this window's communication and accesses with tasks on these nodes.
pub(super) fn measure(program: &Program<'_>, node_of: &[Option<usize>]) -> Measure {
    let distances = program.topology.distances();
    let (mut amount, mut far) = (0.0, 0.0);
    for one in 0..program.live.count() {
        let Some(here) = node_of[one] else { continue };
        let row = program.live.row(one);
        for (other, &said) in row.iter().enumerate().skip(one + 1) {
            if said > 0
                && let Some(there) = node_of[other]
            {
                amount += said as f64;
                far += said as f64 * f64::from(distances.between(here, there));
            }
        }
    }
    let (mut accesses, mut apart, mut local) = (0.0, 0.0, 0.0);
    for page in program.pages {
        let Some(home) = page.home.map(usize::from) else {
            continue;
        };
        for accessor in page.accessors() {
            let user = node_of.get(accessor.task as usize).copied().flatten();
            if let Some(here) = user {
                let weight = f64::from(accessor.weight);
                accesses += weight;
                apart += weight * f64::from(distances.between(here, home));
                local += if here == home { weight } else { 0.0 };
            }
        }
    }
    let share = |part: f64, whole: f64| (whole > 0.0).then(|| part / whole);
    Measure {
        talk: share(far * 100.0, amount),
        pages: share(apart * 100.0, accesses),
        local: share(local, accesses),
    }
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
/// How much worse is worse: the product's promise is 3 %.
const WORSE: f64 = 1.03;

impl Trial {
    pub(super) const fn new(before: f64, old: Vec<(TaskKey, usize)>) -> Self {
        Self {
            before,
            old,
            windows: 0,
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
}
