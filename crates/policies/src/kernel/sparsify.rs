//! A dense matrix without its background.
//!
//! With a fixed number of tasks on every node, communication that is the same for all pairs costs
//! the same wherever the tasks are, and so does what a task says to everyone alike. What is left
//! after both are taken off decides; of that, the largest few of each row are kept.

use super::graph::{Canon, Csr, Edges, id};

/// Residuals are kept in quarters of an amount.
const FRACTION: i64 = 4;

/// Memory of the reduction.
#[derive(Debug, Default)]
pub(super) struct Sparsifier {
    /// Mean of each row, in [`FRACTION`]s.
    means: Vec<i64>,
    /// What is kept of one row.
    kept: Vec<(u32, u32)>,
    pairs: Vec<(u32, u32, u64)>,
    /// By how many bits amounts are shifted right, so that sums of residuals cannot overflow.
    shift: u32,
}

impl Sparsifier {
    /// Fills `edges` with the `most` largest residuals of each row, under the names of `names`.
    pub(super) fn run(&mut self, rows: Csr<'_>, names: &Canon, most: usize, edges: &mut Edges) {
        let tasks = rows.tasks();
        let others = (i64::from(id(tasks)) - 1).max(1);
        self.means.clear();
        let heaviest = rows.weights.iter().copied().max().unwrap_or(0);
        self.shift = 8_u32.saturating_sub(heaviest.leading_zeros());
        let mut all = 0;
        for task in 0..tasks {
            let sum: i64 = rows.weights[rows.range(task)]
                .iter()
                .map(|&weight| i64::from(weight >> self.shift))
                .sum();
            all += sum;
            self.means.push(sum * FRACTION / others);
        }
        let overall = all * FRACTION / others / i64::try_from(tasks.max(1)).unwrap_or(1);
        self.pairs.clear();
        for task in 0..tasks {
            self.kept.clear();
            self.keep_row(rows, task, overall, most);
            let own = names.rank[task];
            self.pairs
                .extend(self.kept.iter().map(|&(other, residual)| {
                    let other = names.rank[other as usize];
                    (own.min(other), own.max(other), u64::from(residual))
                }));
        }
        // Many are kept in both of their rows.
        self.pairs.sort_unstable();
        self.pairs.dedup();
        edges.refill(tasks, &self.pairs);
    }

    /// Keeps the largest residuals of a row, in the caller's names.
    fn keep_row(&mut self, rows: Csr<'_>, task: usize, overall: i64, most: usize) {
        let own = self.means[task] - overall;
        // Rises as better ones are found, so that most of a row is only looked at.
        let mut floor = 0;
        for (other, weight) in rows.row(task) {
            let residual = (i64::from(weight) >> self.shift) * FRACTION - own - self.means[other];
            if residual > floor {
                self.kept
                    .push((id(other), u32::try_from(residual).unwrap_or(u32::MAX >> 2)));
                if self.kept.len() >= 3 * most {
                    floor = self.trim(most);
                }
            }
        }
        if self.kept.len() > most {
            self.trim(most);
        }
    }

    /// Keeps the `most` largest; the smallest of them.
    fn trim(&mut self, most: usize) -> i64 {
        self.kept
            .select_nth_unstable_by_key(most - 1, |&(other, residual)| {
                (std::cmp::Reverse(residual), other)
            });
        self.kept.truncate(most);
        i64::from(self.kept[most - 1].1)
    }
}
