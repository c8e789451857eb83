//! The thread phase: threads that use the same pages come together, as those do who talk.
//!
//! What two threads say is how similar they are. Where the method cuts them by Kernighan-Lin and
//! deals the parts out greedily, a [`Board`] has them mapped by distance, names the parts so that
//! little moves, and holds the plan against what is, so that the next window, seeing the same,
//! moves nobody.

use numad_core::{Plan, Program, Proposal, Reason};

use super::PagesThreadsBandwidth;
use super::similarity::{ALIKE, similarity};
use crate::amounts::{could_wait, uses};
use crate::board::Board;
use crate::figures::percent;
use crate::kernel::map;
use crate::stay::keep_in_place;

impl PagesThreadsBandwidth {
    /// Plans: one that brings alike threads together, and where that could load a controller too
    /// much, one that loads all alike.
    pub(super) fn place(&mut self, program: &Program<'_>) -> Vec<Plan> {
        let alike = similarity(program.tasks.len(), program.pages);
        let board = Board::ranked(program, &alike, &uses(program));
        // Where threads share next to nothing chance alone speaks: what a move must gain is then a
        // share of what two have who are wholly alike.
        let total: u64 = alike.pairs().map(|(.., amount)| amount).sum();
        let mean = 2.0 * total as f64 / program.tasks.len().max(1) as f64;
        let gain_min = self.gain_min * f64::max(ALIKE / mean.max(1.0), 1.0);
        let near = board.gathered(map, gain_min, &mut self.workspace);
        let even =
            could_wait(program).then(|| board.evened_out(&near, gain_min, &mut self.workspace));
        let plans = [near].into_iter().chain(even).map(|plan| {
            let mut plan: Plan = board.propose(&plan).into_iter().map(similar).collect();
            keep_in_place(program, &alike, &mut plan);
            plan
        });
        plans.collect()
    }
}

/// The same proposal for the reason that two tasks are alike.
fn similar(proposal: Proposal) -> Proposal {
    match proposal {
        Proposal::PlaceTask {
            task,
            node,
            reason: Reason::Partner { with, amount },
        } => {
            let percent = percent(amount as f64 / ALIKE);
            Proposal::place_task(task, node, Reason::Similar { with, percent })
        }
        other => other,
    }
}
