//! How many tasks each node takes.

use topology::{CpuSet, Topology};

/// Usable cores of each node within `allowed`, less those `held` by others.
///
/// When there are more tasks, ours and theirs, than cores, every core takes the same share of all of
/// them, so that a node on which others are many still takes some of ours before another is crowded.
/// A core that belongs to no node (a machine with a node offline has such) takes its share as well,
/// though nobody can be placed there. A node without a usable core takes none, whatever the number of
/// tasks.
pub(crate) fn capacities(
    topology: &Topology,
    allowed: &CpuSet,
    held: &[usize],
    tasks: usize,
) -> Vec<usize> {
    let nodes = topology.nodes().iter();
    let cores: Vec<usize> = nodes
        .map(|node| topology.cores_in(&node.cpus.intersection(allowed)))
        .collect();
    let nodes = topology.nodes().iter();
    let of_nodes = nodes.fold(CpuSet::new(), |all, node| all.union(&node.cpus));
    let homeless = topology.cores_in(&allowed.difference(&of_nodes));
    let places = cores.iter().sum::<usize>() + homeless;
    // Others may be on nodes that are not ours to use; they take no share of our cores.
    let ours = cores.iter().zip(held).filter(|(cores, _)| **cores > 0);
    let everyone = tasks + ours.map(|(_, held)| *held).sum::<usize>();
    let room = |(cores, held): (usize, &usize)| {
        let share = if everyone > places && places > 0 {
            (cores * everyone).div_ceil(places)
        } else {
            cores
        };
        share.saturating_sub(*held)
    };
    cores.into_iter().zip(held).map(room).collect()
}

/// The same where nobody knows what memory delivers: no more of a node's places than its even share of the tasks,
/// and one, or as many as it has now. So partners come together two by two, and a program that has fewer tasks than the
/// machine has cores still has the memory of all nodes.
pub(crate) fn spread(capacity: &[usize], now: &[Option<usize>]) -> Vec<usize> {
    let places: usize = capacity.iter().sum();
    let there = count_by_node(now, capacity.len());
    let of_node = |(&room, there): (&usize, usize)| {
        let share = (room * now.len()).div_ceil(places.max(1));
        room.min((share + 1).max(there))
    };
    capacity.iter().zip(there).map(of_node).collect()
}

/// How many of these tasks are on each of so many nodes.
pub(crate) fn count_by_node(nodes: &[Option<usize>], count: usize) -> Vec<usize> {
    let mut on = vec![0; count];
    nodes.iter().flatten().for_each(|&node| on[node] += 1);
    on
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(machine: &str, allowed: &str, held: &[usize], tasks: usize, expected: &[usize]) {
        let topology = topology::synthetic::parse(machine).unwrap();
        let allowed = CpuSet::parse_list(allowed).unwrap();
        let found = capacities(&topology, &allowed, held, tasks);
        assert_eq!(found, expected, "{machine} {allowed} {held:?} {tasks}");
    }

    #[test]
    fn without_bandwidth_tasks_keep_to_their_share_of_each_node() {
        let on =
            |nodes: &[usize]| -> Vec<Option<usize>> { nodes.iter().copied().map(Some).collect() };
        assert_eq!(spread(&[4, 4, 4, 4], &on(&[0, 1, 2, 3])), [2, 2, 2, 2]);
        assert_eq!(
            spread(&[4, 4, 4, 4], &on(&[0, 0, 0, 1])),
            [3, 2, 2, 2],
            "nobody must go"
        );
        assert_eq!(spread(&[4, 4], &on(&[0, 1, 0, 1, 0, 1, 0, 1])), [4, 4]);
        assert_eq!(spread(&[8, 2], &on(&[0, 1, 0])), [4, 2], "by their size");
        assert_eq!(spread(&[0, 0], &[None]), [0, 0]);
    }

    #[test]
    fn free_cores_are_capacity() {
        check("2x4", "0-7", &[0, 0], 3, &[4, 4]);
        check("2x4", "0-7", &[1, 4], 3, &[3, 0]);
        check("2x4", "0,1,6", &[0, 0], 3, &[2, 1]);
        check("2x4", "0,1", &[0, 0], 9, &[9, 0]);
    }

    #[test]
    fn more_tasks_than_cores_scale_it_evenly() {
        check("2x4", "0-7", &[0, 0], 9, &[5, 5]);
        check("2x4", "0-7", &[0, 0], 16, &[8, 8]);
        check("2x4", "0-7", &[2, 0], 12, &[5, 7]);
        check("2x4", "0-3", &[0, 8], 8, &[8, 0]);
    }

    #[test]
    fn cores_without_a_node_count_as_places() {
        let root = synthetic_without_node_1();
        for (tasks, expected) in [(4, 4), (8, 4), (9, 5), (16, 8)] {
            let found = capacities(&root, &root.online(), &[0], tasks);
            assert_eq!(found, [expected], "{tasks} tasks");
        }
    }

    /// `2x4`, of which node 1 is offline and its processors are not.
    fn synthetic_without_node_1() -> Topology {
        let whole = topology::synthetic::parse("2x4").unwrap();
        let mut cpus = whole.cpus().to_vec();
        for cpu in &mut cpus[4..] {
            cpu.node = None;
        }
        Topology::new(topology::Parts {
            nodes: whole.nodes()[..1].to_vec(),
            cpus,
            ..topology::Parts::default()
        })
        .unwrap()
    }

    /// 24 threads beside 8 that hold one of two nodes once went to the other, all of them.
    #[test]
    fn what_others_hold_counts_into_the_even_share() {
        check("2x8", "0-15", &[0, 8], 24, &[16, 8]);
        check("2x4", "0-7", &[0, 4], 5, &[5, 1]);
        check("2x4", "0-7", &[4, 4], 4, &[2, 2]);
        check("2x4", "0-7", &[4, 9], 4, &[5, 0]);
        check("2x4", "0-7", &[9, 0], 4, &[0, 7]);
        check("2x4", "", &[0, 0], 4, &[0, 0]);
    }

    proptest::proptest! {
        #![proptest_config(proptest::test_runner::Config::with_cases(64))]

        #[test]
        fn everyone_has_a_place(
            held in proptest::collection::vec(0usize..40, 4),
            tasks in 0usize..200,
        ) {
            let topology = topology::synthetic::parse("4x4").unwrap();
            let found = capacities(&topology, &topology.online(), &held, tasks);
            let everyone = tasks + held.iter().sum::<usize>();
            let share = everyone.div_ceil(4).max(4);
            proptest::prop_assert!(found.iter().sum::<usize>() >= tasks);
            for (room, held) in found.iter().zip(&held) {
                proptest::prop_assert!(room + held <= share.max(*held));
            }
        }
    }
}
