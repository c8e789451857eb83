//! Mappings from nothing: how often, how hard, and which is kept.

use super::bisect::{Luck, Tuning};
use super::communities::Communities;
use super::fm;
use super::graph::Dice;
use super::halves::Halves;
use super::layout::Layout;
use super::machine::Machine;
use super::problem::{self, Effort};
use super::search::Method;
use super::table::{Field, Local, Table};

/// What is tried, and how often.
///
/// The figures were found on the 533 cases of the mapping bench: each is where more of it stopped
/// paying, within the time that its effort is given. See docs/measurements.md, "mapping kernels".
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Mappings from nothing; the best is kept.
    restarts: usize,
    /// How often the best must be found before no more are made: most matrices are easy, and what they
    /// leave of the time is worth more on the others.
    settled: usize,
    /// Cuts from scratch by depth of the recursion; beyond the last, one.
    starts: [usize; 6],
    /// How often the best of the first cuts must be found before no more are made.
    sure: usize,
    tuning: Tuning,
    /// Whether all mappings but the first begin by chance.
    by_chance: bool,
    /// Kicks after each mapping from nothing.
    kicks: usize,
    /// How often communities of few tasks are tried on other nodes.
    regroups: usize,
    /// Kicks of the best mapping at the end.
    last_kicks: usize,
}

impl Plan {
    pub(super) fn new(effort: Effort, tasks: usize, machine: &Machine, method: Method) -> Self {
        let mut plan = match effort.level {
            problem::Level::Online => Self::online(tasks, machine),
            problem::Level::Thorough => Self::thorough(tasks),
        };
        if method == Method::Drb {
            plan.by_chance = false;
            // Without chance there is little to choose from.
            plan.settled = plan.settled.min(3);
        }
        plan
    }

    /// One mapping; more cuts where the machine is no tree, because a cut then fits it less well.
    fn online(tasks: usize, machine: &Machine) -> Self {
        let starts = match (tasks, machine.is_tree) {
            (..=32, _) => [6, 3, 2, 1, 1, 1],
            (33..=64, _) => [4, 2, 2, 1, 1, 1],
            (65..=256, true) => [3, 3, 2, 1, 1, 1],
            (257..=1024, true) => [2, 2, 2, 1, 1, 1],
            (_, true) => [4, 3, 2, 2, 1, 1],
            (_, false) => [4; 6],
        };
        let mut tuning = tuning(tasks);
        if tasks <= 32 {
            tuning.coarsest = 12;
        }
        let (restarts, settled, kicks) = if tasks <= FEW { (16, 5, 2) } else { (1, 1, 0) };
        Self {
            restarts,
            settled,
            starts,
            // With more tasks hardly a cut is found twice.
            sure: if tasks <= GROWN_MAX { 3 } else { usize::MAX },
            tuning,
            by_chance: tasks <= FEW,
            kicks,
            regroups: tasks / 2,
            last_kicks: 0,
        }
    }

    /// Many mappings: a start decides more than any polishing.
    fn thorough(tasks: usize) -> Self {
        let careful = [4, 4, 4, 3, 2, 2];
        let (restarts, settled, starts, kicks) = match tasks {
            ..=FEW => (40, 8, [1; 6], 2 * tasks),
            17..=32 => (40, 6, [1, 2, 1, 1, 1, 1], 24),
            33..=64 => (48, 6, [1; 6], 24),
            65..=256 => (8, 3, careful, 0),
            257..=1024 => (5, 3, careful, 0),
            _ => (3, 2, careful, 0),
        };
        Self {
            restarts,
            settled,
            starts,
            sure: usize::MAX,
            tuning: tuning(tasks),
            by_chance: tasks <= FEW,
            kicks,
            regroups: 512,
            last_kicks: if (65..=256).contains(&tasks) {
                4 * tasks
            } else {
                0
            },
        }
    }
}

/// Tasks up to which mappings begin by chance, again and again: from there a descent takes next to nothing,
/// and one in a few ends at the best.
const FEW: usize = 16;

/// Tasks up to which growing cuts finds what laying communities would.
const LAID_MIN: usize = 16;
/// Tasks up to which cuts are grown in any case: what communities say to each other weighs much there.
const GROWN_MAX: usize = 64;

/// Communities are laid side by side when at least this share of all communication stays inside of them, ...
const LAID_PERCENT: u64 = 85;
/// ... and tried on other nodes from this on. Random talk of 32 tasks gains from that as well.
const REGROUPED_PERCENT: u64 = 60;

/// Partners of a task on average up to which a small matrix is not worth the look for communities.
const THIN: usize = 4;

/// When pairs of one community make this share of the cost, their layout is all that matters, and
/// growing cuts would find nothing better.
const TORN_PERCENT: i64 = 50;

/// Depth of the recursion from which on a cut that was found twice is good enough. The first ones decide
/// too much.
const SETTLES_FROM: usize = 3;

/// Patience falls with the size: on a small graph a long pass only walks away and back.
fn tuning(tasks: usize) -> Tuning {
    let (passes, patience) = match tasks {
        ..=32 => (2, 35),
        33..=64 => (2, 30),
        65..=256 => (2, 25),
        257..=1024 => (2, 20),
        _ => (3, 20),
    };
    let effort = fm::Effort { passes, patience };
    Tuning {
        starts: 1,
        settled: 1,
        coarsest: 24,
        effort,
    }
}

/// Mappings from nothing. The one at hand is in the table.
#[derive(Debug)]
pub(super) struct Attempt<'a> {
    pub(super) field: Field<'a>,
    pub(super) halves: &'a mut Halves,
    pub(super) communities: &'a mut Communities,
    pub(super) layout: &'a mut Layout,
    pub(super) table: &'a mut Table,
    pub(super) plan: Plan,
    /// Partners kept of each task, where a dense matrix was thinned out.
    pub(super) kept: usize,
}

impl Attempt<'_> {
    /// Puts the best of the mappings that the plan asks for into `best`, by its cost unless `judge` knows
    /// better.
    pub(super) fn run(
        &mut self,
        luck: &mut Luck<'_>,
        best: &mut Vec<u16>,
        judge: impl Fn(&[u16]) -> Option<i64>,
    ) {
        let mut least = i64::MAX;
        let mut restarts = self.plan.restarts;
        let dice = luck.dice.clone();
        let inside = self.look();
        let laid = if inside >= LAID_PERCENT {
            self.lay(luck)
        } else {
            None
        };
        // Growing starts as it would have without, so that it never ends worse.
        *luck.dice = dice;
        if let Some((cost, decides)) = laid {
            least = judge(&self.table.node).unwrap_or(cost);
            best.clone_from(&self.table.node);
            restarts -= usize::from(decides);
        }
        let mut found = 0;
        for round in 0..restarts {
            let has_one = least < i64::MAX;
            if has_one && (found == self.plan.settled || luck.steps.is_out()) {
                break;
            }
            let mut cost = self.attempt(luck, round);
            if restarts > 1 || laid.is_some() {
                cost = judge(&self.table.node).unwrap_or(cost);
            }
            if cost < least {
                (least, found) = (cost, 0);
                best.clone_from(&self.table.node);
            }
            found += usize::from(cost == least);
        }
        if inside >= REGROUPED_PERCENT && best.len() <= GROWN_MAX {
            self.table.node.clone_from(best);
            let mut local = Local::new(self.field, self.table, luck.steps);
            local.regroup(self.communities, self.plan.regroups);
            best.clone_from(&self.table.node);
        }
        if self.plan.last_kicks > 0 {
            self.table.node.clone_from(best);
            self.refine(luck, self.plan.last_kicks);
            best.clone_from(&self.table.node);
        }
    }

    /// A mapping from nothing, refined; its cost.
    fn attempt(&mut self, luck: &mut Luck<'_>, round: usize) -> i64 {
        if self.plan.by_chance && round > 0 {
            self.scatter(luck.dice);
        } else {
            self.halve(luck);
        }
        self.refine(luck, self.plan.kicks)
    }

    /// Looks for communities where they may matter; what stays inside of them, in percent.
    fn look(&mut self) -> u64 {
        let rows = self.field.rows;
        let thin = rows.tasks() <= GROWN_MAX && rows.entries() <= THIN * rows.tasks();
        if rows.tasks() <= LAID_MIN || thin {
            return 0;
        }
        self.communities.find(rows)
    }

    /// A mapping with communities side by side, refined; its cost, and whether what was torn apart makes
    /// most of it. Nothing when they are too thin.
    fn lay(&mut self, luck: &mut Luck<'_>) -> Option<(i64, bool)> {
        let found = (self.field.rows, &*self.communities, self.kept);
        let luck_of = (&mut *luck.dice, &mut *luck.steps);
        if !self
            .layout
            .run(found, self.field.machine, luck_of, &mut self.table.node)
        {
            return None;
        }
        let cost = self.refine(luck, self.plan.kicks);
        let decides = self.field.rows.tasks() > GROWN_MAX && self.torn() >= TORN_PERCENT;
        Some((cost, decides))
    }

    /// The share of the cost, in percent, that pairs of one community make.
    fn torn(&self) -> i64 {
        let (mut inside, mut all) = (0, 0);
        let node = &self.table.node;
        for task in 0..self.field.rows.tasks() {
            let label = self.communities.label(task);
            let far = self.field.machine.from(usize::from(node[task]));
            for (other, weight) in self.field.rows.row(task) {
                let cost = i64::from(weight) * i64::from(far[usize::from(node[other])]);
                all += cost;
                if self.communities.label(other) == label {
                    inside += cost;
                }
            }
        }
        inside * 100 / all.max(1)
    }

    /// A mapping by halving tasks and machine.
    fn halve(&mut self, luck: &mut Luck<'_>) {
        let plan = self.plan;
        let care = |depth: usize| Tuning {
            starts: plan.starts.get(depth).copied().unwrap_or(1),
            settled: if depth < SETTLES_FROM { plan.sure } else { 2 },
            ..plan.tuning
        };
        let field = (self.field.rows, self.field.machine);
        self.halves.map(field, care, luck, &mut self.table.node);
    }

    /// A mapping by chance. Halves of a machine whose nodes differ much lead every mapping the same wrong
    /// way.
    fn scatter(&mut self, dice: &mut Dice) {
        let node = &mut self.table.node;
        self.field.machine.slots(node);
        dice.shuffle(node);
        node.truncate(self.field.rows.tasks());
    }

    /// Descends from the mapping at hand, with so many kicks; the cost then.
    fn refine(&mut self, luck: &mut Luck<'_>, kicks: usize) -> i64 {
        let mut local = Local::new(self.field, self.table, luck.steps);
        local.descend(0..self.field.rows.tasks(), false);
        if kicks > 0 {
            local.kicks(luck.dice, kicks, kicks);
        }
        local.cost
    }
}
