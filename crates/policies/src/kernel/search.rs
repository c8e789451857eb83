//! From a problem to a mapping: the order of things.

use super::bisect::{Luck, Tuning};
use super::fm;
use super::graph::{Canon, Csr, Dice, Level, Steps, id};
use super::halves::{Halves, Job};
use super::machine::Machine;
use super::problem::{self, Effort, Mapping, Problem, cost};
use super::sparsify::Sparsifier;
use super::table::{Field, Local, Table};
use super::tiers::{Pairing, Tier};

/// Where chance starts from: any number will do, as long as it is always the same.
const SEED: u64 = 0x6E75_6D61_6400_0001;

/// Partners of a task on average above which a matrix counts as dense.
const DENSE: usize = 48;
/// Partners kept of each row of a dense matrix.
const KEPT: usize = 20;
/// Row sums times distances stay below this, so that 32-bit tables cannot overflow.
const TABLE_MAX: u64 = 1 << 29;

/// Memory of the kernels, to be kept from call to call.
#[derive(Debug, Default)]
pub struct Workspace {
    machine: Machine,
    canon: Canon,
    sparsifier: Sparsifier,
    halves: Halves,
    pairing: Pairing,
    tiers: Vec<Tier>,
    /// The table of each tier, so that none has to be allocated again.
    table: Table,
    full: Level,
    prices: Vec<i32>,
    start: Vec<u16>,
    seats: Vec<u16>,
    result: Vec<u16>,
    best: Vec<u16>,
}

/// Finds a mapping: the one kernel to use when nothing speaks for another.
///
/// With a current mapping the search starts there and a task moves only if that saves more than the
/// price. Without, tasks and machine are halved together on a coarse scale, and the result is refined
/// on every scale up to single tasks.
pub fn map<'w>(problem: &Problem<'_>, effort: Effort, workspace: &'w mut Workspace) -> Mapping<'w> {
    run(problem, effort, workspace, Method::Map)
}

/// Dual recursive bipartitioning alone, on single tasks, then refined.
pub fn drb<'w>(problem: &Problem<'_>, effort: Effort, workspace: &'w mut Workspace) -> Mapping<'w> {
    run(problem, effort, workspace, Method::Drb)
}

/// Swaps and moves from the current mapping (or tasks in their order) until none helps.
///
/// The cost plus the price of what moved never rises.
pub fn refine<'w>(
    problem: &Problem<'_>,
    effort: Effort,
    workspace: &'w mut Workspace,
) -> Mapping<'w> {
    run(problem, effort, workspace, Method::Refine)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Map,
    Drb,
    Refine,
}

fn run<'w>(
    problem: &Problem<'_>,
    effort: Effort,
    workspace: &'w mut Workspace,
    method: Method,
) -> Mapping<'w> {
    let warm = method == Method::Refine || (problem.current.is_some() && method == Method::Map);
    if !warm {
        return workspace.scratch(problem, effort, |workspace, steps| {
            workspace.cold(problem, effort, steps, method);
        });
    }
    let mut steps = Steps::new(effort.steps_max);
    workspace.seat(problem);
    if workspace.is_open(&steps) {
        workspace.warm(problem, effort, &mut steps);
    }
    workspace.answer(problem, &steps)
}

impl Workspace {
    /// Runs a method that fills the start from scratch and refines what it found. Where something is
    /// placed already, what is there is refined too, and the better of both is kept.
    pub(super) fn with_start<'w>(
        &'w mut self,
        problem: &Problem<'_>,
        effort: Effort,
        method: impl FnOnce(&Machine, &mut Steps, &mut [u16]),
    ) -> Mapping<'w> {
        self.scratch(problem, effort, |workspace, steps| {
            method(&workspace.machine, steps, &mut workspace.start);
            workspace.warm(problem, effort, steps);
        })
    }

    fn scratch<'w>(
        &'w mut self,
        problem: &Problem<'_>,
        effort: Effort,
        method: impl FnOnce(&mut Self, &mut Steps),
    ) -> Mapping<'w> {
        let mut steps = Steps::new(effort.steps_max);
        self.seat(problem);
        if self.is_open(&steps) && problem.current.is_some() {
            self.seats.clone_from(&self.start);
            method(self, &mut steps);
            self.warm(problem, effort, &mut steps);
            std::mem::swap(&mut self.best, &mut self.start);
            self.start.clone_from(&self.seats);
            self.warm(problem, effort, &mut steps);
            if self.objective(problem, &self.best) < self.objective(problem, &self.start) {
                std::mem::swap(&mut self.best, &mut self.start);
            }
        } else if self.is_open(&steps) {
            method(self, &mut steps);
        }
        self.answer(problem, &steps)
    }

    /// Cost and price of moves of a mapping in our nodes.
    fn objective(&self, problem: &Problem<'_>, node_of: &[u16]) -> u64 {
        let named: Vec<u16> = node_of
            .iter()
            .map(|&node| self.machine.original(node))
            .collect();
        let current = problem.current.unwrap_or(&named);
        let moved = named
            .iter()
            .zip(current)
            .filter(|(one, other)| one != other)
            .count() as u64;
        cost(problem, &named).saturating_add(moved.saturating_mul(problem.move_price))
    }

    /// Hands the field of single tasks, started at the last answer, to a search of its own.
    pub(super) fn improve(
        &mut self,
        problem: &Problem<'_>,
        steps: &mut Steps,
        search: impl FnOnce((Field<'_>, u32), &mut Table, &mut Steps),
    ) {
        let shift = self.prices(problem);
        let field = Field {
            rows: scaled(problem.edges.rows(), shift, &mut self.full),
            machine: &self.machine,
            capacity: self.machine.capacity(),
            linear: &self.prices,
        };
        self.table.node.clone_from(&self.start);
        if !steps.is_out() {
            search((field, shift), &mut self.table, steps);
        }
        self.start.clone_from(&self.table.node);
    }

    fn is_open(&self, steps: &Steps) -> bool {
        !steps.is_out() && self.start.len() > 1 && self.machine.nodes() > 1
    }

    /// Puts into `start` a mapping within capacities: the current one as far as it is, else tasks in
    /// their order.
    fn seat(&mut self, problem: &Problem<'_>) {
        let tasks = problem.tasks();
        self.machine
            .prepare(problem.distance, problem.capacity, tasks);
        let machine = &self.machine;
        self.start.clear();
        self.start.resize(tasks, u16::MAX);
        let mut free: Vec<u32> = machine.capacity().to_vec();
        if let Some(current) = problem.current {
            for (task, &node) in current.iter().enumerate() {
                if let Some(node) = machine.position(node)
                    && free[usize::from(node)] > 0
                {
                    free[usize::from(node)] -= 1;
                    self.start[task] = node;
                }
            }
        }
        // In the caller's order of nodes, which need not be ours.
        let mut order: Vec<u16> = (0..u16::try_from(machine.nodes()).unwrap_or(u16::MAX)).collect();
        order.sort_unstable_by_key(|&node| machine.original(node));
        for task in 0..tasks {
            if self.start[task] != u16::MAX {
                continue;
            }
            let open = order
                .iter()
                .copied()
                .filter(|&node| free[usize::from(node)] > 0);
            let best = if problem.current.is_some() {
                open.min_by_key(|&node| self.pull(problem, task, node))
            } else {
                open.into_iter().next()
            };
            if let Some(node) = best {
                free[usize::from(node)] -= 1;
                self.start[task] = node;
            }
        }
    }

    /// What a task would cost on a node, given those that are placed.
    fn pull(&self, problem: &Problem<'_>, task: usize, node: u16) -> i64 {
        let row = self.machine.from(usize::from(node));
        let placed = problem.edges.rows().row(task);
        let placed = placed.filter(|&(other, _)| self.start[other] != u16::MAX);
        placed
            .map(|(other, weight)| {
                i64::from(weight) * i64::from(row[usize::from(self.start[other])])
            })
            .sum()
    }

    /// Fills the prices of leaving the current nodes; the shift of the amounts.
    fn prices(&mut self, problem: &Problem<'_>) -> u32 {
        let price = if problem.current.is_some() {
            problem.move_price
        } else {
            0
        };
        let price = self.machine.price(price);
        let shift = self.shift(problem, price);
        let price = i32::try_from(price >> shift)
            .unwrap_or(i32::MAX)
            .min(1 << 29);
        self.prices.clear();
        let Some(current) = problem.current.filter(|_| price > 0) else {
            return shift;
        };
        let pitch = self.machine.pitch();
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
            capacity: self.machine.capacity(),
            linear: &self.prices,
        };
        let mut order = std::mem::take(&mut self.table.order);
        order.clear();
        order.extend((0..rows.tasks()).map(id));
        let mut local = Local::new(field, &mut self.table, steps);
        if rows.entries() > DENSE * rows.tasks() {
            local.sweeps(&order, 20, 0);
        } else {
            local.descend(0..rows.tasks(), false);
        }
        local.table.order = order;
        if effort.level == problem::Level::Thorough {
            while local.chains(8) {}
        }
        let kicks = kicks(effort, rows);
        if kicks > 0 {
            local.kicks(&mut Dice::new(SEED), kicks);
        }
        self.start.clone_from(&self.table.node);
    }

    /// By how many bits amounts are shifted right, so that tables cannot overflow.
    fn shift(&self, problem: &Problem<'_>, price: u64) -> u32 {
        let far = u64::from(self.machine.largest().unsigned_abs()).max(1);
        let most = (2 * problem.edges.heaviest() * far).max(price.min(1 << 40));
        let mut shift = 0;
        while most >> shift > TABLE_MAX {
            shift += 1;
        }
        shift
    }

    /// Finds a mapping from nothing.
    fn cold(&mut self, problem: &Problem<'_>, effort: Effort, steps: &mut Steps, method: Method) {
        let rows = problem.edges.rows();
        let tasks = rows.tasks();
        let dense = rows.entries() > DENSE * tasks;
        self.canon.sort(rows, None, if dense { 1 } else { 3 });
        let names = self.canon.names();
        if self.tiers.is_empty() {
            self.tiers.push(Tier::default());
        }
        let tier = &mut self.tiers[0];
        let shift = {
            let far = u64::from(self.machine.largest().unsigned_abs()).max(1);
            (0..32).find(|&shift| (2 * problem.edges.heaviest() * far) >> shift <= TABLE_MAX)
        };
        let shift = shift.unwrap_or(32);
        if dense {
            self.sparsifier.run(rows, names, KEPT, &mut tier.graph);
            tier.graph
                .limit(TABLE_MAX / u64::from(self.machine.largest().unsigned_abs()).max(1));
        } else {
            tier.graph.renamed(rows, names, shift);
        }
        tier.capacity.clear();
        tier.capacity.extend_from_slice(self.machine.capacity());
        tier.linear.clear();
        let _ = steps.spend(rows.entries());
        let mut dice = Dice::new(SEED);
        let mut luck = Luck {
            dice: &mut dice,
            steps,
        };
        let plan = Plan::new(effort, tier.graph.rows(), self.machine.nodes(), method);
        let mut search = Search {
            machine: &self.machine,
            halves: &mut self.halves,
            pairing: &mut self.pairing,
            tiers: &mut self.tiers,
            table: &mut self.table,
            plan,
        };
        search.first(&mut luck);
        for _ in 0..plan.cycles {
            if !search.cycle(&mut luck) {
                break;
            }
        }
        search.kick(&mut luck);
        let names = self.canon.names();
        self.start.clear();
        self.start.resize(tasks, 0);
        for (new, &old) in names.order.iter().enumerate() {
            self.start[old as usize] = self.tiers[0].node[new];
        }
        if dense {
            self.finish_dense(rows, shift, effort, steps);
        }
    }

    /// The background comes back: a few sweeps over the whole matrix.
    fn finish_dense(&mut self, rows: Csr<'_>, shift: u32, effort: Effort, steps: &mut Steps) {
        let rows = scaled(rows, shift, &mut self.full);
        self.table.node.clone_from(&self.start);
        let field = Field {
            rows,
            machine: &self.machine,
            capacity: self.machine.capacity(),
            linear: &[],
        };
        let mut local = Local::new(field, &mut self.table, steps);
        let (sweeps, least) = match effort.level {
            problem::Level::Online => (2, 10),
            problem::Level::Thorough => (12, 2),
        };
        local.sweeps(self.canon.names().order, sweeps, least);
        self.start.clone_from(&self.table.node);
    }

    pub(super) fn answer(&mut self, problem: &Problem<'_>, steps: &Steps) -> Mapping<'_> {
        self.result.clear();
        self.result
            .extend(self.start.iter().map(|&node| self.machine.original(node)));
        let current = problem.current.unwrap_or(&self.result);
        let moved = self
            .result
            .iter()
            .zip(current)
            .filter(|(one, other)| one != other)
            .count();
        Mapping {
            node_of: &self.result,
            cost: cost(problem, &self.result),
            moved,
            steps: steps.spent(),
        }
    }
}

/// The rows, each amount shifted right but not to zero.
fn scaled<'a>(rows: Csr<'a>, shift: u32, full: &'a mut Level) -> Csr<'a> {
    if shift == 0 {
        return rows;
    }
    full.weights.clear();
    full.weights
        .extend(rows.weights.iter().map(|&weight| (weight >> shift).max(1)));
    Csr {
        weights: &full.weights,
        ..rows
    }
}

/// What is tried, and how often.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// Tiers are halved while they have more vertices than this before the first mapping.
    coarse: usize,
    /// Cuts from scratch by depth; beyond the last, one.
    starts: [usize; 6],
    tuning: Tuning,
    /// Rounds down and up the tiers along the mapping.
    cycles: usize,
    /// Length of ejection chains; none when zero.
    depth: usize,
    /// Kicks of single tasks at the end.
    kicks: usize,
}

/// How often a mapping is kicked: more often where there is little to map, less where a kick is dear.
fn kicks(effort: Effort, rows: Csr<'_>) -> usize {
    let tasks = rows.tasks();
    let partners = rows.entries() / tasks.max(1);
    match effort.level {
        problem::Level::Online if tasks <= 16 => 8 * tasks,
        problem::Level::Online => 0,
        problem::Level::Thorough if tasks <= 256 => 64 + 8 * tasks * 8 / partners.max(8),
        problem::Level::Thorough => 0,
    }
}

impl Plan {
    fn new(effort: Effort, rows: Csr<'_>, nodes: usize, method: Method) -> Self {
        let online = effort.level == problem::Level::Online;
        let passes = if online { 2 } else { 4 };
        let patience = if online { 20 } else { 12 };
        let tuning = Tuning {
            starts: 1,
            cycles: if online { 0 } else { 2 },
            tries: if online { 2 } else { 4 },
            coarsest: 24,
            effort: fm::Effort { passes, patience },
        };
        Self {
            coarse: if method == Method::Drb {
                usize::MAX
            } else {
                16 * nodes
            },
            starts: if online {
                [2, 2, 1, 1, 1, 1]
            } else {
                [8, 8, 4, 4, 2, 2]
            },
            tuning,
            cycles: if method == Method::Drb {
                0
            } else if online {
                1
            } else {
                2
            },
            depth: if online { 0 } else { 8 },
            kicks: kicks(effort, rows),
        }
    }
}

struct Search<'a> {
    machine: &'a Machine,
    halves: &'a mut Halves,
    pairing: &'a mut Pairing,
    tiers: &'a mut Vec<Tier>,
    table: &'a mut Table,
    plan: Plan,
}

impl Search<'_> {
    /// A mapping of the first tier, found on a coarse one.
    fn first(&mut self, luck: &mut Luck<'_>) {
        let mut depth = 0;
        while self.tiers[depth].graph.count() > self.plan.coarse.max(32) {
            if !self.halve(depth, false, luck.dice) {
                break;
            }
            depth += 1;
        }
        let tier = &mut self.tiers[depth];
        let job = Job {
            graph: &tier.graph,
            machine: self.machine,
            capacity: &tier.capacity,
            node: &mut tier.node,
        };
        let plan = self.plan;
        let care = |depth: usize| Tuning {
            starts: plan.starts.get(depth).copied().unwrap_or(1),
            ..plan.tuning
        };
        self.halves.map(job, &care, luck);
        self.climb(depth, luck);
    }

    /// Down the tiers along the mapping and up again. True when that helped.
    fn cycle(&mut self, luck: &mut Luck<'_>) -> bool {
        let mut depth = 0;
        while self.tiers[depth].graph.count() > self.machine.nodes() {
            if !self.halve(depth, true, luck.dice) {
                break;
            }
            depth += 1;
        }
        self.climb(depth, luck);
        !luck.steps.is_out()
    }

    /// Kicks the mapping of single tasks.
    fn kick(&mut self, luck: &mut Luck<'_>) {
        if self.plan.kicks == 0 {
            return;
        }
        let tier = &mut self.tiers[0];
        std::mem::swap(&mut self.table.node, &mut tier.node);
        let field = Field {
            rows: tier.graph.rows(),
            machine: self.machine,
            capacity: &tier.capacity,
            linear: &tier.linear,
        };
        let mut local = Local::new(field, self.table, luck.steps);
        local.kicks(luck.dice, self.plan.kicks);
        std::mem::swap(&mut self.table.node, &mut tier.node);
    }

    fn halve(&mut self, depth: usize, mapped: bool, dice: &mut Dice) -> bool {
        if self.tiers.len() < depth + 2 {
            self.tiers.push(Tier::default());
        }
        let (fine, coarse) = self.tiers.split_at_mut(depth + 1);
        self.pairing.halve(
            (&mut fine[depth], &mut coarse[0]),
            self.machine,
            mapped,
            dice,
        )
    }

    /// Refines the mapping of a tier, hands it to the finer one, and so on.
    fn climb(&mut self, from: usize, luck: &mut Luck<'_>) {
        for depth in (0..=from).rev() {
            if depth < from {
                let (fine, coarse) = self.tiers.split_at_mut(depth + 1);
                hand_down(&mut fine[depth], &coarse[0]);
            }
            let tier = &mut self.tiers[depth];
            std::mem::swap(&mut self.table.node, &mut tier.node);
            let field = Field {
                rows: tier.graph.rows(),
                machine: self.machine,
                capacity: &tier.capacity,
                linear: &tier.linear,
            };
            let count = tier.graph.count();
            let mut local = Local::new(field, self.table, luck.steps);
            local.descend(0..count, false);
            if self.plan.depth > 0 {
                for _ in 0..4 {
                    local.table.order.clear();
                    local.table.order.extend((0..count).map(id));
                    luck.dice.shuffle(&mut local.table.order);
                    if !local.chains(self.plan.depth) {
                        break;
                    }
                }
            }
            std::mem::swap(&mut self.table.node, &mut tier.node);
        }
    }
}

/// The mapping of a coarse tier becomes that of the finer one; fixed tasks stay.
fn hand_down(fine: &mut Tier, coarse: &Tier) {
    fine.node.resize(fine.graph.count(), 0);
    for (node, &vertex) in fine.node.iter_mut().zip(&fine.graph.coarse) {
        if let Some(&there) = coarse.node.get(vertex as usize) {
            *node = there;
        }
    }
}
