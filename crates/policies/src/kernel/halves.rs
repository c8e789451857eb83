//! Dual recursive bipartitioning: tasks and machine are halved together, until nodes are left.

use super::bisect::{Bisector, Luck, Tuning};
use super::communities::Communities;
use super::fm::Room;
use super::graph::{Csr, Level, id};
use super::machine::{Halving, Machine};

/// Tasks below which growing a few cuts finds what packing would find.
const PACKED_MIN: usize = 96;

/// Memory of the recursion.
#[derive(Debug, Default)]
pub(super) struct Halves {
    bisector: Bisector,
    communities: Communities,
    /// Whether communities are worth packing.
    tight: bool,
    /// The part of the machine, as a range of nodes, that each task is in so far.
    from: Vec<u16>,
    to: Vec<u16>,
    local: Vec<u32>,
    /// Tasks, those of one part side by side.
    tasks: Vec<u32>,
    spare: Vec<u32>,
    parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    first: usize,
    last: usize,
    from: usize,
    to: usize,
}

/// Which cut gets how much care: by depth of the recursion.
pub(super) type Care<'a> = &'a dyn Fn(usize) -> Tuning;

impl Halves {
    /// Whether the last mapping packed communities.
    pub(super) const fn is_tight(&self) -> bool {
        self.tight
    }

    /// Writes into `node` where each task goes. `sizes` counts the tasks that each vertex stands for.
    ///
    /// Capacities are kept when all sizes are one; else they may be missed by less than the largest.
    pub(super) fn map(&mut self, job: Job<'_>, care: Care<'_>, luck: &mut Luck<'_>) {
        let Job {
            graph,
            machine,
            capacity,
            node,
            packs,
        } = job;
        let count = graph.count();
        let nodes = u16::try_from(machine.nodes()).unwrap_or(u16::MAX);
        self.from.clear();
        self.from.resize(count, 0);
        self.to.clear();
        self.to.resize(count, nodes);
        self.local.clear();
        self.local.resize(count, 0);
        self.tasks.clear();
        self.tasks.extend((0..count).map(id));
        self.parts.clear();
        self.parts.push(Part {
            first: 0,
            last: count,
            from: 0,
            to: machine.nodes(),
        });
        self.tight = packs && count > PACKED_MIN && self.communities.find(graph.rows());
        for (turn, &halving) in machine.halvings().iter().enumerate() {
            let part = self.parts[turn];
            let field = Field {
                graph,
                machine,
                capacity,
            };
            self.cut(field, (part, halving), care(halving.depth), luck);
        }
        node.clear();
        node.extend_from_slice(&self.from);
    }

    fn cut(
        &mut self,
        field: Field<'_>,
        (part, halving): (Part, Halving),
        tuning: Tuning,
        luck: &mut Luck<'_>,
    ) {
        let Halving {
            from, middle, to, ..
        } = halving;
        debug_assert!(
            part.from == from && part.to == to,
            "halvings come in breadth"
        );
        self.extract(field.graph, field.machine, part, halving);
        let hold = |range: std::ops::Range<usize>| -> i64 {
            field.capacity[range]
                .iter()
                .map(|&count| i64::from(count))
                .sum()
        };
        let sizes = &self.bisector.graph().size;
        let total: i64 = sizes.iter().map(|&size| i64::from(size)).sum();
        let (zero, one) = (hold(from..middle), hold(middle..to));
        let room = Room {
            least: (total - one).max(0).min(zero),
            most: zero.min(total),
        };
        self.bisector.given.clear();
        if self.tight {
            let tasks = &self.tasks[part.first..part.last];
            let target = usize::try_from(room.most).unwrap_or(0);
            self.communities
                .pack(tasks, target, &mut self.bisector.given);
        }
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
        for (part, single) in [
            (
                Part {
                    first: part.first,
                    last: place,
                    from,
                    to: middle,
                },
                middle - from == 1,
            ),
            (
                Part {
                    first: place,
                    last: part.last,
                    from: middle,
                    to,
                },
                to - middle == 1,
            ),
        ] {
            if !single {
                self.parts.push(part);
            }
        }
    }

    /// The graph of the tasks of a part, with what pulls them to either half from outside.
    fn extract(&mut self, graph: &Level, machine: &Machine, part: Part, halving: Halving) {
        let Halving {
            from, middle, to, ..
        } = halving;
        let rows: Csr<'_> = graph.rows();
        let tasks = &self.tasks[part.first..part.last];
        for (place, &task) in tasks.iter().enumerate() {
            self.local[task as usize] = id(place);
        }
        let level = self.bisector.graph();
        level.clear();
        let cells = |one: (usize, usize), other: (usize, usize)| {
            i64::try_from((one.1 - one.0) * (other.1 - other.0))
                .unwrap_or(1)
                .max(1)
        };
        let (zero, one) = ((from, middle), (middle, to));
        let apart = machine.between_parts(zero, one).max(1);
        for &task in tasks {
            let mut bias = 0_i64;
            for (other, weight) in rows.row(task as usize) {
                let there = (usize::from(self.from[other]), usize::from(self.to[other]));
                if there == (from, to) {
                    level.partners.push(self.local[other]);
                    level.weights.push(weight.cast_unsigned());
                } else if !machine.is_tree() {
                    let far = |half| {
                        machine.between_parts(half, there) * cells(zero, one) / cells(half, there)
                    };
                    bias += i64::from(weight) * (far(zero) - far(one));
                }
            }
            let bias = (bias / apart).clamp(-(1 << 29), 1 << 29);
            level.bias.push(i32::try_from(bias).unwrap_or(0));
            level.size.push(graph.size[task as usize]);
            level.end_row();
        }
    }
}

/// What is mapped where.
#[derive(Debug)]
pub(super) struct Job<'a> {
    pub(super) graph: &'a Level,
    pub(super) machine: &'a Machine,
    /// How many tasks each node takes.
    pub(super) capacity: &'a [u32],
    pub(super) node: &'a mut Vec<u16>,
    /// Whether to look for communities to pack.
    pub(super) packs: bool,
}

#[derive(Clone, Copy)]
struct Field<'a> {
    graph: &'a Level,
    machine: &'a Machine,
    capacity: &'a [u32],
}
