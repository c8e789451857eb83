//! Clusters of threads that hand each other cache lines, after Azimi, Tam, Soares and Stumm (2009).
//!
//! Their observation: of all accesses only those that another core's cache answers are sharing that
//! placement can make cheaper; two threads that read the same table from memory need not be near each
//! other. So the matrix here holds such accesses alone ([`numad_core::Program::handed`]). Where the source of
//! samples does not tell what answered an access (page faults do not), there is no such matrix, and nothing is
//! proposed.
//!
//! Clusters grow in one pass, as in the paper: tasks by what they say, most first, each to the cluster
//! it says most to if that is at least `similar_min` of all it says and the cluster still fits the
//! largest node, else into a new one. Clusters go to nodes, largest first, each to the node with the
//! most places left, among equals to the one that most of its tasks are on; one that fits nowhere is
//! dealt out. Then the plan competes with what is, see [`crate::board`]; pages stay, and a task that would
//! leave its memory behind pays for that.

use numad_core::{Policy, PolicyFactory, Program, Proposal, SettingKind, SettingSpec, Time};

use crate::board::{self, Board};
use crate::published::azimi::{deal, grow};

const SIMILAR_MIN: SettingSpec = SettingSpec {
    name: "similar_min",
    kind: SettingKind::Float((0.0, 1.0), 0.2),
    help: "A thread joins a cluster if this share of all it says is said to threads of that.",
};

/// Makes the policy `azimi`.
pub(crate) static AZIMI: PolicyFactory = PolicyFactory {
    name: "azimi",
    summary: "Clusters threads whose accesses other cores' caches answer; needs a source that \
              tells what answered.",
    settings: &[SIMILAR_MIN, board::GAIN_MIN],
    seeks_gain: true,
    goes_by_order: false,
    published: Some(&crate::published::azimi::PUBLISHED),
    build: |settings, _| {
        Ok(Box::new(Clustered {
            similar_min: settings.float(SIMILAR_MIN.name),
            gain_min: settings.float(board::GAIN_MIN.name),
        }))
    },
};

/// The policy `azimi` with its settings.
#[derive(Clone, Copy, Debug)]
struct Clustered {
    similar_min: f64,
    gain_min: f64,
}

impl Policy for Clustered {
    fn propose(&mut self, _now: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        let Some(handed) = program.handed else {
            return;
        };
        let board = Board::new(program, handed).anchored(program);
        let room: Vec<usize> = board.capacity.iter().map(|&room| room as usize).collect();
        let talkers = board.talkers.len();
        let partners = |talker| {
            let partners = board.edges.partners(talker);
            partners.map(|(other, amount)| (other, u64::from(amount)))
        };
        let largest = room.iter().copied().max().unwrap_or(0);
        let clusters = grow(talkers, partners, self.similar_min, largest);
        let plan = board.settle(|from| {
            let there = |talkers: &[usize], node| {
                let on_it = talkers.iter().filter(|&&one| from[one] == Some(node));
                on_it.count()
            };
            let wish = deal(clusters.clone(), room.clone(), talkers, there);
            board.better(from, vec![board.named_plan(&wish, from)], self.gain_min)
        });
        out.extend(board.propose(&plan));
    }
}

#[cfg(test)]
mod tests {
    use numad_core::CommMatrix;
    use testkit::Scene;

    use crate::tests::{nodes_after, nodes_after_with, proposals};

    fn handing(machine: &str, nodes: &[usize], talk: &[(usize, usize, u64)]) -> Scene {
        let mut scene = Scene::new(machine).with_tasks_on(nodes);
        let mut handed = CommMatrix::new(nodes.len());
        for &(one, other, amount) in talk {
            handed.add(one, other, amount);
        }
        scene.handed = Some(handed);
        scene
    }

    #[test]
    fn only_what_caches_answered_counts() {
        // All say much to all through memory; lines are handed on between 0 and 3, and 1 and 2.
        let talk = [(0, 1, 900), (1, 2, 900), (2, 3, 900)];
        let scene = handing("2x2", &[0, 0, 1, 1], &[(0, 3, 90), (1, 2, 90)]).with_talk(&talk);
        let nodes = nodes_after("azimi", &scene);
        assert!(nodes[0] == nodes[3] && nodes[1] == nodes[2] && nodes[0] != nodes[1]);
        let untold = Scene {
            handed: None,
            ..scene
        };
        assert_eq!(proposals("azimi", &[], &untold), []);
    }

    #[test]
    fn clusters_are_as_large_as_a_node() {
        let mut talk = Vec::new();
        for one in 0..8 {
            for other in one + 1..8 {
                if one % 2 == other % 2 {
                    talk.push((one, other, 50));
                }
            }
        }
        let scene = handing("2x4", &[0, 0, 0, 0, 1, 1, 1, 1], &talk);
        let nodes = nodes_after("azimi", &scene);
        for task in 2..8 {
            assert_eq!(nodes[task], nodes[task - 2], "{nodes:?}");
        }
    }

    #[test]
    fn who_says_little_to_a_cluster_is_none_of_it() {
        let talk = [(0, 1, 90), (0, 2, 30), (2, 3, 60)];
        let scene = handing("2x3", &[0, 1, 0, 1], &talk);
        let together = |similar: &str| {
            let nodes = nodes_after_with("azimi", &[("similar_min", similar)], &scene);
            (nodes[0] == nodes[1], nodes[2] == nodes[3])
        };
        assert_eq!(together("0.4"), (true, true));
        // 3 says all to 2, who says a third to 0: with a third enough, the three are one cluster.
        assert_eq!(together("0.3"), (true, false));
    }
}
