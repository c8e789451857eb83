//! From a problem to a mapping: the order of things.

use super::attempt::{Attempt, Plan};
use super::bisect::Luck;
use super::communities::Communities;
use super::exact::{self, Exact};
use super::graph::{Canon, Csr, Dice, Edges, Steps, replace, reset};
use super::halves::Halves;
use super::layout::Layout;
use super::machine::Machine;
use super::problem::{self, Effort, Problem};
use super::sparsify::Sparsifier;
use super::table::{Field, Local, Table};
use super::warm::freely;

/// Where chance starts from: any number will do, as long as it is always the same.
const SEED: u64 = 0x6E75_6D61_6400_0001;

/// Partners of a task on average above which a matrix counts as dense.
const DENSE: usize = 48;
/// Partners kept of each row of a dense matrix.
const KEPT: usize = 20;
/// Tasks up to which a thorough warm start is kicked; of more, kicks find next to nothing.
const KICKED_MAX: usize = 128;
/// Row sums times distances stay below this, so that 32-bit tables cannot overflow.
const TABLE_MAX: u64 = 1 << 29;

/// Memory of the kernels, to be kept from call to call.
#[derive(Debug, Default)]
pub struct Workspace {
    machine: Machine,
    canon: Canon,
    sparsifier: Sparsifier,
    halves: Halves,
    communities: Communities,
    layout: Layout,
    exact: Exact,
    /// The tasks in the order of `canon`, and who talks to whom of them.
    ours: Edges,
    table: Table,
    /// The amounts of the caller, shifted right where they would overflow.
    full: Vec<u32>,
    prices: Vec<i32>,
    start: Vec<u16>,
    result: Vec<u16>,
    free: Vec<u32>,
    by_name: Vec<u16>,
    best: Vec<u16>,
}

/// Finds a mapping: the one kernel to use when nothing speaks for another.
///
/// With a current mapping the search starts there and a task moves only if that saves more than the
/// price. Without, tasks and machine are halved together, on several scales, and single tasks then trade
/// places until no trade helps.
pub fn map<'w>(problem: &Problem<'_>, effort: Effort, workspace: &'w mut Workspace) -> &'w [u16] {
    workspace.solve(problem, effort, |workspace, steps| {
        if problem.current.is_some() {
            workspace.warm(problem, effort, steps);
        } else {
            workspace.cold(problem, effort, steps, Method::Map);
        }
    })
}

/// Dual recursive bipartitioning alone, on single tasks, then refined.
pub fn drb<'w>(problem: &Problem<'_>, effort: Effort, workspace: &'w mut Workspace) -> &'w [u16] {
    workspace.solve(problem, effort, |workspace, steps| {
        workspace.cold(problem, effort, steps, Method::Drb);
    })
}

/// Swaps and moves from the current mapping (or tasks in their order) until none helps.
///
/// The cost plus the price of what moved never rises.
pub fn refine<'w>(
    problem: &Problem<'_>,
    effort: Effort,
    workspace: &'w mut Workspace,
) -> &'w [u16] {
    workspace.solve(problem, effort, |workspace, steps| {
        workspace.warm(problem, effort, steps);
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Map,
    Drb,
}

impl Workspace {
    /// Starts within capacities, lets a method make something better of that, and names what it
    /// found.
    fn solve(
        &mut self,
        problem: &Problem<'_>,
        effort: Effort,
        method: impl FnOnce(&mut Self, &mut Steps),
    ) -> &[u16] {
        let mut steps = Steps::new(effort.steps_max);
        self.seat(problem);
        if !steps.is_out() && self.start.len() > 1 && self.machine.nodes > 1 {
            method(self, &mut steps);
        }
        let named = (&mut self.result, &mut self.free);
        name(&self.machine, problem, &self.start, named);
        &self.result
    }

    /// Runs a method that fills the start from nothing, and refines what it found.
    pub(super) fn with_start(
        &mut self,
        problem: &Problem<'_>,
        effort: Effort,
        method: impl FnOnce(&Machine, &mut Steps, &mut [u16]),
    ) -> &[u16] {
        self.solve(problem, effort, |workspace, steps| {
            method(&workspace.machine, steps, &mut workspace.start);
            workspace.warm(problem, effort, steps);
        })
    }

    /// Puts into `start` a mapping within capacities: the current one as far as it is, else tasks in
    /// their order.
    fn seat(&mut self, problem: &Problem<'_>) {
        let tasks = problem.tasks();
        self.machine
            .prepare(problem.distance, problem.capacity, tasks);
        let (machine, free, start) = (&self.machine, &mut self.free, &mut self.start);
        reset(start, tasks, u16::MAX);
        machine.capacity.clone_into(free);
        if let Some(current) = problem.current {
            for (task, &node) in current.iter().enumerate() {
                if let Some(node) = machine.position(node)
                    && free[usize::from(node)] > 0
                {
                    free[usize::from(node)] -= 1;
                    start[task] = node;
                }
            }
        }
        // In the caller's order of nodes, which need not be ours.
        let nodes = u16::try_from(machine.nodes).unwrap_or(u16::MAX);
        replace(&mut self.by_name, 0..nodes);
        self.by_name
            .sort_unstable_by_key(|&node| machine.members(node)[0]);
        for task in 0..tasks {
            if start[task] != u16::MAX {
                continue;
            }
            let nodes = self.by_name.iter().copied();
            let mut open = nodes.filter(|&node| free[usize::from(node)] > 0);
            let best = if problem.current.is_some() {
                open.min_by_key(|&node| pull(problem, machine, start, (task, node)))
            } else {
                open.next()
            };
            if let Some(node) = best {
                free[usize::from(node)] -= 1;
                start[task] = node;
            }
        }
    }

    /// Fills the prices of leaving the current nodes; the shift of the amounts.
    fn prices(&mut self, problem: &Problem<'_>) -> u32 {
        let price = self.machine.price(problem.move_price);
        let shift = self.shift(problem, price);
        let price = i32::try_from(price >> shift)
            .unwrap_or(i32::MAX)
            .min(1 << 29);
        self.prices.clear();
        let Some(current) = problem.current.filter(|_| price > 0) else {
            return shift;
        };
        let pitch = self.machine.pitch;
        self.prices.resize(self.start.len() * pitch, price);
        for (task, &node) in current.iter().enumerate() {
            if let Some(node) = self.machine.position(node) {
                self.prices[task * pitch + usize::from(node)] = 0;
            }
        }
        shift
    }

    /// Refines the start.
    fn warm(&mut self, problem: &Problem<'_>, effort: Effort, steps: &mut Steps) {
        let shift = self.prices(problem);
        let rows = scaled(problem.edges.rows(), shift, &mut self.full);
        self.table.node.clone_from(&self.start);
        let field = Field {
            rows,
            machine: &self.machine,
            linear: &self.prices,
        };
        let mut local = freely(field, &self.start, (&mut self.table, steps));
        let tasks = rows.tasks();
        if effort.level == problem::Level::Thorough
            && !self.exact.solve(&mut local, exact::ROWS_MAX)
            && tasks <= KICKED_MAX
        {
            // Of few tasks, none that stands badly is missed for long.
            local.kicks(&mut Dice::new(SEED), 3 * tasks, tasks);
        }
        self.start.clone_from(&self.table.node);
    }

    /// By how many bits amounts are shifted right, so that tables cannot overflow.
    fn shift(&self, problem: &Problem<'_>, price: u64) -> u32 {
        let far = u64::from(self.machine.largest().unsigned_abs()).max(1);
        let most = (2 * problem.edges.heaviest * far).max(price.min(1 << 40));
        let fits = |shift: &u32| most >> shift <= TABLE_MAX;
        (0..u64::BITS).find(fits).unwrap_or(0)
    }

    /// Finds a mapping from nothing.
    fn cold(&mut self, problem: &Problem<'_>, effort: Effort, steps: &mut Steps, method: Method) {
        let rows = problem.edges.rows();
        let tasks = rows.tasks();
        let room = self.machine.room(0..self.machine.nodes);
        // With much free room it is no matter of course how many tasks a node gets, so what all say
        // to all is no constant.
        let dense = rows.entries() > DENSE * tasks && room - tasks <= tasks / 8;
        self.canon.sort(rows, if dense { 1 } else { 3 });
        let shift = self.shift(problem, 0);
        self.rename(rows, shift, dense);
        let _ = steps.spend(rows.entries());
        if method == Method::Map && self.settle(effort, steps) {
            return;
        }
        let mut luck = Luck {
            dice: &mut Dice::new(SEED),
            steps,
        };
        let plan = Plan::new(effort, tasks, &self.machine, method);
        let mut attempt = Attempt {
            field: Field::free(self.ours.rows(), &self.machine),
            halves: &mut self.halves,
            communities: &mut self.communities,
            layout: &mut self.layout,
            table: &mut self.table,
            plan,
            kept: if dense { KEPT } else { usize::MAX },
        };
        attempt.run(&mut luck, &mut self.best, |node_of| {
            // What was left out counts when two mappings are compared.
            dense.then(|| whole_cost(rows, &self.canon, &self.machine, node_of))
        });
        self.canon.hand_back(&self.best, &mut self.start);
        if dense {
            self.finish_dense(rows, shift, steps);
        }
    }

    /// Looks for the best mapping of all from any, where tasks are few enough; whether it was
    /// found.
    fn settle(&mut self, effort: Effort, steps: &mut Steps) -> bool {
        let tasks = self.canon.order.len();
        if !exact::is_worth_it(tasks, self.machine.nodes) {
            return false;
        }
        self.machine.slots(&mut self.table.node);
        self.table.node.truncate(tasks);
        let field = Field::free(self.ours.rows(), &self.machine);
        let mut local = Local::new(field, &mut self.table, steps);
        local.descend(0..tasks, false);
        let rows_max = exact::rows_max(tasks, self.machine.nodes, effort.level);
        let is_best = self.exact.solve(&mut local, rows_max);
        self.canon.hand_back(&self.table.node, &mut self.start);
        is_best
    }

    /// Fills `ours` with the tasks in the order of `canon`.
    fn rename(&mut self, rows: Csr<'_>, shift: u32, dense: bool) {
        if dense {
            let far = u64::from(self.machine.largest().unsigned_abs()).max(1);
            self.sparsifier.run(rows, &self.canon, KEPT, &mut self.ours);
            self.ours.limit(TABLE_MAX / far);
        } else {
            self.ours.rename(rows, &self.canon, shift);
        }
    }

    /// The background comes back: a descent over the whole matrix.
    fn finish_dense(&mut self, rows: Csr<'_>, shift: u32, steps: &mut Steps) {
        let rows = scaled(rows, shift, &mut self.full);
        self.table.node.clone_from(&self.start);
        let field = Field::free(rows, &self.machine);
        let mut local = Local::new(field, &mut self.table, steps);
        let order = self.canon.order.iter();
        local.descend(order.map(|&task| task as usize), false);
        self.start.clone_from(&self.table.node);
    }
}

/// What a task would cost on a node, given those that are placed.
fn pull(
    problem: &Problem<'_>,
    machine: &Machine,
    start: &[u16],
    (task, node): (usize, u16),
) -> i64 {
    let far = machine.from(usize::from(node));
    let placed = problem
        .edges
        .rows()
        .row(task)
        .filter(|&(other, _)| start[other] != u16::MAX);
    let cost = |(other, weight)| i64::from(weight) * i64::from(far[usize::from(start[other])]);
    placed.map(cost).sum()
}

/// The caller's nodes of a mapping in ours. Of nodes that were folded, a task keeps the one that it is
/// on; the others get what is left in their order.
fn name(
    machine: &Machine,
    problem: &Problem<'_>,
    node_of: &[u16],
    (named, free): (&mut Vec<u16>, &mut Vec<u32>),
) {
    named.clear();
    if !machine.is_folded() {
        named.extend(node_of.iter().map(|&node| machine.members(node)[0]));
        return;
    }
    problem.capacity.clone_into(free);
    for (task, &node) in node_of.iter().enumerate() {
        let current = problem.current.map(|current| current[task]);
        let stays = current
            .filter(|&there| machine.position(there) == Some(node) && free[usize::from(there)] > 0);
        if let Some(there) = stays {
            free[usize::from(there)] -= 1;
        }
        named.push(stays.unwrap_or(u16::MAX));
    }
    for (named, &node) in named.iter_mut().zip(node_of) {
        if *named == u16::MAX {
            let members = machine.members(node);
            let open = members.iter().find(|&&there| free[usize::from(there)] > 0);
            *named = *open.unwrap_or(&members[0]);
            free[usize::from(*named)] = free[usize::from(*named)].saturating_sub(1);
        }
    }
}

/// Twice the cost of a mapping of our tasks, over the caller's rows.
fn whole_cost(rows: Csr<'_>, names: &Canon, machine: &Machine, node_of: &[u16]) -> i64 {
    let node = |task: usize| usize::from(node_of[names.rank[task] as usize]);
    let mut twice = 0;
    for task in 0..rows.tasks() {
        let far = machine.from(node(task));
        for (other, weight) in rows.row(task) {
            twice += i64::from(weight) * i64::from(far[node(other)]);
        }
    }
    twice
}

/// The rows, each amount shifted right but not to zero.
fn scaled<'a>(rows: Csr<'a>, shift: u32, full: &'a mut Vec<u32>) -> Csr<'a> {
    if shift == 0 {
        return rows;
    }
    replace(
        full,
        rows.weights.iter().map(|&weight| (weight >> shift).max(1)),
    );
    Csr {
        weights: full,
        ..rows
    }
}
