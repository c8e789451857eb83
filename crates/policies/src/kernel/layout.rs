//! Communities laid along the nodes, one after the other.
//!
//! The nodes stand in an order in which neighbours are close, so a community that does not fit what
//! is left of a node continues on one nearby. Which community follows which decides what is torn
//! apart; that is searched for on the communities alone, which are few.

use super::communities::Communities;
use super::graph::{Csr, Dice, Steps, id, reset};
use super::machine::Machine;

/// Bits of the densities of communities: with 16 bits for each of two numbers of tasks and 12 for a
/// distance, 64 bits hold the sum.
const DENSITY_BITS: u32 = 10;
/// Orders that are looked at.
const ORDERS_MAX: usize = 20_000;
/// Orders that are looked at for each task: a tenth of what a mapping takes otherwise.
const ORDERS_EACH: usize = 10;
/// Communities are tight when at least this share of their pairs talk.
const LINKED_PERCENT: usize = 25;
const NONE: u32 = u32::MAX;

/// Memory of the search for an order.
#[derive(Debug, Default)]
pub(super) struct Layout {
    /// Tasks, those of one community side by side.
    tasks: Vec<u32>,
    groups: Vec<Group>,
    /// Which community a label stands for.
    group_of: Vec<u32>,
    order: Vec<u32>,
    trial: Vec<u32>,
    best: Vec<u32>,
    pieces: Vec<(usize, u32)>,
    seen: Vec<bool>,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    first: u32,
    size: u32,
    /// What two of its tasks say to each other on average, as a number of few bits.
    density: i64,
}

impl Layout {
    /// Writes into `node` where each task goes. False when the communities are too thin for that: a
    /// piece of a grid is better cut along its shape.
    pub(super) fn run(
        &mut self,
        (rows, communities, kept): (Csr<'_>, &Communities, usize),
        machine: &Machine,
        (dice, steps): (&mut Dice, &mut Steps),
        node: &mut Vec<u16>,
    ) -> bool {
        if !self.gather(rows, communities, kept) {
            return false;
        }
        self.search(machine, dice);
        let _ = steps.spend(rows.entries() + self.order.len());
        reset(node, rows.tasks(), 0);
        let mut walk = Walk::new(&machine.capacity, rows.tasks());
        for &group in &self.order {
            let Group { first, size, .. } = self.groups[group as usize];
            walk.place(size, &mut self.pieces);
            let mut from = first as usize;
            for &(there, amount) in &self.pieces {
                for &task in &self.tasks[from..from + amount as usize] {
                    node[task as usize] = u16::try_from(there).unwrap_or(u16::MAX);
                }
                from += amount as usize;
            }
        }
        true
    }

    /// Lists the tasks of each community, those that talk close together. True when most of what could
    /// talk inside of them does.
    fn gather(&mut self, rows: Csr<'_>, communities: &Communities, kept: usize) -> bool {
        let tasks = rows.tasks();
        self.tasks.clear();
        self.groups.clear();
        reset(&mut self.group_of, tasks, NONE);
        reset(&mut self.seen, tasks, false);
        let mut heaviest = 1;
        let (mut linked, mut linkable) = (0, 0);
        for start in 0..tasks {
            let label = communities.label(start);
            if self.group_of[label] != NONE {
                continue;
            }
            self.group_of[label] = id(self.groups.len());
            let first = self.tasks.len();
            let mut inside = 0;
            // Label propagation leaves no community in two parts, but nothing rests on that.
            self.seen[start] = true;
            self.tasks.push(id(start));
            let mut head = first;
            while head < self.tasks.len() {
                for (other, weight) in rows.row(self.tasks[head] as usize) {
                    if communities.label(other) == label {
                        inside += i64::from(weight);
                        linked += 1;
                        if !self.seen[other] {
                            self.seen[other] = true;
                            self.tasks.push(id(other));
                        }
                    }
                }
                head += 1;
            }
            let size = self.tasks.len() - first;
            let pairs = size * (size - 1).clamp(1, kept);
            linkable += pairs;
            let pairs = i64::try_from(pairs).unwrap_or(i64::MAX);
            let density = inside / pairs;
            heaviest = heaviest.max(density);
            self.groups.push(Group {
                first: id(first),
                size: id(size),
                density,
            });
        }
        self.add_lost(tasks);
        let shift = (64 - heaviest.leading_zeros()).saturating_sub(DENSITY_BITS);
        for group in &mut self.groups {
            group.density = (group.density >> shift).max(1);
        }
        linked * 100 >= linkable * LINKED_PERCENT
    }

    /// Tasks that no walk along their community reached stand alone.
    fn add_lost(&mut self, tasks: usize) {
        for task in 0..tasks {
            if !self.seen[task] {
                self.groups.push(Group {
                    first: id(self.tasks.len()),
                    size: 1,
                    density: 1,
                });
                self.tasks.push(id(task));
            }
        }
    }

    /// Finds an order by inserting communities elsewhere, while that parts less, with kicks.
    fn search(&mut self, machine: &Machine, dice: &mut Dice) {
        let count = self.groups.len();
        // These change places, so each must be large enough.
        for order in [&mut self.order, &mut self.trial, &mut self.best] {
            order.clear();
            order.reserve(count);
        }
        self.order.extend((0..count).map(id));
        let groups = &self.groups;
        self.order
            .sort_unstable_by_key(|&group| (std::cmp::Reverse(groups[group as usize].size), group));
        let mut left = ORDERS_MAX.min(ORDERS_EACH * self.tasks.len());
        let mut cost = self.descend(machine, &mut left);
        self.best.clone_from(&self.order);
        while left > 0 && cost > 0 && count > 2 {
            for _ in 0..3 {
                let (one, other) = (dice.below(count), dice.below(count));
                self.order.swap(one, other);
            }
            let next = self.descend(machine, &mut left);
            if next < cost {
                cost = next;
                self.best.clone_from(&self.order);
            } else {
                self.order.clone_from(&self.best);
            }
        }
        std::mem::swap(&mut self.order, &mut self.best);
    }

    /// Exchanges two communities or inserts one elsewhere until none of that helps; the cost then.
    fn descend(&mut self, machine: &Machine, left: &mut usize) -> i64 {
        let count = self.order.len();
        let mut order = std::mem::take(&mut self.order);
        let mut trial = std::mem::take(&mut self.trial);
        let mut cost = self.cost(machine, &order);
        let (mut turn, mut quiet) = (0, 0);
        while quiet < 2 * count * count && *left > 0 && cost > 0 {
            let (one, other) = (turn / 2 / count % count, turn / 2 % count);
            let inserts = turn % 2 == 0;
            turn += 1;
            quiet += 1;
            let same =
                self.groups[order[one] as usize].size == self.groups[order[other] as usize].size;
            if one == other || (same && !inserts) {
                continue;
            }
            trial.clone_from(&order);
            if inserts {
                let group = trial.remove(one);
                trial.insert(other, group);
            } else {
                trial.swap(one, other);
            }
            *left -= 1;
            let next = self.cost(machine, &trial);
            if next < cost {
                cost = next;
                std::mem::swap(&mut order, &mut trial);
                quiet = 0;
            }
        }
        self.order = order;
        self.trial = trial;
        cost
    }

    /// What pairs of one community cost when communities are laid out in that order.
    fn cost(&mut self, machine: &Machine, order: &[u32]) -> i64 {
        let mut walk = Walk::new(&machine.capacity, self.tasks.len());
        let mut cost = 0;
        for &group in order {
            let Group { size, density, .. } = self.groups[group as usize];
            walk.place(size, &mut self.pieces);
            for (place, &(there, amount)) in self.pieces.iter().enumerate() {
                let far = machine.from(there);
                for &(other, rest) in &self.pieces[..place] {
                    cost += density * i64::from(far[other]) * i64::from(amount) * i64::from(rest);
                }
            }
        }
        cost
    }
}

/// A walk along the nodes, from slot to slot.
struct Walk<'a> {
    capacity: &'a [u32],
    node: usize,
    /// Slots left on that node.
    open: u32,
    /// Slots more than tasks, that may be left empty.
    spare: u32,
}

impl<'a> Walk<'a> {
    fn new(capacity: &'a [u32], tasks: usize) -> Self {
        let room: u32 = capacity.iter().sum();
        Self {
            capacity,
            node: 0,
            open: capacity.first().copied().unwrap_or(0),
            spare: room.saturating_sub(id(tasks)),
        }
    }

    /// Takes slots for a community: how many on which nodes.
    fn place(&mut self, size: u32, pieces: &mut Vec<(usize, u32)>) {
        pieces.clear();
        let next = self.capacity.get(self.node + 1).copied().unwrap_or(0);
        if self.open < size && self.open <= self.spare && size <= next {
            self.spare -= self.open;
            self.open = 0;
        }
        let mut left = size;
        while left > 0 {
            if self.open == 0 {
                self.node += 1;
                let Some(&room) = self.capacity.get(self.node) else {
                    return;
                };
                self.open = room;
                continue;
            }
            let amount = left.min(self.open);
            pieces.push((self.node, amount));
            self.open -= amount;
            left -= amount;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::communities::Communities;
    use super::super::graph::{Dice, Edges, Steps};
    use super::super::machine::Machine;
    use super::Layout;

    /// Lays cliques of those sizes on equally far nodes of those capacities; how many are torn.
    #[track_caller]
    fn check_torn(sizes: &[u32], capacity: &[u32], torn: usize) {
        let (mut pairs, mut start) = (Vec::new(), 0);
        for &size in sizes {
            let all = start..start + size;
            for one in all.clone() {
                pairs.extend((one + 1..all.end).map(|other| (one, other, 100)));
            }
            if start > 0 {
                pairs.push((start - 1, start, 3));
            }
            start = all.end;
        }
        let edges = Edges::from_pairs(start as usize, &pairs);
        let nodes = capacity.len();
        let mut distance = vec![20; nodes * nodes];
        (0..nodes).for_each(|node| distance[node * (nodes + 1)] = 10);
        let mut machine = Machine::default();
        machine.prepare(&distance, capacity, start as usize);
        let mut communities = Communities::default();
        assert!(communities.find(edges.rows()) > 85);
        let mut node = Vec::new();
        let laid = Layout::default().run(
            (edges.rows(), &communities, usize::MAX),
            &machine,
            (&mut Dice::new(1), &mut Steps::new(u64::MAX)),
            &mut node,
        );
        assert!(laid);
        for (place, &room) in machine.capacity.iter().enumerate() {
            let there = node.iter().filter(|&&node| usize::from(node) == place);
            assert!(there.count() <= room as usize, "{sizes:?} {capacity:?}");
        }
        let mut rest = node.as_slice();
        let mut count = 0;
        for &size in sizes {
            let (group, others) = rest.split_at(size as usize);
            count += usize::from(group.iter().any(|node| *node != group[0]));
            rest = others;
        }
        assert_eq!(count, torn, "{sizes:?} {capacity:?} {node:?}");
    }

    #[test]
    fn communities_stay_whole_where_they_can() {
        check_torn(&[7, 5, 9, 4, 3, 4], &[16, 16], 0);
        check_torn(&[6, 6, 6, 6], &[12, 12], 0);
        check_torn(&[10, 5, 5, 3, 3, 4], &[10, 10, 10], 0);
        check_torn(&[9, 9, 9], &[13, 14], 1);
        check_torn(&[8, 8, 8, 8], &[12, 12, 12, 12], 0);
        check_torn(&[8, 8, 8], &[12, 6, 12], 1);
        check_torn(&[20, 20], &[8, 8, 8, 8, 8], 2);
    }
}
