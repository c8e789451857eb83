//! Pairs dealt out to nodes in rounds: `DeLocMap` and RCLB, who differ in what weighs how much.
//! `deloc_map` does the same for tasks that are somewhere already.
//!
//! Groups come in their order, within each the pairs in theirs, and there is a current node, in the
//! beginning the first (nodes are visited in the order of the topology's tree):
//!
//! - a pair with neither task mapped goes to the current node if it has two free cores, else to the next
//!   one, round and round, that has; else it is split over the two next nodes with room, the one who says
//!   more first; then the node behind becomes the current one;
//! - of a pair with one task mapped the other goes to its partner's node if there is room, else to the
//!   next node with room, and the current node advances only then;
//! - a pair with both mapped is skipped.
//!
//! A node where a task may not run has no room for it. Tasks in no pair go, in their order, to the node with the fewest.

use numad_core::Task;

use crate::history::Group;
use crate::seats::{Seats, may_run};

/// Places the tasks of these pairs; none for one that no node takes, and for those in no pair.
pub(crate) fn deal(tasks: &[Task], seats: Seats, groups: &[Group]) -> Vec<Option<usize>> {
    let mut said = vec![0.0; tasks.len()];
    for pair in groups.iter().flatten() {
        said[pair.low] += pair.amount;
        said[pair.high] += pair.amount;
    }
    let mut dealer = Dealer::new(tasks, seats, vec![None; tasks.len()]);
    for pair in groups.iter().flatten() {
        dealer.pair([pair.low, pair.high], |task| said[task], |_, [one, _]| one);
    }
    dealer.places
}

/// Gives each task without a node, in order, the node with the fewest tasks that has a core left and takes it.
pub(crate) fn fill(
    nodes: &mut [Option<usize>],
    cores: &[usize],
    takes: impl Fn(usize, usize) -> bool,
) {
    let mut held = vec![0; cores.len()];
    for &node in nodes.iter().flatten() {
        held[node] += 1;
    }
    for (task, node) in nodes
        .iter_mut()
        .enumerate()
        .filter(|(_, node)| node.is_none())
    {
        let open = (0..cores.len()).filter(|&node| held[node] < cores[node] && takes(task, node));
        *node = open.min_by_key(|&node| held[node]);
        if let Some(node) = *node {
            held[node] += 1;
        }
    }
}

/// A placement in the making, pair by pair.
pub(crate) struct Dealer<'a> {
    tasks: &'a [Task],
    seats: Seats,
    /// Where each task is to be, and until that is decided, where it is.
    pub(crate) places: Vec<Option<usize>>,
    /// Whether a task's turn has come, with or without a place for it.
    decided: Vec<bool>,
    /// Tasks and their nodes, in the order of decision.
    pub(crate) decisions: Vec<(usize, usize)>,
    /// Where the search for the next node begins.
    current: usize,
}

impl<'a> Dealer<'a> {
    pub(crate) fn new(tasks: &'a [Task], seats: Seats, places: Vec<Option<usize>>) -> Self {
        Self {
            tasks,
            seats,
            decided: vec![false; places.len()],
            decisions: Vec::with_capacity(places.len()),
            places,
            current: 0,
        }
    }

    /// Decides what is undecided of a pair. Of two that must part, the one that `said` more comes
    /// first; where both their nodes take both, `nearer` of the places and the two nodes is theirs.
    pub(crate) fn pair<Said: PartialOrd>(
        &mut self,
        pair: [usize; 2],
        said: impl Fn(usize) -> Said,
        nearer: impl Fn(&[Option<usize>], [usize; 2]) -> usize,
    ) {
        let [low, high] = pair;
        match (self.decided[low], self.decided[high]) {
            (false, false) => {
                let node = self.common_node(pair, nearer);
                if node.is_some() {
                    pair.into_iter().for_each(|task| self.put(task, node));
                } else {
                    let louder = said(high) > said(low);
                    let [first, second] = if louder { [high, low] } else { pair };
                    self.put_single(first, None);
                    self.put_single(second, None);
                }
            }
            (true, false) => self.put_single(high, self.places[low]),
            (false, true) => self.put_single(low, self.places[high]),
            (true, true) => {}
        }
    }

    /// The node that takes both tasks of a pair: one of theirs, or the next.
    fn common_node(
        &mut self,
        pair: [usize; 2],
        nearer: impl Fn(&[Option<usize>], [usize; 2]) -> usize,
    ) -> Option<usize> {
        let takes_both = |dealer: &Self, node| {
            let may_run = |task: usize| may_run(&dealer.tasks[task], node);
            dealer.seats.has(node, 2) && pair.into_iter().all(may_run)
        };
        match pair.map(|task| self.places[task].filter(|&node| takes_both(self, node))) {
            [Some(one), Some(other)] => Some(nearer(&self.places, [one, other])),
            [None, None] => self.next_node(takes_both),
            [one, other] => one.or(other),
        }
    }

    /// Puts a task on the wished node, else leaves it on its own, else gives it the next with a
    /// place.
    fn put_single(&mut self, task: usize, wish: Option<usize>) {
        let takes = |dealer: &Self, node| dealer.seats.takes(node, &dealer.tasks[task]);
        let mut near = [wish, self.places[task]].into_iter().flatten();
        let near = near.find(|&node| takes(self, node));
        let node = near.or_else(|| self.next_node(takes));
        self.put(task, node);
    }

    /// The next node that is fit, behind which the next search begins.
    fn next_node(&mut self, fit: impl Fn(&Self, usize) -> bool) -> Option<usize> {
        let mut round = self.seats.round_from(self.current);
        let node = round.find(|&node| fit(self, node))?;
        self.current = (node + 1) % self.seats.nodes();
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
mod tests {
    use testkit::Scene;

    use super::*;
    use crate::history::Spoken;

    #[track_caller]
    fn check(scene: &Scene, pairs: &[(usize, usize)], expected: &[Option<usize>]) {
        let pairs: Vec<Spoken> = pairs
            .iter()
            .map(|&(low, high)| Spoken {
                low,
                high,
                amount: 1.0,
                windows: 1.0,
            })
            .collect();
        let program = scene.as_program();
        assert_eq!(
            deal(program.tasks, Seats::new(&program), &[pairs]),
            expected
        );
    }

    #[test]
    fn golden_four_pairs_on_two_nodes_of_four_cores() {
        let scene = Scene::new("2x4").with_tasks(&[None; 8]);
        let nodes = [0, 0, 1, 1, 0, 0, 1, 1].map(Some);
        check(&scene, &[(0, 1), (2, 3), (4, 5), (6, 7)], &nodes);
    }

    #[test]
    fn a_third_goes_to_its_partner_while_there_is_room() {
        let scene = Scene::new("2x3").with_tasks(&[None; 6]);
        // 2 and 3 follow 0; then node 0 is full, and 3 goes to the node that is current.
        check(
            &scene,
            &[(0, 1), (0, 2), (1, 3)],
            &[Some(0), Some(0), Some(0), Some(1), None, None],
        );
    }

    #[test]
    fn without_two_cores_anywhere_a_pair_is_split() {
        let scene = Scene::new("3x1").with_tasks(&[None; 3]);
        // 1 says more than 0.
        check(&scene, &[(0, 1), (1, 2)], &[Some(1), Some(0), Some(2)]);
        let narrow = Scene::new("2x2").with_tasks(&[None; 3]).with_ban(0, 0);
        check(&narrow, &[(0, 1), (1, 2)], &[Some(1), Some(1), Some(0)]);
    }

    #[test]
    fn who_finds_no_place_is_left_out() {
        let scene = Scene::new("2x2")
            .with_tasks(&[None; 4])
            .with_capacity(&[1, 1]);
        check(&scene, &[(0, 1), (2, 3)], &[Some(0), Some(1), None, None]);
    }

    #[test]
    fn who_says_nothing_goes_where_the_fewest_are() {
        let mut nodes = vec![None; 6];
        fill(&mut nodes, &[4, 2], |_, _| true);
        assert_eq!(nodes, [0, 1, 0, 1, 0, 0].map(Some));
        let mut nodes = vec![None, Some(1), None];
        fill(&mut nodes, &[1, 2], |task, node| task != 0 || node == 1);
        assert_eq!(nodes, [1, 1, 0].map(Some));
    }
}
