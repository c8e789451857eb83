//! DeLoc and OnDeLoc-MPI (Agung and others).
//!
//! *OnDeLocMap+* maps in every interval by the listing (Algorithm 1): pairs by amount; one whose previous nodes have a
//! core each stays there, else it goes to the next node in turn. There is no previous mapping before the first, so
//! that one deals pairs out in rounds; every later one finds the previous nodes open, and moves newcomers alone.
//!
//! *DeLocMap* (`groups = temporal`) maps once, here after a profile of the start: groups of pairs that talk at the
//! same time, by load, pairs by load, in rounds.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use numad_core::{Bind, IntervalLaw, Policy, Program, Proposal, Published, Task, Time};
use topology::TaskKey;

use super::{Once, partner, place};
use crate::history::{Count, Group};
use crate::rounds;
use crate::seats::Seats;

pub(crate) const PUBLISHED: Published = Published {
    paper: "OnDeLoc-MPI (Agung and others 2020); with groups=temporal DeLoc (dissertation, chapter 3)",
    interval: IntervalLaw::ONDELOC,
    bind: Bind::Core,
    takes: &["groups"],
    build: |settings, _| {
        Ok(match settings.text("groups") {
            "temporal" => Box::new(DeLoc::default()),
            _ => Box::new(OnDeLoc::default()),
        })
    },
};

#[derive(Debug, Default)]
struct OnDeLoc {
    previous: BTreeMap<TaskKey, usize>,
}

/// A pair and what it says.
type Pair = (u64, usize, usize);

/// The listing, for nodes with so many cores. `previous` is the node of each task in the mapping before. Tasks that say
/// nothing are in no pair, and get none.
pub(crate) fn on_deloc_map(
    pairs: &[Pair],
    previous: &[Option<usize>],
    mut free: Vec<usize>,
) -> Vec<Option<usize>> {
    let nodes = free.len();
    let mut pairs = pairs.to_vec();
    pairs.sort_by_key(|&(amount, low, high)| (Reverse(amount), low, high));
    let mut map: Vec<Option<usize>> = vec![None; previous.len()];
    let mut turn = 0;
    for (_, low, high) in pairs {
        let pending = [low, high].into_iter().filter(|&task| map[task].is_none());
        let pending: Vec<usize> = pending.collect();
        let own: Option<Vec<usize>> = pending.iter().map(|&task| previous[task]).collect();
        let open = own.filter(|own| {
            own.iter().enumerate().all(|(place, &node)| {
                let before = own[..place].iter().filter(|&&other| other == node).count();
                free[node] > before
            })
        });
        if let Some(own) = open {
            for (&task, node) in pending.iter().zip(own) {
                map[task] = Some(node);
                free[node] -= 1;
            }
            continue;
        }
        if pending.is_empty() {
            continue;
        }
        // One node for both, the next that is available; the second goes on where that has one core alone.
        let mut given = None;
        for &task in &pending {
            let stays = given.filter(|&node: &usize| free[node] > 0);
            let next = (0..nodes)
                .map(|step| (turn + step) % nodes)
                .find(|&node| free[node] > 0);
            let Some(node) = stays.or(next) else {
                break;
            };
            free[node] -= 1;
            map[task] = Some(node);
            given = Some(node);
        }
        if let Some(node) = given {
            turn = (node + 1) % nodes;
        }
    }
    map
}

impl Policy for OnDeLoc {
    fn propose(&mut self, _: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        let pairs = program.live.pairs().filter(|pair| pair.2 > 0);
        let pairs = pairs.map(|(low, high, amount)| (amount, low, high));
        let pairs: Vec<Pair> = pairs.collect();
        if pairs.is_empty() {
            return;
        }
        let known = |task: &Task| self.previous.get(&task.key).copied();
        let previous: Vec<Option<usize>> = program.tasks.iter().map(known).collect();
        // Who says nothing has the core that the mapping before gave it.
        let mut free = program.capacity.to_vec();
        let talks = |task: usize| program.live.row_sum(task) > 0;
        for (task, node) in previous.iter().enumerate() {
            if let Some(node) = node.filter(|_| !talks(task)) {
                free[node] = free[node].saturating_sub(1);
            }
        }
        let map = on_deloc_map(&pairs, &previous, free);
        // Who says nothing keeps what it had; tasks that ended are forgotten.
        let nodes = map.iter().zip(&previous);
        let nodes = program.tasks.iter().zip(nodes);
        self.previous = nodes
            .filter_map(|(task, (now, before))| Some((task.key, now.or(*before)?)))
            .collect();
        place(&map, out, |task| partner(program, program.live, task));
    }
}

#[derive(Debug, Default)]
struct DeLoc(Once);

/// Groups by load, in them pairs by load.
pub(crate) fn sort_by_load(groups: &mut [Group]) {
    let load = |group: &Group| group.iter().map(|pair| pair.amount).sum::<f64>();
    groups.sort_by(|one, other| load(other).total_cmp(&load(one)));
    for group in groups {
        group.sort_by(|one, other| other.amount.total_cmp(&one.amount));
    }
}

/// The listing (Algorithm 1 of the dissertation): tasks in no pair get no node.
pub(crate) fn deloc_map(tasks: &[Task], seats: Seats, groups: &mut [Group]) -> Vec<Option<usize>> {
    sort_by_load(groups);
    rounds::deal(tasks, seats, groups)
}

impl Policy for DeLoc {
    fn propose(&mut self, now: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        let nodes = self.0.nodes(now, program, |history| {
            let mut groups = history.groups(program, Count::Criterion);
            deloc_map(program.tasks, Seats::new(program), &mut groups)
        });
        place(&nodes, out, |task| partner(program, program.decayed, task));
    }
}

#[cfg(test)]
mod tests {
    use numad_core::CommMatrix;
    use testkit::Scene;

    use super::*;

    #[test]
    fn who_ended_is_forgotten() {
        let mut policy = OnDeLoc::default();
        let mut propose = |scene: &Scene| {
            policy.propose(Time(0), &scene.as_program(), &mut Vec::new());
            policy.previous.len()
        };
        let talk = [(0, 1, 9), (2, 3, 8), (4, 5, 7)];
        let mut scene = Scene::new("2x4").with_tasks(&[None; 6]).with_talk(&talk);
        assert_eq!(propose(&scene), 6);
        scene.tasks.remove(0);
        scene.live = CommMatrix::new(5);
        scene.live.add(1, 2, 8);
        assert_eq!(propose(&scene), 5, "the silent are remembered");
    }
}
