//! Every mapping, where there are few: as many as a search would look at.

use super::graph::{Csr, Steps};
use super::machine::Machine;

/// Most mappings, capacities aside, that are all looked at.
const MAPPINGS_MAX: usize = 1 << 14;
/// So many tasks are few enough for more of them: a chain cannot lead everywhere there.
const FEW: usize = 8;
const MAPPINGS_MAX_OF_FEW: usize = 1 << 16;

/// Whether so many tasks on so many nodes are few enough.
pub(super) fn is_tiny(tasks: usize, nodes: usize) -> bool {
    let power = u32::try_from(tasks)
        .ok()
        .and_then(|tasks| nodes.checked_pow(tasks));
    let most = if tasks <= FEW {
        MAPPINGS_MAX_OF_FEW
    } else {
        MAPPINGS_MAX
    };
    power.is_some_and(|mappings| mappings <= most)
}

/// Replaces a mapping by the best of all, the first of equals in the order of nodes; by the best so far
/// when the steps are used up. `free` and `now` are memory.
pub(super) fn solve(
    (rows, machine): (Csr<'_>, &Machine),
    node_of: &mut [u16],
    (free, now): (&mut Vec<u32>, &mut Vec<u16>),
    steps: &mut Steps,
) {
    free.clear();
    free.extend_from_slice(machine.capacity());
    now.clear();
    now.resize(node_of.len(), 0);
    let mut branches = Branches {
        rows,
        machine,
        free,
        now,
        best: node_of,
        least: i64::MAX,
    };
    branches.grow(0, 0, steps);
}

struct Branches<'a> {
    rows: Csr<'a>,
    machine: &'a Machine,
    free: &'a mut [u32],
    /// Nodes of the tasks before the present one.
    now: &'a mut [u16],
    best: &'a mut [u16],
    least: i64,
}

impl Branches<'_> {
    /// Places a task everywhere, given those before it and what they cost.
    fn grow(&mut self, task: usize, spent: i64, steps: &mut Steps) {
        if task == self.now.len() {
            // Costs more or as much are cut off before.
            self.least = spent;
            self.best.copy_from_slice(self.now);
            return;
        }
        for node in 0..self.machine.nodes() {
            if self.free[node] == 0 || !steps.spend(1) {
                continue;
            }
            let distance = self.machine.from(node);
            let placed = self.rows.row(task).filter(|&(partner, _)| partner < task);
            let added: i64 = placed
                .map(|(partner, weight)| {
                    i64::from(weight) * i64::from(distance[usize::from(self.now[partner])])
                })
                .sum();
            if spent + added < self.least {
                self.free[node] -= 1;
                self.now[task] = u16::try_from(node).unwrap_or(u16::MAX);
                self.grow(task + 1, spent + added, steps);
                self.free[node] += 1;
            }
        }
    }
}
