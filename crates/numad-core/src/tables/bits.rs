//! Sets of small numbers.

/// A set of numbers below a limit that is known when it is made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bits {
    words: Vec<u64>,
    count: usize,
}

impl Bits {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            words: vec![0; limit.div_ceil(64)],
            count: 0,
        }
    }

    /// Adds a number; those at or above the limit are ignored.
    pub(crate) fn insert(&mut self, number: usize) {
        if let Some(word) = self.words.get_mut(number / 64) {
            let bit = 1 << (number % 64);
            self.count += usize::from(*word & bit == 0);
            *word |= bit;
        }
    }

    pub(crate) fn remove(&mut self, number: usize) {
        if let Some(word) = self.words.get_mut(number / 64) {
            let bit = 1 << (number % 64);
            self.count -= usize::from(*word & bit != 0);
            *word &= !bit;
        }
    }

    pub(crate) fn contains(&self, number: usize) -> bool {
        self.words
            .get(number / 64)
            .is_some_and(|word| word & (1 << (number % 64)) != 0)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn first(&self) -> Option<usize> {
        self.iter().next()
    }

    /// Members in ascending order; words without members cost one comparison.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(index, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                (rest != 0).then(|| {
                    let bit = rest.trailing_zeros() as usize;
                    rest &= rest - 1;
                    index * 64 + bit
                })
            })
        })
    }

    pub(crate) fn clear(&mut self) {
        self.words.fill(0);
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_in_order_and_are_counted() {
        let mut bits = Bits::new(200);
        for number in [130, 3, 3, 64, 199, 5000] {
            bits.insert(number);
        }
        bits.remove(64);
        assert_eq!(bits.iter().collect::<Vec<_>>(), [3, 130, 199]);
        assert_eq!((bits.count, bits.first()), (3, Some(3)));
        assert!(bits.contains(130) && !bits.contains(64) && !bits.contains(5000));
        bits.clear();
        assert!(bits.is_empty());
    }
}
