//! Iterated local search: small kicks around one task, each followed by a descent.

use super::graph::{Dice, id, replace};
use super::table::{Local, Table};

/// A kick may make things worse by this share of the mean cost of a task at first, and by nothing at
/// the end.
const HEAT_PERCENT: i64 = 30;
/// A kick moves up to this many tasks out of their nodes: where they are few, three lead nowhere new.
const MOVES_MAX: usize = 3;
const FEW: usize = 16;
const MOVES_MAX_OF_FEW: usize = 6;

impl Local<'_> {
    /// Kicks and descends so often, but no more once that found nothing better for `idle` rounds; ends at the
    /// best mapping that was seen.
    pub(super) fn kicks(&mut self, dice: &mut Dice, rounds: usize, idle: usize) {
        let tasks = self.field.rows.tasks();
        if tasks < 2 {
            return;
        }
        let heat = (self.cost / i64::try_from(tasks).unwrap_or(1) * HEAT_PERCENT / 100).max(1);
        let mut best = self.cost;
        self.table.best.clone_from(&self.table.node);
        let mut last = 0;
        for round in 0..rounds {
            if self.steps.is_out() || round - last > idle {
                break;
            }
            let left = i64::try_from((rounds - round) * 1000 / rounds).unwrap_or(0);
            let heat = heat * left / 1000 * left / 1000;
            let before = self.cost;
            self.table.log.clear();
            self.kick(dice, heat);
            self.settle();
            if self.cost < best {
                (best, last) = (self.cost, round);
                self.table.best.clone_from(&self.table.node);
            }
            if self.cost > before + heat {
                self.undo();
            }
        }
        self.table.log.clear();
        if best < self.cost {
            let Table { node, best, .. } = &mut *self.table;
            node.clone_from(best);
            self.load();
        }
    }

    /// A few tasks join a partner's node; whoever there minds least comes back in exchange.
    fn kick(&mut self, dice: &mut Dice, heat: i64) {
        let rows = self.field.rows;
        let tasks = rows.tasks();
        let moves_max = if tasks <= FEW {
            MOVES_MAX_OF_FEW
        } else {
            MOVES_MAX
        };
        let mut task = dice.below(tasks);
        for _ in 0..=dice.below(moves_max) {
            let row = rows.range(task);
            let friend = if row.is_empty() || dice.below(4) == 0 {
                dice.below(tasks)
            } else {
                rows.partners[row.start + dice.below(row.len())] as usize
            };
            let (from, to) = (self.table.node[task], self.table.node[friend]);
            if from != to {
                let back = self.least_attached(friend, usize::from(from), dice, heat);
                self.send(task, usize::from(to));
                if let Some(back) = back {
                    self.send(back, usize::from(from));
                }
            }
            task = friend;
        }
    }

    /// The task on the node of `friend` that minds least to go to `to`, with some noise; nobody when
    /// the node has room for one more and luck will have it.
    fn least_attached(
        &self,
        friend: usize,
        to: usize,
        dice: &mut Dice,
        heat: i64,
    ) -> Option<usize> {
        let node = usize::from(self.table.node[friend]);
        if self.has_room(node) && dice.below(2) == 0 {
            return None;
        }
        let noise = heat / 8;
        let others = self
            .table
            .members_of(node)
            .iter()
            .map(|&other| other as usize);
        let others = others.filter(|&other| other != friend);
        let least = others.min_by_key(|&other| {
            let noise = noise * i64::try_from(dice.below(16)).unwrap_or(0);
            (i64::from(self.delta(other, to)) + noise, other)
        });
        least.or_else(|| (!self.has_room(node)).then_some(friend))
    }

    /// Moves a task and logs that.
    pub(super) fn send(&mut self, task: usize, to: usize) {
        self.table.log.push((id(task), self.table.node[task]));
        self.relocate(task, to);
    }

    /// Descends from what was kicked and everyone it talks to; logs every move.
    pub(super) fn settle(&mut self) {
        let mut kicked = std::mem::take(&mut self.table.kicked);
        replace(&mut kicked, self.table.log.iter().map(|entry| entry.0));
        let few = self.field.rows.entries() < 64 * self.field.rows.tasks();
        if few {
            for entry in 0..kicked.len() {
                let row = self.field.rows.range(kicked[entry] as usize);
                kicked.extend_from_slice(&self.field.rows.partners[row]);
            }
        }
        self.descend(kicked.iter().map(|&task| task as usize), true);
        self.table.kicked = kicked;
    }
}
