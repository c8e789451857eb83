//! What a placement would be worth to a program, by the cost model.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use numad_core::cost::{ACCESS_BYTES, Demand, MachineModel, PlacementCost, live_part};
use numad_core::{CommMatrix, Page, PageKey, Program, Proposal};

use crate::data_mapping::{current, is_enough, runners};
use crate::figures::whole;
use crate::proposals::page_move;

/// Nodes times nodes and tasks up to which the model is asked; a question takes some 5 us for each.
/// Of larger machines nothing is foretold.
const MODEL_SIZE_MAX: usize = 2048;

/// The model of the machine and what a program asks of it.
#[derive(Debug)]
pub(crate) struct Forecast<'a> {
    demand: Demand<'a>,
    program: Program<'a>,
    /// Where pages go when they follow their threads: how much more often than on average they must
    /// be used from there. None where they stay.
    pages_ratio: Option<f64>,
    runners: usize,
}

impl<'a> Forecast<'a> {
    /// A forecast for a program, whose live matrix should be [`counted_once`]; none where the
    /// machine and the program are too large to be asked about in a window.
    pub(crate) fn new(
        model: &'a MachineModel,
        program: &Program<'a>,
        pages_ratio: Option<f64>,
    ) -> Option<Self> {
        let nodes = model.nodes();
        let size = nodes.saturating_mul(nodes.saturating_add(program.tasks.len()));
        if size > MODEL_SIZE_MAX {
            return None;
        }
        Some(Self {
            demand: Demand::of_window(model, *program, program.prices.accesses_per_amount),
            program: *program,
            pages_ratio,
            runners: runners(program),
        })
    }

    /// What the program gets when its tasks are on these nodes and pages have followed.
    pub(crate) fn of(&self, nodes: &[Option<usize>]) -> PlacementCost {
        self.demand.cost(nodes, |page| self.home(page, nodes))
    }

    /// How long the program takes when its tasks stay and these pages go, in nanoseconds of all
    /// tasks together.
    pub(crate) fn of_pages(&self, moves: &[Proposal]) -> f64 {
        let moves: BTreeMap<PageKey, usize> = moves.iter().filter_map(page_move).collect();
        let nodes: Vec<Option<usize>> = self.program.tasks.iter().map(|task| task.node).collect();
        let home = |page: &Page| {
            let to = moves.get(&page.key).copied();
            to.or(page.home.map(usize::from))
        };
        self.demand.cost(&nodes, home).sum_ns()
    }

    /// Where a page ends up: where the data mapping would put it, else where it is.
    fn home(&self, page: &Page, nodes: &[Option<usize>]) -> Option<usize> {
        let home = page.home.map(usize::from);
        let Some(ratio) = self.pages_ratio else {
            return home;
        };
        let users = current(page.accessors());
        let users = users.filter_map(|one| nodes.get(one.task as usize).copied().flatten());
        // A page has few accessors: to count among them is cheaper than a counter for every node.
        let uses = |node: usize| users.clone().filter(|&user| user == node).count();
        let most = users.clone().map(|node| (uses(node), Reverse(node))).max();
        let Some((most, Reverse(best))) = most else {
            return home;
        };
        let (most, all) = (most as f64, users.clone().count() as f64);
        let stays = home.is_some_and(|home| uses(home) as f64 >= most);
        let asked = ratio * all / self.runners.max(1) as f64;
        if stays || !is_enough(most, asked, all) {
            return home;
        }
        Some(best)
    }
}

/// How often an access to memory that several tasks use stands in the matrix, on average: once for
/// each of the others that used it since the task did last, though only one of them can have had
/// the line. Of two who use a page at random, one did with the probability that its part of what
/// both use has.
pub(crate) fn times_counted(program: &Program<'_>) -> f64 {
    let (mut times, mut all) = (0.0, 0.0);
    for page in program.pages.iter().filter(|page| page.accessor_count > 1) {
        let weights = page.accessors().iter().map(|one| f64::from(one.weight));
        for (at, one) in weights.clone().enumerate() {
            for other in weights.clone().skip(at + 1) {
                times += 2.0 * one * other / (one + other).max(1.0);
            }
            all += one;
        }
    }
    if all > 0.0 && times > 0.0 {
        times / all
    } else {
        1.0
    }
}

/// This window's communication with every access counted once.
pub(crate) fn counted_once(program: &Program<'_>) -> CommMatrix {
    let times = times_counted(program);
    let mut once = CommMatrix::new(program.live.count());
    for (one, other, amount) in program.live.pairs() {
        once.add(
            one,
            other,
            whole(amount as f64 / times).min(u32::MAX.into()),
        );
    }
    once
}

/// How much each task was seen to use memory, in weights of pages.
pub(crate) fn uses(program: &Program<'_>) -> Vec<u64> {
    let mut uses = vec![0; program.tasks.len()];
    for user in program.pages.iter().flat_map(Page::accessors) {
        if let Some(sum) = uses.get_mut(user.task as usize) {
            *sum += u64::from(user.weight);
        }
    }
    uses
}

/// What each task was seen to ask of memory, in MB/s.
pub(crate) fn demand_mbps(program: &Program<'_>) -> Vec<u32> {
    let mut accesses = vec![0.0; program.tasks.len()];
    let per_amount = program.prices.accesses_per_amount * live_part(program);
    for accessor in program.pages.iter().flat_map(Page::accessors) {
        if let Some(sum) = accesses.get_mut(accessor.task as usize) {
            *sum += f64::from(accessor.weight) * per_amount;
        }
    }
    let window_us = program.window.as_nanos() as f64 / 1000.0;
    let rate = |accesses: f64| {
        if window_us > 0.0 {
            accesses * ACCESS_BYTES / window_us
        } else {
            0.0
        }
    };
    let mbps = |accesses| u32::try_from(whole(rate(accesses))).unwrap_or(u32::MAX);
    accesses.into_iter().map(mbps).collect()
}
