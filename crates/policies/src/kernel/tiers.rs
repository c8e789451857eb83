//! The whole mapping at half the size: tasks in pairs, capacities halved.
//!
//! Every vertex of a tier stands for as many slots as every other, so a swap keeps all capacities on
//! every tier. What cannot be paired on a node with an odd number of tasks stays where it is, and its
//! partners see it as a price (`linear`).

use super::graph::{Dice, Level, id};
use super::machine::Machine;

const NONE: u32 = u32::MAX;

/// The problem at one size.
#[derive(Debug, Default)]
pub(super) struct Tier {
    pub(super) graph: Level,
    pub(super) capacity: Vec<u32>,
    /// A price for each vertex on each node, rows of the machine's pitch; or nothing.
    pub(super) linear: Vec<i32>,
    pub(super) node: Vec<u16>,
}

/// Memory of pairing.
#[derive(Debug, Default)]
pub(super) struct Pairing {
    order: Vec<u32>,
    mate: Vec<u32>,
    heads: Vec<u32>,
    slot: Vec<u32>,
    open: Vec<u32>,
    rest: Vec<Vec<u32>>,
    row: Vec<(u32, u32)>,
}

impl Pairing {
    /// Makes `coarse` the problem of pairs of `fine`, along `fine.node`. False when nothing pairs.
    pub(super) fn halve(
        &mut self,
        (fine, coarse): (&mut Tier, &mut Tier),
        machine: &Machine,
        dice: &mut Dice,
    ) -> bool {
        let count = fine.graph.count();
        let nodes = machine.nodes();
        coarse.capacity.clear();
        coarse.capacity.extend_from_slice(&fine.capacity);
        if self.rest.len() < nodes {
            self.rest.resize_with(nodes, Vec::new);
        }
        self.order.clear();
        self.order.extend((0..count).map(id));
        dice.shuffle(&mut self.order);
        self.mate.clear();
        self.mate.resize(count, NONE);
        self.pair_partners(fine);
        self.pair_strangers(fine, count);
        self.pair_rest(fine, nodes);
        let mut fixed = false;
        for (task, &mate) in self.mate.iter().enumerate() {
            if mate == NONE {
                fixed = true;
                coarse.capacity[usize::from(fine.node[task])] -= 1;
            }
        }
        for room in &mut coarse.capacity {
            *room /= 2;
        }
        self.name(fine);
        if self.heads.is_empty() {
            return false;
        }
        self.merge(fine, &mut coarse.graph);
        self.price(fine, coarse, machine, fixed);
        coarse.node.clear();
        coarse
            .node
            .extend(self.heads.iter().map(|&head| fine.node[head as usize]));
        true
    }

    /// Each task with the partner that it talks to most, of those still free.
    fn pair_partners(&mut self, fine: &Tier) {
        for &task in &self.order {
            let task = task as usize;
            if self.mate[task] != NONE {
                continue;
            }
            let (mut best, mut most) = (NONE, 0);
            for (other, weight) in fine.graph.rows().row(task) {
                let together = fine.node[other] == fine.node[task];
                if weight > most && self.mate[other] == NONE && together {
                    (best, most) = (id(other), weight);
                }
            }
            if best != NONE {
                self.mate[task] = best;
                self.mate[best as usize] = id(task);
            }
        }
    }

    /// Tasks that are left over with one that talks most to the same task.
    fn pair_strangers(&mut self, fine: &Tier, count: usize) {
        self.open.clear();
        self.open.resize(count, NONE);
        for &task in &self.order {
            let task = task as usize;
            if self.mate[task] != NONE {
                continue;
            }
            let most = fine
                .graph
                .rows()
                .row(task)
                .max_by_key(|&(other, weight)| (weight, other));
            let Some((friend, _)) = most else { continue };
            let waiting = self.open[friend];
            let fits = waiting != NONE && fine.node[waiting as usize] == fine.node[task];
            if fits {
                self.mate[task] = waiting;
                self.mate[waiting as usize] = id(task);
                self.open[friend] = NONE;
            } else {
                self.open[friend] = id(task);
            }
        }
    }

    /// Whatever is left, in the order of the shuffle.
    fn pair_rest(&mut self, fine: &Tier, nodes: usize) {
        for rest in &mut self.rest[..nodes] {
            rest.clear();
        }
        for &task in &self.order {
            if self.mate[task as usize] == NONE {
                let node = usize::from(fine.node[task as usize]);
                self.rest[node].push(task);
            }
        }
        for rest in &self.rest[..nodes] {
            for pair in rest.chunks_exact(2) {
                self.mate[pair[0] as usize] = pair[1];
                self.mate[pair[1] as usize] = pair[0];
            }
        }
    }

    /// Numbers the pairs by their first task. A task without mate is in none: it is fixed.
    fn name(&mut self, fine: &mut Tier) {
        let coarse = &mut fine.graph.coarse;
        coarse.clear();
        coarse.resize(self.mate.len(), NONE);
        self.heads.clear();
        for task in 0..self.mate.len() {
            let mate = self.mate[task];
            if coarse[task] != NONE || mate == NONE {
                continue;
            }
            coarse[task] = id(self.heads.len());
            coarse[mate as usize] = id(self.heads.len());
            self.heads.push(id(task));
        }
    }

    fn merge(&mut self, fine: &Tier, coarse: &mut Level) {
        coarse.clear();
        self.slot.clear();
        self.slot.resize(self.heads.len(), NONE);
        for (own, &head) in self.heads.iter().enumerate() {
            self.row.clear();
            for part in [head, self.mate[head as usize]] {
                for (other, weight) in fine.graph.rows().row(part as usize) {
                    let other = fine.graph.coarse[other];
                    if other == NONE || other as usize == own {
                        continue;
                    }
                    let weight = weight.cast_unsigned();
                    let place = &mut self.slot[other as usize];
                    if *place == NONE {
                        *place = id(self.row.len());
                        self.row.push((other, weight));
                    } else {
                        self.row[*place as usize].1 += weight;
                    }
                }
            }
            for &(other, _) in &self.row {
                self.slot[other as usize] = NONE;
            }
            if self.row.len() > 8 {
                self.row.sort_unstable();
            }
            for &(other, weight) in &self.row {
                coarse.partners.push(other);
                coarse.weights.push(weight);
            }
            coarse.end_row();
        }
        coarse.size.resize(self.heads.len(), 1);
        coarse.bias.resize(self.heads.len(), 0);
    }

    /// Prices of the pairs: those of their tasks, and what they say to tasks that are fixed.
    fn price(&self, fine: &Tier, coarse: &mut Tier, machine: &Machine, fixed: bool) {
        coarse.linear.clear();
        if fine.linear.is_empty() && !fixed {
            return;
        }
        let pitch = machine.pitch();
        coarse.linear.resize(self.heads.len() * pitch, 0);
        for (own, &head) in self.heads.iter().enumerate() {
            let row = &mut coarse.linear[own * pitch..][..pitch];
            for part in [head, self.mate[head as usize]] {
                let part = part as usize;
                if !fine.linear.is_empty() {
                    let prices = &fine.linear[part * pitch..][..pitch];
                    row.iter_mut()
                        .zip(prices)
                        .for_each(|(sum, price)| *sum += price);
                }
                for (other, weight) in fine.graph.rows().row(part) {
                    if fine.graph.coarse[other] == NONE {
                        let far = machine.from(usize::from(fine.node[other]));
                        row.iter_mut()
                            .zip(far)
                            .for_each(|(sum, far)| *sum += weight * far);
                    }
                }
            }
        }
    }
}
