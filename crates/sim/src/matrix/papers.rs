//! What the papers print, beside what the model says.

use super::Matrix;

/// A published result.
#[derive(Debug)]
pub(super) struct Published {
    /// The policy that is the paper's method.
    pub(super) policy: &'static str,
    /// What it is compared with.
    pub(super) against: &'static str,
    /// The result, as the paper puts it.
    pub(super) result: &'static str,
    /// The same as work done compared to `against`, in percent: mean and best. A time that is 6.7 %
    /// shorter is 7.2 % more work.
    mean: f64,
    best: f64,
    /// Where it stands.
    pub(super) source: &'static str,
}

/// Published results that the matrix has the same question for.
pub(super) const PUBLISHED: &[Published] = &[
    Published {
        policy: "lapt",
        against: "linux",
        result: "time -6.7 % mean, -19.2 % best",
        mean: 7.2,
        best: 23.8,
        source: "LAPT, 2x8 cores with SMT",
    },
    Published {
        policy: "deloc",
        against: "scatter",
        result: "+4.8 % (MPI) and +8.3 % (OpenMP) mean, 16.1 % best",
        mean: 6.5,
        best: 16.1,
        source: "DeLoc dissertation, chapter 3",
    },
    Published {
        policy: "deloc",
        against: "linux",
        result: "up to 46.5 %",
        mean: f64::NAN,
        best: 46.5,
        source: "DeLoc dissertation, chapter 3",
    },
    Published {
        policy: "deloc",
        against: "locality",
        result: "up to 61 %",
        mean: f64::NAN,
        best: 61.0,
        source: "DeLoc dissertation, chapter 3",
    },
    Published {
        policy: "deloc",
        against: "balance",
        result: "up to 14.3 %",
        mean: f64::NAN,
        best: 14.3,
        source: "DeLoc dissertation, chapter 3",
    },
    Published {
        policy: "deloc",
        against: "none",
        result: "+18.5 % mean, 34 % best on two nodes; 21.6 % mean on four",
        mean: 20.0,
        best: 34.0,
        source: "OnDeLoc-MPI",
    },
    Published {
        policy: "ptb",
        against: "linux",
        result: "geometric mean 1.16x, 1.6 to 2.0x on seven programs",
        mean: 16.0,
        best: 100.0,
        source: "PTB",
    },
    Published {
        policy: "rclb",
        against: "scatter",
        result: "bandwidth +12.65 to 23 %",
        mean: 17.8,
        best: 23.0,
        source: "RCLB",
    },
];

/// How far the model is from a paper in percent of work: as near as two machines of one paper are to
/// each other.
const NEAR_PERCENT: f64 = 5.0;

/// The model's answer to a published result.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) published: &'static Published,
    /// Work done compared to the same baseline, in percent.
    pub(super) mean: f64,
    pub(super) best: f64,
    /// Machine and workload of the best.
    pub(super) place: String,
}

impl Matrix {
    /// The model's answers to all published results whose policies take part: over the numerical
    /// kernels, which is what most of the papers ran, or over all cells where none take part.
    pub(super) fn answers(&self) -> Vec<Answer> {
        let kernel = |&(_, row): &(usize, usize)| self.plan.rows[row].is_kernel();
        let mut places: Vec<(usize, usize)> = self.plan.places().filter(kernel).collect();
        if places.is_empty() {
            places = self.plan.places().collect();
        }
        let answers = PUBLISHED.iter().filter_map(|published| {
            let policy = self.policy(published.policy)?;
            let against = self.policy(published.against)?;
            let over = |machine, row| {
                self.cell(machine, row, policy).speed / self.cell(machine, row, against).speed
            };
            let best = places.iter().copied().reduce(|best, one| {
                if over(one.0, one.1) > over(best.0, best.1) {
                    one
                } else {
                    best
                }
            })?;
            let (_, mean) = Self::least_and_mean(places.iter().copied(), over);
            let (machine, row) = (&self.plan.machines[best.0], self.plan.rows[best.1]);
            Some(Answer {
                published,
                mean: (mean - 1.0) * 100.0,
                best: (over(best.0, best.1) - 1.0) * 100.0,
                place: format!("{} {}", machine.name(), row.name),
            })
        });
        answers.collect()
    }
}

impl Answer {
    /// Whether the model agrees, in words; by the mean where the paper prints one.
    pub(super) fn verdict(&self) -> &'static str {
        let paper = self.published;
        let (said, found) = if paper.mean.is_nan() {
            (paper.best, self.best)
        } else {
            (paper.mean, self.mean)
        };
        if (found - said).abs() <= NEAR_PERCENT {
            "agrees"
        } else if found > said {
            "the model gains more"
        } else if found > 0.0 {
            "the model gains less"
        } else {
            "the model loses"
        }
    }
}
