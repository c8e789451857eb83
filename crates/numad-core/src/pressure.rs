//! What bandwidth says of a decision: near the limit of a controller, near is not fast.
//!
//! What memory delivers is counted by the machine, or follows from samples that tell what memory
//! answered: their number times their period times a cache line is what the program took. Where
//! what memory can deliver is estimated, everything is judged by distance, and what would make the
//! program clearly slower is not done; where samples tell nothing either there is no [`Pressure`].

use crate::cost::{ACCESS_BYTES, BUSY, Demand, MachineModel, Worth, asked_gbps, queue};
use crate::policy::{Page, Program, Veto};

/// Nodes times nodes and tasks up to which the full model is asked: 8 nodes with 500 tasks. It
/// takes about 5 us for each, so 20 ms at the most; at 64 nodes with 1,024 tasks it took half a
/// second, and the engine's thread reads samples too. Larger machines judge threads by distance,
/// and pages by load.
const MODEL_SIZE_MAX: usize = 4096;

/// Share of the time that a program takes by which the full model may err, which knows less than it
/// says. A window moves only some of many pages, so that each step gains less; what is left to gain
/// when this stops nobody notices.
pub(crate) const DOUBT: f64 = 0.01;

/// The same of a plan of which it is not sure that it brings anybody nearer: who is asked for how
/// much is known from samples.
const FASTER: f64 = 0.05;

/// The same of a plan that makes the program slower if controllers deliver what they are estimated
/// to: they may deliver twice as much.
const GUESSED: f64 = 0.03;

/// How much slower one task may get for the sake of the others: where they go in step it is what
/// all lose.
const SLOWER: f64 = 0.05;

/// Time until the first of the pages follow that those who moved use: two of the shortest windows.
const FOLLOWING_NS: f64 = 250e6;

/// Parts of a plan for pages that are tried, each half as long as the one before.
const PARTS_TRIED: usize = 3;

/// Controllers as one program finds them.
#[derive(Clone, Debug)]
pub(crate) struct Pressure {
    /// With what others take of each controller as background.
    pub model: MachineModel,
    /// Share of each controller that is used, by everyone.
    used: Vec<f64>,
    /// What controllers can deliver is estimated: enough to doubt a plan, and never to make one.
    pub guessed: bool,
}

impl Pressure {
    /// Whether what controllers can deliver is known.
    pub(crate) const fn is_known(&self) -> bool {
        !self.guessed
    }

    /// From what was counted, in GB/s by position, less what this program is seen to ask for.
    ///
    /// What others cause is never less than nothing: a sampled program may be seen to ask for more
    /// than was counted.
    pub(crate) fn counted(
        model: &MachineModel,
        gbps: &[Option<f64>],
        program: &Program<'_>,
    ) -> Self {
        let all = gbps.iter().map(|all| all.unwrap_or(0.0));
        let others = all.clone().zip(asked_gbps(program));
        let others: Vec<f64> = others.map(|(all, own)| (all - own).max(0.0)).collect();
        Self::new(model, all, &others)
    }

    /// From what the samples of this program tell, beside what those of others told, in GB/s by
    /// position.
    pub(crate) fn sampled(model: &MachineModel, others: &[f64], program: &Program<'_>) -> Self {
        let own = asked_gbps(program).into_iter();
        let all = own.zip(others).map(|(own, others)| own + others);
        Self::new(model, all, others)
    }

    /// Where everyone together and the others take so much of each memory.
    fn new(model: &MachineModel, all: impl Iterator<Item = f64>, others: &[f64]) -> Self {
        let share = |(memory, gbps)| gbps / model.controller_gbps(memory);
        Self {
            used: all
                .enumerate()
                .map(share)
                .map(|used| used.clamp(0.0, 1.0))
                .collect(),
            model: model.clone().with_background(others),
            guessed: false,
        }
    }

    /// Whether no controller is near its limit.
    pub(crate) fn is_calm(&self) -> bool {
        self.used.iter().all(|used| *used <= BUSY)
    }

    /// Whether the full model has a say: near the limit of a controller, where it is not too much
    /// to ask.
    fn asks_model(&self, program: &Program<'_>) -> bool {
        let nodes = self.used.len();
        let size = nodes.saturating_mul(nodes.saturating_add(program.tasks.len()));
        size <= MODEL_SIZE_MAX && !self.is_calm()
    }

    /// What the full model knows of a program whose tasks are on these nodes; none where it has no
    /// say.
    pub(crate) fn full_model<'a>(
        &'a self,
        program: Program<'a>,
        nodes: &[Option<usize>],
    ) -> Option<FullModel<'a>> {
        if !self.asks_model(&program) {
            return None;
        }
        let demand = Demand::new(&self.model, program);
        let stays_ns = demand.cost(nodes, Page::node).sum_ns();
        Some(FullModel { demand, stays_ns })
    }

    /// Judges a plan for threads of which it is known what it is worth by distance and to the full
    /// model: what does not make the program faster by that is dropped though it pays, and near the
    /// limit of a controller what it finds faster, by more than who may get nearer, may be done
    /// though it does not pay. By estimates only what is clearly slower is dropped.
    pub(crate) fn judge(
        &self,
        plan: &ThreadPlan<'_>,
        model: &Worth,
        (near, by_distance): (&Worth, Result<(), Veto>),
    ) -> Result<(), Veto> {
        let all_ns = plan.program.busy_ns() * plan.program.windows();
        let least = if self.guessed { -GUESSED } else { DOUBT };
        match by_distance {
            Ok(()) if model.saved_ns < least * all_ns => Err(Veto::Congested),
            // That somebody gets nearer is not sure, so it counts for nothing.
            Err(_) if !self.guessed => {
                let saved_ns = model.saved_ns - near.saved_ns.max(0.0) - FASTER * all_ns;
                Worth { saved_ns, ..*model }.judge().or(by_distance)
            }
            as_it_is => as_it_is,
        }
    }

    /// How many pages, the first of a plan that takes them farther from who uses them, may go for
    /// the sake of those that stay: so many that all get on faster, by more than the moves cost.
    ///
    /// One page alone looks at it otherwise. It is slower to reach over there until the wait here
    /// is longer than the way; but with every page that goes, all others wait less. `moves` name
    /// pages, each with the node it would go to, in the order in which they are granted.
    pub(crate) fn relief(&self, program: &Program<'_>, moves: &[(&Page, usize)]) -> usize {
        if moves.is_empty() || !self.asks_model(program) {
            return 0;
        }
        let now = program.nodes();
        let demand = Demand::of_memory(&self.model, *program);
        let before = demand.cost(&now, Page::node);
        let windows = program.windows();
        let mut count = moves.len();
        for _ in 0..PARTS_TRIED {
            let first = &moves[..count];
            let to = destinations(first);
            let goes = |page: &Page| to.get(page.slot as usize).copied().flatten();
            let after = demand.cost(&now, |page| goes(page).or(page.node()));
            let pages: u64 = first.iter().map(|(page, _)| page.span).sum();
            let price = pages as f64 * program.prices.page_move_ns;
            let pays = |before: f64, after: f64| {
                let saved_ns = (before * (1.0 - DOUBT) - after) * windows;
                saved_ns > price
            };
            let all = (before.sum_ns(), after.sum_ns());
            let slowest = (before.longest_ns(), after.longest_ns());
            let spares = slowest.1 <= slowest.0 * (1.0 + SLOWER);
            if (pays(all.0, all.1) && spares) || (all.1 <= all.0 && pays(slowest.0, slowest.1)) {
                return count;
            }
            count /= 2;
        }
        0
    }

    /// What pages are judged by while one after the other is granted.
    pub(crate) fn loads(&self, program: &Program<'_>) -> Loads<'_> {
        Loads {
            model: &self.model,
            used: self.used.clone(),
            bytes_per_weight: program.memory_per_weight * ACCESS_BYTES,
        }
    }
}

/// A program at controllers that are near their limits.
#[derive(Debug)]
pub(crate) struct FullModel<'a> {
    demand: Demand<'a>,
    /// Time of all tasks in a window in which nothing goes.
    stays_ns: f64,
}

impl FullModel<'_> {
    /// What a plan for threads is worth, with pages taken to follow those who use them most.
    ///
    /// Those pages could follow where their users are now, and nobody would have to move for that.
    /// So the plan is held against the better of the two ways to stay: it is worth what it brings
    /// beside what its pages bring without it.
    pub(crate) fn worth(&self, plan: &ThreadPlan<'_>, price_ns: f64) -> Worth {
        let goes = |page: &Page| plan.leads(page).1.or(page.node());
        let comes = |page: &Page| plan.leads(page).0.or(page.node());
        let before = self.demand.cost(plan.before, comes).sum_ns();
        let after = self.demand.cost(plan.after, goes).sum_ns();
        Worth {
            saved_ns: (before.min(self.stays_ns) - after) * plan.program.windows(),
            price_ns,
            evidence: None,
        }
    }
}

/// Where pages go, by slot.
fn destinations(moves: &[(&Page, usize)]) -> Vec<Option<usize>> {
    let slots = moves.iter().map(|(page, _)| page.slot as usize);
    let mut to = vec![None; slots.max().map_or(0, |last| last + 1)];
    for (page, node) in moves {
        to[page.slot as usize] = Some(*node);
    }
    to
}

/// Where threads are and would be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadPlan<'a> {
    pub program: Program<'a>,
    pub before: &'a [Option<usize>],
    pub after: &'a [Option<usize>],
}

impl ThreadPlan<'_> {
    /// Where a page would go after the thread that uses it most, if that moves: if it did so while
    /// the thread is where it was, and once it is where it would be.
    fn leads(&self, page: &Page) -> (Option<usize>, Option<usize>) {
        let leader = || {
            let task = usize::try_from(page.main_user()?.task).ok()?;
            let (before, after) = (*self.before.get(task)?, *self.after.get(task)?);
            (before != after).then_some((before, after))
        };
        leader().unwrap_or_default()
    }

    /// What moving those tasks costs, and the pages that follow them, and that these are far until
    /// they have.
    pub(crate) fn price_ns(&self) -> f64 {
        let distances = self.program.topology.distances();
        let both = self.before.iter().zip(self.after);
        let tasks = both.filter(|(before, after)| before != after).count();
        let (mut pages, mut farther) = (vec![0_u64; self.after.len()], 0.0);
        for page in self.program.pages {
            let home = page.node();
            let mut has_movers = false;
            for (task, uses) in page.users() {
                let node = |nodes: &[Option<usize>]| nodes.get(task).copied()?;
                let (was, is) = (node(self.before), node(self.after));
                has_movers |= was != is;
                if let (Some(home), Some(was), Some(is), true) = (home, was, is, was != is) {
                    let apart = |node: usize| f64::from(distances.between(node, home));
                    farther += uses * (apart(is) - apart(was));
                }
            }
            let to = if has_movers { self.leads(page).1 } else { None };
            if let Some(user) = page.main_user().filter(|_| to.is_some() && to != home) {
                pages[user.task as usize] += page.span;
            }
        }
        let prices = &self.program.prices;
        let saving_ns = prices.accesses_per_amount * prices.access_saving_ns_per_distance;
        // Threads that go in step wait for the one whose memory comes last. Whether they do is not
        // known.
        let following_ns = FOLLOWING_NS + self.program.take_ns(&pages);
        tasks as f64 * prices.task_move_ns
            + pages.iter().sum::<u64>() as f64 * prices.page_move_ns
            + farther.max(0.0) * saving_ns * following_ns / self.program.window_ns().max(1.0)
    }
}

/// How busy controllers would be after what was granted so far.
#[derive(Clone, Debug)]
pub(crate) struct Loads<'a> {
    model: &'a MachineModel,
    used: Vec<f64>,
    bytes_per_weight: f64,
}

impl Loads<'_> {
    /// How much longer an access to a node's memory takes than when it is idle.
    pub(crate) fn slowdown(&self, memory: usize) -> f64 {
        1.0 + self.used.get(memory).map_or(0.0, |used| queue(*used))
    }

    /// A page of so much weight goes to another node.
    pub(crate) fn moved(&mut self, weight: f64, window_ns: f64, (from, to): (usize, usize)) {
        if window_ns <= 0.0 {
            return;
        }
        let gbps = weight * self.bytes_per_weight / window_ns;
        let share = |memory| gbps / self.model.controller_gbps(memory);
        let (less, more) = (share(from), share(to));
        if let Some(used) = self.used.get_mut(from) {
            *used = (*used - less).max(0.0);
        }
        if let Some(used) = self.used.get_mut(to) {
            *used = (*used + more).min(1.0);
        }
    }
}

#[cfg(test)]
#[path = "pressure_tests.rs"]
mod tests;
