//! Masks and full nodes, of which kernels know nothing: a mapping becomes a plan that is allowed.

use super::{Board, Plan};
use crate::seats::may_run;

impl Board<'_> {
    /// Makes a mapping a plan that masks and places allow. Where all may run everywhere and there is a place for
    /// everyone it is one already.
    ///
    /// Tasks are seated in `order`: where the mapping has them, else where they are, else where they
    /// are nearest to whom they talk to.
    pub(crate) fn fit(&self, wish: &Plan, from: &Plan) -> Plan {
        if self.is_easy && wish.iter().all(Option::is_some) {
            return wish.clone();
        }
        let nodes = self.capacity.len();
        let mut free = self.capacity.clone();
        let mut plan: Plan = vec![None; wish.len()];
        for &talker in &self.order {
            let task = self.talkers[talker];
            let fits = |&node: &usize| self.open(task, node) && free[node] > 0;
            let near = [wish[talker], from[talker]];
            let near = near.into_iter().flatten().find(fits);
            let seat = near.or_else(|| {
                let open = (0..nodes).filter(fits);
                open.min_by(|&one, &other| {
                    let pull = |node| self.pull(talker, node, &plan);
                    pull(one).total_cmp(&pull(other))
                })
            });
            if let Some(node) = seat {
                free[node] -= 1;
            }
            plan[talker] = seat;
        }
        plan
    }

    pub(super) fn open(&self, task: usize, node: usize) -> bool {
        self.capacity[node] > 0 && may_run(&self.tasks[task], node)
    }

    /// What a talker's communication costs from a node.
    fn pull(&self, talker: usize, node: usize, plan: &Plan) -> f64 {
        let partners = self.edges.partners(talker);
        partners
            .map(|(other, amount)| {
                let far = self.apart(node, plan[other].unwrap_or(self.capacity.len()));
                f64::from(amount) * far
            })
            .sum()
    }
}
