//! Locality: those who talk come near each other, by the distances of the machine.
//!
//! The objective is that of TreeMatch (Jeannot and Mercier 2010) and Scotch (Pellegrini 1994):
//! communication times distance over all pairs, capacities kept. In every window two plans compete: what
//! swaps and moves make of the placement that is, each move at a price, and a plan from nothing by
//! the algorithm of one's choice, its parts named so that little moves. The cheaper one is taken if
//! it is worth it, see [`crate::board`].

use numad_core::{PolicyFactory, SettingKind, SettingSpec};

use crate::board;
use crate::data_mapping::{self, DataMapping};
use crate::gather::Gather;
use crate::kernel::{drb, kl, map, treematch};
use crate::matrix_choice::MatrixChoice;

const ALGORITHM: SettingSpec = SettingSpec {
    name: "algorithm",
    kind: SettingKind::Choice(&["treematch", "drb", "kl", "search"], "treematch"),
    help: "How a plan is found from nothing: groups from the leaves of the machine up, halving of \
           threads and machine together, recursive Kernighan-Lin, or halving on several scales.",
};

/// Makes the policy `locality`.
pub(crate) static LOCALITY: PolicyFactory = PolicyFactory {
    name: "locality",
    summary: "Brings threads that share memory as near each other as the machine allows, and \
              pages after them.",
    settings: &[
        ALGORITHM,
        MatrixChoice::SPEC,
        board::GAIN_MIN,
        data_mapping::PAGES,
        data_mapping::RATIO,
        data_mapping::HISTORY,
    ],
    seeks_gain: true,
    goes_by_order: false,
    published: None,
    build: |settings, _| {
        Ok(Box::new(Gather {
            matrix: MatrixChoice::new(settings),
            kernel: match settings.text(ALGORITHM.name) {
                "drb" => drb,
                "kl" => kl,
                "search" => map,
                _ => treematch,
            },
            gain_min: settings.float(board::GAIN_MIN.name),
            pages: DataMapping::if_wanted(settings),
            ..Gather::threads_alone()
        }))
    },
};

#[cfg(test)]
mod tests {
    use testkit::{Dice, Scene};

    use crate::tests::{nodes_after, nodes_after_with, proposals};

    /// What is said between nodes that are not one.
    fn apart(scene: &Scene, nodes: &[Option<usize>]) -> u64 {
        let pairs = scene.live.pairs();
        pairs
            .filter(|&(one, other, _)| nodes[one] != nodes[other])
            .map(|pair| pair.2)
            .sum()
    }

    /// Tasks that talk in groups of this many, spread over the nodes in a chance order.
    fn groups(machine: &str, tasks: usize, size: usize, seed: u64) -> Scene {
        let nodes = topology::synthetic::parse(machine).unwrap().nodes().len();
        let mut places: Vec<usize> = (0..tasks).map(|task| task % nodes).collect();
        Dice::new(seed).shuffle(&mut places);
        let mut scene = Scene::new(machine).with_tasks_on(&places);
        for one in 0..tasks {
            for other in one + 1..tasks {
                let amount = if one / size == other / size { 100 } else { 1 };
                scene = scene.with_talk(&[(one, other, amount)]);
            }
        }
        scene
    }

    #[test]
    fn groups_of_any_size_come_together_by_every_algorithm() {
        for (machine, tasks, size) in [
            ("2x8", 16, 4),
            ("4x4", 16, 4),
            ("2x8", 16, 8),
            ("4x2", 8, 2),
        ] {
            for algorithm in ["treematch", "drb", "kl", "search"] {
                for seed in 0..5 {
                    let scene = groups(machine, tasks, size, seed);
                    let settings = [("algorithm", algorithm)];
                    let nodes = nodes_after_with("locality", &settings, &scene);
                    let torn = scene
                        .live
                        .pairs()
                        .filter(|pair| pair.2 == 100 && nodes[pair.0] != nodes[pair.1]);
                    assert_eq!(
                        torn.count(),
                        0,
                        "{machine} {size} {algorithm} {seed}: {nodes:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn distant_nodes_are_for_those_who_talk_least() {
        // A ring of four nodes; a chain of four talkers, one on each node.
        let scene = Scene::new("4x1@10,20,30,20;20,10,20,30;30,20,10,20;20,30,20,10");
        let scene =
            scene
                .with_tasks_on(&[0, 2, 1, 3])
                .with_talk(&[(0, 1, 50), (1, 2, 50), (2, 3, 50)]);
        let nodes = nodes_after("locality", &scene);
        for pair in 0..3 {
            let (one, other) = (nodes[pair].unwrap(), nodes[pair + 1].unwrap());
            assert_ne!(one.abs_diff(other), 2, "{nodes:?}");
        }
    }

    #[test]
    fn a_better_plan_that_gains_too_little_is_no_reason_to_move() {
        // Together 0-1 and 2-3, apart 0-2 for a little more than 0-1.
        let talk = [(0, 1, 100), (2, 3, 100), (0, 2, 102), (1, 3, 102)];
        let scene = Scene::new("2x2")
            .with_tasks_on(&[0, 0, 1, 1])
            .with_talk(&talk);
        assert_eq!(apart(&scene, &nodes_after("locality", &scene)), 204);
        let talk = [(0, 1, 100), (2, 3, 100), (0, 2, 400), (1, 3, 400)];
        let scene = Scene::new("2x2")
            .with_tasks_on(&[0, 0, 1, 1])
            .with_talk(&talk);
        assert_eq!(apart(&scene, &nodes_after("locality", &scene)), 200);
    }

    #[test]
    fn only_who_plays_a_new_part_moves() {
        let mut scene = groups("4x4", 16, 4, 3);
        let settled = nodes_after("locality", &scene);
        for (task, node) in scene.tasks.iter_mut().zip(&settled) {
            task.node = *node;
        }
        // Tasks 0 and 15 change parts.
        let swap = |task: usize| match task {
            0 => 15,
            15 => 0,
            other => other,
        };
        let mut talk = numad_core::CommMatrix::new(16);
        for (one, other, amount) in scene.live.pairs() {
            talk.add(swap(one), swap(other), amount);
        }
        scene.live = talk;
        let nodes = nodes_after("locality", &scene);
        let moved: Vec<usize> = (0..16)
            .filter(|&task| nodes[task] != settled[task])
            .collect();
        assert_eq!(moved, [0, 15]);
    }

    /// All four who talk to each other get together if that is cheap; where much memory would have
    /// to follow, only the two partners do who are apart.
    #[test]
    fn who_has_much_memory_moves_for_much_alone() {
        let moved = |pages: u64| {
            let pairs = [(0, 1), (2, 3), (4, 5), (6, 7)].map(|(one, other)| (one, other, 1000));
            let fours = [(0, 2), (1, 3), (4, 6), (5, 7)].map(|(one, other)| (one, other, 150));
            let home = [0, 1, 0, 1, 0, 0, 1, 1];
            let mut scene = Scene::new("2x4")
                .with_tasks_on(&home)
                .with_talk(&pairs)
                .with_talk(&fours);
            for (task, home) in (0..).zip(home) {
                scene = scene.with_page(u16::try_from(home).ok(), &[task]);
            }
            for page in &mut scene.pages {
                page.recent[0].weight = 1000;
                page.span = pages;
            }
            let nodes = nodes_after("locality", &scene);
            let both = home.iter().zip(nodes);
            both.filter(|(home, node)| Some(**home) != *node).count()
        };
        assert_eq!([1, 250].map(moved), [4, 2]);
    }

    #[test]
    fn narrow_masks_are_kept_and_the_others_go_to_them() {
        let scene = Scene::new("2x2")
            .with_tasks_on(&[0, 1, 0, 1])
            .with_talk(&[(0, 1, 10), (2, 3, 9)])
            .with_ban(0, 0);
        let nodes = nodes_after("locality", &scene);
        assert_eq!(nodes, [Some(1), Some(1), Some(0), Some(0)]);
    }

    #[test]
    fn processes_keep_their_threads_together_where_talk_does_not_decide() {
        // Everyone says much to all in its half, whichever way the halves are cut into nodes.
        let mut scene = Scene::new("4x2").with_tasks_on(&[0, 1, 2, 3, 0, 1, 2, 3]);
        for one in 0..8 {
            for other in one + 1..8 {
                if one / 4 == other / 4 {
                    scene = scene.with_talk(&[(one, other, 100)]);
                }
            }
        }
        for (task, pid) in scene.tasks.iter_mut().zip([1, 2, 1, 2, 3, 4, 3, 4]) {
            task.key.pid = topology::Pid(1000 + pid);
        }
        let nodes = nodes_after("locality", &scene);
        for (one, other) in [(0, 2), (1, 3), (4, 6), (5, 7)] {
            assert_eq!(nodes[one], nodes[other], "{nodes:?}");
        }
    }

    #[test]
    fn who_is_settled_is_only_bound() {
        let scene = groups("2x8", 16, 8, 1);
        let mut after = scene.clone();
        after.apply(&proposals("locality", &[], &scene));
        let again = proposals("locality", &[], &after);
        assert_eq!((again.len(), after.clone().apply(&again)), (16, 0));
    }
}
