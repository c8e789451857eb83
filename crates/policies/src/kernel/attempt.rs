//! Mappings from nothing: how often, how hard, and which is kept.

use super::bisect::{Luck, Tuning};
use super::communities::Communities;
use super::fm;
use super::graph::Dice;
use super::halves::{Halves, Job};
use super::kicks::Kicks;
use super::layout::Layout;
use super::machine::Machine;
use super::problem::{self, Effort};
use super::search::Method;
use super::table::{Field, Local, Table};
use super::tiers::{Pairing, Tier};

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
    /// Whether to go down and up the tiers of pairs once more.
    cycle: bool,
    /// Kicks after each mapping from nothing.
    kicks: Kicks,
    /// How often communities of few tasks are tried on other nodes.
    regroups: usize,
    /// Length of the ejection chains that polish the best mapping; none when zero.
    chain: usize,
    /// Kicks of the best mapping at the end.
    last_kicks: Kicks,
}

impl Plan {
    pub(super) fn new(effort: Effort, tasks: usize, machine: &Machine, method: Method) -> Self {
        let mut plan = match effort.level {
            problem::Level::Online => Self::online(tasks, machine),
            problem::Level::Thorough => Self::thorough(tasks),
        };
        if method == Method::Drb {
            (plan.by_chance, plan.cycle) = (false, false);
            // Without chance there is little to choose from.
            plan.settled = plan.settled.min(3);
        }
        plan
    }

    /// One mapping; more cuts where the machine is no tree, because a cut then fits it less well.
    fn online(tasks: usize, machine: &Machine) -> Self {
        let starts = match (tasks, machine.is_tree()) {
            (..=32, _) => [4, 2, 1, 1, 1, 1],
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
        let (restarts, settled, kicks) = if tasks <= FEW { (12, 4, 2) } else { (1, 1, 0) };
        Self {
            restarts,
            settled,
            starts,
            // With more tasks hardly a cut is found twice.
            sure: if tasks <= GROWN_MAX { 3 } else { usize::MAX },
            tuning,
            by_chance: tasks <= FEW,
            cycle: true,
            kicks: Kicks::all(kicks),
            regroups: tasks / 2,
            chain: 0,
            last_kicks: Kicks::NONE,
        }
    }

    /// Many mappings: a start decides more than any polishing.
    fn thorough(tasks: usize) -> Self {
        let careful = [4, 4, 4, 3, 2, 2];
        let (restarts, settled, starts, kicks) = match tasks {
            ..=FEW => (40, 8, [1; 6], 2 * tasks),
            17..=32 => (40, 6, [1, 2, 1, 1, 1, 1], 24),
            33..=64 => (36, 4, [1; 6], 24),
            65..=256 => (6, 3, careful, 0),
            257..=1024 => (3, 3, careful, 0),
            _ => (2, 2, careful, 0),
        };
        let (chain, last_kicks) = match tasks {
            ..=64 => (3, 0),
            65..=256 => (8, 4 * tasks),
            _ => (8, 0),
        };
        Self {
            restarts,
            settled,
            starts,
            sure: usize::MAX,
            tuning: tuning(tasks),
            by_chance: tasks <= FEW,
            cycle: true,
            kicks: Kicks::all(kicks),
            regroups: 512,
            chain,
            last_kicks: Kicks::all(last_kicks),
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
        tries: 2,
        coarsest: 24,
        effort,
    }
}

/// Mappings from nothing, on the first tier.
#[derive(Debug)]
pub(super) struct Attempt<'a> {
    pub(super) machine: &'a Machine,
    pub(super) halves: &'a mut Halves,
    pub(super) communities: &'a mut Communities,
    pub(super) layout: &'a mut Layout,
    pub(super) pairing: &'a mut Pairing,
    pub(super) tiers: &'a mut Vec<Tier>,
    pub(super) table: &'a mut Table,
    pub(super) plan: Plan,
    /// Partners kept of each task, where a dense matrix was thinned out.
    pub(super) kept: usize,
}

impl Attempt<'_> {
    /// Puts the best of the mappings that the plan asks for into `best`, by its cost on the first tier
    /// unless `judge` knows better.
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
            least = judge(&self.tiers[0].node).unwrap_or(cost);
            best.clone_from(&self.tiers[0].node);
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
                cost = judge(&self.tiers[0].node).unwrap_or(cost);
            }
            if cost < least {
                (least, found) = (cost, 0);
                best.clone_from(&self.tiers[0].node);
            }
            found += usize::from(cost == least);
        }
        if inside >= REGROUPED_PERCENT && best.len() <= GROWN_MAX {
            self.tiers[0].node.clone_from(best);
            let communities = std::mem::take(self.communities);
            let tries = self.plan.regroups;
            self.search(0, luck, |local, _| local.regroup(&communities, tries));
            *self.communities = communities;
            best.clone_from(&self.tiers[0].node);
        }
        if self.plan.chain > 0 {
            self.tiers[0].node.clone_from(best);
            self.cycle(luck, self.plan.chain);
            let kicks = self.plan.last_kicks;
            if kicks != Kicks::NONE {
                self.search(0, luck, |local, dice| local.kicks(dice, kicks));
            }
            best.clone_from(&self.tiers[0].node);
        }
    }

    /// A mapping of the first tier from nothing, refined; its cost.
    fn attempt(&mut self, luck: &mut Luck<'_>, round: usize) -> i64 {
        let mut cost;
        if self.plan.by_chance && round > 0 {
            cost = self.scatter(luck);
        } else {
            cost = self.first(luck);
            if self.plan.cycle && !luck.steps.is_out() {
                cost = self.cycle(luck, 0);
            }
        }
        let kicks = self.plan.kicks;
        if kicks != Kicks::NONE {
            cost = self.search(0, luck, |local, dice| local.kicks(dice, kicks));
        }
        cost
    }

    /// Looks for communities where they may matter; what stays inside of them, in percent.
    fn look(&mut self) -> u64 {
        let rows = self.tiers[0].graph.rows();
        let thin = rows.tasks() <= GROWN_MAX && rows.entries() <= THIN * rows.tasks();
        if rows.tasks() <= LAID_MIN || thin {
            return 0;
        }
        self.communities.find(rows)
    }

    /// A mapping of the first tier with communities side by side, refined; its cost, and whether what
    /// was torn apart makes most of it. Nothing when they are too thin.
    fn lay(&mut self, luck: &mut Luck<'_>) -> Option<(i64, bool)> {
        let tier = &mut self.tiers[0];
        let rows = tier.graph.rows();
        let few = rows.tasks() <= GROWN_MAX;
        let machine = (self.machine, tier.capacity.as_slice());
        let luck_of = (&mut *luck.dice, &mut *luck.steps);
        let found = (rows, &*self.communities, self.kept);
        if !self.layout.run(found, machine, luck_of, &mut tier.node) {
            return None;
        }
        self.climb(0, luck, 0);
        let cost = self.cycle(luck, 0);
        let decides = !few && self.torn() >= TORN_PERCENT;
        Some((cost, decides))
    }

    /// The share of the cost, in percent, that pairs of one community make.
    fn torn(&self) -> i64 {
        let tier = &self.tiers[0];
        let rows = tier.graph.rows();
        let (mut inside, mut all) = (0, 0);
        for task in 0..rows.tasks() {
            let label = self.communities.label(task);
            let far = self.machine.from(usize::from(tier.node[task]));
            for (other, weight) in rows.row(task) {
                let cost = i64::from(weight) * i64::from(far[usize::from(tier.node[other])]);
                all += cost;
                if self.communities.label(other) == label {
                    inside += cost;
                }
            }
        }
        inside * 100 / all.max(1)
    }

    /// A mapping of the first tier by halving tasks and machine; its cost.
    fn first(&mut self, luck: &mut Luck<'_>) -> i64 {
        let tier = &mut self.tiers[0];
        let job = Job {
            graph: &tier.graph,
            machine: self.machine,
            capacity: &tier.capacity,
            node: &mut tier.node,
        };
        let plan = self.plan;
        let care = |depth: usize| Tuning {
            starts: plan.starts.get(depth).copied().unwrap_or(1),
            settled: if depth < SETTLES_FROM { plan.sure } else { 2 },
            ..plan.tuning
        };
        self.halves.map(job, &care, luck);
        self.climb(0, luck, 0)
    }

    /// A mapping of the first tier by chance, refined; its cost. Halves of a machine whose nodes differ
    /// much lead every mapping the same wrong way.
    fn scatter(&mut self, luck: &mut Luck<'_>) -> i64 {
        let tier = &mut self.tiers[0];
        tier.node.clear();
        for (node, &room) in tier.capacity.iter().enumerate() {
            let node = u16::try_from(node).unwrap_or(u16::MAX);
            tier.node.extend((0..room).map(|_| node));
        }
        luck.dice.shuffle(&mut tier.node);
        tier.node.truncate(tier.graph.count());
        self.climb(0, luck, 0)
    }

    /// Down the tiers along the mapping and up again, with ejection chains of that length on each tier;
    /// the cost then.
    fn cycle(&mut self, luck: &mut Luck<'_>, chain: usize) -> i64 {
        let mut depth = 0;
        while self.tiers[depth].graph.count() > self.machine.nodes() {
            if !self.halve(depth, luck.dice) {
                break;
            }
            depth += 1;
        }
        self.climb(depth, luck, chain)
    }

    /// Searches from the mapping of a tier; the cost then.
    fn search(
        &mut self,
        depth: usize,
        luck: &mut Luck<'_>,
        search: impl FnOnce(&mut Local<'_>, &mut Dice),
    ) -> i64 {
        let tier = &mut self.tiers[depth];
        std::mem::swap(&mut self.table.node, &mut tier.node);
        let field = Field {
            rows: tier.graph.rows(),
            machine: self.machine,
            capacity: &tier.capacity,
            linear: &tier.linear,
        };
        let mut local = Local::new(field, self.table, luck.steps);
        search(&mut local, luck.dice);
        let cost = local.cost;
        std::mem::swap(&mut self.table.node, &mut tier.node);
        cost
    }

    fn halve(&mut self, depth: usize, dice: &mut Dice) -> bool {
        if self.tiers.len() < depth + 2 {
            self.tiers.push(Tier::default());
        }
        let (fine, coarse) = self.tiers.split_at_mut(depth + 1);
        self.pairing
            .halve((&mut fine[depth], &mut coarse[0]), self.machine, dice)
    }

    /// Refines the mapping of a tier, hands it to the finer one, and so on; the cost at the end.
    fn climb(&mut self, from: usize, luck: &mut Luck<'_>, chain: usize) -> i64 {
        let mut cost = 0;
        for depth in (0..=from).rev() {
            if depth < from {
                let (fine, coarse) = self.tiers.split_at_mut(depth + 1);
                hand_down(&mut fine[depth], &coarse[0]);
            }
            cost = self.search(depth, luck, |local, dice| {
                local.descend(0..local.field.rows.tasks(), false);
                if chain > 0 {
                    local.chain_all(chain, dice);
                }
            });
        }
        cost
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
