//! Masks and full nodes, of which kernels know nothing: a mapping becomes a plan that is allowed.

use super::{Board, Plan, ROUNDS_MAX};
use crate::seats::may_run;

impl Board<'_> {
    /// Makes a mapping a plan that masks and places allow. Where all may run everywhere and there is a place for
    /// everyone it is one already.
    ///
    /// Tasks are seated in `order`: where the mapping has them, else where they are, else where they
    /// are nearest to whom they talk to. If one had to give way, talkers change seats, as far as masks
    /// allow, while that lowers the cost.
    pub(crate) fn fit(&self, wish: &Plan, from: &Plan) -> Plan {
        if self.is_easy && wish.iter().all(Option::is_some) {
            return wish.clone();
        }
        let nodes = self.capacity.len();
        let mut free = self.capacity.clone();
        let mut plan: Plan = vec![None; wish.len()];
        let mut gave_way = false;
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
            gave_way |= seat != wish[talker];
            plan[talker] = seat;
        }
        if gave_way {
            self.exchange(&mut plan, &mut free);
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

    /// Moves and swaps that masks allow, while they lower the cost; a few rounds.
    fn exchange(&self, plan: &mut Plan, free: &mut [u32]) {
        for _ in 0..ROUNDS_MAX {
            let mut any = false;
            for one in 0..plan.len() {
                any |= self.step(one, plan, free);
            }
            if !any {
                break;
            }
        }
    }

    /// The first move or swap of a talker that lowers the cost.
    fn step(&self, one: usize, plan: &mut Plan, free: &mut [u32]) -> bool {
        let task = self.talkers[one];
        let Some(here) = plan[one] else {
            let seat = (0..free.len()).find(|&node| free[node] > 0 && self.open(task, node));
            if let Some(node) = seat {
                free[node] -= 1;
                plan[one] = Some(node);
            }
            return seat.is_some();
        };
        for node in 0..free.len() {
            let gain = self.pull(one, here, plan) - self.pull(one, node, plan);
            if node != here && free[node] > 0 && self.open(task, node) && gain > 1e-6 {
                free[node] -= 1;
                free[here] += 1;
                plan[one] = Some(node);
                return true;
            }
        }
        for other in one + 1..plan.len() {
            let Some(there) = plan[other].filter(|&there| there != here) else {
                continue;
            };
            if !self.open(task, there) || !self.open(self.talkers[other], here) {
                continue;
            }
            let before = self.pull(one, here, plan) + self.pull(other, there, plan);
            (plan[one], plan[other]) = (Some(there), Some(here));
            if self.pull(one, there, plan) + self.pull(other, here, plan) < before - 1e-6 {
                return true;
            }
            (plan[one], plan[other]) = (Some(here), Some(there));
        }
        false
    }
}
