//! Interleave: pages dealt out to the nodes in turn, by their numbers, as `numactl --interleave=all` does for new
//! memory; threads stay where they are.
//!
//! A page is meant for node number `page mod N`, of the N nodes that have memory the program may use. Where that
//! node is full the page stays. The nodes that have room at the start take turns.

use numad_core::{Policy, PolicyFactory, Program, Proposal, Reason, Time};

/// Makes the policy `interleave`.
pub(crate) static INTERLEAVE: PolicyFactory = PolicyFactory {
    name: "interleave",
    summary: "Deals pages out to all nodes in turn, whoever uses them, and leaves threads alone.",
    settings: &[],
    seeks_gain: false,
    goes_by_order: false,
    published: None,
    build: |_, _| Ok(Box::new(Dealt::default())),
};

/// The policy `interleave` and the nodes that take turns: those that had room when it began, so that every page has
/// one place for good.
#[derive(Debug, Default)]
struct Dealt {
    nodes: Vec<usize>,
}

impl Policy for Dealt {
    fn propose(&mut self, _now: Time, program: &Program<'_>, out: &mut Vec<Proposal>) {
        let mut free = program.free_bytes.to_vec();
        if self.nodes.is_empty() {
            let open = (0..free.len()).filter(|&node| free[node] > 0);
            self.nodes = open.collect();
        }
        let nodes = &self.nodes;
        for page in program.pages {
            let Some(home) = page.node().filter(|_| !nodes.is_empty()) else {
                continue;
            };
            let turn = page.key.page % nodes.len() as u64;
            let node = nodes[usize::try_from(turn).unwrap_or(0)];
            let bytes = program.page_bytes.saturating_mul(page.span);
            if node != home && free.get(node).is_some_and(|&free| free >= bytes) {
                free[node] -= bytes;
                out.push(Proposal::move_page(page.key, node, Reason::Interleave));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use numad_core::Proposal;
    use testkit::Scene;

    use crate::tests::proposals;

    #[test]
    fn pages_go_to_the_nodes_in_turn_as_far_as_there_is_room() {
        let mut scene = Scene::new("4x1").with_tasks_on(&[0, 1]);
        for _ in 0..8 {
            scene = scene.with_page(Some(0), &[0]);
        }
        let places = |scene: &Scene| -> Vec<u16> {
            let mut scene = scene.clone();
            let all = proposals("interleave", &[], &scene);
            assert!(
                all.iter()
                    .all(|one| matches!(one, Proposal::MovePage { .. }))
            );
            scene.apply(&all);
            scene.pages.iter().map(|page| page.home.unwrap()).collect()
        };
        let all = places(&scene);
        for node in 0..4 {
            assert_eq!(
                all.iter().filter(|&&home| home == node).count(),
                2,
                "{all:?}"
            );
        }
        let little = scene.as_program().page_bytes;
        let all = places(&scene.with_free_bytes(&[1 << 20, little, 0, 1 << 20]));
        assert!(!all.contains(&2), "a node without room: {all:?}");
        assert_eq!(all.iter().filter(|&&home| home == 1).count(), 1, "{all:?}");
    }
}
