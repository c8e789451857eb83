//! Programs that are drawn by number: what policies meet that nobody had in mind. Pure.
//!
//! Everything that other kinds hold fixed is drawn: how busy threads are, how much memory they have
//! and who touched it, who shares with whom and how, who waits for whom, and whether that changes.

use crate::plan::{LINES_PER_ROUND, Manner, OBJECT_LINES, Plan, STRIDE_LINES, below, shuffled};

/// Lines that a thread uses in a round: an eighth of other kinds', for some wait for each other after
/// each.
const LINES: usize = LINES_PER_ROUND / 8;

/// Parts in which a round is divided among regions.
const PARTS: usize = 16;

/// Most layers of sharing, and most phases.
const LAYERS_MAX: usize = 3;
const PHASES_MAX: usize = 4;

/// Sixteenths of programs that have what few have.
const SELDOM: usize = 3;

/// How memory is used, whoever uses it.
#[derive(Clone, Copy, Debug)]
enum Habit {
    Onward,
    Pieces(usize),
    Hot,
    Read,
}

/// What a thread has to do with a region.
#[derive(Clone, Copy, Debug)]
struct Share {
    thread: usize,
    region: usize,
    habit: Habit,
    /// Which of its users it is, and how many there are.
    user: (usize, usize),
    weight: usize,
}

/// The plan of a phase of the program of this number.
pub(crate) fn plan(number: u32, threads: usize, phase: u64) -> Plan {
    let mut draw = u64::from(number);
    let mut plan = Plan::new(threads);
    let kinds: Vec<usize> = (0..1 << below(3, &mut draw))
        .map(|_| [0, 0, 1, 4, 16][below(5, &mut draw)])
        .collect();
    for idle in &mut plan.idle {
        *idle = LINES * kinds[below(kinds.len(), &mut draw)];
    }
    let own = own(&mut plan, &mut draw);
    let phases = match below(16, &mut draw) < 2 * SELDOM {
        true => 2 + below(PHASES_MAX - 1, &mut draw),
        false => 1,
    };
    let now = phase % phases as u64;
    for one in 0..phases as u64 {
        // Those of all phases are regions of every plan.
        let shares = layers(&mut plan, &mut draw);
        let steps = steps(&shares, threads, &mut draw);
        if one == now {
            plan.steps = steps;
            use_all(&mut plan, own.iter().chain(&shares));
        }
    }
    plan
}

/// What each thread has for itself: some have much and some have little, and some lies in pieces side
/// by side.
fn own(plan: &mut Plan, draw: &mut u64) -> Vec<Share> {
    let threads = plan.uses.len();
    let (by_first, is_uneven, in_pieces) = (
        below(16, draw) < 5,
        below(16, draw) < 5,
        below(16, draw) < SELDOM,
    );
    let eighths = 1 << below(5, draw);
    let habit = habit(draw);
    let all = in_pieces.then(|| plan.region(eighths * threads, by_first.then_some(0)));
    (0..threads)
        .map(|thread| {
            let own = if is_uneven {
                1 << below(5, draw)
            } else {
                eighths
            };
            let toucher = if by_first { 0 } else { thread };
            let (region, habit, user) = match all {
                Some(region) => (region, Habit::Pieces(STRIDE_LINES), (thread, threads)),
                None => (plan.region(own, Some(toucher)), habit, (0, 1)),
            };
            Share {
                thread,
                region,
                habit,
                user,
                weight: PARTS / 4,
            }
        })
        .collect()
}

/// Who shares with whom in one phase.
fn layers(plan: &mut Plan, draw: &mut u64) -> Vec<Share> {
    let mut shares = Vec::new();
    for _ in 0..below(LAYERS_MAX + 1, draw) {
        let (weight, eighths, habit) = (1 << below(4, draw), 1 << below(5, draw), habit(draw));
        for users in sets(plan.uses.len(), draw) {
            let region = plan.region(eighths, users.iter().min().copied());
            shares.extend(users.iter().enumerate().map(|(at, &thread)| Share {
                thread,
                region,
                habit,
                user: (at, users.len()),
                weight,
            }));
        }
    }
    shares
}

fn habit(draw: &mut u64) -> Habit {
    match below(6, draw) {
        0 | 1 => Habit::Hot,
        2 => Habit::Pieces(OBJECT_LINES),
        3 => Habit::Read,
        _ => Habit::Onward,
    }
}

/// Sets of threads that share something: a chain, a hub, everyone, pairs or groups.
fn sets(threads: usize, draw: &mut u64) -> Vec<Vec<usize>> {
    let (kind, size, is_shuffled) = (below(6, draw), 2 + below(11, draw), below(2, draw) == 0);
    let order = match is_shuffled {
        true => shuffled(threads, draw),
        false => (0..threads).collect(),
    };
    let mut sets: Vec<Vec<usize>> = match kind {
        0 => order.windows(2).map(<[usize]>::to_vec).collect(),
        1 => order[1..]
            .iter()
            .map(|&other| vec![order[0], other])
            .collect(),
        2 => vec![order],
        3 => order.chunks(2).map(<[usize]>::to_vec).collect(),
        _ => order.chunks(size).map(<[usize]>::to_vec).collect(),
    };
    sets.retain(|set| set.len() > 1);
    sets
}

/// Who waits for whom: nobody, those who share, or everyone.
fn steps(shares: &[Share], threads: usize, draw: &mut u64) -> Vec<Option<usize>> {
    let kind = below(3, draw);
    let first = |thread: usize| shares.iter().find(|share| share.thread == thread);
    let step = |thread| match kind {
        0 => None,
        1 => first(thread).map(|share| share.region),
        _ => Some(0),
    };
    (0..threads).map(step).collect()
}

/// Divides the round of each thread among what it uses.
fn use_all<'a>(plan: &mut Plan, shares: impl Iterator<Item = &'a Share> + Clone) {
    let mut sums = vec![0; plan.uses.len()];
    for share in shares.clone() {
        sums[share.thread] += share.weight;
    }
    for share in shares {
        let count = LINES * share.weight / sums[share.thread];
        let dealt = |lines, (index, of)| Manner::Dealt {
            lines,
            index,
            of,
            count: Some(count),
        };
        let manner = match share.habit {
            Habit::Onward => dealt(STRIDE_LINES, (0, 1)),
            Habit::Pieces(lines) => dealt(lines, share.user),
            Habit::Hot => Manner::Zipf(count),
            Habit::Read => Manner::Chase(count),
        };
        plan.uses[share.thread].push((share.region, manner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_a_program_and_every_thread_of_it_works() {
        let mut kinds = std::collections::BTreeSet::new();
        for number in 0..200 {
            let first = plan(number, 8, 0);
            assert_eq!(first, plan(number, 8, 0), "made:{number}");
            let again = (1..=12).find(|&phase| plan(number, 8, phase) == first);
            assert!(again.is_some_and(|phases| phases <= 4), "made:{number}");
            for phase in 0..4 {
                let plan = plan(number, 8, phase);
                assert_eq!(plan.eighths, first.eighths, "made:{number}");
                assert_eq!(plan.touchers, first.touchers, "made:{number}");
                assert!(plan.uses.iter().all(|uses| !uses.is_empty()));
                for thread in 0..8 {
                    assert!(
                        plan.regions(thread)
                            .all(|region| region < plan.eighths.len())
                    );
                }
            }
            let shape = (again, first.groups(), first.steps, first.idle);
            kinds.insert(shape);
        }
        assert!(kinds.len() > 150, "{}", kinds.len());
        assert!(
            plan(7, 1, 0).groups().is_empty(),
            "one thread shares nothing"
        );
    }
}
