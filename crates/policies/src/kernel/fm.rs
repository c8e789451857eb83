//! Fiduccia-Mattheyses: passes of single moves over a cut, each undone to its best point.

use super::few::{FEW, Few};
use super::graph::{Level, Steps, id};
use super::heaps::Heaps;

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

/// The vertices of a cut: the side of each, and what moving it to the other side saves.
///
/// Some are queued, to be moved; one that was moved is locked until they are queued anew.
pub(super) trait Sides {
    /// Looks at a graph, before it is cut, and again after it was changed.
    fn take(&mut self, graph: &Level);

    /// Starts with a cut of the graph, none queued; what it costs.
    fn start(&mut self, graph: &Level, side: &[u8]) -> i64;

    /// What moving a vertex saves.
    fn gain(&self, vertex: usize) -> i32;

    /// The side of a vertex: 0 or 1.
    fn side(&self, vertex: usize) -> u8;

    /// Queues all vertices, and no vertex is locked.
    fn queue_all(&mut self);

    /// Queues the vertices that talk across the cut or care from outside, and no vertex is locked.
    fn queue_border(&mut self, graph: &Level);

    /// A queued vertex of a side with the highest gain, or nearly so.
    fn best(&mut self, side: usize) -> Option<usize>;

    /// Moves a vertex to the other side and locks it; tells its partners, and queues them unless they are
    /// locked.
    fn flip(&mut self, graph: &Level, vertex: usize);

    /// Moves a vertex to the other side; the queues may be wrong after that.
    fn flip_back(&mut self, graph: &Level, vertex: usize);
}

/// Memory of the passes.
#[derive(Debug, Default)]
pub(super) struct Fm {
    few: Passes<Few>,
    many: Passes<Heaps>,
}

impl Fm {
    /// Looks at a graph that is to be cut.
    pub(super) fn take(&mut self, graph: &Level) {
        if graph.count() <= FEW {
            self.few.sides.take(graph);
        } else {
            self.many.sides.take(graph);
        }
    }

    /// Lowers the cost of a cut of the graph that was taken. With `exact` the room is kept to the task, else
    /// to within half the largest vertex.
    pub(super) fn run(&mut self, cut: Cut<'_>, effort: Effort, steps: &mut Steps) -> Score {
        if cut.graph.count() <= FEW {
            self.few.run(cut, effort, steps)
        } else {
            self.many.run(cut, effort, steps)
        }
    }
}

#[derive(Debug, Default)]
struct Passes<S> {
    sides: S,
    log: Vec<u32>,
    tasks: i64,
    cost: i64,
}

impl<S: Sides> Passes<S> {
    fn run(&mut self, cut: Cut<'_>, effort: Effort, steps: &mut Steps) -> Score {
        let (graph, side) = (cut.graph, cut.side);
        self.cost = self.sides.start(graph, side);
        let all = side.iter().zip(&graph.size);
        let zero = all.map(|(&side, &size)| if side == 0 { i64::from(size) } else { 0 });
        self.tasks = zero.sum();
        if let Some(seed) = cut.seed {
            self.grow(graph, seed, cut.room.most);
        }
        let largest = i64::from(graph.size.iter().copied().max().unwrap_or(1));
        let aim = Aim {
            room: cut.room,
            tolerance: if cut.exact { 1 } else { largest },
            free: if cut.exact { 0 } else { largest / 2 },
        };
        for _ in 0..effort.passes {
            let better = self.pass(graph, aim, effort.patience);
            if !better || !steps.spend(self.log.len() + graph.count()) {
                break;
            }
        }
        if cut.exact {
            self.balance(graph, cut.room);
        }
        for (vertex, side) in side.iter_mut().enumerate() {
            *side = self.sides.side(vertex);
        }
        aim.score(self.tasks, self.cost)
    }

    /// Moves to side 0 what it talks to most, starting with one vertex, until it holds `target` tasks.
    fn grow(&mut self, graph: &Level, seed: usize, target: i64) {
        let mut next = Some(seed);
        for _ in 0..graph.count() {
            if self.tasks >= target {
                return;
            }
            // Where nothing is left that talks to side 0, whoever minds least.
            let rest = || {
                let left = (0..graph.count()).filter(|&other| self.sides.side(other) == 1);
                left.max_by_key(|&other| (self.sides.gain(other), std::cmp::Reverse(other)))
            };
            let Some(vertex) = next.or_else(rest) else {
                return;
            };
            self.flip(graph, vertex);
            next = self.sides.best(1);
        }
    }

    /// One pass. True when it found something better.
    fn pass(&mut self, graph: &Level, aim: Aim, patience: usize) -> bool {
        let count = graph.count();
        let start = aim.score(self.tasks, self.cost);
        let (mut best, mut best_length) = (start, 0);
        let patience = 300 / patience + count / patience;
        self.log.clear();
        if aim.room.miss(self.tasks) > aim.tolerance || self.tasks == 0 {
            self.sides.queue_all();
        } else {
            self.sides.queue_border(graph);
        }
        while self.log.len() < count && self.log.len() - best_length < patience {
            let Some(vertex) = self.pick(graph, aim) else {
                break;
            };
            self.flip(graph, vertex);
            self.log.push(id(vertex));
            let score = aim.score(self.tasks, self.cost);
            if score < best {
                best = score;
                best_length = self.log.len();
            }
        }
        while self.log.len() > best_length {
            if let Some(vertex) = self.log.pop() {
                self.count(graph, vertex as usize);
                self.sides.flip_back(graph, vertex as usize);
            }
        }
        best < start
    }

    /// The best vertex that may move now.
    #[inline]
    fn pick(&mut self, graph: &Level, aim: Aim) -> Option<usize> {
        let Room { least, most } = aim.room;
        if self.tasks >= most + aim.tolerance
            && let Some(zero) = self.sides.best(0)
        {
            return Some(zero);
        }
        if self.tasks <= least - aim.tolerance
            && let Some(one) = self.sides.best(1)
        {
            return Some(one);
        }
        let (zero, one) = (self.sides.best(0), self.sides.best(1));
        let size = |vertex: usize| i64::from(graph.size[vertex]);
        let slack = aim.tolerance.max(aim.room.miss(self.tasks));
        let zero = zero.filter(|&vertex| self.tasks - size(vertex) >= least - slack);
        let one = one.filter(|&vertex| self.tasks + size(vertex) <= most + slack);
        match (zero, one) {
            (Some(zero), Some(one)) => {
                let gain = |vertex: usize| self.sides.gain(vertex);
                let leans = 2 * self.tasks > least + most;
                let prefer_zero = (gain(zero), leans) > (gain(one), false);
                Some(if prefer_zero { zero } else { one })
            }
            (either, other) => either.or(other),
        }
    }

    #[inline]
    fn flip(&mut self, graph: &Level, vertex: usize) {
        self.count(graph, vertex);
        self.sides.flip(graph, vertex);
    }

    /// Counts what moving a vertex to the other side changes.
    #[inline]
    fn count(&mut self, graph: &Level, vertex: usize) {
        self.cost -= i64::from(self.sides.gain(vertex));
        let size = i64::from(graph.size[vertex]);
        self.tasks += if self.sides.side(vertex) == 0 {
            -size
        } else {
            size
        };
    }

    /// Moves single tasks, cheapest first, until the room is kept.
    fn balance(&mut self, graph: &Level, room: Room) {
        while room.miss(self.tasks) > 0 {
            let from = u8::from(self.tasks < room.least);
            let miss = room.miss(self.tasks);
            let movable = (0..graph.count()).filter(|&vertex| {
                self.sides.side(vertex) == from && i64::from(graph.size[vertex]) < 2 * miss
            });
            let best = movable.min_by_key(|&vertex| (-i64::from(self.sides.gain(vertex)), vertex));
            let Some(vertex) = best else { return };
            self.count(graph, vertex);
            self.sides.flip_back(graph, vertex);
        }
    }
}

/// What a pass works on.
#[derive(Debug)]
pub(super) struct Cut<'a> {
    pub(super) graph: &'a Level,
    /// 0 or 1 for each vertex.
    pub(super) side: &'a mut [u8],
    /// The vertex from which side 0 is grown until it is full, if it is.
    pub(super) seed: Option<usize>,
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
