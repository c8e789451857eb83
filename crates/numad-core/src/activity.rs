//! Which threads take part in mapping.
//!
//! A thread takes part when it used at least `busy_min` of a processor between two observations; it
//! goes on taking part until it uses less than half of that, so that one at the limit does not come and
//! go. Are there more than `tasks_max`, the busiest take part, those who did already counting a
//! quarter more; ties go to the lowest thread number.
//!
//! Where there are more tasks than cores, those that hardly run beside others are left out: each
//! would count as one that needs a core, and then every core would be given two, though together
//! they fit into the gaps of one. Where all run little, because they share processors, all take
//! part.

use std::cmp::Reverse;

use crate::figures::whole;
use topology::Tid;

/// A thread that may take part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Candidate {
    pub slot: u32,
    pub tid: Tid,
    /// Share of one processor; none while there was only one look.
    pub busy: Option<f64>,
    pub took_part: bool,
}

/// So many times `busy_min` may all use together who are left out for want of cores.
const GAPS: f64 = 5.0;

/// So much of what the busiest runs they run at the most.
const LIGHT: f64 = 0.5;

/// Keeps those who take part, by ascending thread number, for whom there are so many cores.
pub(crate) fn select(
    candidates: &mut Vec<Candidate>,
    busy_min: f64,
    (tasks_max, cores): (usize, usize),
) {
    candidates.retain(|candidate| {
        let part = if candidate.took_part { 0.5 } else { 1.0 };
        candidate.busy.is_some_and(|busy| busy >= busy_min * part)
    });
    candidates.sort_unstable_by_key(|candidate| (Reverse(rank(candidate)), candidate.tid));
    candidates.truncate(tasks_max);
    if candidates.len() > cores {
        leave_out_light(candidates, cores, GAPS * busy_min);
    }
    candidates.sort_unstable_by_key(|candidate| candidate.tid);
}

/// Drops the least busy, which come last, while there are more than cores, they are light beside
/// the busiest, and they fit into the gaps.
fn leave_out_light(candidates: &mut Vec<Candidate>, cores: usize, mut gaps: f64) {
    let all = candidates.iter().filter_map(|candidate| candidate.busy);
    let most = all.fold(0.0, f64::max);
    while candidates.len() > cores
        && let Some(busy) = candidates.last().and_then(|lightest| lightest.busy)
        && busy <= gaps.min(most * LIGHT)
    {
        gaps -= busy;
        candidates.pop();
    }
}

/// In hundredths of a per cent, so that noise below that does not decide.
fn rank(candidate: &Candidate) -> u64 {
    let bonus = if candidate.took_part { 1.25 } else { 1.0 };
    whole((candidate.busy.unwrap_or(0.0) * bonus * 10_000.0).clamp(0.0, 12_500.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads as `tid:busy%`, with `+` if they took part; gives the chosen thread numbers.
    #[track_caller]
    fn check(threads: &str, tasks_max: usize, expected: &[u32]) {
        check_on(usize::MAX, threads, tasks_max, expected);
    }

    #[track_caller]
    fn check_on(cores: usize, threads: &str, tasks_max: usize, expected: &[u32]) {
        let mut candidates: Vec<Candidate> = threads
            .split_whitespace()
            .map(|thread| {
                let (tid, busy) = thread.split_once(':').unwrap();
                let number = busy.trim_end_matches('+');
                Candidate {
                    slot: 0,
                    tid: Tid(tid.parse().unwrap()),
                    busy: number.parse().ok().map(|busy: f64| busy / 100.0),
                    took_part: busy.ends_with('+'),
                }
            })
            .collect();
        select(&mut candidates, 0.05, (tasks_max, cores));
        let chosen: Vec<u32> = candidates.iter().map(|candidate| candidate.tid.0).collect();
        assert_eq!(chosen, expected, "{threads}");
    }

    #[test]
    fn the_busy_take_part() {
        check("3:100 1:5 2:4.9 4:?", 9, &[1, 3]);
    }

    #[test]
    fn one_at_the_limit_does_not_come_and_go() {
        check("1:2.5+ 2:2.4+ 3:4+ 4:4", 9, &[1, 3]);
    }

    #[test]
    fn who_hardly_runs_takes_no_core_from_the_busy() {
        check_on(2, "1:6 2:100 3:100", 9, &[2, 3]);
        check_on(3, "1:6 2:100 3:100", 9, &[1, 2, 3]);
        check_on(2, "1:6 2:100 3:100 4:9", 9, &[2, 3]);
        check_on(2, "1:26 2:100 3:100", 9, &[1, 2, 3]);
        // Of many that are light together only what fits into the gaps.
        check_on(1, "1:10 2:10 3:10 4:10 5:100", 9, &[1, 2, 5]);
        // Five share each of these, and none runs less than others.
        check_on(
            2,
            "1:20 2:20 3:20 4:20 5:19 6:20 7:20 8:20 9:20 10:20",
            10,
            &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
        );
    }

    #[test]
    fn the_busiest_are_chosen_and_ties_go_to_the_lowest() {
        check("4:50 3:50 2:50 1:10", 2, &[2, 3]);
        check("1:50 2:45+ 3:60 4:10+", 2, &[2, 3]);
        check("1:50 2:39+", 1, &[1]);
    }
}
