//! Pages that all use alike, and the node they are on: where memory is not busy, or nothing is known of that.
//!
//! Such a page is as near wherever it is, so distance has nothing to say of it. What a program asks of each
//! controller has: the more even, the later any of them becomes a bottleneck. How busy they are only counters
//! or a measured machine can tell ([`crate::pressure`]), and then these decide. Without, a page may leave
//! a node that has more than its part for one that has less, as long as all that go get no farther from those who
//! use them.

use std::collections::BTreeSet;

use crate::policy::{Page, Program};

/// A node with so many times its part has too much.
const TOO_MUCH: f64 = 1.15;

/// How much longer, all together, the ways to pages that go may become. Who uses a page is known from a few
/// samples, and of a page that all use alike these favour one node by chance.
const FARTHER: f64 = 0.1;

/// Which of these moves even out what the program asks of nodes, by slot. Moves are slots with the node that the
/// page would go to, by position, in the order in which they are granted; `allowed` are nodes that may take pages.
pub(crate) fn evened(
    program: &Program<'_>,
    moves: &[(u32, usize)],
    allowed: &[bool],
) -> BTreeSet<u32> {
    let mut load = vec![0.0; program.topology.nodes().len()];
    for page in program.pages {
        if let Some(load) = page.home.and_then(|home| load.get_mut(usize::from(home))) {
            *load += page.weight() as f64;
        }
    }
    let takers = allowed.iter().filter(|&&allowed| allowed).count();
    let part = load.iter().sum::<f64>() / takers.max(1) as f64;
    let (mut before, mut after) = (0.0, 0.0);
    let mut granted = BTreeSet::new();
    for &(slot, node) in moves {
        let found = program.pages.binary_search_by_key(&slot, |page| page.slot);
        let Some((page, home)) = found.ok().and_then(|at| {
            let page = &program.pages[at];
            Some((page, usize::from(page.home?)))
        }) else {
            continue;
        };
        let asked = page.weight() as f64;
        let too_much = load
            .get(home)
            .is_some_and(|&load| load > TOO_MUCH * part && load - asked >= part);
        let fits = load.get(node).is_some_and(|&load| load + asked <= part);
        if !too_much || !fits || !allowed.get(node).is_some_and(|&allowed| allowed) {
            continue;
        }
        load[home] -= asked;
        load[node] += asked;
        before += way(program, page, home);
        after += way(program, page, node);
        granted.insert(slot);
    }
    if after > before * (1.0 + FARTHER) {
        return BTreeSet::new();
    }
    granted
}

/// Distance of all uses of a page, if it is there.
fn way(program: &Program<'_>, page: &Page, there: usize) -> f64 {
    let distances = program.topology.distances();
    let users = page.accessors().iter().filter_map(|user| {
        let from = program.tasks.get(user.task as usize)?.node?;
        Some(f64::from(user.weight) * f64::from(distances.between(from, there)))
    });
    users.sum()
}
