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

    /// How many there are.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn first(&self) -> Option<usize> {
        self.iter().next()
    }

    /// Members in ascending order; words without members cost one comparison.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let words = self.words.iter().enumerate();
        words.flat_map(|(index, &word)| members(index, word))
    }

    /// The same without those of another set, which has the same limit.
    pub(crate) fn outside(&self, other: &Self) -> impl Iterator<Item = usize> {
        let words = self.words.iter().zip(&other.words).enumerate();
        words.flat_map(|(index, (&word, &other))| members(index, word & !other))
    }

    /// Keeps those of which a question says yes.
    pub(crate) fn retain(&mut self, mut stays: impl FnMut(usize) -> bool) {
        for (index, word) in self.words.iter_mut().enumerate() {
            members(index, *word).for_each(|number| {
                if !stays(number) {
                    self.count -= 1;
                    *word &= !(1 << (number % 64));
                }
            });
        }
    }

    pub(crate) fn clear(&mut self) {
        self.words.fill(0);
        self.count = 0;
    }
}

/// The members of one word, in ascending order.
#[inline]
fn members(index: usize, word: u64) -> impl Iterator<Item = usize> {
    let mut rest = word;
    std::iter::from_fn(move || {
        (rest != 0).then(|| {
            let bit = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            index * 64 + bit
        })
    })
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
        let mut other = Bits::new(200);
        other.insert(3);
        assert_eq!(bits.outside(&other).collect::<Vec<_>>(), [130, 199]);
        bits.retain(|number| number < 150);
        assert_eq!(bits.iter().collect::<Vec<_>>(), [3, 130]);
        assert_eq!(bits.count(), 2);
        bits.clear();
        assert!(bits.is_empty());
    }
}
