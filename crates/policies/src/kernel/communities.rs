//! Communities: groups of tasks that talk among themselves and hardly to anyone else.
//!
//! Cutting such a graph well is packing: which communities together fill one side? Growing and
//! refining find that by luck alone, because no single move leads from one packing to another.

use super::graph::{Csr, id};

/// Communities matter when at least this share of all communication stays inside them.
const INSIDE_PERCENT: u64 = 85;
/// Groups that are tight have half of that after two rounds.
const EARLY_PERCENT: u64 = 42;
/// Rounds of label propagation; groups that are tight settle in three or four.
const ROUNDS: usize = 5;
/// Groups beyond which packing is no better than growing.
const GROUPS_MAX: usize = 512;

/// Memory of the search for communities.
#[derive(Debug, Default)]
pub(super) struct Communities {
    /// The community of each task, named by one of its tasks.
    label: Vec<u32>,
    weight: Vec<u64>,
    touched: Vec<u32>,
    /// Tasks of each community in the part at hand, by label.
    count: Vec<u32>,
    groups: Vec<u32>,
    /// For each number of tasks: the group that reached it first, in the order of `groups`.
    last: Vec<u32>,
    chosen: Vec<bool>,
}

const NONE: u32 = u32::MAX;

impl Communities {
    /// Finds communities by label propagation. True when they are worth packing.
    pub(super) fn find(&mut self, rows: Csr<'_>) -> bool {
        let tasks = rows.tasks();
        self.label.clear();
        self.label.extend((0..tasks).map(id));
        self.weight.clear();
        self.weight.resize(tasks, 0);
        for round in 0..ROUNDS {
            let mut changed = 0;
            for task in 0..tasks {
                let best = self.strongest(rows, task);
                if best != self.label[task] {
                    self.label[task] = best;
                    changed += 1;
                }
            }
            // Where nothing holds together, that shows at once.
            if changed == 0 || (round == 1 && self.inside_percent(rows) < EARLY_PERCENT) {
                break;
            }
        }
        let first = self.label.first().copied();
        self.inside_percent(rows) >= INSIDE_PERCENT
            && self.label.iter().any(|&label| Some(label) != first)
    }

    /// The label that a task talks to most; its own among equals, then the lowest.
    fn strongest(&mut self, rows: Csr<'_>, task: usize) -> u32 {
        self.touched.clear();
        for (other, weight) in rows.row(task) {
            let label = self.label[other];
            if self.weight[label as usize] == 0 {
                self.touched.push(label);
            }
            self.weight[label as usize] += u64::from(weight.cast_unsigned());
        }
        let own = self.label[task];
        let key = |&label: &u32| {
            (
                self.weight[label as usize],
                label == own,
                std::cmp::Reverse(label),
            )
        };
        let best = self.touched.iter().copied().max_by_key(key).unwrap_or(own);
        for &label in &self.touched {
            self.weight[label as usize] = 0;
        }
        best
    }

    fn inside_percent(&self, rows: Csr<'_>) -> u64 {
        let (mut inside, mut all) = (0, 0);
        for task in 0..rows.tasks() {
            for (other, weight) in rows.row(task) {
                let weight = u64::from(weight.cast_unsigned());
                all += weight;
                if self.label[other] == self.label[task] {
                    inside += weight;
                }
            }
        }
        inside * 100 / all.max(1)
    }

    /// Puts whole communities of `tasks` on side 0 until it holds `target` tasks, or as close below as
    /// communities allow. What is still missing then comes from the largest one left.
    pub(super) fn pack(&mut self, tasks: &[u32], target: usize, side: &mut Vec<u8>) {
        side.clear();
        self.count.clear();
        self.count.resize(self.label.len(), 0);
        self.groups.clear();
        for &task in tasks {
            let label = self.label[task as usize];
            if self.count[label as usize] == 0 {
                self.groups.push(label);
            }
            self.count[label as usize] += 1;
        }
        if self.groups.len() > GROUPS_MAX || self.groups.len() < 2 || target == 0 {
            return;
        }
        // The largest first: then a sum is reached with few, large communities where it can be.
        let count = &self.count;
        self.groups
            .sort_unstable_by_key(|&label| (std::cmp::Reverse(count[label as usize]), label));
        let reached = self.fill(target);
        self.choose(reached);
        let mut missing = target - reached;
        let largest = self
            .groups
            .iter()
            .zip(&self.chosen)
            .find(|&(_, &chosen)| !chosen);
        let split = largest.map(|(&label, _)| label);
        // From here on `count` says which communities are on side 0.
        for (&label, &chosen) in self.groups.iter().zip(&self.chosen) {
            self.count[label as usize] = u32::from(chosen);
        }
        for &task in tasks {
            let label = self.label[task as usize];
            let mut there = self.count[label as usize] == 1;
            if !there && Some(label) == split && missing > 0 {
                missing -= 1;
                there = true;
            }
            side.push(u8::from(!there));
        }
    }

    /// Which numbers of tasks can be reached; the largest.
    fn fill(&mut self, target: usize) -> usize {
        self.last.clear();
        self.last.resize(target + 1, NONE);
        self.last[0] = 0;
        for (place, &label) in self.groups.iter().enumerate() {
            let size = self.count[label as usize] as usize;
            for sum in (size..=target).rev() {
                if self.last[sum] == NONE && self.last[sum - size] != NONE {
                    self.last[sum] = id(place);
                }
            }
            if self.last[target] != NONE {
                return target;
            }
        }
        (0..=target)
            .rev()
            .find(|&sum| self.last[sum] != NONE)
            .unwrap_or(0)
    }

    /// The communities that make up a sum.
    fn choose(&mut self, reached: usize) {
        self.chosen.clear();
        self.chosen.resize(self.groups.len(), false);
        let mut sum = reached;
        while sum > 0 {
            let place = self.last[sum] as usize;
            self.chosen[place] = true;
            sum -= self.count[self.groups[place] as usize] as usize;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Communities;
    use crate::kernel::Edges;

    /// Cliques of the given sizes, in a chain of thin links.
    fn cliques(sizes: &[u32]) -> Edges {
        let mut pairs = Vec::new();
        let mut start = 0;
        for &size in sizes {
            for one in start..start + size {
                pairs.extend((one + 1..start + size).map(|other| (one, other, 100)));
            }
            if start > 0 {
                pairs.push((start - 1, start, 3));
            }
            start += size;
        }
        Edges::from_pairs(start as usize, &pairs)
    }

    #[track_caller]
    fn check_pack(sizes: &[u32], target: usize, split: usize) {
        let edges = cliques(sizes);
        let mut communities = Communities::default();
        assert!(communities.find(edges.rows()), "{sizes:?}");
        let tasks: Vec<u32> = (0..sizes.iter().sum()).collect();
        let mut side = Vec::new();
        communities.pack(&tasks, target, &mut side);
        assert_eq!(side.iter().filter(|&&side| side == 0).count(), target);
        let mut rest = side.as_slice();
        let mut cut = 0;
        for &size in sizes {
            let (group, others) = rest.split_at(size as usize);
            cut += usize::from(group.iter().any(|side| *side != group[0]));
            rest = others;
        }
        assert_eq!(cut, split, "{sizes:?} {side:?}");
    }

    #[test]
    fn whole_communities_fill_a_side_where_they_can() {
        check_pack(&[7, 5, 9, 4, 3, 4], 16, 0);
        check_pack(&[6, 6, 6, 6], 12, 0);
        check_pack(&[10, 5, 5], 10, 0);
        check_pack(&[9, 9, 9], 13, 1);
    }

    #[test]
    fn a_chain_has_no_communities() {
        let pairs: Vec<_> = (0..63).map(|one| (one, one + 1, 10)).collect();
        assert!(!Communities::default().find(Edges::from_pairs(64, &pairs).rows()));
    }
}
