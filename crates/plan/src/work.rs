//! What a plan is made from.

use control::profile::Profile;
use control::{ErrorKind, Failure};
use numad_core::CommMatrix;
use policies::offline::Pair;

/// What the ranks or threads of an earlier run said to each other.
#[derive(Clone, Debug)]
pub struct Work {
    pub(crate) matrix: CommMatrix,
    /// Pairs that talk at the same time.
    pub(crate) groups: Vec<Vec<Pair>>,
    has_times: bool,
}

impl Work {
    /// Of sums alone: all pairs talk at the same time.
    #[must_use]
    pub fn of_matrix(matrix: CommMatrix) -> Self {
        let groups = vec![matrix.pairs().collect()];
        Self {
            matrix,
            groups,
            has_times: false,
        }
    }

    /// Of a profile, with its groups in time.
    ///
    /// # Errors
    /// When nobody is in it.
    pub fn of_profile(profile: &Profile) -> Result<Self, Failure> {
        if profile.tasks.is_empty() {
            return Err(Failure::new(ErrorKind::Usage, "the profile has no tasks")
                .remedy("record or profile the program while it works"));
        }
        let mut matrix = CommMatrix::new(profile.tasks.len());
        let mut groups = Vec::new();
        for group in &profile.groups {
            let pairs = group.pairs.iter();
            let pairs: Vec<Pair> = pairs.map(|it| (it.low, it.high, it.bytes)).collect();
            for &(low, high, amount) in &pairs {
                matrix.add(low, high, amount);
            }
            groups.push(pairs);
        }
        Ok(Self {
            matrix,
            groups,
            has_times: profile.groups.iter().any(|group| group.from_s.is_some()),
        })
    }

    /// Whether it is known who talks at the same time.
    #[must_use]
    pub const fn has_times(&self) -> bool {
        self.has_times
    }
}
