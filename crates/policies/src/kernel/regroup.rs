//! Communities that change nodes as a whole.
//!
//! Where tasks come in tight groups, a good mapping is a good packing of them, and no swap of two tasks leads
//! from one packing to another. Here a whole group joins a node, whoever minds least there comes back for each,
//! and a descent mends what that broke.

use super::communities::Communities;
use super::graph::{id, replace};
use super::table::Local;

impl Local<'_> {
    /// Tries every community on every node, nearest to its partners first, and keeps what helps; until nothing
    /// does, or that often was tried.
    pub(super) fn regroup(&mut self, communities: &Communities, tries_max: usize) {
        let label = |&task: &u32| communities.label(task as usize);
        let mut tasks = std::mem::take(&mut self.table.order);
        let mut goals = std::mem::take(&mut self.table.wishes);
        replace(&mut tasks, (0..self.field.rows.tasks()).map(id));
        tasks.sort_unstable_by_key(|task| (label(task), *task));
        let mut left = tries_max;
        let mut better = true;
        while std::mem::take(&mut better) {
            for group in tasks.chunk_by(|one, other| label(one) == label(other)) {
                self.rate(group, &mut goals);
                for &(_, to) in &goals {
                    if left == 0 || self.steps.is_out() {
                        break;
                    }
                    left -= 1;
                    better |= self.join(communities, group, to as usize);
                }
            }
        }
        self.table.log.clear();
        self.table.order = tasks;
        self.table.wishes = goals;
    }

    /// Lists the nodes that could hold a group and do not hold all of it, by what going there would cost its tasks.
    fn rate(&self, group: &[u32], goals: &mut Vec<(i32, u32)>) {
        goals.clear();
        for (to, &room) in self.field.machine.capacity.iter().enumerate() {
            if group.len() > room as usize {
                continue;
            }
            let away = |&&task: &&u32| usize::from(self.table.node[task as usize]) != to;
            let costs = group.iter().filter(away);
            let costs = costs.map(|&task| self.delta(task as usize, to));
            if let Some(cost) = costs.reduce(i32::saturating_add) {
                goals.push((cost, id(to)));
            }
        }
        goals.sort_unstable();
    }

    /// Brings a group together on a node and descends from there. True when that helped; else all is as before.
    fn join(&mut self, communities: &Communities, group: &[u32], to: usize) -> bool {
        let before = self.cost;
        self.table.log.clear();
        for &task in group {
            let task = task as usize;
            let from = self.table.node[task];
            if usize::from(from) == to {
                continue;
            }
            let mut back = None;
            if !self.has_room(to) {
                let there = self
                    .table
                    .members_of(to)
                    .iter()
                    .map(|&other| other as usize);
                let own = communities.label(task);
                let others = there.filter(|&other| communities.label(other) != own);
                back = others.min_by_key(|&other| (self.delta(other, usize::from(from)), other));
                if back.is_none() {
                    break;
                }
            }
            self.send(task, to);
            if let Some(back) = back {
                self.send(back, usize::from(from));
            }
        }
        self.settle();
        if self.cost >= before {
            self.undo();
        }
        self.cost < before
    }
}

#[cfg(test)]
mod tests {
    use super::super::communities::Communities;
    use super::super::graph::Steps;
    use super::super::machine::Machine;
    use super::super::table::{Field, Local, Table};
    use crate::kernel::Edges;

    #[test]
    fn a_packing_that_no_swap_leads_to_is_found() {
        // Groups of five, three, four and four fill two nodes of eight; those of four are torn at first.
        let mut pairs = Vec::new();
        for (start, size) in [(0, 5), (5, 3), (8, 4), (12, 4)] {
            for one in start..start + size {
                pairs.extend((one + 1..start + size).map(|other| (one, other, 100)));
            }
        }
        let edges = Edges::from_pairs(16, &pairs);
        let mut machine = Machine::default();
        machine.prepare(&[10, 20, 20, 10], &[8, 8], 16);
        let field = Field {
            rows: edges.rows(),
            machine: &machine,
            linear: &[],
        };
        let mut table = Table::default();
        table.node = vec![0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1, 1, 1];
        let mut steps = Steps::new(u64::MAX);
        let mut communities = Communities::default();
        assert_eq!(communities.find(edges.rows()), 100);
        let mut local = Local::new(field, &mut table, &mut steps);
        local.descend(0..16, false);
        assert!(local.cost > 0, "a descent alone does not find it");
        local.regroup(&communities, 16);
        assert_eq!(local.cost, 0);
    }
}
