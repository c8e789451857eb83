//! A dense matrix without its background.
//!
//! With a fixed number of tasks on every node, communication that is the same for all pairs costs
//! the same wherever the tasks are, and so does what a task says to everyone alike. What is left
//! after both are taken off decides; of that, the largest few of each row are kept.

use super::graph::{Csr, Level, Names, id};

/// Residuals are kept in quarters of an amount.
const FRACTION: i64 = 4;

/// Memory of the reduction.
#[derive(Debug, Default)]
pub(super) struct Sparsifier {
    /// Mean of each row, in [`FRACTION`]s.
    means: Vec<i64>,
    kept: Vec<(u32, u32)>,
    ends: Vec<u32>,
    /// By how many bits amounts are shifted right, so that sums of residuals cannot overflow.
    shift: u32,
}

impl Sparsifier {
    /// Fills `level` with the `most` largest residuals of each row, under the names of `names`.
    pub(super) fn run(&mut self, rows: Csr<'_>, names: Names<'_>, most: usize, level: &mut Level) {
        let tasks = rows.tasks();
        let others = i64::try_from(tasks)
            .unwrap_or(i64::MAX)
            .saturating_sub(1)
            .max(1);
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
        self.kept.clear();
        self.ends.clear();
        self.ends.push(0);
        for new in 0..tasks {
            let task = names.order[new] as usize;
            self.keep_row(rows, task, overall, most);
            self.ends.push(id(self.kept.len()));
        }
        self.symmetric(names, level);
    }

    /// Appends the largest residuals of a row, in the caller's names.
    fn keep_row(&mut self, rows: Csr<'_>, task: usize, overall: i64, most: usize) {
        let start = self.kept.len();
        let own = self.means[task] - overall;
        // Rises as better ones are found, so that most of a row is only looked at.
        let mut floor = 0;
        for (other, weight) in rows.row(task) {
            let residual = (i64::from(weight) >> self.shift) * FRACTION - own - self.means[other];
            if residual > floor {
                self.kept
                    .push((id(other), u32::try_from(residual).unwrap_or(u32::MAX >> 2)));
                if self.kept.len() - start >= 3 * most {
                    floor = self.trim(start, most);
                }
            }
        }
        if self.kept.len() - start > most {
            self.trim(start, most);
        }
    }

    /// Keeps the `most` largest from `start` on; the smallest of them.
    fn trim(&mut self, start: usize, most: usize) -> i64 {
        let row = &mut self.kept[start..];
        row.select_nth_unstable_by_key(most - 1, |&(other, residual)| {
            (std::cmp::Reverse(residual), other)
        });
        let least = i64::from(row[most - 1].1);
        self.kept.truncate(start + most);
        least
    }

    /// Both directions of whatever was kept in one of them, each once, rows sorted.
    fn symmetric(&mut self, names: Names<'_>, level: &mut Level) {
        let tasks = names.order.len();
        level.clear();
        let starts = &mut level.starts;
        starts.resize(tasks + 1, 0);
        for new in 0..tasks {
            let row = self.ends[new] as usize..self.ends[new + 1] as usize;
            starts[new + 1] += id(row.len());
            for &(other, _) in &self.kept[row] {
                starts[names.rank[other as usize] as usize + 1] += 1;
            }
        }
        for new in 0..tasks {
            starts[new + 1] += starts[new];
        }
        let entries = starts[tasks] as usize;
        level.partners.resize(entries, 0);
        level.weights.resize(entries, 0);
        level.coarse.extend_from_slice(&starts[..tasks]);
        for new in 0..tasks {
            for index in self.ends[new] as usize..self.ends[new + 1] as usize {
                let (other, weight) = self.kept[index];
                let other = names.rank[other as usize];
                for (one, two) in [(id(new), other), (other, id(new))] {
                    let place = &mut level.coarse[one as usize];
                    level.partners[*place as usize] = two;
                    level.weights[*place as usize] = weight;
                    *place += 1;
                }
            }
        }
        self.unite(level);
    }

    /// Makes one entry of two for the same pair, with the mean of both, and sorts the rows.
    fn unite(&mut self, level: &mut Level) {
        let mut end = 0;
        let mut from = 0;
        for task in 0..level.count() {
            let to = level.starts[task + 1] as usize;
            self.kept.clear();
            let row = level.partners[from..to]
                .iter()
                .zip(&level.weights[from..to]);
            self.kept
                .extend(row.map(|(&other, &weight)| (other, weight)));
            from = to;
            self.kept.sort_unstable();
            for same in self.kept.chunk_by(|one, other| one.0 == other.0) {
                let sum: u64 = same.iter().map(|one| u64::from(one.1)).sum();
                let mean = u32::try_from(sum / same.len() as u64).unwrap_or(u32::MAX >> 2);
                level.partners[end] = same[0].0;
                level.weights[end] = mean.max(1);
                end += 1;
            }
            level.starts[task + 1] = id(end);
        }
        level.partners.truncate(end);
        level.weights.truncate(end);
    }
}
