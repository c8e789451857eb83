//! What every task would cost on every node, kept up to date by every move.

use super::graph::{Csr, Steps, id, reset};
use super::machine::{Machine, PITCH};

/// Memory of a [`Local`] search.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Where each task is.
    pub(super) node: Vec<u16>,
    /// `tasks` rows of `pitch`: what the task costs there while all others stay where they are.
    gain: Vec<i32>,
    /// Tasks of node `k` from `first[k]` on, `count[k]` of them; a node may hold one too many until
    /// another has left.
    members: Vec<u32>,
    first: Vec<u32>,
    count: Vec<u32>,
    place: Vec<u32>,
    step: Vec<i32>,
    sums: Vec<i32>,
    queued: Vec<bool>,
    queue: Vec<u32>,
    /// Moves that may have to be undone: task and where it was.
    pub(super) log: Vec<(u32, u16)>,
    pub(super) order: Vec<u32>,
    /// The best mapping of a search that also accepts worse ones.
    pub(super) best: Vec<u16>,
    /// Tasks that would rather be elsewhere, after what they would save.
    pub(super) wishes: Vec<(i32, u32)>,
    /// Tasks that a kick touched.
    pub(super) kicked: Vec<u32>,
}

/// What a local search works on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'a> {
    pub(super) rows: Csr<'a>,
    pub(super) machine: &'a Machine,
    /// A price for each task on each node beside what it says, as rows of `pitch`; or nothing.
    pub(super) linear: &'a [i32],
}

impl<'a> Field<'a> {
    /// One without prices.
    pub(super) const fn free(rows: Csr<'a>, machine: &'a Machine) -> Self {
        Self {
            rows,
            machine,
            linear: &[],
        }
    }
}

/// Who changes places with a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trade {
    /// The task goes to a node that has room.
    Move(usize),
    /// The task and this one change places.
    Swap(usize),
}

/// A local search: the table of a field, with the moves that it knows.
#[derive(Debug)]
pub(super) struct Local<'a> {
    pub(super) field: Field<'a>,
    pub(super) table: &'a mut Table,
    pub(super) steps: &'a mut Steps,
    /// The objective in units of the table.
    pub(super) cost: i64,
}

impl<'a> Local<'a> {
    /// Takes `table.node` as the start.
    pub(super) fn new(field: Field<'a>, table: &'a mut Table, steps: &'a mut Steps) -> Self {
        let mut local = Self {
            field,
            table,
            steps,
            cost: 0,
        };
        local.load();
        local
    }

    /// Fills the table for `table.node`.
    pub(super) fn load(&mut self) {
        let Field { rows, machine, .. } = self.field;
        let (tasks, pitch, nodes) = (rows.tasks(), machine.pitch, machine.nodes);
        let table = &mut *self.table;
        table.gain.clear();
        if self.field.linear.is_empty() {
            table.gain.resize(tasks * pitch, 0);
        } else {
            table.gain.extend_from_slice(self.field.linear);
        }
        let mut twice = 0_i64;
        let many = rows.entries() >= tasks * nodes;
        for task in 0..tasks {
            let row = &mut table.gain[task * pitch..(task + 1) * pitch];
            let own = usize::from(table.node[task]);
            let extra = row[own];
            if many {
                reset(&mut table.sums, nodes, 0);
                for (other, weight) in rows.row(task) {
                    table.sums[usize::from(table.node[other])] += weight;
                }
                for (node, &sum) in table.sums.iter().enumerate() {
                    if sum != 0 {
                        add(row, machine.from(node), sum);
                    }
                }
            } else {
                for (other, weight) in rows.row(task) {
                    add(row, machine.from(usize::from(table.node[other])), weight);
                }
            }
            twice += i64::from(row[own]) + i64::from(extra);
        }
        self.cost = twice / 2;
        table.first.clear();
        let mut end = 0;
        for &room in &machine.capacity {
            table.first.push(end);
            end += room.min(id(tasks)) + 1;
        }
        reset(&mut table.members, end as usize, 0);
        reset(&mut table.count, nodes, 0);
        reset(&mut table.place, tasks, 0);
        reset(&mut table.queued, tasks, false);
        reset(&mut table.step, pitch, 0);
        table.queue.clear();
        table.log.clear();
        for task in 0..tasks {
            table.enter(task, usize::from(table.node[task]));
        }
    }

    /// What moving a task to a node adds to the cost.
    #[inline]
    pub(super) fn delta(&self, task: usize, node: usize) -> i32 {
        let row = task * self.field.machine.pitch;
        self.table.gain[row + node] - self.table.gain[row + usize::from(self.table.node[task])]
    }

    /// What a task costs on each node while all others stay where they are.
    #[inline]
    pub(super) fn row(&self, task: usize) -> &[i32] {
        let machine = self.field.machine;
        &self.table.gain[task * machine.pitch..][..machine.nodes]
    }

    /// The least that moving a task anywhere adds; zero when it is best where it is.
    #[inline]
    pub(super) fn least_delta(&self, task: usize) -> i32 {
        let row = self.row(task);
        let least = row.iter().copied().fold(i32::MAX, i32::min);
        least - row[usize::from(self.table.node[task])]
    }

    /// What a mapping is charged by prices for each task on each node.
    pub(super) fn priced(&self, linear: &[i32], node_of: &[u16]) -> i64 {
        let rows = linear.chunks_exact(self.field.machine.pitch);
        rows.zip(node_of)
            .map(|(row, &node)| i64::from(row[usize::from(node)]))
            .sum()
    }

    /// Adds prices to a table that had none.
    pub(super) fn charge(&mut self, linear: &'a [i32]) {
        if linear.is_empty() {
            return;
        }
        self.cost += self.priced(linear, &self.table.node);
        let both = self.table.gain.iter_mut().zip(linear);
        both.for_each(|(gain, price)| *gain += price);
        self.field.linear = linear;
    }

    #[inline]
    pub(super) fn has_room(&self, node: usize) -> bool {
        self.table.count[node] < self.field.machine.capacity[node]
    }

    /// Moves a task and tells its partners. The node must have room for it, or for one too many.
    pub(super) fn relocate(&mut self, task: usize, to: usize) {
        let from = usize::from(self.table.node[task]);
        if from == to {
            return;
        }
        let Field { rows, machine, .. } = self.field;
        self.cost += i64::from(self.delta(task, to));
        let table = &mut *self.table;
        table.leave(task, from);
        table.enter(task, to);
        table.node[task] = u16::try_from(to).unwrap_or(u16::MAX);
        let (before, after) = (machine.from(from), machine.from(to));
        for (step, (after, before)) in table.step.iter_mut().zip(after.iter().zip(before)) {
            *step = after - before;
        }
        // Only whole groups in which something changes.
        let (groups, _) = table.step.as_chunks::<PITCH>();
        let changes = |group: &[i32; PITCH]| group.iter().fold(0, |any, step| any | step) != 0;
        let Some(first) = groups.iter().position(changes) else {
            return;
        };
        let last = groups.iter().rposition(changes).unwrap_or(first);
        let (low, high) = (first * PITCH, (last + 1) * PITCH);
        let pitch = machine.pitch;
        let step = &table.step[low..high];
        for (other, weight) in rows.row(task) {
            add(
                &mut table.gain[other * pitch + low..other * pitch + high],
                step,
                weight,
            );
        }
        let _ = self.steps.spend(rows.range(task).len());
    }

    /// The trade that lowers the cost most, if one lowers it.
    pub(super) fn best_trade(&self, task: usize) -> Option<Trade> {
        // Most are where they want to be.
        if self.least_delta(task) == 0 {
            return None;
        }
        let Field { rows, machine, .. } = self.field;
        let table = &*self.table;
        let pitch = machine.pitch;
        let from = usize::from(table.node[task]);
        let row = self.row(task);
        let mut best = 0;
        let mut trade = None;
        for (node, &there) in row.iter().enumerate() {
            let own = there - row[from];
            if own >= 0 || node == from {
                continue;
            }
            if own < best && self.has_room(node) {
                best = own;
                trade = Some(Trade::Move(node));
            }
            for &other in table.members_of(node) {
                let gains = &table.gain[other as usize * pitch..][..pitch];
                let both = own + gains[from] - gains[node];
                if both < best {
                    let other = other as usize;
                    let both = both + machine.apart(from, node) * rows.between(task, other);
                    if both < best {
                        best = both;
                        trade = Some(Trade::Swap(other));
                    }
                }
            }
        }
        trade
    }

    /// Carries a trade out.
    pub(super) fn apply(&mut self, task: usize, trade: Trade) {
        match trade {
            Trade::Move(node) => self.relocate(task, node),
            Trade::Swap(other) => {
                let to = usize::from(self.table.node[other]);
                let from = usize::from(self.table.node[task]);
                self.relocate(task, to);
                self.relocate(other, from);
            }
        }
    }

    fn queue(&mut self, task: usize) {
        if !self.table.queued[task] {
            self.table.queued[task] = true;
            self.table.queue.push(id(task));
        }
    }

    fn queue_partners(&mut self, task: usize) {
        for (other, _) in self.field.rows.row(task) {
            self.queue(other);
        }
    }

    /// Trades until none helps, starting with the tasks of `seeds`; what moves wakes its partners.
    /// With `record` every move is logged.
    pub(super) fn descend(&mut self, seeds: impl Iterator<Item = usize>, record: bool) {
        for task in seeds {
            self.queue(task);
        }
        let mut head = 0;
        while head < self.table.queue.len() {
            let task = self.table.queue[head] as usize;
            head += 1;
            self.table.queued[task] = false;
            if head > 4096 && head * 2 > self.table.queue.len() {
                self.table.queue.drain(..head);
                head = 0;
            }
            if !self.steps.spend(1) {
                break;
            }
            while let Some(trade) = self.best_trade(task) {
                if record {
                    self.note(task, trade);
                }
                self.apply(task, trade);
                self.queue_partners(task);
                if let Trade::Swap(other) = trade {
                    self.queue_partners(other);
                    self.queue(other);
                }
            }
        }
        for &task in &self.table.queue[head.min(self.table.queue.len())..] {
            self.table.queued[task as usize] = false;
        }
        self.table.queue.clear();
    }

    fn note(&mut self, task: usize, trade: Trade) {
        self.table.log.push((id(task), self.table.node[task]));
        if let Trade::Swap(other) = trade {
            self.table.log.push((id(other), self.table.node[other]));
        }
    }

    /// Takes back what was logged.
    pub(super) fn undo(&mut self) {
        while let Some((task, node)) = self.table.log.pop() {
            self.relocate(task as usize, usize::from(node));
        }
    }
}

impl Table {
    #[inline]
    pub(super) fn members_of(&self, node: usize) -> &[u32] {
        &self.members[self.first[node] as usize..][..self.count[node] as usize]
    }

    fn enter(&mut self, task: usize, node: usize) {
        let place = self.first[node] + self.count[node];
        self.place[task] = place;
        self.members[place as usize] = id(task);
        self.count[node] += 1;
    }

    fn leave(&mut self, task: usize, node: usize) {
        let last = self.members[(self.first[node] + self.count[node] - 1) as usize];
        self.members[self.place[task] as usize] = last;
        self.place[last as usize] = self.place[task];
        self.count[node] -= 1;
    }
}

/// Adds to a row, or to whole groups of it, so much of the distances.
#[inline]
fn add(row: &mut [i32], distances: &[i32], weight: i32) {
    let (row, _) = row.as_chunks_mut::<PITCH>();
    let (distances, _) = distances.as_chunks::<PITCH>();
    for (there, distance) in row.iter_mut().zip(distances) {
        for (there, distance) in there.iter_mut().zip(distance) {
            *there += weight * distance;
        }
    }
}
