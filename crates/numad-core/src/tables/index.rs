//! From the number of a thread or process to what is known of it, in one or two cache lines.

/// Where something numbered by the kernel is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    /// Place of the attachment in the engine.
    pub place: u32,
    /// Slot within that attachment.
    pub slot: u32,
}

/// Open addressing over powers of two, at most half full, with removal by shifting back, so that
/// neither order nor time depends on what was there before.
///
/// The number 0 is never a thread of a program (it is the idle task) and marks empty cells.
#[derive(Debug)]
pub(crate) struct Index {
    cells: Vec<(u32, Spot)>,
    count: usize,
}

const EMPTY: (u32, Spot) = (0, Spot { place: 0, slot: 0 });
const CELLS_MIN: usize = 64;

impl Index {
    pub(crate) fn new() -> Self {
        Self {
            cells: vec![EMPTY; CELLS_MIN],
            count: 0,
        }
    }

    #[inline]
    pub(crate) fn find(&self, id: u32) -> Option<Spot> {
        if id == 0 {
            return None;
        }
        let mut at = self.home(id);
        loop {
            let (there, spot) = self.cells[at];
            if there == id {
                return Some(spot);
            }
            if there == 0 {
                return None;
            }
            at = (at + 1) & (self.cells.len() - 1);
        }
    }

    /// Puts a number in, or gives it another spot. The number 0 is ignored.
    pub(crate) fn insert(&mut self, id: u32, spot: Spot) {
        if id == 0 {
            return;
        }
        if (self.count + 1) * 2 > self.cells.len() {
            self.grow();
        }
        let mut at = self.home(id);
        while self.cells[at].0 != 0 && self.cells[at].0 != id {
            at = (at + 1) & (self.cells.len() - 1);
        }
        self.count += usize::from(self.cells[at].0 == 0);
        self.cells[at] = (id, spot);
    }

    /// Takes a number out if it is at this spot.
    pub(crate) fn remove(&mut self, id: u32, spot: Spot) {
        if self.find(id) != Some(spot) {
            return;
        }
        let mask = self.cells.len() - 1;
        let mut hole = self.home(id);
        while self.cells[hole].0 != id {
            hole = (hole + 1) & mask;
        }
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let there = self.cells[at].0;
            if there == 0 {
                break;
            }
            // What lies at or before the hole on its way from home may fill it.
            let way = at.wrapping_sub(self.home(there)) & mask;
            if way >= (at.wrapping_sub(hole) & mask) {
                self.cells[hole] = self.cells[at];
                hole = at;
            }
        }
        self.cells[hole] = EMPTY;
        self.count -= 1;
    }

    fn home(&self, id: u32) -> usize {
        // Fibonacci hashing: neighbouring numbers, as threads have, are spread over the table.
        let spread = id.wrapping_mul(0x9e37_79b9);
        let bits = self.cells.len().trailing_zeros();
        (spread >> (32 - bits)) as usize
    }

    fn grow(&mut self) {
        let twice = self.cells.len() * 2;
        let old = std::mem::replace(&mut self.cells, vec![EMPTY; twice]);
        self.count = 0;
        for (id, spot) in old {
            self.insert(id, spot);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn behaves_as_a_map(operations in prop::collection::vec((1u32..300, any::<bool>()), 0..600)) {
            let mut index = Index::new();
            let mut model = BTreeMap::new();
            for (number, (id, add)) in (0u32..).zip(operations) {
                let spot = Spot { place: number, slot: id };
                if add {
                    index.insert(id, spot);
                    model.insert(id, spot);
                } else if let Some(old) = model.remove(&id) {
                    index.remove(id, old);
                }
            }
            for id in 0..300 {
                prop_assert_eq!(index.find(id), model.get(&id).copied());
            }
        }
    }

    #[test]
    fn nothing_is_kept_of_number_zero_or_of_another_spot() {
        let mut index = Index::new();
        let (here, there) = (Spot { place: 1, slot: 1 }, Spot { place: 2, slot: 1 });
        index.insert(0, here);
        assert_eq!(index.find(0), None);
        index.insert(7, here);
        index.remove(7, there);
        assert_eq!(index.find(7), Some(here));
    }
}
