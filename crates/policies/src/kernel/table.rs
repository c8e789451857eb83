//! What every task would cost on every node, kept up to date by every move.

use super::graph::{Csr, Dice, Steps, id};
use super::machine::{Machine, PITCH};

/// Rounds of chains from every task; a third rarely finds anything.
const CHAIN_ROUNDS_MAX: usize = 4;

/// Memory of a [`Local`] search.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Where each task is.
    pub(super) node: Vec<u16>,
    /// `tasks` rows of `pitch`: what the task costs there while all others stay where they are.
    gain: Vec<i32>,
    /// Tasks of node `k` from `first[k]` on, `count[k]` of them; a node may hold one too many for
    /// the length of a chain.
    members: Vec<u32>,
    first: Vec<u32>,
    count: Vec<u32>,
    place: Vec<u32>,
    step: Vec<i32>,
    sums: Vec<i32>,
    queued: Vec<bool>,
    queue: Vec<u32>,
    locked: Vec<bool>,
    /// Moves that may have to be undone: task and where it was.
    pub(super) log: Vec<(u32, u16)>,
    pub(super) order: Vec<u32>,
    low: Vec<i32>,
    /// The largest number for nodes that a link of a chain must not lead to, the smallest for all others.
    floor: Vec<i32>,
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
    /// How many tasks each node takes.
    pub(super) capacity: &'a [u32],
    /// A price for each task on each node beside what it says, as rows of `pitch`; or nothing.
    pub(super) linear: &'a [i32],
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
        let Field {
            rows,
            machine,
            capacity,
            linear,
        } = self.field;
        let (tasks, pitch, nodes) = (rows.tasks(), machine.pitch(), machine.nodes());
        let table = &mut *self.table;
        table.gain.clear();
        if linear.is_empty() {
            table.gain.resize(tasks * pitch, 0);
        } else {
            table.gain.extend_from_slice(linear);
        }
        let mut twice = 0_i64;
        let many = rows.entries() >= tasks * nodes;
        for task in 0..tasks {
            let row = &mut table.gain[task * pitch..(task + 1) * pitch];
            let own = usize::from(table.node[task]);
            let extra = row[own];
            if many {
                table.sums.clear();
                table.sums.resize(nodes, 0);
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
        for &room in capacity {
            table.first.push(end);
            end += room.min(id(tasks)) + 1;
        }
        table.members.clear();
        table.members.resize(end as usize, 0);
        table.count.clear();
        table.count.resize(nodes, 0);
        table.place.clear();
        table.place.resize(tasks, 0);
        table.queued.clear();
        table.queued.resize(tasks, false);
        table.locked.clear();
        table.locked.resize(tasks, false);
        table.step.clear();
        table.step.resize(pitch, 0);
        table.queue.clear();
        table.log.clear();
        for task in 0..tasks {
            table.enter(task, usize::from(table.node[task]));
        }
    }

    /// What moving a task to a node adds to the cost.
    #[inline]
    pub(super) fn delta(&self, task: usize, node: usize) -> i32 {
        let row = task * self.field.machine.pitch();
        self.table.gain[row + node] - self.table.gain[row + usize::from(self.table.node[task])]
    }

    /// What a task costs on each node while all others stay where they are.
    #[inline]
    pub(super) fn row(&self, task: usize) -> &[i32] {
        let machine = self.field.machine;
        &self.table.gain[task * machine.pitch()..][..machine.nodes()]
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
        let rows = linear.chunks_exact(self.field.machine.pitch());
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
        self.table.count[node] < self.field.capacity[node]
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
        let pitch = machine.pitch();
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
        let Field {
            rows,
            machine,
            capacity,
            ..
        } = self.field;
        let table = &*self.table;
        let pitch = machine.pitch();
        let from = usize::from(table.node[task]);
        let row = &table.gain[task * pitch..][..machine.nodes()];
        let mut best = 0;
        let mut trade = None;
        for (node, &there) in row.iter().enumerate() {
            let own = there - row[from];
            if own >= 0 || node == from {
                continue;
            }
            if own < best && table.count[node] < capacity[node] {
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

    /// Takes back what was logged beyond the first `length` moves.
    pub(super) fn undo(&mut self, length: usize) {
        while self.table.log.len() > length {
            if let Some((task, node)) = self.table.log.pop() {
                self.relocate(task as usize, usize::from(node));
            }
        }
    }

    /// An ejection chain: a task leaves for its best node, somebody there moves on, and so on, until
    /// somebody fills the hole that the first one left. True when that lowered the cost; the moves
    /// are then in the log, else all is as before.
    pub(super) fn chain(&mut self, task: usize, depth: usize) -> bool {
        let hole = usize::from(self.table.node[task]);
        let start = self.cost;
        let base = self.table.log.len();
        let nodes = self.field.machine.nodes();
        let others = (0..nodes).filter(|&node| node != hole && self.field.capacity[node] > 0);
        let Some(mut at) = others.min_by_key(|&node| self.delta(task, node)) else {
            return false;
        };
        self.eject(task, hole, at);
        let (mut best, mut best_length, mut closer) = (start, base, None);
        for _ in 0..depth {
            if self.table.count[at] <= self.field.capacity[at] {
                // Nobody has to move on.
                if self.cost < best {
                    (best, best_length, closer) = (self.cost, self.table.log.len(), None);
                }
                break;
            }
            let link = self.next_link(at, hole);
            if let Some((saves, who)) = link.close
                && self.cost + i64::from(saves) < best
            {
                best = self.cost + i64::from(saves);
                (best_length, closer) = (self.table.log.len(), Some(who));
            }
            let Some((_, who, to)) = link.onward else {
                break;
            };
            self.eject(who, at, to);
            at = to;
        }
        for entry in base..self.table.log.len() {
            self.table.locked[self.table.log[entry].0 as usize] = false;
        }
        if best >= start {
            self.undo(base);
            return false;
        }
        self.undo(best_length);
        if let Some(who) = closer {
            self.table.log.push((id(who), self.table.node[who]));
            self.relocate(who, hole);
        }
        true
    }

    fn eject(&mut self, task: usize, from: usize, to: usize) {
        self.table
            .log
            .push((id(task), u16::try_from(from).unwrap_or(u16::MAX)));
        self.table.locked[task] = true;
        self.relocate(task, to);
    }

    /// Who of the over-full node `at` would best fill the hole, and who would best move on.
    fn next_link(&mut self, at: usize, hole: usize) -> Link {
        let pitch = self.field.machine.pitch();
        let nodes = self.field.machine.nodes();
        self.table.floor.clear();
        self.table.floor.resize(nodes, i32::MIN);
        self.table.floor[at] = i32::MAX;
        self.table.floor[hole] = i32::MAX;
        let mut link = Link {
            close: None,
            onward: None,
        };
        let (mut close, mut onward) = (i32::MAX, i32::MAX);
        for &who in self.table.members_of(at) {
            let who = who as usize;
            if self.table.locked[who] {
                continue;
            }
            let row = &self.table.gain[who * pitch..][..nodes];
            let here = row[at];
            if row[hole] - here < close {
                close = row[hole] - here;
                link.close = Some((close, who));
            }
            let open = row.iter().zip(&self.table.floor);
            let least = open.fold(i32::MAX, |least, (&there, &floor)| {
                least.min(there.max(floor))
            });
            if least < here.saturating_add(onward) {
                onward = least - here;
                let is_it = |&node: &usize| row[node] == least && node != at && node != hole;
                let to = (0..nodes).find(is_it);
                link.onward = to.map(|to| (onward, who, to));
            }
        }
        link
    }

    /// Chains from all tasks in an order of chance, until none helps.
    pub(super) fn chain_all(&mut self, length: usize, dice: &mut Dice) {
        for _ in 0..CHAIN_ROUNDS_MAX {
            self.table.order.clear();
            self.table
                .order
                .extend((0..self.field.rows.tasks()).map(id));
            dice.shuffle(&mut self.table.order);
            if !self.chains(length) {
                break;
            }
        }
    }

    /// Tries a chain from every task of `table.order` that talks across nodes. True when one helped.
    fn chains(&mut self, depth: usize) -> bool {
        let mut any = false;
        let pitch = self.field.machine.pitch();
        for index in 0..self.table.order.len() {
            let task = self.table.order[index] as usize;
            if self.steps.is_out() {
                break;
            }
            let own = usize::from(self.table.node[task]);
            let row = &self.table.gain[task * pitch..][..self.field.machine.nodes()];
            if row.iter().all(|&there| there >= row[own]) && row[own] == 0 {
                continue;
            }
            let base = self.table.log.len();
            if self.chain(task, depth) {
                any = true;
                let mut woken = std::mem::take(&mut self.table.order);
                let moved = woken.len();
                woken.extend(self.table.log[base..].iter().map(|entry| entry.0));
                self.descend(woken[moved..].iter().map(|&task| task as usize), false);
                woken.truncate(moved);
                self.table.order = woken;
            }
            self.table.log.clear();
        }
        any
    }

    /// Sweeps over all tasks, for matrices where every move changes every task: a bound for each
    /// pair of nodes says where no partner for a swap can be.
    pub(super) fn sweeps(&mut self, order: &[u32], max: usize, least_permille: i64) {
        let machine = self.field.machine;
        for _ in 0..max {
            let before = self.cost;
            self.bounds();
            for &task in order {
                if let Some(trade) = self.bounded_trade(task as usize) {
                    self.apply(task as usize, trade);
                }
                if !self.steps.spend(machine.nodes()) {
                    return;
                }
            }
            if (before - self.cost) * 1000 <= before / 100 * least_permille / 10 {
                return;
            }
        }
    }

    /// For each pair of nodes the least that moving a task of the first to the second adds.
    fn bounds(&mut self) {
        let machine = self.field.machine;
        let (nodes, pitch) = (machine.nodes(), machine.pitch());
        let Table {
            low, gain, node, ..
        } = &mut *self.table;
        low.clear();
        low.resize(nodes * pitch, i32::MAX / 2);
        for (task, &node) in node.iter().enumerate() {
            let own = usize::from(node);
            let row = &gain[task * pitch..][..pitch];
            let here = row[own];
            for (low, &there) in low[own * pitch..][..pitch].iter_mut().zip(row) {
                *low = (*low).min(there - here);
            }
        }
    }

    fn bounded_trade(&self, task: usize) -> Option<Trade> {
        let Field {
            rows,
            machine,
            capacity,
            ..
        } = self.field;
        let table = &*self.table;
        let pitch = machine.pitch();
        let from = usize::from(table.node[task]);
        let row = &table.gain[task * pitch..][..machine.nodes()];
        let mut best = 0;
        let mut trade = None;
        for (node, &there) in row.iter().enumerate() {
            let own = there - row[from];
            if node == from {
                continue;
            }
            if own < best && table.count[node] < capacity[node] {
                best = own;
                trade = Some(Trade::Move(node));
            }
            if own >= 0 || own + table.low[node * pitch + from] >= best {
                continue;
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
}

struct Link {
    close: Option<(i32, usize)>,
    onward: Option<(i32, usize, usize)>,
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
