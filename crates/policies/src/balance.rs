//! Balance: equal communication load on every node.
//!
//! Tasks by what they say in all, most first (ties: the lower id), each to the node with the least
//! load so far that has room; among equal nodes to the one that holds the least communication with
//! this task; then to the first.
//!
//! Two things the method leaves open are settled so that it does no harm when it runs again and
//! again. Tasks that say nothing have no load to even out: they stay, and keep their places. And a
//! placement that is even enough stays: a new plan is wanted only if some task has no proper place now,
//! or if the plan lowers the highest load of a node by more than `tolerance` times the mean.

use std::cmp::Reverse;

use numad_core::{
    CommMatrix, Policy, PolicyFactory, Program, Proposal, Reason, SettingKind, SettingSpec, Time,
};

use crate::matrix_choice::MatrixChoice;
use crate::seats::Seats;

/// How much more even a plan must be.
const TOLERANCE: SettingSpec = SettingSpec {
    name: "tolerance",
    kind: SettingKind::Float((0.0, 10.0), 0.1),
    help: "Threads move only if that lowers the highest load of a node by more than this share of \
           the mean load.",
};

/// Makes the policy `balance`.
pub(crate) static BALANCE: PolicyFactory = PolicyFactory {
    name: "balance",
    summary: "Evens out communication over the nodes: helps where one memory controller is the \
              bottleneck.",
    settings: &[MatrixChoice::SPEC, TOLERANCE],
    seeks_gain: false,
    goes_by_order: false,
    published: Some(&crate::published::balance::PUBLISHED),
    build: |settings, _| {
        Ok(Box::new(Balancer {
            matrix: MatrixChoice::new(settings),
            tolerance: settings.float(TOLERANCE.name),
        }))
    },
};

/// The policy `balance` with its settings.
#[derive(Clone, Copy, Debug)]
struct Balancer {
    matrix: MatrixChoice,
    tolerance: f64,
}

/// What each task says in all, and those who say anything, most first.
struct Talkers {
    loads: Vec<u64>,
    order: Vec<usize>,
}

impl Policy for Balancer {
    fn propose(&mut self, _now: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        let matrix = self.matrix.of(program);
        let talkers = Talkers::of(matrix);
        let silent = (0..talkers.loads.len()).filter(|&task| talkers.loads[task] == 0);
        let seats = Seats::without(program, silent);
        let planned = talkers.deal(program, matrix, seats.clone());
        let nodes = match talkers.keep(program, seats) {
            Some(kept) if !self.pays(program, &talkers, [&kept, &planned]) => kept,
            _ => planned,
        };
        for task in talkers.order {
            if let Some(node) = nodes[task] {
                let amount = talkers.loads[task];
                out.push(Proposal::place_task(task, node, Reason::Load { amount }));
            }
        }
    }
}

impl Balancer {
    /// Whether a plan is enough more even than what is.
    fn pays(
        self,
        program: &Program<'_>,
        talkers: &Talkers,
        [kept, planned]: [&[Option<usize>]; 2],
    ) -> bool {
        let highest = |nodes: &[Option<usize>]| {
            let mut held = vec![0_u64; program.capacity.len()];
            for (node, &load) in nodes.iter().zip(&talkers.loads) {
                if let Some(node) = *node {
                    held[node] = held[node].saturating_add(load);
                }
            }
            held.into_iter().max().unwrap_or(0) as f64
        };
        let rooms = program.capacity.iter().filter(|&&room| room > 0).count();
        let order = talkers.order.iter();
        let total: f64 = order.map(|&task| talkers.loads[task] as f64).sum();
        highest(kept) - highest(planned) > self.tolerance * total / rooms.max(1) as f64
    }
}

/// The mapping from nothing: the node of each task that talks.
pub(crate) fn from_nothing(program: &Program<'_>, matrix: &CommMatrix) -> Vec<Option<usize>> {
    Talkers::of(matrix).deal(program, matrix, Seats::new(program))
}

impl Talkers {
    fn of(matrix: &CommMatrix) -> Self {
        let loads = (0..matrix.count()).map(|task| matrix.row_sum(task));
        let loads: Vec<u64> = loads.collect();
        let mut order: Vec<usize> = (0..loads.len()).filter(|&task| loads[task] > 0).collect();
        order.sort_by_key(|&task| Reverse(loads[task]));
        Self { loads, order }
    }

    /// The method: a node for each, none without room anywhere.
    fn deal(
        &self,
        program: &Program<'_>,
        matrix: &CommMatrix,
        mut seats: Seats,
    ) -> Vec<Option<usize>> {
        let mut held = vec![0_u64; seats.nodes()];
        let mut nodes: Vec<Option<usize>> = vec![None; self.loads.len()];
        for &task in &self.order {
            let mut near = vec![0_u64; seats.nodes()];
            for (node, &amount) in nodes.iter().zip(matrix.row(task)) {
                if let Some(node) = *node {
                    near[node] = near[node].saturating_add(amount);
                }
            }
            let open = (0..seats.nodes()).filter(|&node| seats.takes(node, &program.tasks[task]));
            if let Some(node) = open.min_by_key(|&node| (held[node], near[node], node)) {
                seats.take(node);
                held[node] = held[node].saturating_add(self.loads[task]);
                nodes[task] = Some(node);
            }
        }
        nodes
    }

    /// Everyone where they are now; none if that is unknown, forbidden or too many for one of them.
    fn keep(&self, program: &Program<'_>, mut seats: Seats) -> Option<Vec<Option<usize>>> {
        let mut nodes = vec![None; self.loads.len()];
        for &task in &self.order {
            let known = &program.tasks[task];
            let node = known.node.filter(|&node| seats.try_take(node, known))?;
            nodes[task] = Some(node);
        }
        Some(nodes)
    }
}

#[cfg(test)]
mod tests {
    use testkit::Scene;

    use crate::tests::{nodes_after, nodes_after_with};

    #[track_caller]
    fn check(scene: &Scene, expected: &[Option<usize>]) {
        assert_eq!(nodes_after("balance", scene), expected);
    }

    #[test]
    fn heavy_talkers_are_spread_and_light_ones_fill_up() {
        // Row sums 9, 9, 5, 5: 0 to node 0, 1 to node 1, then 2 and 3 to one each.
        let talk = [(0, 1, 9), (2, 3, 5)];
        let scene = Scene::new("2x2").with_tasks(&[None; 4]).with_talk(&talk);
        check(&scene, &[Some(0), Some(1), Some(0), Some(1)]);
    }

    #[test]
    fn among_equal_nodes_the_one_with_least_talk_to_the_task_is_taken() {
        // Row sums 4, 4, 2, 2. After 0 and 1 both nodes hold 4; 2 talks to 0 alone, so it goes to 1.
        let talk = [(0, 2, 2), (1, 3, 2), (0, 1, 2)];
        let scene = Scene::new("2x2").with_tasks(&[None; 4]).with_talk(&talk);
        check(&scene, &[Some(0), Some(1), Some(1), Some(0)]);
    }

    #[test]
    fn full_and_forbidden_nodes_are_passed_over() {
        let talk = [(0, 1, 9), (2, 3, 5)];
        let scene = Scene::new("2x4").with_tasks(&[None; 4]).with_talk(&talk);
        check(
            &scene.clone().with_capacity(&[1, 4]),
            &[Some(0), Some(1), Some(1), Some(1)],
        );
        check(&scene.with_ban(1, 1), &[Some(0), Some(0), Some(1), Some(1)]);
    }

    #[test]
    fn silent_tasks_stay_and_keep_their_places() {
        let talk = [(0, 1, 9)];
        let scene = Scene::new("2x2")
            .with_tasks_on(&[1, 1, 0, 0])
            .with_talk(&talk);
        check(&scene, &[Some(1), Some(1), Some(0), Some(0)]);
    }

    #[test]
    fn what_is_even_enough_stays() {
        // Loads 10, 10, 9, 9; now 20 and 18, the plan has 19 and 19: better by 1 of a mean of 19.
        let talk = [(0, 1, 10), (2, 3, 9)];
        let scene = Scene::new("2x2")
            .with_tasks_on(&[0, 0, 1, 1])
            .with_talk(&talk);
        check(&scene, &[Some(0), Some(0), Some(1), Some(1)]);
        let eager = nodes_after_with("balance", &[("tolerance", "0")], &scene);
        assert_eq!(eager, [Some(0), Some(1), Some(0), Some(1)]);
        let lopsided = [(0, 1, 10), (2, 3, 5)];
        let scene = Scene::new("2x2")
            .with_tasks_on(&[0, 0, 1, 1])
            .with_talk(&lopsided);
        check(&scene, &[Some(0), Some(1), Some(0), Some(1)]);
    }
}
