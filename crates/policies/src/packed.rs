//! Packed: tasks in id order fill the first node, then the next.
//!
//! A task that is not allowed on the node being filled goes to the first later or earlier node that
//! is allowed and has room; one that has none stays where it is.

use numad_core::{Policy, PolicyFactory, Program, Proposal, Reason, Time};

use crate::seats::Seats;

/// Makes the policy `packed`.
pub(crate) static PACKED: PolicyFactory = PolicyFactory {
    name: "packed",
    summary: "Fills node after node with threads in id order: neighbours by id share a node.",
    settings: &[],
    seeks_gain: false,
    goes_by_order: true,
    published: None,
    build: |_, _| Ok(Box::new(Packed)),
};

/// The policy `packed`.
#[derive(Debug)]
struct Packed;

impl Policy for Packed {
    fn propose(&mut self, _now: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        let order = 0..program.tasks.len();
        fill(program, order, |_| 0, (&Reason::Order, out));
    }
}

/// Places tasks in the given order, each on the first node with room from its `start` on.
pub(crate) fn fill(
    program: &Program<'_>,
    order: impl IntoIterator<Item = usize>,
    start: impl Fn(usize) -> usize,
    (reason, out): (&Reason, &mut Vec<Proposal>),
) {
    let mut seats = Seats::new(program);
    for task in order {
        let known = &program.tasks[task];
        let mut round = seats.round_from(start(task));
        if let Some(node) = round.find(|&node| seats.try_take(node, known)) {
            out.push(Proposal::place_task(task, node, reason.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use testkit::Scene;

    use crate::tests::nodes_after;

    #[track_caller]
    fn check(scene: &Scene, expected: &[Option<usize>]) {
        assert_eq!(nodes_after("packed", scene), expected);
    }

    #[test]
    fn nodes_fill_in_order() {
        let scene = Scene::new("2x2").with_tasks(&[None; 4]);
        check(&scene, &[Some(0), Some(0), Some(1), Some(1)]);
    }

    #[test]
    fn full_and_forbidden_nodes_are_passed_over() {
        let scene = Scene::new("3x2")
            .with_tasks(&[None; 4])
            .with_capacity(&[0, 2, 2]);
        check(&scene, &[Some(1), Some(1), Some(2), Some(2)]);
        let scene = Scene::new("2x2").with_tasks(&[None; 3]).with_ban(0, 0);
        check(&scene, &[Some(1), Some(0), Some(0)]);
    }

    #[test]
    fn without_room_a_task_stays() {
        let scene = Scene::new("2x1")
            .with_tasks_on(&[1, 1])
            .with_ban(1, 1)
            .with_capacity(&[1, 0]);
        check(&scene, &[Some(0), Some(1)]);
    }
}
