//! Recursive Kernighan-Lin: each half is cut again, in proportion to what the nodes take.

use super::graph::{Csr, Steps, id};
use super::machine::{Halving, Machine};
use super::problem::{Effort, Problem};
use super::search::Workspace;

/// Passes over one cut; each ends where no swap is left, and most cuts settle in three.
const PASSES_MAX: usize = 8;
/// Candidates of each side that are compared with each other for the next swap.
const CANDIDATES: usize = 4;

/// Recursive Kernighan-Lin bisection along the halvings of the machine, then refined.
///
/// A part is split in proportion to the capacities of the two halves, so the number of nodes need not
/// be a power of two. Each pass swaps pairs, the best of a few candidates first, and is undone to its
/// best point. Allocates; meant for plans, not for every interval.
pub fn kl<'w>(problem: &Problem<'_>, effort: Effort, workspace: &'w mut Workspace) -> &'w [u16] {
    workspace.with_start(problem, effort, |machine, steps, start| {
        let rows = problem.edges.rows();
        let mut tasks: Vec<u32> = (0..rows.tasks()).map(id).collect();
        let mut cut = Cut {
            rows,
            side: vec![None; rows.tasks()],
            pull: vec![0; rows.tasks()],
        };
        let mut parts = std::collections::VecDeque::from([(0, rows.tasks())]);
        for &halving in &machine.halvings {
            let Some((first, last)) = parts.pop_front() else {
                break;
            };
            let middle = first + share(machine, halving, last - first);
            cut.split(&mut tasks[first..last], middle - first, steps);
            if halving.middle - halving.from > 1 {
                parts.push_back((first, middle));
            } else {
                assign(start, &tasks[first..middle], halving.from);
            }
            if halving.to - halving.middle > 1 {
                parts.push_back((middle, last));
            } else {
                assign(start, &tasks[middle..last], halving.middle);
            }
        }
    })
}

fn assign(start: &mut [u16], tasks: &[u32], node: usize) {
    for &task in tasks {
        start[task as usize] = u16::try_from(node).unwrap_or(u16::MAX);
    }
}

/// How many of `tasks` go to the first half: in proportion, within the capacities.
fn share(machine: &Machine, halving: Halving, tasks: usize) -> usize {
    let zero = machine.room(halving.from..halving.middle);
    let one = machine.room(halving.middle..halving.to);
    let wish = (tasks * zero + (zero + one) / 2) / (zero + one).max(1);
    wish.clamp(tasks.saturating_sub(one), zero.min(tasks))
}

struct Cut<'a> {
    rows: Csr<'a>,
    /// The side of each task of the part; none for all others.
    side: Vec<Option<bool>>,
    /// What a task says across the cut less what it says on its own side.
    pull: Vec<i64>,
}

impl Cut<'_> {
    /// Reorders `part` so that its first `count` tasks are one side of a small cut.
    fn split(&mut self, part: &mut [u32], count: usize, steps: &mut Steps) {
        for (place, &task) in part.iter().enumerate() {
            self.side[task as usize] = Some(place >= count);
        }
        if count > 0 && count < part.len() {
            for _ in 0..PASSES_MAX {
                if steps.is_out() || !self.pass(part, steps) {
                    break;
                }
            }
        }
        part.sort_by_key(|&task| (self.side[task as usize], task));
        for &task in part.iter() {
            self.side[task as usize] = None;
        }
    }

    /// One pass. True when it lowered the cut.
    fn pass(&mut self, part: &[u32], steps: &mut Steps) -> bool {
        for &task in part {
            let task = task as usize;
            let own = self.side[task];
            let pull = |(other, weight): (usize, i32)| match self.side[other] {
                None => 0,
                side if side == own => -i64::from(weight),
                Some(_) => i64::from(weight),
            };
            self.pull[task] = self.rows.row(task).map(pull).sum();
        }
        let mut open: [Vec<u32>; 2] = [Vec::new(), Vec::new()];
        for &task in part {
            open[usize::from(self.side[task as usize] == Some(true))].push(task);
        }
        let mut swaps = Vec::new();
        let (mut sum, mut best, mut best_length) = (0, 0, 0);
        while let Some((gain, one, other)) = self.best_pair(&mut open) {
            for task in [one, other] {
                open.iter_mut()
                    .for_each(|side| side.retain(|&there| there != task));
                self.flip(task as usize);
            }
            let _ = steps.spend(part.len());
            swaps.push((one, other));
            sum += gain;
            if sum > best {
                (best, best_length) = (sum, swaps.len());
            }
            if steps.is_out() {
                break;
            }
        }
        for &(one, other) in &swaps[best_length..] {
            self.flip(one as usize);
            self.flip(other as usize);
        }
        best > 0
    }

    /// The pair whose swap saves most, among the best few of each side.
    fn best_pair(&self, open: &mut [Vec<u32>; 2]) -> Option<(i64, u32, u32)> {
        for side in open.iter_mut() {
            let key = |&task: &u32| (std::cmp::Reverse(self.pull[task as usize]), task);
            if side.len() > CANDIDATES {
                side.select_nth_unstable_by_key(CANDIDATES, key);
            }
        }
        let few = |side: &Vec<u32>| side[..side.len().min(CANDIDATES)].to_vec();
        let (ones, others) = (few(&open[0]), few(&open[1]));
        let pairs = ones
            .iter()
            .flat_map(|&one| others.iter().map(move |&other| (one, other)));
        let rated = pairs.map(|(one, other)| {
            let between = i64::from(self.rows.between(one as usize, other as usize));
            (
                self.pull[one as usize] + self.pull[other as usize] - 2 * between,
                one,
                other,
            )
        });
        rated.max_by_key(|&(gain, one, other)| (gain, std::cmp::Reverse((one, other))))
    }

    fn flip(&mut self, task: usize) {
        let from = self.side[task];
        self.side[task] = from.map(|side| !side);
        self.pull[task] = -self.pull[task];
        for (other, weight) in self.rows.row(task) {
            let weight = 2 * i64::from(weight);
            match self.side[other] {
                None => {}
                side if side == from => self.pull[other] += weight,
                Some(_) => self.pull[other] -= weight,
            }
        }
    }
}
