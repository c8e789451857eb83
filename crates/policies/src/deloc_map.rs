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

use numad_core::{Program, Task};

use crate::seats::{Seats, may_run};

/// The node of every task that talks, in the order of decision, given where they are. Tasks without a place are left out.
pub(crate) fn map(
    program: &Program<'_>,
    places: Vec<Option<usize>>,
    talk: &Talk<'_>,
) -> Vec<(usize, usize)> {
    let tasks = talk.partners.len();
    let silent = (0..tasks).filter(|&task| talk.partners[task].is_empty());
    let mut mapper = Mapper {
        tasks: program.tasks,
        talk,
        seats: Seats::without(program, silent),
        round_robin: 0,
        places,
        decided: vec![false; tasks],
        decisions: Vec::with_capacity(tasks),
    };
    for pair in &talk.firsts {
        mapper.gather(pair);
    }
    mapper.decisions
}

/// Two tasks that talk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    low: usize,
    high: usize,
    amount: u64,
}

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
            first.map(|&(other, amount)| Pair {
                low: task.min(other),
                high: task.max(other),
                amount,
            })
        };
        let mut firsts: Vec<Pair> = partners.iter().enumerate().filter_map(first).collect();
        firsts.sort_unstable_by_key(|pair| (Reverse(pair.amount), pair.low, pair.high));
        firsts.dedup();
        Self { partners, firsts }
    }

    /// Two tasks, the one that says more in all first; the lower of equals.
    fn louder_first(&self, pair: &Pair) -> [usize; 2] {
        let said = |task: usize| {
            let amounts = self.partners[task].iter().map(|&(_, amount)| amount);
            amounts.fold(0, u64::saturating_add)
        };
        match said(pair.high) > said(pair.low) {
            true => [pair.high, pair.low],
            false => [pair.low, pair.high],
        }
    }
}

/// A placement in the making.
struct Mapper<'a> {
    tasks: &'a [Task],
    talk: &'a Talk<'a>,
    seats: Seats,
    /// Where the search for the next node begins.
    round_robin: usize,
    /// Where each task is to be, and until that is decided, where it is.
    places: Vec<Option<usize>>,
    decided: Vec<bool>,
    /// Tasks and their nodes.
    decisions: Vec<(usize, usize)>,
}

impl Mapper<'_> {
    fn gather(&mut self, pair: &Pair) {
        match (self.decided[pair.low], self.decided[pair.high]) {
            (false, false) => match self.common_node(pair) {
                Some(node) => {
                    self.put(pair.low, Some(node));
                    self.put(pair.high, Some(node));
                }
                None => {
                    let [first, second] = self.talk.louder_first(pair);
                    self.put_single(first, None);
                    self.put_single(second, None);
                }
            },
            (true, false) => self.put_single(pair.high, self.places[pair.low]),
            (false, true) => self.put_single(pair.low, self.places[pair.high]),
            (true, true) => {}
        }
    }

    fn takes(&self, task: usize, node: usize) -> bool {
        self.seats.takes(node, &self.tasks[task])
    }

    /// The node that takes both tasks of a pair.
    fn common_node(&mut self, pair: &Pair) -> Option<usize> {
        let [one, other] = [pair.low, pair.high]
            .map(|task| self.places[task].filter(|&node| self.takes_both(pair, node)));
        match (one, other) {
            (Some(one), Some(other)) => {
                let (low, high) = (one.min(other), one.max(other));
                let [at_low, at_high] = [low, high].map(|node| self.talk_with(pair, node));
                Some(if at_high > at_low { high } else { low })
            }
            (Some(node), None) | (None, Some(node)) => Some(node),
            (None, None) => self.next_node(|mapper, node| mapper.takes_both(pair, node)),
        }
    }

    fn takes_both(&self, pair: &Pair, node: usize) -> bool {
        self.seats.has(node, 2)
            && may_run(&self.tasks[pair.low], node)
            && may_run(&self.tasks[pair.high], node)
    }

    /// What a pair says to the other tasks on a node.
    fn talk_with(&self, pair: &Pair, node: usize) -> u64 {
        let both = [pair.low, pair.high].map(|task| &self.talk.partners[task]);
        let others = both.into_iter().flatten().filter(|&&(task, _)| {
            self.places[task] == Some(node) && task != pair.low && task != pair.high
        });
        others.fold(0, |sum, &(_, amount)| sum.saturating_add(amount))
    }

    /// Puts a task on the wished node, else leaves it on its own, else gives it the next with a place.
    fn put_single(&mut self, task: usize, wish: Option<usize>) {
        let near = [wish, self.places[task]].into_iter().flatten();
        let near = near.into_iter().find(|&node| self.takes(task, node));
        let node = near.or_else(|| self.next_node(|mapper, node| mapper.takes(task, node)));
        self.put(task, node);
    }

    /// The next node that is fit; round robin goes on behind it.
    fn next_node(&mut self, fit: impl Fn(&Self, usize) -> bool) -> Option<usize> {
        let mut round = self.seats.round_from(self.round_robin);
        let node = round.find(|&node| fit(self, node))?;
        self.round_robin = (node + 1) % self.seats.nodes();
        Some(node)
    }

    /// Decides a task; without a node it stays where it is.
    fn put(&mut self, task: usize, node: Option<usize>) {
        self.decided[task] = true;
        if let Some(node) = node {
            self.seats.take(node);
            self.places[task] = Some(node);
            self.decisions.push((task, node));
        }
    }
}

#[cfg(test)]
mod tests;
