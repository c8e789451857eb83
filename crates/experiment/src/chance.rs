//! Numbers that look random and follow from a seed.

/// Splitmix64: every seed gives its own sequence, the same on every machine.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// The sequence of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let bits = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// A number below `end`, each equally likely. `end` must not be 0.
    pub fn below(&mut self, end: usize) -> usize {
        let end = end as u64;
        // The last, incomplete round of numbers would favour the small ones: draw again.
        let whole = u64::MAX - u64::MAX % end;
        loop {
            let bits = self.bits();
            if bits < whole {
                return usize::try_from(bits % end).unwrap_or_default();
            }
        }
    }

    /// Puts a list into a random order, each order equally likely.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            list.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_published_one() {
        // First outputs of splitmix64 for seed 1234567, as its author's program prints them.
        let mut chance = Chance::new(1_234_567);
        let drawn: Vec<u64> = (0..3).map(|_| chance.bits()).collect();
        assert_eq!(
            drawn,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn all_orders_of_three_are_about_as_frequent() {
        let mut chance = Chance::new(5);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..6000 {
            let mut list = [0, 1, 2];
            chance.shuffle(&mut list);
            *counts.entry(list).or_insert(0u32) += 1;
        }
        assert_eq!(counts.len(), 6);
        // Five standard errors around 1,000.
        assert!(
            counts.values().all(|&count| count.abs_diff(1000) < 145),
            "{counts:?}"
        );
    }
}
