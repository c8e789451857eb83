//! Who talks to whom.

/// Amounts of communication between tasks: symmetric, with an empty diagonal.
///
/// Tasks are named by their position in the list that the matrix came with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommMatrix {
    count: usize,
    /// Full rows, so that a row is one slice.
    amounts: Vec<u64>,
}

impl CommMatrix {
    /// No communication among `count` tasks.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self {
            count,
            amounts: vec![0; count * count],
        }
    }

    /// Forgets everything and becomes a matrix of `count` tasks; keeps its memory.
    pub fn reset(&mut self, count: usize) {
        self.count = count;
        self.amounts.clear();
        self.amounts.resize(count * count, 0);
    }

    /// How many tasks there are.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Adds to what two different tasks said to each other; a task's talk with itself is ignored.
    ///
    /// # Panics
    /// When a position is not below [`Self::count`].
    pub fn add(&mut self, one: usize, other: usize, amount: u64) {
        assert!(
            one < self.count && other < self.count,
            "task position out of range"
        );
        if one != other {
            let there = &mut self.amounts[one * self.count + other];
            *there = there.saturating_add(amount);
            self.amounts[other * self.count + one] = *there;
        }
    }

    /// What two tasks said to each other.
    #[must_use]
    pub fn between(&self, one: usize, other: usize) -> u64 {
        self.row(one)[other]
    }

    /// What one task said to each.
    #[must_use]
    pub fn row(&self, task: usize) -> &[u64] {
        &self.amounts[task * self.count..][..self.count]
    }

    /// Whom each task said anything to, and how much, by ascending position.
    #[must_use]
    pub fn partners(&self) -> Vec<Vec<(usize, u64)>> {
        (0..self.count)
            .map(|task| said(self.row(task)).collect())
            .collect()
    }

    /// Everything one task said.
    #[must_use]
    pub fn row_sum(&self, task: usize) -> u64 {
        self.row(task)
            .iter()
            .fold(0, |sum, &amount| sum.saturating_add(amount))
    }

    /// Pairs that communicated, `(lower, higher, amount)`, by ascending position.
    pub fn pairs(&self) -> impl Iterator<Item = (usize, usize, u64)> + Clone + '_ {
        (0..self.count).flat_map(move |one| {
            let above = said(&self.row(one)[one + 1..]);
            above.map(move |(after, amount)| (one, one + 1 + after, amount))
        })
    }
}

/// What is said in a row, and where. Most pairs of many tasks say nothing, so eight are looked at
/// together.
fn said(row: &[u64]) -> impl Iterator<Item = (usize, u64)> + Clone + '_ {
    let mut rest = row;
    std::iter::from_fn(move || {
        loop {
            while let Some(([a, b, c, d, e, f, g, h], after)) = rest.split_first_chunk()
                && a | b | c | d | e | f | g | h == 0
            {
                rest = after;
            }
            let (&amount, after) = rest.split_first()?;
            rest = after;
            if amount > 0 {
                return Some((row.len() - rest.len() - 1, amount));
            }
        }
    })
}
