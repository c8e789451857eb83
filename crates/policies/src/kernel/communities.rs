//! Communities: groups of tasks that talk among themselves and hardly to anyone else.
//!
//! Mapping such a graph well is packing: which communities together fill a node? Growing cuts and
//! refining find that by luck alone, because no single move leads from one packing to another; see
//! [`Layout`](super::layout::Layout) for what does.

use super::graph::{Csr, id, replace, reset};

/// Groups that are tight have half of that after two rounds, ...
const EARLY_PERCENT: u64 = 42;
/// ... and nearly all of it after the first where tasks are few: 85, where most other patterns have below 65.
const FIRST_PERCENT_OF_FEW: u64 = 70;
const FEW: usize = 64;
/// Rounds of label propagation; groups that are tight settle in three or four.
const ROUNDS: usize = 5;

/// Memory of the search for communities.
#[derive(Debug, Default)]
pub(super) struct Communities {
    /// The community of each task, named by one of its tasks.
    label: Vec<u32>,
    weight: Vec<u64>,
    touched: Vec<u32>,
}

impl Communities {
    /// Finds communities by label propagation; the share of all communication that stays inside of them, in
    /// percent. Nothing when there is only one.
    pub(super) fn find(&mut self, rows: Csr<'_>) -> u64 {
        let tasks = rows.tasks();
        replace(&mut self.label, (0..tasks).map(id));
        reset(&mut self.weight, tasks, 0);
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
            let least = match round {
                0 if tasks <= FEW => FIRST_PERCENT_OF_FEW,
                1 => EARLY_PERCENT,
                _ => 0,
            };
            if changed == 0 || (least > 0 && self.inside_percent(rows) < least) {
                break;
            }
        }
        let first = self.label.first().copied();
        if self.label.iter().all(|&label| Some(label) == first) {
            return 0;
        }
        self.inside_percent(rows)
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

    /// The community of a task, named by one of its tasks.
    pub(super) fn label(&self, task: usize) -> usize {
        self.label[task] as usize
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
    fn check_found(sizes: &[u32]) {
        let edges = cliques(sizes);
        let mut communities = Communities::default();
        assert!(communities.find(edges.rows()) > 85, "{sizes:?}");
        let mut start = 0;
        let mut seen = Vec::new();
        for &size in sizes {
            let label = communities.label(start);
            let end = start + size as usize;
            assert!((start..end).all(|task| communities.label(task) == label));
            assert!(!seen.contains(&label), "{sizes:?}");
            seen.push(label);
            start = end;
        }
    }

    #[test]
    fn cliques_in_a_chain_are_told_apart() {
        check_found(&[7, 5, 9, 4, 3, 4]);
        check_found(&[6, 6, 6, 6]);
        check_found(&[10, 5, 5]);
        check_found(&[9, 9, 9]);
    }

    #[test]
    fn a_chain_has_no_communities() {
        let pairs: Vec<_> = (0..63).map(|one| (one, one + 1, 10)).collect();
        let edges = Edges::from_pairs(64, &pairs);
        assert!(Communities::default().find(edges.rows()) < 60);
    }
}
