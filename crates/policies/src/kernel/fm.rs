//! Fiduccia-Mattheyses: passes of single moves over a cut, each undone to its best point.

use super::buckets::{Buckets, Cell};
use super::graph::{Level, Steps, id};

/// How many tasks side 0 may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) least: i64,
    pub(super) most: i64,
}

impl Room {
    /// How far a number of tasks is outside.
    #[inline]
    pub(super) const fn miss(self, tasks: i64) -> i64 {
        if tasks < self.least {
            self.least - tasks
        } else if tasks > self.most {
            tasks - self.most
        } else {
            0
        }
    }
}

/// How good a cut is: first the room, then the cost. Less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Score {
    pub(super) miss: i64,
    pub(super) cost: i64,
}

/// How hard a pass tries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    pub(super) passes: usize,
    /// A pass ends after `300 / patience + vertices / patience` moves without a gain.
    pub(super) patience: usize,
}

/// Memory of the passes.
#[derive(Debug, Default)]
pub(super) struct Fm {
    queue: Buckets,
    log: Vec<u32>,
    tasks: i64,
    cost: i64,
    /// Vertices at the cut when it was loaded.
    border: Vec<u32>,
}

impl Fm {
    /// Lowers the cost of the cut `side` of `graph`. With `exact` the room is kept to the task, else
    /// to within half the largest vertex.
    pub(super) fn run(&mut self, cut: Cut<'_>, effort: Effort, steps: &mut Steps) -> Score {
        let Cut {
            graph,
            side,
            room,
            exact,
        } = cut;
        let largest = self.load(graph, side);
        let tolerance = if exact { 1 } else { largest };
        let free = if exact { 0 } else { largest / 2 };
        let aim = Aim {
            room,
            tolerance,
            free,
        };
        for pass in 0..effort.passes {
            let better = self.pass(graph, aim, effort.patience, pass == 0);
            if !better || !steps.spend(self.log.len() + graph.count()) {
                break;
            }
        }
        if exact {
            self.balance(graph, room);
        }
        for (side, cell) in side.iter_mut().zip(&self.queue.cells) {
            *side = cell.side;
        }
        aim.score(self.tasks, self.cost)
    }

    /// Gains of a cut from scratch; the largest vertex.
    fn load(&mut self, graph: &Level, side: &[u8]) -> i64 {
        let rows = graph.rows();
        self.queue.cells.clear();
        self.border.clear();
        self.tasks = 0;
        let (mut twice, mut largest) = (0_i64, 1);
        for (vertex, &own) in side.iter().enumerate() {
            let (mut across, mut total) = (0, 0);
            for (other, weight) in rows.row(vertex) {
                total += weight;
                across += if side[other] == own { 0 } else { weight };
            }
            let bias = graph.bias[vertex];
            let signed = if own == 0 { bias } else { -bias };
            self.queue
                .cells
                .push(Cell::new(2 * across - total + signed, own));
            if across > 0 || bias != 0 {
                self.border.push(id(vertex));
            }
            twice += i64::from(across);
            let size = i64::from(graph.size[vertex]);
            largest = largest.max(size);
            if own == 0 {
                self.tasks += size;
                twice += 2 * i64::from(bias);
            }
        }
        self.cost = twice / 2;
        largest
    }

    /// One pass. True when it found something better.
    fn pass(&mut self, graph: &Level, aim: Aim, patience: usize, first: bool) -> bool {
        let count = graph.count();
        let start = aim.score(self.tasks, self.cost);
        let (mut best, mut best_length) = (start, 0);
        let patience = 300 / patience + count / patience;
        self.fill(graph, aim, first);
        while self.log.len() < count && self.log.len() - best_length < patience {
            let Some(vertex) = self.pick(graph, aim) else {
                break;
            };
            self.queue.lock(vertex);
            self.flip(graph, vertex, true);
            self.log.push(id(vertex));
            let score = aim.score(self.tasks, self.cost);
            if score < best {
                best = score;
                best_length = self.log.len();
            }
        }
        while self.log.len() > best_length {
            if let Some(vertex) = self.log.pop() {
                self.flip(graph, vertex as usize, false);
            }
        }
        best < start
    }

    /// Fills the queues with the vertices at the cut, or with all when the room is not kept.
    fn fill(&mut self, graph: &Level, aim: Aim, first: bool) {
        self.log.clear();
        self.queue.clear();
        let all = aim.room.miss(self.tasks) > aim.tolerance || self.tasks == 0;
        if all {
            (0..graph.count()).for_each(|vertex| self.queue.insert(vertex));
            return;
        }
        if !first {
            self.find_border(graph);
        }
        for &vertex in &self.border {
            self.queue.insert(vertex as usize);
        }
    }

    fn find_border(&mut self, graph: &Level) {
        let cells = &self.queue.cells;
        self.border.clear();
        for (vertex, cell) in cells.iter().enumerate() {
            let crosses = |(other, _): (usize, i32)| cells[other].side != cell.side;
            if graph.bias[vertex] != 0 || graph.rows().row(vertex).any(crosses) {
                self.border.push(id(vertex));
            }
        }
    }

    /// The best vertex that may move now.
    #[inline]
    fn pick(&mut self, graph: &Level, aim: Aim) -> Option<usize> {
        let zero = self.queue.best(0);
        let one = self.queue.best(1);
        let Room { least, most } = aim.room;
        if self.tasks >= most + aim.tolerance && zero.is_some() {
            return zero;
        }
        if self.tasks <= least - aim.tolerance && one.is_some() {
            return one;
        }
        let size = |vertex: usize| i64::from(graph.size[vertex]);
        let slack = aim.tolerance.max(aim.room.miss(self.tasks));
        let zero = zero.filter(|&vertex| self.tasks - size(vertex) >= least - slack);
        let one = one.filter(|&vertex| self.tasks + size(vertex) <= most + slack);
        match (zero, one) {
            (Some(zero), Some(one)) => {
                let gain = |vertex: usize| self.queue.cells[vertex].gain;
                let prefer_zero = match gain(zero).cmp(&gain(one)) {
                    std::cmp::Ordering::Greater => true,
                    std::cmp::Ordering::Less => false,
                    std::cmp::Ordering::Equal => 2 * self.tasks > least + most,
                };
                Some(if prefer_zero { zero } else { one })
            }
            (either, other) => either.or(other),
        }
    }

    /// Moves a vertex to the other side and tells its partners; queues them too when asked.
    #[inline]
    fn flip(&mut self, graph: &Level, vertex: usize, queues: bool) {
        let cell = &mut self.queue.cells[vertex];
        let from = cell.side;
        self.cost -= i64::from(cell.gain);
        cell.gain = -cell.gain;
        cell.side = 1 - from;
        let size = i64::from(graph.size[vertex]);
        self.tasks += if from == 0 { -size } else { size };
        for (other, weight) in graph.rows().row(vertex) {
            let cell = &mut self.queue.cells[other];
            let more = if cell.side == from {
                2 * weight
            } else {
                -2 * weight
            };
            if queues {
                self.queue.add(other, more);
            } else {
                cell.gain += more;
            }
        }
    }

    /// Moves single tasks, cheapest first, until the room is kept.
    fn balance(&mut self, graph: &Level, room: Room) {
        while room.miss(self.tasks) > 0 {
            let from = u8::from(self.tasks < room.least);
            let miss = room.miss(self.tasks);
            let cells = self.queue.cells.iter().enumerate();
            let movable = cells.filter(|&(vertex, cell)| {
                cell.side == from && i64::from(graph.size[vertex]) < 2 * miss
            });
            let best = movable.min_by_key(|&(vertex, cell)| (-i64::from(cell.gain), vertex));
            let Some((vertex, _)) = best else { return };
            self.flip(graph, vertex, false);
        }
    }
}

/// What a pass works on.
#[derive(Debug)]
pub(super) struct Cut<'a> {
    pub(super) graph: &'a Level,
    /// 0 or 1 for each vertex.
    pub(super) side: &'a mut [u8],
    pub(super) room: Room,
    pub(super) exact: bool,
}

#[derive(Clone, Copy)]
struct Aim {
    room: Room,
    /// How far outside the room a pass may go on its way.
    tolerance: i64,
    /// How far outside the room is as good as inside.
    free: i64,
}

impl Aim {
    #[inline]
    const fn score(self, tasks: i64, cost: i64) -> Score {
        let miss = self.room.miss(tasks) - self.free;
        Score {
            miss: if miss > 0 { miss } else { 0 },
            cost,
        }
    }
}
