//! The thread phase: parts of threads that use the same pages, and a node for each part.
//!
//! A recursive Kernighan-Lin cuts the graph of similarities into N parts of the nodes' sizes, the cut
//! as small as it can. Parts are given to nodes greedily: each, in order, to the free node that
//! already runs most of its threads (ties: lowest id). Where nodes differ in size a part goes only to
//! one that is large enough and leaves large enough ones for those behind it.
//!
//! # Standing still
//!
//! Two cuts of the same size may have nothing in common, and samples never come out the same twice.
//! So the plan from scratch has a rival: what is, improved by single moves and swaps. The cheaper wins,
//! where cost is what is cut plus `gain_min` of a thread's mean similarity for each thread that moves;
//! and a winner is tried against itself until nothing changes, so that the next window, seeing the
//! same, moves nobody.
//!
//! Threads that use no page that was seen, and threads that are kept from some of the nodes, stay where
//! they are and have their places.
//!
//! Nothing goes by how threads are listed: see [`super::order`].

use numad_core::{Program, Proposal, Reason};

use super::order;
use super::similarity::Similarity;
use crate::figures::{percent, rounded};
use crate::kernel::{self, Edges, Effort, Problem, Workspace};
use crate::proposals::place_task;
use crate::seats::{Seats, may_run_everywhere};

/// Similarity 1 in the graph: leaves room for 32,767 equal partners below the limit of a row.
const ONE: f64 = 65_536.0;

/// Rounds in which a winner is tried against itself; two are enough but for chance.
const ROUNDS_MAX: usize = 4;

/// The thread phase and its memory.
#[derive(Debug)]
pub(super) struct Threads {
    c1: f64,
    gain_min: f64,
    edges: Edges,
    workspace: Workspace,
}

/// Tasks that take part in the cut.
struct Cut {
    /// Their positions in the program, in an order that goes by content.
    tasks: Vec<usize>,
    /// What each node takes of them.
    capacity: Vec<u32>,
    /// No node is nearer than another: the cut alone counts.
    distance: Vec<u32>,
    /// Where each is now, `NOWHERE` if that is no node of ours.
    now: Vec<u16>,
}

const NOWHERE: u16 = u16::MAX;

impl Threads {
    pub(super) fn new(c1: f64, gain_min: f64) -> Self {
        Self {
            c1,
            gain_min,
            edges: Edges::default(),
            workspace: Workspace::default(),
        }
    }

    /// Appends placements, and says where each task will be if they are made.
    pub(super) fn propose(
        &mut self,
        program: &Program<'_>,
        out: &mut Vec<Proposal>,
    ) -> Vec<Option<usize>> {
        let mut nodes = program.nodes();
        let similarity = Similarity::of(program.tasks.len(), program.pages);
        let Some(cut) = Cut::of(program, &similarity) else {
            return nodes;
        };
        let Some(plan) = self.plan(&cut, &similarity) else {
            return nodes;
        };
        for (&task, &node) in cut.tasks.iter().zip(&plan) {
            nodes[task] = Some(usize::from(node));
        }
        let closest = closest(&similarity, &nodes);
        for (&task, &node) in cut.tasks.iter().zip(&plan) {
            let reason = match closest[task] {
                Some((with, cosine)) => Reason::Similar {
                    with: program.tasks[with].key,
                    percent: percent(cosine),
                },
                None => Reason::Stay,
            };
            out.push(place_task(task, usize::from(node), reason));
        }
        nodes
    }

    /// The node of each task of a cut; none when they cannot be placed.
    fn plan(&mut self, cut: &Cut, similarity: &Similarity) -> Option<Vec<u16>> {
        let mut best = cut.now.clone();
        let mut parts = Vec::new();
        for round in 0..ROUNDS_MAX {
            let total = self.fill(cut, similarity, &best);
            let price = price(self.gain_min, total, cut.tasks.len());
            let problem = Problem::new(&self.edges, &cut.distance, &cut.capacity).ok()?;
            let warm = problem.warm(&best, price).ok()?;
            if round == 0 || self.c1 > 1.0 {
                let found = kernel::kl(&problem, Effort::ONLINE, &mut self.workspace);
                parts = found.node_of.to_vec();
            }
            let dealt = deal(&parts, &best, &cut.capacity);
            let again = problem.warm(&dealt, price).ok()?;
            let fresh = kernel::refine(&again, Effort::ONLINE, &mut self.workspace);
            let fresh = fresh.node_of.to_vec();
            let kept = kernel::refine(&warm, Effort::ONLINE, &mut self.workspace);
            let kept = kept.node_of.to_vec();
            let bill = |nodes: &[u16]| {
                let moved = nodes.iter().zip(&best).filter(|(one, other)| one != other);
                let moved = moved.count() as u64;
                kernel::cost(&problem, nodes).saturating_add(price.saturating_mul(moved))
            };
            let winner = if bill(&fresh) < bill(&kept) {
                fresh
            } else {
                kept
            };
            let settled = winner == best;
            best = winner;
            if settled && round > 0 {
                break;
            }
        }
        Some(best)
    }

    /// Makes the graph; gives the sum of all similarities. Tasks on one node are C1 times as similar.
    fn fill(&mut self, cut: &Cut, similarity: &Similarity, now: &[u16]) -> u64 {
        let pairs = links(&cut.tasks, similarity, |(one, other)| {
            let (here, there) = (now[one as usize], now[other as usize]);
            let near = here == there && here != NOWHERE;
            if near { self.c1 } else { 1.0 }
        });
        self.edges.refill(cut.tasks.len(), &pairs);
        pairs.iter().map(|&(_, _, amount)| amount).sum()
    }
}

/// Similarities of some tasks, each times a factor, by place in the list of them.
fn links(
    tasks: &[usize],
    similarity: &Similarity,
    factor: impl Fn((u32, u32)) -> f64,
) -> Vec<(u32, u32, u64)> {
    let mut place = vec![None; similarity.seen.len()];
    for (position, &task) in (0_u32..).zip(tasks) {
        place[task] = Some(position);
    }
    let pairs = similarity.pairs.iter().filter_map(|&(one, other, cosine)| {
        let (one, other) = (place[one as usize]?, place[other as usize]?);
        let amount = rounded(cosine * factor((one, other)) * ONE);
        Some((one, other, amount))
    });
    pairs.collect()
}

impl Cut {
    fn of(program: &Program<'_>, similarity: &Similarity) -> Option<Self> {
        let is_free = |&task: &usize| {
            similarity.seen[task] && may_run_everywhere(program, &program.tasks[task])
        };
        let (tasks, staying): (Vec<usize>, Vec<usize>) =
            (0..program.tasks.len()).partition(is_free);
        let seats = Seats::without(program, staying.into_iter());
        let nodes = seats.nodes();
        let capacity = seats.capacity();
        let room: u64 = capacity.iter().map(|&places| u64::from(places)).sum();
        if tasks.is_empty() || room < tasks.len() as u64 {
            return None;
        }
        let tasks = order::by_content(program, &tasks, &links(&tasks, similarity, |_| 1.0));
        let now = tasks.iter().map(|&task| {
            let node = program.tasks[task].node;
            node.and_then(|node| u16::try_from(node).ok())
                .unwrap_or(NOWHERE)
        });
        Some(Self {
            now: now.collect(),
            distance: (0..nodes * nodes)
                .map(|pair| u32::from(pair / nodes != pair % nodes))
                .collect(),
            tasks,
            capacity,
        })
    }
}

/// Gives each part to the free node that already runs most of it. The order of parts is the kernel's, which
/// follows from what the tasks do.
fn deal(parts: &[u16], now: &[u16], capacity: &[u32]) -> Vec<u16> {
    let nodes = capacity.len();
    let mut sizes = vec![0_u32; nodes];
    let mut runs = vec![0_u32; nodes * nodes];
    for (&part, &node) in parts.iter().zip(now) {
        sizes[usize::from(part)] += 1;
        if usize::from(node) < nodes {
            runs[usize::from(part) * nodes + usize::from(node)] += 1;
        }
    }
    let mut free: Vec<usize> = (0..nodes).collect();
    let mut waiting: Vec<usize> = (0..nodes).filter(|&part| sizes[part] > 0).collect();
    let mut node_of = vec![NOWHERE; nodes];
    while !waiting.is_empty() {
        let part = waiting.remove(0);
        let rest = |node: usize| free.iter().copied().filter(move |&other| other != node);
        let fits = |node: &usize| {
            capacity[*node] >= sizes[part]
                && is_enough(
                    waiting.iter().map(|&part| sizes[part]),
                    rest(*node).map(|node| capacity[node]),
                )
        };
        let key = |&node: &usize| (runs[part * nodes + node], std::cmp::Reverse(node));
        let Some(node) = free.iter().copied().filter(fits).max_by_key(key) else {
            // Each part was cut to the size of a node, so there is always one.
            return parts.to_vec();
        };
        free.retain(|&other| other != node);
        node_of[part] = u16::try_from(node).unwrap_or(NOWHERE);
    }
    parts
        .iter()
        .map(|&part| node_of[usize::from(part)])
        .collect()
}

/// Whether parts of these sizes find a node each.
fn is_enough(sizes: impl Iterator<Item = u32>, rooms: impl Iterator<Item = u32>) -> bool {
    let descending = |mut list: Vec<u32>| {
        list.sort_unstable_by_key(|&count| std::cmp::Reverse(count));
        list
    };
    let (sizes, rooms) = (descending(sizes.collect()), descending(rooms.collect()));
    sizes.len() <= rooms.len() && sizes.iter().zip(&rooms).all(|(size, room)| size <= room)
}

/// What moving a thread is worth: a share of what a thread shares on average, and where threads share next
/// to nothing, of what it would share with one that is wholly alike: there chance alone speaks.
fn price(share: f64, total: u64, tasks: usize) -> u64 {
    let mean = 2.0 * total as f64 / tasks.max(1) as f64;
    rounded(share * mean.max(ONE))
}

/// For each task, the one on the same node that it is most similar to.
fn closest(similarity: &Similarity, nodes: &[Option<usize>]) -> Vec<Option<(usize, f64)>> {
    let mut closest: Vec<Option<(usize, f64)>> = vec![None; nodes.len()];
    for &(one, other, cosine) in &similarity.pairs {
        let (one, other) = (one as usize, other as usize);
        if nodes[one].is_none() || nodes[one] != nodes[other] {
            continue;
        }
        for (task, with) in [(one, other), (other, one)] {
            if closest[task].is_none_or(|(_, best)| cosine > best) {
                closest[task] = Some((with, cosine));
            }
        }
    }
    closest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_goes_where_most_of_it_runs() {
        // Part 0 runs on node 1 mostly, part 1 on node 1 too, which is taken; ties go to the lowest.
        let now = [1, 1, 0, 1, 1, 2];
        assert_eq!(
            deal(&[0, 0, 0, 1, 1, 1], &now, &[3, 3, 3]),
            [1, 1, 1, 2, 2, 2]
        );
        assert_eq!(
            deal(&[0, 1, 2], &[NOWHERE; 3], &[1, 1, 1]),
            [0, 1, 2],
            "nobody runs anywhere"
        );
    }

    #[test]
    fn a_part_that_fits_one_node_alone_keeps_it() {
        // Part 0 is small and would like node 1, the only one that takes part 1.
        assert_eq!(deal(&[0, 1, 1, 1], &[1, 1, 1, 1], &[1, 3]), [0, 1, 1, 1]);
        // An empty part takes no node from anyone.
        assert_eq!(deal(&[1, 1], &[0, 0], &[2, 2]), [0, 0]);
    }
}
