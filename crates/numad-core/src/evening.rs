//! Pages that all use alike, and the node they are on: where memory is not busy, nothing is known
//! of that, or what is known asks for no other move.
//!
//! Such a page is as near wherever it is, so distance has nothing to say of it. What a program asks
//! of each controller has: the more even, the later any of them becomes a bottleneck. How busy they
//! are only counters or a measured machine can tell ([`crate::pressure`]), and these come first.
//! Else a page may leave a node that has more than its part for one that has less, as long as
//! all that go get no farther from those who use them.

use std::collections::BTreeSet;

use crate::cost::way;
use crate::policy::{Page, Program};

/// A node with so many times its part has too much; less is left as it is, for it would be as
/// uneven again by the next samples.
const TOO_MUCH: f64 = 1.15;

/// How much longer, all together, the ways to pages that go may become. Who uses a page is known
/// from a few samples, and of a page that all use alike these favour one node by chance: mostly the
/// one it is on, for they had it put there. Pages that two of four nodes use alike would get
/// farther by a third.
const FARTHER: f64 = 0.25;

/// What a program asks of the memory of each node, in weights of pages, and what would be even.
#[derive(Clone, Debug)]
pub struct Evenness {
    load: Vec<f64>,
    takers: Vec<usize>,
    part: f64,
}

impl Evenness {
    /// As pages are now. Where it is not known how often they are used, only those count that no
    /// node has for itself: a page that all use all the time faults as rarely as any other.
    ///
    /// Those that take part are nodes with memory beside processors on which some task may run:
    /// memory without is farther from all, and a matter of bandwidth.
    #[must_use]
    pub fn of(program: &Program<'_>) -> Self {
        let nodes = program.topology.nodes().iter().enumerate();
        let runs = |node: usize| {
            let mut tasks = program.tasks.iter();
            tasks.any(|task| task.allowed.get(node).is_some_and(|&allowed| allowed))
        };
        let takers = nodes
            .filter(|(_, node)| !node.cpus.is_empty() && node.memory_bytes > 0)
            .map(|(position, _)| position)
            .filter(|&position| runs(position));
        let takers: Vec<usize> = takers.collect();
        let mut load = vec![0.0; program.topology.nodes().len()];
        let tells_how_often = program.prices.tell_how_often();
        let counted = program.pages.iter();
        for page in counted.filter(|page| tells_how_often || is_no_nodes(program, page)) {
            if let Some(load) = page.node().and_then(|home| load.get_mut(home)) {
                *load += page.weight() as f64;
            }
        }
        let part = load.iter().sum::<f64>() / takers.len().max(1) as f64;
        Self { load, takers, part }
    }

    /// Nodes that take part, by position.
    #[must_use]
    pub fn takers(&self) -> &[usize] {
        &self.takers
    }

    /// How many times its part a node has.
    #[must_use]
    pub fn parts(&self, node: usize) -> f64 {
        match self.load.get(node) {
            Some(&load) if self.part > 0.0 => load / self.part,
            _ => 0.0,
        }
    }

    /// Whether a page of so much weight may go to another node: if the one it is on has too much and
    /// the other has no more than that then. What stands for many pages can be more than a part, and
    /// is better on an empty node than on one with others of the kind. One that is not used evens
    /// nothing.
    #[must_use]
    pub fn evens(&self, weight: f64, (from, to): (usize, usize)) -> bool {
        weight > 0.0
            && self.takers.contains(&to)
            && self.parts(from) > TOO_MUCH
            && self.load[to] + weight <= self.load[from] - weight
    }

    /// Has it go if it may; says whether.
    pub fn moves(&mut self, weight: f64, (from, to): (usize, usize)) -> bool {
        let evens = self.evens(weight, (from, to));
        if evens {
            self.load[from] -= weight;
            self.load[to] += weight;
        }
        evens
    }
}

/// Whether no node has more than half of the uses of a page.
fn is_no_nodes(program: &Program<'_>, page: &Page) -> bool {
    let (mut all, mut most) = (0.0, 0.0_f64);
    for (node, uses) in program.uses(page) {
        let there = program.uses(page).filter(|(other, _)| *other == node);
        most = most.max(there.map(|(_, uses)| uses).sum());
        all += uses;
    }
    most * 2.0 <= all || page.forgotten * 2 >= page.weight()
}

/// Which of these moves even out what the program asks of nodes, by slot. Moves are pages with the
/// node that each would go to, by position, in the order in which they are granted; `allowed` are
/// nodes that may take pages.
pub(crate) fn evened(
    program: &Program<'_>,
    moves: &[(&Page, usize)],
    allowed: &[bool],
) -> BTreeSet<u32> {
    let mut evenness = Evenness::of(program);
    let (mut before, mut after) = (0.0, 0.0);
    let mut granted = BTreeSet::new();
    for &(page, node) in moves {
        let Some(home) = page.node() else {
            continue;
        };
        let may = allowed.get(node).is_some_and(|&allowed| allowed);
        if may && evenness.moves(page.weight() as f64, (home, node)) {
            before += way(program, page, home);
            after += way(program, page, node);
            granted.insert(page.slot);
        }
    }
    if after > before * (1.0 + FARTHER) {
        return BTreeSet::new();
    }
    granted
}
