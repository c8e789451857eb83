//! What measured bandwidth says of a decision: near the limit of a controller, near is not fast.
//!
//! Where nothing is measured there is no [`Pressure`], and everything is judged by distance alone.

use crate::cost::{ACCESS_BYTES, Demand, MachineModel, Prices, asked_gbps, queue};
use crate::policy::{Page, Program, Veto};

/// Share of a controller's bandwidth above which plans for threads are asked of the full model. At half
/// of it an access waits less than 4 % longer (see [`queue`]): nothing that a placement could be judged by.
const NEAR_LIMIT: f64 = 0.5;

/// Nodes times nodes and tasks up to which the full model is asked: 8 nodes with 500 tasks. It takes about
/// 5 us for each, so 20 ms at the most; at 64 nodes with 1,024 tasks it took half a second, and the
/// engine's thread reads samples too. Larger machines judge threads by distance, and pages by load.
const MODEL_SIZE_MAX: usize = 4096;

/// How much slower a plan may look to the full model, which knows less than it says.
const SLOWER: f64 = 1.01;

/// How much faster it must look to be allowed though it brings what belongs together no nearer.
const FASTER: f64 = 0.95;

/// Controllers as one program finds them.
#[derive(Clone, Debug)]
pub(crate) struct Pressure {
    /// With what others take of each controller as background.
    model: MachineModel,
    /// Share of each controller that is used, by everyone.
    used: Vec<f64>,
}

impl Pressure {
    /// From what was measured, in GB/s by position, less what this program is seen to ask for.
    ///
    /// What others cause is never less than nothing: a sampled program may be seen to ask for more than
    /// was measured.
    pub(crate) fn new(
        model: &MachineModel,
        gbps: &[Option<f64>],
        program: &Program<'_>,
        prices: &Prices,
    ) -> Self {
        let own = asked_gbps(program, prices.accesses_per_amount);
        let others: Vec<f64> = gbps
            .iter()
            .zip(own)
            .map(|(all, own)| all.map_or(0.0, |all| (all - own).max(0.0)))
            .collect();
        let used = gbps.iter().enumerate().map(|(memory, all)| {
            let all = all.unwrap_or(0.0);
            (all / model.controller_gbps(memory)).clamp(0.0, 1.0)
        });
        Self {
            used: used.collect(),
            model: model.clone().with_background(&others),
        }
    }

    fn is_near_limit(&self) -> bool {
        self.used.iter().any(|used| *used > NEAR_LIMIT)
    }

    /// Judges a plan for threads that pays, or does not, by distance.
    ///
    /// Near the limit of a controller the full model has a say, with pages taken to follow those who use
    /// them most: what it finds slower is dropped though it pays, and what it finds clearly faster may be
    /// done though it does not.
    pub(crate) fn judge(&self, plan: &ThreadPlan<'_>, pays: bool) -> Result<(), Veto> {
        let by_distance = if pays { Ok(()) } else { Err(Veto::DoesNotPay) };
        let nodes = self.used.len();
        let size = nodes.saturating_mul(nodes.saturating_add(plan.program.tasks.len()));
        if !self.is_near_limit() || size > MODEL_SIZE_MAX {
            return by_distance;
        }
        let demand =
            Demand::with_amounts(&self.model, plan.program, plan.prices.accesses_per_amount);
        let home = |page: &Page| page.home.map(usize::from);
        let before = demand.cost(plan.before, home).sum_ns();
        let after = demand.cost(plan.after, |page| plan.follows(page).or(home(page)));
        let after = after.sum_ns();
        if pays {
            return if after > before * SLOWER {
                Err(Veto::Congested)
            } else {
                Ok(())
            };
        }
        let window_ns = plan.program.window.as_nanos() as f64;
        let windows = (plan.prices.horizon_ns / window_ns.max(1.0)).max(1.0);
        let gain = (before - after) * windows;
        if after < before * FASTER && gain > plan.price_ns() {
            Ok(())
        } else {
            by_distance
        }
    }

    /// What pages are judged by while one after the other is granted.
    pub(crate) fn loads(&self) -> Loads<'_> {
        Loads {
            model: &self.model,
            used: self.used.clone(),
        }
    }
}

/// Where threads are and would be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadPlan<'a> {
    pub program: Program<'a>,
    pub before: &'a [Option<usize>],
    pub after: &'a [Option<usize>],
    pub prices: &'a Prices,
}

impl ThreadPlan<'_> {
    /// Where a page would go after the thread that uses it most, if that moves.
    fn follows(&self, page: &Page) -> Option<usize> {
        let most = page
            .accessors()
            .iter()
            .max_by_key(|accessor| (accessor.weight, std::cmp::Reverse(accessor.task)))?;
        let task = usize::try_from(most.task).ok()?;
        let (before, after) = (*self.before.get(task)?, *self.after.get(task)?);
        after.filter(|_| before != after)
    }

    fn price_ns(&self) -> f64 {
        let tasks = self.before.iter().zip(self.after);
        let tasks = tasks.filter(|(before, after)| before != after).count();
        let goes = |page: &&Page| {
            let to = self.follows(page);
            to.is_some() && to != page.home.map(usize::from)
        };
        let pages = self.program.pages.iter().filter(goes).count();
        tasks as f64 * self.prices.task_move_ns + pages as f64 * self.prices.page_move_ns
    }
}

/// How busy controllers would be after what was granted so far.
#[derive(Clone, Debug)]
pub(crate) struct Loads<'a> {
    model: &'a MachineModel,
    used: Vec<f64>,
}

impl Loads<'_> {
    /// How much longer an access to a node's memory takes than when it is idle.
    pub(crate) fn slowdown(&self, memory: usize) -> f64 {
        1.0 + self.used.get(memory).map_or(0.0, |used| queue(*used))
    }

    /// A page with so many accesses in the window goes to another node.
    pub(crate) fn moved(&mut self, accesses: f64, window_ns: f64, (from, to): (usize, usize)) {
        if window_ns <= 0.0 {
            return;
        }
        let gbps = accesses * ACCESS_BYTES / window_ns;
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
