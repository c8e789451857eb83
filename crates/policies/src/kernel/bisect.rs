//! One cut of a graph in two, multilevel: coarsen, cut what is left, refine on the way back.

use super::fm::{Cut, Effort, Fm, Room, Score};
use super::graph::{Dice, Level, Steps, id, replace, reset};

/// A round of coarsening that keeps more than this share of the vertices (percent) ends it.
const SHRINK_MAX_PERCENT: usize = 92;
/// Cuts grown of the coarsest graph; the best is kept.
const TRIES: usize = 2;
/// Vertices up to which one is grown.
const TINY: usize = 8;
const NONE: u32 = u32::MAX;
/// What a vertex says, to others and outside, stays below this: twice as much still fits an `i32`, and
/// no gain is more.
const SAID_MAX: u32 = 1 << 30;
/// One, where shares of a weight are counted.
const ONE: u64 = 1 << 16;
/// `ONE` by each small size: a division for each entry is a third of all coarsening.
const INVERSE: [u64; 64] = {
    let mut table = [ONE; 64];
    let mut size = 1;
    while size < 64 {
        table[size] = ONE / size as u64;
        size += 1;
    }
    table
};

/// How hard to try.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tuning {
    /// Cuts from scratch; the best is kept.
    pub(super) starts: usize,
    /// How often the best must be found before no more are made.
    pub(super) settled: usize,
    /// Vertices at which coarsening ends.
    pub(super) coarsest: usize,
    pub(super) effort: Effort,
}

/// Memory of the cuts.
#[derive(Debug, Default)]
pub(super) struct Bisector {
    /// The graph to cut and, above it, the coarser ones.
    levels: Vec<Level>,
    fm: Fm,
    pub(super) side: Vec<u8>,
    kept: Vec<u8>,
    trial: Vec<u8>,
    scratch: Scratch,
}

#[derive(Debug, Default)]
struct Scratch {
    order: Vec<u32>,
    mate: Vec<u32>,
    heads: Vec<u32>,
    slot: Vec<u32>,
    touched: Vec<bool>,
    queue: Vec<u32>,
    side: Vec<u8>,
}

impl Bisector {
    /// The graph to cut, to be filled by the caller.
    pub(super) fn graph(&mut self) -> &mut Level {
        if self.levels.is_empty() {
            self.levels.push(Level::default());
        }
        &mut self.levels[0]
    }

    /// Cuts the graph into [`Self::side`]s 0 and 1.
    pub(super) fn run(&mut self, room: Room, tuning: Tuning, luck: &mut Luck<'_>) {
        let count = self.graph().count();
        // These change places, so each must be large enough for all that any of them holds.
        for side in [
            &mut self.side,
            &mut self.kept,
            &mut self.trial,
            &mut self.scratch.side,
        ] {
            side.clear();
            side.reserve(count);
        }
        let mut best: Option<Score> = None;
        let mut found = 0;
        for _ in 0..tuning.starts.max(1) {
            let score = self.round(room, tuning, luck);
            if best.is_none_or(|best| score < best) {
                (best, found) = (Some(score), 0);
                std::mem::swap(&mut self.side, &mut self.kept);
            }
            found += usize::from(best == Some(score));
            if found == tuning.settled || luck.steps.is_out() {
                break;
            }
        }
        std::mem::swap(&mut self.side, &mut self.kept);
    }

    /// One way down and up.
    fn round(&mut self, room: Room, tuning: Tuning, luck: &mut Luck<'_>) -> Score {
        let sizes = self.levels[0].size.iter();
        let total: u64 = sizes.map(|&size| u64::from(size)).sum();
        let most = (total * 3 / 2).div_ceil(tuning.coarsest.max(1) as u64);
        let most = u32::try_from(most.max(1)).unwrap_or(u32::MAX);
        let mut depth = 0;
        while self.levels[depth].count() > tuning.coarsest && self.coarsen(depth, most, luck) {
            depth += 1;
        }
        let mut score = self.first(depth, room, tuning, luck);
        while depth > 0 {
            depth -= 1;
            self.trial.clear();
            let coarse = &self.levels[depth].coarse;
            self.trial
                .extend(coarse.iter().map(|&vertex| self.side[vertex as usize]));
            std::mem::swap(&mut self.side, &mut self.trial);
            // Every second level is left out: what it would find the next finer one finds as well.
            if depth % 2 == 0 {
                let graph = &self.levels[depth];
                self.fm.take(graph);
                let cut = Cut {
                    graph,
                    side: &mut self.side,
                    seed: None,
                    room,
                    exact: depth == 0,
                };
                score = self.fm.run(cut, tuning.effort, luck.steps);
            }
        }
        score
    }

    /// The first cut of the coarsest graph: the best of a few that are grown.
    fn first(&mut self, depth: usize, room: Room, tuning: Tuning, luck: &mut Luck<'_>) -> Score {
        let graph = &self.levels[depth];
        self.fm.take(graph);
        let mut best: Option<Score> = None;
        // The first is as good as any where there is so little to choose.
        let tries = if self.levels[0].count() <= TINY {
            1
        } else {
            TRIES
        };
        for attempt in 0..tries {
            let mut vertex = luck.dice.below(graph.count());
            if attempt % 2 == 1 {
                vertex = farthest(graph, vertex, &mut self.scratch);
            }
            reset(&mut self.scratch.side, graph.count(), 1);
            let cut = Cut {
                graph,
                side: &mut self.scratch.side,
                seed: Some(vertex),
                room,
                exact: depth == 0,
            };
            let score = self.fm.run(cut, tuning.effort, luck.steps);
            if best.is_none_or(|best| score < best) {
                best = Some(score);
                std::mem::swap(&mut self.side, &mut self.scratch.side);
            }
        }
        best.unwrap_or(Score { miss: 0, cost: 0 })
    }

    /// Merges vertices that talk much into the next coarser graph. False when few would merge.
    fn coarsen(&mut self, depth: usize, most: u32, luck: &mut Luck<'_>) -> bool {
        if self.levels.len() < depth + 2 {
            self.levels.push(Level::default());
        }
        let (fine, coarse) = self.levels.split_at_mut(depth + 1);
        let (fine, coarse) = (&mut fine[depth], &mut coarse[0]);
        let count = pair_up(fine, most, luck.dice, &mut self.scratch);
        if count * 100 > fine.count() * SHRINK_MAX_PERCENT {
            return false;
        }
        merge(fine, coarse, count, &mut self.scratch);
        let _ = luck.steps.spend(fine.count());
        true
    }
}

/// Chance and patience, which run through everything.
#[derive(Debug)]
pub(super) struct Luck<'a> {
    pub(super) dice: &'a mut Dice,
    pub(super) steps: &'a mut Steps,
}

/// Names for each vertex its coarse vertex, numbered by first part; how many there are.
fn pair_up(graph: &mut Level, most: u32, dice: &mut Dice, scratch: &mut Scratch) -> usize {
    let count = graph.count();
    let Scratch {
        order, mate, heads, ..
    } = scratch;
    replace(order, (0..count).map(id));
    dice.shuffle(order);
    reset(mate, count, NONE);
    for &vertex in order.iter() {
        let vertex = vertex as usize;
        if mate[vertex] != NONE {
            continue;
        }
        let (mut best, mut best_rating) = (vertex, 0);
        for (other, weight) in graph.rows().row(vertex) {
            let allowed = mate[other] == NONE && graph.size[other] + graph.size[vertex] <= most;
            if allowed {
                // Light vertices first, so that sizes stay even. That of `vertex` is the same for all.
                let size = graph.size[other];
                let share = INVERSE
                    .get(size as usize)
                    .copied()
                    .unwrap_or(ONE / u64::from(size));
                let rating = u64::from(weight.cast_unsigned()) * share;
                if rating > best_rating {
                    (best, best_rating) = (other, rating);
                }
            }
        }
        mate[vertex] = id(best);
        mate[best] = id(vertex);
    }
    reset(&mut graph.coarse, count, NONE);
    heads.clear();
    for (vertex, &mate) in mate.iter().enumerate() {
        if graph.coarse[vertex] == NONE {
            graph.coarse[vertex] = id(heads.len());
            graph.coarse[mate as usize] = id(heads.len());
            heads.push(id(vertex));
        }
    }
    heads.len()
}

/// Builds the coarse graph of `fine.coarse`, whose parts are vertices and their mates.
fn merge(fine: &Level, coarse: &mut Level, count: usize, scratch: &mut Scratch) {
    let Scratch {
        mate, heads, slot, ..
    } = scratch;
    coarse.clear();
    reset(slot, count, NONE);
    let mut most = 0;
    for (own, &first) in heads.iter().enumerate() {
        let first = first as usize;
        let second = mate[first] as usize;
        let start = coarse.partners.len();
        let parts = if first == second { 1 } else { 2 };
        let (mut size, mut bias, mut said) = (0, 0_i32, 0);
        for part in [first, second].into_iter().take(parts) {
            size += fine.size[part];
            bias += fine.bias[part];
            for (other, weight) in fine.rows().row(part) {
                let other = fine.coarse[other];
                if other as usize == own {
                    continue;
                }
                said += weight.cast_unsigned();
                let place = &mut slot[other as usize];
                if *place == NONE {
                    *place = id(coarse.partners.len());
                    coarse.partners.push(other);
                    coarse.weights.push(weight.cast_unsigned());
                } else {
                    coarse.weights[*place as usize] += weight.cast_unsigned();
                }
            }
        }
        for &other in &coarse.partners[start..] {
            slot[other as usize] = NONE;
        }
        most = most.max(said + bias.unsigned_abs());
        coarse.size.push(size);
        coarse.bias.push(bias);
        coarse.end_row();
    }
    // Two vertices below the limit make one below twice the limit: halving once is enough.
    if most >= SAID_MAX {
        coarse.weights.iter_mut().for_each(|weight| *weight /= 2);
        coarse.bias.iter_mut().for_each(|bias| *bias /= 2);
    }
}

/// The vertex that a search in breadth from `vertex` reaches last.
fn farthest(graph: &Level, vertex: usize, scratch: &mut Scratch) -> usize {
    let Scratch { touched, queue, .. } = scratch;
    reset(touched, graph.count(), false);
    touched[vertex] = true;
    queue.clear();
    queue.push(id(vertex));
    let mut seen = 0;
    while seen < queue.len() {
        for (other, _) in graph.rows().row(queue[seen] as usize) {
            if !touched[other] {
                touched[other] = true;
                queue.push(id(other));
            }
        }
        seen += 1;
    }
    queue.last().map_or(vertex, |&last| last as usize)
}
