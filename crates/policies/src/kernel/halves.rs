//! Dual recursive bipartitioning: tasks and machine are halved together, until nodes are left.

use super::bisect::{Bisector, Luck, Tuning};
use super::fm::Room;
use super::graph::{Csr, id, replace, reset};
use super::machine::{Halving, Machine};

/// Memory of the recursion.
#[derive(Debug, Default)]
pub(super) struct Halves {
    bisector: Bisector,
    /// The part of the machine, as a range of nodes, that each task is in so far.
    from: Vec<u16>,
    to: Vec<u16>,
    local: Vec<u32>,
    /// Tasks, those of one part side by side.
    tasks: Vec<u32>,
    spare: Vec<u32>,
    /// Parts of the tasks that are not cut yet, by the first node of their part of the machine.
    parts: Vec<Part>,
    /// Halvings of one depth that are still to be done.
    open: Vec<Halving>,
    /// How much a part says to those that were cut at this depth already, by its first node.
    pull: Vec<i64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Part {
    first: usize,
    last: usize,
}

impl Halves {
    /// Writes into `node` where each task goes. Cuts get care by the depth of the recursion.
    pub(super) fn map(
        &mut self,
        field: (Csr<'_>, &Machine),
        care: impl Fn(usize) -> Tuning,
        luck: &mut Luck<'_>,
        node: &mut Vec<u16>,
    ) {
        let (rows, machine) = field;
        let count = rows.tasks();
        let nodes = u16::try_from(machine.nodes).unwrap_or(u16::MAX);
        reset(&mut self.from, count, 0);
        reset(&mut self.to, count, nodes);
        reset(&mut self.local, count, 0);
        replace(&mut self.tasks, (0..count).map(id));
        reset(&mut self.parts, machine.nodes, Part::default());
        self.parts[0].last = count;
        for same in machine
            .halvings
            .chunk_by(|one, other| one.depth == other.depth)
        {
            self.cut_all(field, same, care(same[0].depth), luck);
        }
        self.from.clone_into(node);
    }

    /// Cuts all parts of one depth. Where the machine is no tree, a cut should lie along those beside
    /// it; so the next is always the part that says most to those that are cut already.
    fn cut_all(
        &mut self,
        field: (Csr<'_>, &Machine),
        halvings: &[Halving],
        tuning: Tuning,
        luck: &mut Luck<'_>,
    ) {
        let (rows, machine) = field;
        halvings.clone_into(&mut self.open);
        reset(&mut self.pull, machine.nodes, 0);
        let ordered = !machine.is_tree && halvings.len() > 2;
        while !self.open.is_empty() {
            let pull = |&(_, halving): &(usize, &Halving)| {
                (self.pull[halving.from], std::cmp::Reverse(halving.from))
            };
            let next = self.open.iter().enumerate().max_by_key(pull);
            let Some((place, _)) = next else { return };
            let halving = self.open.remove(place);
            let part = self.parts[halving.from];
            self.cut(field, (part, halving), tuning, luck);
            if !ordered {
                continue;
            }
            for index in part.first..part.last {
                for (other, weight) in rows.row(self.tasks[index] as usize) {
                    self.pull[usize::from(self.from[other])] += i64::from(weight);
                }
            }
        }
    }

    fn cut(
        &mut self,
        (rows, machine): (Csr<'_>, &Machine),
        (part, halving): (Part, Halving),
        tuning: Tuning,
        luck: &mut Luck<'_>,
    ) {
        let Halving {
            from, middle, to, ..
        } = halving;
        self.extract(rows, machine, part, halving);
        let count = |tasks: usize| i64::try_from(tasks).unwrap_or(i64::MAX);
        let total = count(part.last - part.first);
        let zero = count(machine.room(from..middle));
        let one = count(machine.room(middle..to));
        let room = Room {
            least: (total - one).max(0).min(zero),
            most: zero.min(total),
        };
        if part.first < part.last {
            self.bisector.run(room, tuning, luck);
        }
        // Tasks of side 0 to the front, both in their old order.
        self.spare.clear();
        let mut place = part.first;
        for index in part.first..part.last {
            let task = self.tasks[index];
            if self.bisector.side[index - part.first] == 0 {
                self.to[task as usize] = u16::try_from(middle).unwrap_or(u16::MAX);
                self.tasks[place] = task;
                place += 1;
            } else {
                self.from[task as usize] = u16::try_from(middle).unwrap_or(u16::MAX);
                self.spare.push(task);
            }
        }
        self.tasks[place..part.last].copy_from_slice(&self.spare);
        self.parts[from].last = place;
        self.parts[middle] = Part {
            first: place,
            last: part.last,
        };
    }

    /// The graph of the tasks of a part, with what pulls them to either half from outside.
    fn extract(&mut self, rows: Csr<'_>, machine: &Machine, part: Part, halving: Halving) {
        let Halving {
            from, middle, to, ..
        } = halving;
        let tasks = &self.tasks[part.first..part.last];
        for (place, &task) in tasks.iter().enumerate() {
            self.local[task as usize] = id(place);
        }
        let level = self.bisector.graph();
        level.clear();
        let (zero, one) = ((from, middle), (middle, to));
        let apart = apart(machine, zero, one);
        for &task in tasks {
            let mut bias = 0_i64;
            for (other, weight) in rows.row(task as usize) {
                let there = (usize::from(self.from[other]), usize::from(self.to[other]));
                if there == (from, to) {
                    level.partners.push(self.local[other]);
                    level.weights.push(weight.cast_unsigned());
                } else if !machine.is_tree {
                    let far = |half| {
                        machine.between_parts(half, there) * cells(zero, one) / cells(half, there)
                    };
                    bias += i64::from(weight) * (far(zero) - far(one));
                }
            }
            let bias = (bias / apart).clamp(-(1 << 29), 1 << 29);
            level.bias.push(i32::try_from(bias).unwrap_or(0));
            level.size.push(1);
            level.end_row();
        }
    }
}

/// How many pairs of nodes two parts make.
fn cells(one: (usize, usize), other: (usize, usize)) -> i64 {
    let pairs = (one.1 - one.0) * (other.1 - other.0);
    i64::try_from(pairs).unwrap_or(1).max(1)
}

/// What it costs to part two partners, summed over all pairs of nodes of the halves.
///
/// They would not be at one place otherwise, but somewhere in one half. That is far less than the mean
/// way inside it, since the cuts to come keep partners close: half of it did best on tori and boards.
fn apart(machine: &Machine, zero: (usize, usize), one: (usize, usize)) -> i64 {
    let inside = |half| machine.between_parts(half, half) * cells(zero, one) / cells(half, half);
    let between = machine.between_parts(zero, one);
    (between - (inside(zero) + inside(one)) / 4).max(1)
}
