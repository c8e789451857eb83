//! What stands behind a communication matrix: samples, and how sure they make one.

use crate::evidence::{Certainty, Evidence};
use crate::figures::whole;
use crate::matrix::CommMatrix;

/// A matrix with what is needed to say how sure it is.
#[derive(Clone, Copy, Debug)]
pub struct Support<'a> {
    /// Who shares how much with whom.
    pub matrix: &'a CommMatrix,
    /// How sure one wants to be.
    pub certainty: Certainty,
    /// Samples that an amount of 1 stands for; see `Engine::samples_per_amount`.
    pub per_amount: f64,
}

/// The task that another shares most with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Partner {
    /// By position.
    pub task: usize,
    /// By position; the first of those with most.
    pub with: usize,
    /// Samples that show the two sharing.
    pub samples: u64,
    /// Their share of all that show the task sharing.
    pub evidence: Evidence,
}

impl Support<'_> {
    /// The samples behind each cell, a row for each task.
    #[must_use]
    pub fn cells(&self) -> Vec<Vec<u64>> {
        let row = |task| self.matrix.row(task).iter();
        (0..self.matrix.count())
            .map(|task| row(task).map(|&amount| self.samples(amount)).collect())
            .collect()
    }

    /// The partner of every task that shares anything.
    #[must_use]
    pub fn partners(&self) -> Vec<Partner> {
        let tasks = 0..self.matrix.count();
        tasks.filter_map(|task| self.partner(task)).collect()
    }

    fn partner(&self, task: usize) -> Option<Partner> {
        let row = self.matrix.row(task);
        let with = (0..row.len()).rev().max_by_key(|&other| row[other])?;
        let said = self.exact(row[with]);
        let all = self.exact(self.matrix.row_sum(task));
        (said > 0.0).then(|| Partner {
            task,
            with,
            samples: self.samples(row[with]),
            evidence: self.certainty.weigh_partner(said, all, row.len() - 1),
        })
    }

    fn exact(&self, amount: u64) -> f64 {
        amount as f64 * self.per_amount
    }

    fn samples(&self, amount: u64) -> u64 {
        whole(self.exact(amount) + 0.5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_has_the_partner_it_shares_most_with() {
        let mut matrix = CommMatrix::new(3);
        matrix.add(0, 1, 400);
        matrix.add(1, 2, 40);
        let support = Support {
            matrix: &matrix,
            certainty: Certainty::of(0.9),
            per_amount: 0.1,
        };
        assert_eq!(support.cells(), [[0, 40, 0], [40, 0, 4], [0, 4, 0]]);
        let partners = support.partners();
        let pairs: Vec<_> = partners.iter().map(|one| (one.task, one.with)).collect();
        assert_eq!(pairs, [(0, 1), (1, 0), (2, 1)]);
        assert!(partners[1].evidence.convinces(), "{partners:?}");
        assert_eq!(partners[2].samples, 4);
    }

    #[test]
    fn who_shares_nothing_has_no_partner() {
        let support = Support {
            matrix: &CommMatrix::new(2),
            certainty: Certainty::of(0.9),
            per_amount: 0.0,
        };
        assert_eq!(support.partners(), []);
    }
}
