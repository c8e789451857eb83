//! Where controllers would carry too much, locality has to give way.

use super::graph::{Steps, reset};
use super::machine::Machine;
use super::problem::{Effort, Mapping, Problem};
use super::search::Workspace;
use super::table::{Local, Table, Trade};

/// Rounds over all tasks; each ends when a round changes nothing.
const ROUNDS_MAX: usize = 30;
/// A load of one thousand is a controller that carries just what it can.
const FULL: u64 = 1000;

/// What nodes can carry, and what tasks ask of them, in one unit.
#[derive(Clone, Copy, Debug)]
pub struct Bandwidths<'a> {
    /// What each task asks of the memory of its node.
    pub demand: &'a [u32],
    /// What the controller of each node gives.
    pub controllers: &'a [u64],
    /// How much of it may be used, in thousandths.
    pub most_permille: u64,
}

/// Finds a mapping as [`super::map`] does, then trades tasks until no controller is loaded beyond its
/// bound, as far as trades can reach, at the least cost.
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
) -> Mapping<'w> {
    assert_eq!(
        bandwidths.demand.len(),
        problem.tasks(),
        "a demand for each task"
    );
    assert_eq!(
        bandwidths.controllers.len(),
        problem.capacity.len(),
        "a controller for each node"
    );
    let spent = super::map(problem, effort, workspace).steps;
    let mut steps = Steps::new(effort.steps_max.saturating_sub(spent));
    workspace.improve(problem, &mut steps, |field, table, carried, steps| {
        let mut relief = Relief::new(field.machine, bandwidths, table, carried);
        let mut local = Local::new(field, table, steps);
        for _ in 0..ROUNDS_MAX {
            if !relief.round(&mut local) {
                break;
            }
        }
    });
    workspace.answer(problem, &steps)
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
    machine: &'a Machine,
    /// What is asked of each node, by our positions.
    carried: &'a mut Vec<u64>,
}

impl<'a> Relief<'a> {
    fn new(
        machine: &'a Machine,
        bandwidths: &'a Bandwidths<'a>,
        table: &Table,
        carried: &'a mut Vec<u64>,
    ) -> Self {
        reset(carried, machine.nodes(), 0);
        for (&demand, &node) in bandwidths.demand.iter().zip(&table.node) {
            carried[usize::from(node)] += u64::from(demand);
        }
        Self {
            bandwidths,
            machine,
            carried,
        }
    }

    /// The best trade of each task in turn. True when one was made.
    fn round(&mut self, local: &mut Local<'_>) -> bool {
        let mut any = false;
        for task in 0..local.field.rows.tasks() {
            if local.steps.is_out() {
                return false;
            }
            if let Some(trade) = self.best_trade(local, task) {
                let (from, to, (leaving, coming)) = self.loads(local, task, trade);
                self.carried[from] = self.carried[from] + coming - leaving;
                self.carried[to] = self.carried[to] + leaving - coming;
                local.apply(task, trade);
                any = true;
            }
        }
        any
    }

    fn best_trade(&self, local: &mut Local<'_>, task: usize) -> Option<Trade> {
        let from = usize::from(local.table.node[task]);
        // Relief first, then cost.
        let mut best = ((0, 0), None);
        for to in (0..self.machine.nodes()).filter(|&to| to != from) {
            let members = local.table.members_of(to);
            let _ = local.steps.spend(members.len());
            let room = local.has_room(to).then_some(Trade::Move(to));
            let swaps = members.iter().map(|&other| Trade::Swap(other as usize));
            for trade in swaps.chain(room) {
                let relief = self.overload_change(local, task, trade);
                let change = (relief, self.cost_change(local, task, trade));
                if change < best.0 {
                    best = (change, Some(trade));
                }
            }
        }
        best.1
    }

    fn cost_change(&self, local: &Local<'_>, task: usize, trade: Trade) -> i64 {
        match trade {
            Trade::Move(to) => i64::from(local.delta(task, to)),
            Trade::Swap(other) => {
                let from = usize::from(local.table.node[task]);
                let to = usize::from(local.table.node[other]);
                let between = i64::from(local.field.rows.between(task, other));
                i64::from(local.delta(task, to))
                    + i64::from(local.delta(other, from))
                    + i64::from(self.machine.apart(from, to)) * between
            }
        }
    }

    /// From which node to which a task goes, what it asks there, and what comes back for it.
    fn loads(&self, local: &Local<'_>, task: usize, trade: Trade) -> (usize, usize, (u64, u64)) {
        let from = usize::from(local.table.node[task]);
        let (to, coming) = match trade {
            Trade::Move(to) => (to, 0),
            Trade::Swap(other) => (
                usize::from(local.table.node[other]),
                self.bandwidths.demand[other],
            ),
        };
        let leaving = self.bandwidths.demand[task];
        (from, to, (leaving.into(), coming.into()))
    }

    /// What a trade adds to the sum of squared overloads.
    fn overload_change(&self, local: &Local<'_>, task: usize, trade: Trade) -> i128 {
        let (from, to, (leaving, coming)) = self.loads(local, task, trade);
        let (here, there) = (self.carried[from], self.carried[to]);
        self.square(from, here + coming - leaving) - self.square(from, here)
            + self.square(to, there + leaving - coming)
            - self.square(to, there)
    }

    fn square(&self, node: usize, load: u64) -> i128 {
        let node = u16::try_from(node).unwrap_or(u16::MAX);
        let most = self.bandwidths.controllers[usize::from(self.machine.members(node)[0])];
        let over = permille(load, most).saturating_sub(self.bandwidths.most_permille);
        i128::from(over) * i128::from(over)
    }
}
