//! `OnDeLocMap+`: tasks to nodes, heaviest pairs first, few migrations.
//!
//! # Reading
//!
//! The paper's listing, taken at its word, never changes a complete mapping, so the method is defined
//! by its stated aim. This is exactly what is computed:
//!
//! - *Places.* Every node has `Program::capacity` places. A task that said nothing to anyone stays where
//!   it is and has a place there. All other places are free at the start; what a talking task has now
//!   counts only once the task was decided.
//! - *Order.* Pairs by amount, largest first, equal ones by lower, then by higher position. Every task is
//!   decided when its first pair comes up, so only the first pair of each task is looked at; all
//!   others come up when both their tasks are decided.
//! - *Both undecided.* If they are on one node now, and it has two places, they stay. If they are on two,
//!   they go to whichever of the two has two places; if both do, to the one with which the pair has
//!   more communication besides its own (so it leaves less behind), then to the first. A task whose
//!   node is not known has none to offer. Else they go to the next node in round-robin order with two
//!   places. Else each goes where a single task goes that has no partner, see next; the one first that
//!   says more in all.
//! - *One undecided.* It goes to its partner's node, else stays on its own, else goes to the next node in
//!   round-robin order with a place.
//! - *Round robin* starts at the first node, in order of position, and goes on behind the node it gave.
//! - A node where one of the tasks is not allowed does not count as having places for it. That includes
//!   the node it is on.
//! - A task for which no place is left stays where it is, without having a place, and is not decided
//!   again.
//!
//! An unchanged matrix is a fixed point: with every task where the first call put it, each decision of
//! the second finds the same places left and its tasks already where it would put them.
//!
//! The listing to the letter is `deloc+published`.

use std::cmp::Reverse;

use numad_core::Program;

use crate::rounds::Dealer;
use crate::seats::Seats;

/// The node of every task that talks, in the order of decision, given where they are. Tasks without a place are left out.
pub(crate) fn map(
    program: &Program<'_>,
    places: Vec<Option<usize>>,
    talk: &Talk<'_>,
) -> Vec<(usize, usize)> {
    let tasks = talk.partners.len();
    let silent = (0..tasks).filter(|&task| talk.partners[task].is_empty());
    let mut dealer = Dealer::new(program.tasks, Seats::without(program, silent), places);
    for &(_, low, high) in &talk.firsts {
        talk.decide([low, high], &mut dealer);
    }
    dealer.decisions
}

/// Two tasks that talk, in the order in which pairs come: by amount, then the lower and the higher
/// task.
type Pair = (Reverse<u64>, usize, usize);

/// Who talks to whom, as the method goes through it.
pub(crate) struct Talk<'a> {
    /// To whom each task talks, and how much.
    partners: &'a [Vec<(usize, u64)>],
    /// The pair of each task that comes first of all its pairs, in order.
    firsts: Vec<Pair>,
}

impl<'a> Talk<'a> {
    pub(crate) fn of(partners: &'a [Vec<(usize, u64)>]) -> Self {
        // Of equal partners the lowest gives the pair that comes first.
        let first = |(task, partners): (usize, &Vec<(usize, u64)>)| {
            let first = partners
                .iter()
                .max_by_key(|&&(other, amount)| (amount, Reverse(other)));
            first.map(|&(other, amount)| (Reverse(amount), task.min(other), task.max(other)))
        };
        let mut firsts: Vec<Pair> = partners.iter().enumerate().filter_map(first).collect();
        firsts.sort_unstable();
        firsts.dedup();
        Self { partners, firsts }
    }

    /// Decides what is undecided of a pair.
    fn decide(&self, pair: [usize; 2], dealer: &mut Dealer<'_>) {
        let said = |task| self.said(task);
        dealer.pair(pair, said, |places, [one, other]| {
            let [low, high] = [one.min(other), one.max(other)];
            let [at_low, at_high] = [low, high].map(|node| self.beside(pair, places, node));
            if at_high > at_low { high } else { low }
        });
    }

    /// What a task says in all.
    fn said(&self, task: usize) -> u64 {
        let amounts = self.partners[task].iter().map(|&(_, amount)| amount);
        amounts.fold(0, u64::saturating_add)
    }

    /// What a pair says to the other tasks on a node.
    fn beside(&self, pair: [usize; 2], places: &[Option<usize>], node: usize) -> u64 {
        let both = pair.map(|task| &self.partners[task]);
        let others = both
            .into_iter()
            .flatten()
            .filter(|&&(task, _)| places[task] == Some(node) && !pair.contains(&task));
        others.fold(0, |sum, &(_, amount)| sum.saturating_add(amount))
    }
}

#[cfg(test)]
mod tests;
