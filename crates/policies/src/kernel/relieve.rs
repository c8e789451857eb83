//! Where controllers or links would carry too much, locality has to give way.

use super::graph::{Csr, Steps};
use super::problem::{Effort, Mapping, Problem};
use super::search::Workspace;
use super::table::{Field, Local, Table, Trade};

/// Rounds over all tasks; each ends when a round changes nothing.
const ROUNDS_MAX: usize = 30;
/// A load of one thousand is a controller or link that carries just what it can.
const FULL: u64 = 1000;

/// What nodes and links can carry, and what tasks ask of them.
///
/// Units are the caller's, as long as demand and controllers share one, and amounts of communication
/// and links another.
#[derive(Clone, Copy, Debug)]
pub struct Bandwidths<'a> {
    /// What each task asks of the memory of its node.
    pub demand: &'a [u32],
    /// What the controller of each node gives.
    pub controllers: &'a [u64],
    /// What passes between each pair of nodes, a row for each node; the two directions of a pair are
    /// added. Empty when links do not matter.
    pub links: &'a [u64],
    /// How much of it may be used, in thousandths.
    pub most_permille: u64,
}

/// The heaviest loads of a mapping, in thousandths of what there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loads {
    /// Of the controllers.
    pub controller_permille: u64,
    /// Of the links.
    pub link_permille: u64,
}

/// Finds a mapping as [`super::map`] does, then trades tasks until no controller and no link is loaded
/// beyond its bound, as far as trades can reach, at the least cost.
///
/// Relief comes before cost: a trade is made when it lowers the sum of the squared overloads, or
/// leaves it and lowers the cost. So nothing is given up where nothing is overloaded.
///
/// # Panics
/// When the lists of `bandwidths` do not fit the problem's tasks and nodes.
pub fn relieve<'w>(
    problem: &Problem<'_>,
    bandwidths: &Bandwidths<'_>,
    effort: Effort,
    workspace: &'w mut Workspace,
) -> (Mapping<'w>, Loads) {
    let nodes = problem.capacity.len();
    assert_eq!(
        bandwidths.demand.len(),
        problem.tasks(),
        "a demand for each task"
    );
    assert_eq!(
        bandwidths.controllers.len(),
        nodes,
        "a controller for each node"
    );
    assert!(
        bandwidths.links.is_empty() || bandwidths.links.len() == nodes * nodes,
        "a link for each pair of nodes"
    );
    let spent = super::map(problem, effort, workspace).steps;
    let mut steps = Steps::new(effort.steps_max.saturating_sub(spent));
    workspace.improve(
        problem,
        &mut steps,
        |(field, shift), (table, memory), steps| {
            let mut relief = Relief::new((field, shift), bandwidths, table, memory);
            let mut local = Local::new(field, table, steps);
            for _ in 0..ROUNDS_MAX {
                if !relief.round(&mut local) {
                    break;
                }
            }
        },
    );
    let (mapping, memory) = workspace.answer_and_memory(problem, &steps);
    let loads = memory.loads(problem, bandwidths, mapping.node_of);
    (mapping, loads)
}

/// The heaviest controller and link of a mapping.
///
/// # Panics
/// When `node_of` is not one existing node for each task.
#[must_use]
pub fn loads(problem: &Problem<'_>, bandwidths: &Bandwidths<'_>, node_of: &[u16]) -> Loads {
    Memory::default().loads(problem, bandwidths, node_of)
}

/// Memory of [`relieve`].
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// The caller's position of each node.
    original: Vec<usize>,
    controllers: Vec<u64>,
    /// Amounts between nodes, the lower first; empty when links do not matter.
    links: Vec<u64>,
    /// Links whose load a trade would change, and by how much.
    changes: Vec<(usize, i64)>,
}

impl Memory {
    /// See [`loads`].
    fn loads(
        &mut self,
        problem: &Problem<'_>,
        bandwidths: &Bandwidths<'_>,
        node_of: &[u16],
    ) -> Loads {
        assert_eq!(node_of.len(), problem.tasks(), "one node for each task");
        let nodes = problem.capacity.len();
        self.load(nodes, problem.edges.rows(), bandwidths, node_of);
        let heaviest = |loads: &[u64], bandwidths: &[u64]| {
            let both = loads.iter().zip(bandwidths);
            both.map(|(&load, &most)| permille(load, most))
                .max()
                .unwrap_or(0)
        };
        Loads {
            controller_permille: heaviest(&self.controllers, bandwidths.controllers),
            link_permille: heaviest(&self.links, bandwidths.links),
        }
    }

    /// Adds up what controllers and links carry.
    fn load(&mut self, nodes: usize, rows: Csr<'_>, bandwidths: &Bandwidths<'_>, node_of: &[u16]) {
        self.controllers.clear();
        self.controllers.resize(nodes, 0);
        self.links.clear();
        if !bandwidths.links.is_empty() {
            self.links.resize(nodes * nodes, 0);
        }
        for (task, &node) in node_of.iter().enumerate() {
            let node = usize::from(node);
            self.controllers[node] += u64::from(bandwidths.demand[task]);
            if self.links.is_empty() {
                continue;
            }
            for (other, weight) in rows.row(task) {
                let there = usize::from(node_of[other]);
                if node < there {
                    self.links[node * nodes + there] += u64::from(weight.cast_unsigned());
                }
            }
        }
    }
}

/// A load in thousandths; of nothing, anything is too much.
fn permille(load: u64, most: u64) -> u64 {
    match most {
        0 if load > 0 => FULL * FULL,
        0 => 0,
        _ => (load.saturating_mul(FULL) / most).min(FULL * FULL),
    }
}

struct Relief<'a> {
    bandwidths: &'a Bandwidths<'a>,
    field: Field<'a>,
    /// By how many bits amounts are shifted in the field.
    shift: u32,
    /// By our nodes.
    memory: &'a mut Memory,
}

impl<'a> Relief<'a> {
    fn new(
        (field, shift): (Field<'a>, u32),
        bandwidths: &'a Bandwidths<'a>,
        table: &Table,
        memory: &'a mut Memory,
    ) -> Self {
        let nodes = field.machine.nodes();
        memory.load(nodes, field.rows, bandwidths, &table.node);
        let original = |node| usize::from(field.machine.members(node)[0]);
        memory.original.clear();
        memory
            .original
            .extend((0..u16::try_from(nodes).unwrap_or(u16::MAX)).map(original));
        Self {
            bandwidths,
            field,
            shift,
            memory,
        }
    }

    /// The best trade of each task in turn. True when one was made.
    fn round(&mut self, local: &mut Local<'_>) -> bool {
        let mut any = false;
        for task in 0..self.field.rows.tasks() {
            if local.steps.is_out() {
                return false;
            }
            if let Some((trade, _, _)) = self.best_trade(local, task) {
                self.carry_out(local, task, trade);
                any = true;
            }
        }
        any
    }

    fn best_trade(&mut self, local: &mut Local<'_>, task: usize) -> Option<(Trade, i128, i64)> {
        let from = usize::from(local.table.node[task]);
        let mut best: Option<(Trade, i128, i64)> = None;
        for to in 0..self.field.machine.nodes() {
            if to == from || self.field.capacity[to] == 0 {
                continue;
            }
            let members = local.table.members_of(to);
            let _ = local.steps.spend(members.len());
            let room = local.has_room(to).then_some(Trade::Move(to));
            let swaps = members.iter().map(|&other| Trade::Swap(other as usize));
            for trade in swaps.chain(room) {
                let cost = self.cost_change(local, task, trade);
                let relief = self.overload_change(local, task, trade);
                let better = match best {
                    Some((_, least, cheapest)) => (relief, cost) < (least, cheapest),
                    None => (relief, cost) < (0, 0),
                };
                if better {
                    best = Some((trade, relief, cost));
                }
            }
        }
        best
    }

    fn cost_change(&self, local: &Local<'_>, task: usize, trade: Trade) -> i64 {
        match trade {
            Trade::Move(to) => i64::from(local.delta(task, to)),
            Trade::Swap(other) => {
                let from = usize::from(local.table.node[task]);
                let to = usize::from(local.table.node[other]);
                let between = i64::from(self.field.rows.between(task, other));
                i64::from(local.delta(task, to))
                    + i64::from(local.delta(other, from))
                    + i64::from(self.field.machine.apart(from, to)) * between
            }
        }
    }

    /// What a trade adds to the sum of squared overloads.
    fn overload_change(&mut self, local: &Local<'_>, task: usize, trade: Trade) -> i128 {
        let from = usize::from(local.table.node[task]);
        let leaving = u64::from(self.bandwidths.demand[task]);
        let (to, coming) = match trade {
            Trade::Move(to) => (to, 0),
            Trade::Swap(other) => (
                usize::from(local.table.node[other]),
                u64::from(self.bandwidths.demand[other]),
            ),
        };
        let square = |node: usize, load: u64| {
            self.square(
                load,
                self.bandwidths.controllers[self.memory.original[node]],
            )
        };
        let (here, there) = (self.memory.controllers[from], self.memory.controllers[to]);
        let mut change = square(from, here + coming - leaving) - square(from, here)
            + square(to, there + leaving - coming)
            - square(to, there);
        if self.memory.links.is_empty() {
            return change;
        }
        self.link_changes(local, task, trade);
        for &(link, amount) in &self.memory.changes {
            let load = self.memory.links[link];
            let most = self.link_bandwidth(link);
            change += self.square(load.saturating_add_signed(amount), most);
            change -= self.square(load, most);
        }
        change
    }

    fn square(&self, load: u64, most: u64) -> i128 {
        let over = permille(load, most).saturating_sub(self.bandwidths.most_permille);
        i128::from(over) * i128::from(over)
    }

    fn link_bandwidth(&self, link: usize) -> u64 {
        let nodes = self.field.machine.nodes();
        let (one, other) = (
            self.memory.original[link / nodes],
            self.memory.original[link % nodes],
        );
        let all = self.bandwidths.controllers.len();
        self.bandwidths.links[one.min(other) * all + one.max(other)] >> self.shift
    }

    /// Fills `changes` with what a trade does to each link, every link once.
    fn link_changes(&mut self, local: &Local<'_>, task: usize, trade: Trade) {
        self.memory.changes.clear();
        let from = usize::from(local.table.node[task]);
        let (to, partner) = match trade {
            Trade::Move(to) => (to, None),
            Trade::Swap(other) => (usize::from(local.table.node[other]), Some(other)),
        };
        self.tell(local, (task, from, to), partner);
        if let Some(other) = partner {
            self.tell(local, (other, to, from), Some(task));
        }
        self.memory.changes.sort_unstable();
        let mut kept = 0;
        for index in 0..self.memory.changes.len() {
            let (link, amount) = self.memory.changes[index];
            if kept > 0 && self.memory.changes[kept - 1].0 == link {
                self.memory.changes[kept - 1].1 += amount;
            } else {
                self.memory.changes[kept] = (link, amount);
                kept += 1;
            }
        }
        self.memory.changes.truncate(kept);
    }

    /// What the links carry otherwise when a task goes from one node to another. What it says to
    /// `skip`, which goes the other way, stays on the same link.
    fn tell(
        &mut self,
        local: &Local<'_>,
        (task, from, to): (usize, usize, usize),
        skip: Option<usize>,
    ) {
        let nodes = self.field.machine.nodes();
        let link = |one: usize, other: usize| one.min(other) * nodes + one.max(other);
        for (other, weight) in self.field.rows.row(task) {
            if Some(other) == skip {
                continue;
            }
            let there = usize::from(local.table.node[other]);
            if there != from {
                self.memory
                    .changes
                    .push((link(from, there), -i64::from(weight)));
            }
            if there != to {
                self.memory
                    .changes
                    .push((link(to, there), i64::from(weight)));
            }
        }
    }

    fn carry_out(&mut self, local: &mut Local<'_>, task: usize, trade: Trade) {
        let from = usize::from(local.table.node[task]);
        if !self.memory.links.is_empty() {
            self.link_changes(local, task, trade);
            for &(link, amount) in &self.memory.changes {
                self.memory.links[link] = self.memory.links[link].saturating_add_signed(amount);
            }
        }
        let leaving = u64::from(self.bandwidths.demand[task]);
        let (to, coming) = match trade {
            Trade::Move(to) => (to, 0),
            Trade::Swap(other) => (
                usize::from(local.table.node[other]),
                u64::from(self.bandwidths.demand[other]),
            ),
        };
        self.memory.controllers[from] = self.memory.controllers[from] + coming - leaving;
        self.memory.controllers[to] = self.memory.controllers[to] + leaving - coming;
        local.apply(task, trade);
    }
}
