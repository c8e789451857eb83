//! Scatter: task i goes to node i mod N; RCLB calls it socket-span.
//!
//! The N nodes are those that take tasks of this program at all: a node of memory alone would only
//! load the one after it. A task whose node is full or forbidden goes to the next that is neither.

use numad_core::{Policy, PolicyFactory, Program, Proposal, Reason, Time};

use crate::packed;

/// Makes the policy `scatter`.
pub(crate) static SCATTER: PolicyFactory = PolicyFactory {
    name: "scatter",
    summary: "Deals threads out to the nodes in turn: the most memory bandwidth for threads that \
              share nothing.",
    settings: &[],
    seeks_gain: false,
    goes_by_order: true,
    published: None,
    build: |_, _| Ok(Box::new(Scatter)),
};

/// The policy `scatter`.
#[derive(Debug)]
struct Scatter;

impl Policy for Scatter {
    fn propose(&mut self, _now: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        let nodes = 0..program.capacity.len();
        let open: Vec<usize> = nodes.filter(|&node| program.capacity[node] > 0).collect();
        let turn = |task| open.get(task % open.len().max(1)).copied().unwrap_or(0);
        let order = 0..program.tasks.len();
        packed::fill(program, order, turn, (&Reason::Order, out));
    }
}

#[cfg(test)]
mod tests {
    use testkit::{Scene, Shape, machine};

    use crate::tests::nodes_after;

    #[track_caller]
    fn check(scene: &Scene, expected: &[usize]) {
        let expected: Vec<Option<usize>> = expected.iter().copied().map(Some).collect();
        assert_eq!(nodes_after("scatter", scene), expected);
    }

    #[test]
    fn tasks_are_dealt_out_in_turn() {
        check(&Scene::new("3x2").with_tasks(&[None; 5]), &[0, 1, 2, 0, 1]);
    }

    #[test]
    fn full_and_forbidden_nodes_are_passed_over() {
        let scene = Scene::new("3x2").with_tasks(&[None; 5]);
        check(&scene.clone().with_capacity(&[1, 1, 3]), &[0, 1, 2, 2, 2]);
        check(&scene.clone().with_capacity(&[2, 0, 3]), &[0, 2, 0, 2, 2]);
        check(&scene.with_ban(1, 1), &[0, 2, 2, 0, 1]);
    }

    #[test]
    fn nodes_of_memory_alone_do_not_count() {
        let shapes = [(0, 0), (2, 2), (5, 2)].map(|(id, cores)| Shape {
            id,
            cores,
            memory_bytes: 1 << 30,
        });
        let scene = Scene::on(machine(&shapes)).with_tasks(&[None; 4]);
        check(&scene, &[1, 2, 1, 2]);
    }
}
