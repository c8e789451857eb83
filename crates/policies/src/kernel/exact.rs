//! The best of all mappings, where few tasks leave few of them worth a look.
//!
//! Branch and bound: tasks are placed one after the other, each on its cheapest node first. What is spent,
//! and what each task that is left pays at least to those placed, bounds what can come of it. With a good
//! mapping to beat, some hundred rows of the table settle eight tasks on four nodes; kicks take ten times
//! that, and never know that there is no better one.

use super::graph::{Csr, id, replace, reset};
use super::machine::{Machine, PITCH};
use super::problem;
use super::table::{Field, Local};

/// Tasks up to which the search is worth a try; of more there is no end.
const TASKS_MAX: usize = 10;
/// Rows of the table up to which it stays cheaper than other ways. Eight tasks take some hundred on two and
/// on four nodes like each other, a hundred thousand on eight that are not.
pub(super) const ROWS_MAX: usize = 1000;
/// The same where there are few mappings, or time.
const ROWS_MAX_OF_FEW: usize = 40 * ROWS_MAX;
/// Mappings, capacities aside, that are few: the best of them is always found.
const MAPPINGS_MAX_OF_FEW: usize = 1 << 16;

/// Nodes up to which sets of them are the bits of a number.
const NODES_MAX: usize = 64;
/// More than a task can cost in a table: what a node that is full costs.
const FULL: i32 = 1 << 30;

/// Memory of the search.
#[derive(Debug, Default)]
pub(super) struct Exact {
    /// The tasks in the order in which they are placed, and the place of each.
    order: Vec<u32>,
    rank: Vec<u32>,
    /// What two of them say to each other, by their places.
    weights: Vec<i32>,
    /// For each depth, what each task costs on each node, given those placed: rows of the machine's pitch.
    gains: Vec<i32>,
    /// The first of the nodes that are all alike while nothing is on them.
    twin: Vec<u16>,
    free: Vec<u32>,
    /// [`FULL`] for each node that is, else nothing.
    closed: Vec<i32>,
    now: Vec<u16>,
    best: Vec<u16>,
    pulls: Vec<i64>,
    /// What the best costs.
    least: i64,
    /// Rows that may still be filled.
    left: usize,
}

/// Rows that a search from nothing is worth.
pub(super) fn rows_max(tasks: usize, nodes: usize, level: problem::Level) -> usize {
    let power = u32::try_from(tasks)
        .ok()
        .and_then(|tasks| nodes.checked_pow(tasks));
    let is_tiny = power.is_some_and(|mappings| mappings <= MAPPINGS_MAX_OF_FEW);
    match level {
        problem::Level::Online if !is_tiny => ROWS_MAX,
        _ => ROWS_MAX_OF_FEW,
    }
}

/// Whether a search may come to an end.
pub(super) fn is_worth_it(tasks: usize, nodes: usize) -> bool {
    tasks <= TASKS_MAX && nodes <= NODES_MAX
}

impl Exact {
    /// Replaces a mapping by the best of all, unless none is cheaper; or by the best so far when
    /// that takes more than so many rows. Whether it is sure that no mapping is better than the one
    /// that is there then.
    pub(super) fn solve(&mut self, local: &mut Local<'_>, rows_max: usize) -> bool {
        let field = local.field;
        if !is_worth_it(field.rows.tasks(), field.machine.nodes) {
            return false;
        }
        let rows_max =
            usize::try_from(local.steps.left).map_or(rows_max, |left| left.min(rows_max));
        self.best.clear();
        self.line_up(field.rows);
        self.fill(field);
        self.find_twins(field);
        (self.least, self.left) = (local.cost, rows_max);
        self.grow(field.machine, 0, 0);
        let goes_on = local.steps.spend(rows_max - self.left);
        let is_best = self.left > 0 && goes_on;
        if !self.best.is_empty() {
            local.table.node.copy_from_slice(&self.best);
            local.load();
        }
        is_best
    }

    /// Whoever says most to those before comes next, so that much is known early; the loudest is first.
    fn line_up(&mut self, rows: Csr<'_>) {
        let tasks = rows.tasks();
        let said = |task| -> i64 { rows.row(task).map(|(_, weight)| i64::from(weight)).sum() };
        replace(&mut self.pulls, (0..tasks).map(said));
        self.order.clear();
        reset(&mut self.rank, tasks, u32::MAX);
        for place in 0..tasks {
            let open = (0..tasks).filter(|&task| self.rank[task] == u32::MAX);
            let next = open.max_by_key(|&task| (self.pulls[task], std::cmp::Reverse(task)));
            let next = next.unwrap_or(0);
            self.order.push(id(next));
            self.rank[next] = id(place);
            for (other, weight) in rows.row(next) {
                // Far more than any sum of amounts.
                self.pulls[other] += i64::from(weight) << 30;
            }
        }
        reset(&mut self.weights, tasks * tasks, 0);
        for (place, &task) in self.order.iter().enumerate() {
            for (other, weight) in rows.row(task as usize) {
                self.weights[place * tasks + self.rank[other] as usize] = weight;
            }
        }
    }

    /// The table of the first depth: nobody is placed.
    fn fill(&mut self, field: Field<'_>) {
        let (tasks, nodes) = (self.order.len(), field.machine.nodes);
        let pitch = field.machine.pitch;
        // Deeper rows are written before they are read.
        let size = (tasks + 1) * tasks * pitch;
        self.gains.resize(size.max(self.gains.len()), 0);
        for (row, &task) in self.gains.chunks_exact_mut(pitch).zip(&self.order) {
            match field.linear.get(task as usize * pitch..) {
                Some(prices) if !prices.is_empty() => row.copy_from_slice(&prices[..pitch]),
                _ => row.fill(0),
            }
            row[nodes..].fill(FULL);
        }
        reset(&mut self.now, tasks, 0);
        field.machine.capacity.clone_into(&mut self.free);
        reset(&mut self.closed, pitch, 0);
    }

    fn find_twins(&mut self, field: Field<'_>) {
        let machine = field.machine;
        let (nodes, capacity) = (machine.nodes, &machine.capacity);
        let alike = |one: usize, other: usize| {
            let (far, there) = (machine.from(one), machine.from(other));
            let same = |third: usize| third == one || third == other || far[third] == there[third];
            field.linear.is_empty()
                && capacity[one] == capacity[other]
                && far[one] == there[other]
                && (0..nodes).all(same)
        };
        self.twin.clear();
        for node in 0..nodes {
            let first = (0..node).find(|&other| alike(node, other)).unwrap_or(node);
            self.twin.push(u16::try_from(first).unwrap_or(u16::MAX));
        }
    }

    /// Places the task of that place in the order everywhere, given what those before it cost.
    fn grow(&mut self, machine: &Machine, place: usize, spent: i64) {
        let tasks = self.order.len();
        if place == tasks {
            // What costs more or as much was cut off before.
            self.least = spent;
            self.best.clone_from(&self.now);
            return;
        }
        let own = (place * tasks + place) * machine.pitch;
        let (mut tried, mut tried_twins) = (0_u64, 0_u64);
        while let Some((node, cost)) = self.cheapest(own, tried) {
            tried |= 1 << node;
            let spent = spent + i64::from(cost);
            let rows = tasks - place;
            self.left = self.left.saturating_sub(rows);
            if spent >= self.least || self.left == 0 {
                return;
            }
            if self.free[node] == machine.capacity[node] {
                let twins = 1 << self.twin[node];
                if tried_twins & twins != 0 {
                    continue;
                }
                tried_twins |= twins;
            }
            self.free[node] -= 1;
            if self.free[node] == 0 {
                self.closed[node] = FULL;
            }
            if spent + self.tell(machine, place, node) < self.least {
                let task = self.order[place] as usize;
                self.now[task] = u16::try_from(node).unwrap_or(u16::MAX);
                self.grow(machine, place + 1, spent);
            }
            self.closed[node] = 0;
            self.free[node] += 1;
        }
    }

    /// The cheapest node with room that was not tried yet, by a row of the table.
    fn cheapest(&self, row: usize, tried: u64) -> Option<(usize, i32)> {
        let row = self.gains[row..].iter().zip(&self.free).enumerate();
        let open = row.filter(|&(node, (_, &free))| free > 0 && tried >> node & 1 == 0);
        let open = open.map(|(node, (&cost, _))| (node, cost));
        open.min_by_key(|&(_, cost)| cost)
    }

    /// Fills the rows of the next depth for a task on a node; what those left pay at least.
    fn tell(&mut self, machine: &Machine, place: usize, node: usize) -> i64 {
        let (tasks, pitch) = (self.order.len(), machine.pitch);
        let mut least = 0;
        let far = machine.from(node);
        let (before, after) = self.gains.split_at_mut((place + 1) * tasks * pitch);
        let before = before[(place * tasks + place + 1) * pitch..].chunks_exact(pitch);
        let after = after[(place + 1) * pitch..].chunks_exact_mut(pitch);
        let weights = &self.weights[place * tasks + place + 1..];
        for ((from, row), &weight) in before.zip(after).zip(weights) {
            let mut lowest = [i32::MAX; PITCH];
            let from = from.chunks_exact(PITCH).zip(far.chunks_exact(PITCH));
            let row = row
                .chunks_exact_mut(PITCH)
                .zip(self.closed.chunks_exact(PITCH));
            for ((from, far), (row, closed)) in from.zip(row) {
                for lane in 0..PITCH {
                    row[lane] = from[lane] + weight * far[lane];
                    lowest[lane] = lowest[lane].min(row[lane] + closed[lane]);
                }
            }
            least += i64::from(lowest.into_iter().min().unwrap_or(0));
        }
        least
    }
}
