//! How fast a program would get on with its pages elsewhere, by the cost model.

use std::collections::BTreeMap;

use numad_core::cost::{ACCESS_BYTES, Demand, MachineModel, live_part};
use numad_core::{CommMatrix, Page, PageKey, Program, Proposal};

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
}

impl<'a> Forecast<'a> {
    /// A forecast for a program, whose live matrix should be [`counted_once`]; none where the
    /// machine and the program are too large to be asked about in a window.
    pub(crate) fn new(model: &'a MachineModel, program: &Program<'a>) -> Option<Self> {
        let nodes = model.nodes();
        let size = nodes.saturating_mul(nodes.saturating_add(program.tasks.len()));
        if size > MODEL_SIZE_MAX {
            return None;
        }
        Some(Self {
            demand: Demand::of_window(model, *program, program.prices.accesses_per_amount),
            program: *program,
        })
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
