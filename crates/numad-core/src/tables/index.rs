//! From the number of a thread or process to what is known of it, in two steps.

/// Where something numbered by the kernel is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    /// Place of the attachment in the engine.
    pub place: u32,
    /// Slot within that attachment.
    pub slot: u32,
}

/// A table by number, of which there are only those blocks that something is kept in.
///
/// The number 0 is never a thread of a program: it is the idle task.
#[derive(Debug, Default)]
pub(crate) struct Index {
    blocks: Vec<Option<Box<[Option<Spot>; BLOCK]>>>,
}

/// Numbers of a block: neighbouring ones, as threads of a program have, share it.
const BLOCK: usize = 64;
/// The kernel gives no number from this on (`PID_MAX_LIMIT`).
const NUMBERS_END: u32 = 1 << 22;

impl Index {
    #[inline]
    pub(crate) fn find(&self, id: u32) -> Option<Spot> {
        let block = self.blocks.get(id as usize / BLOCK)?;
        block.as_ref()?[id as usize % BLOCK]
    }

    /// Whether a thread can have this number.
    pub(crate) const fn takes(id: u32) -> bool {
        id != 0 && id < NUMBERS_END
    }

    /// Puts a number in, or gives it another spot. Numbers that no thread has are ignored.
    pub(crate) fn insert(&mut self, id: u32, spot: Spot) {
        if !Self::takes(id) {
            return;
        }
        let at = id as usize / BLOCK;
        if self.blocks.len() <= at {
            self.blocks.resize_with(at + 1, || None);
        }
        let block = self.blocks[at].get_or_insert_with(|| Box::new([None; BLOCK]));
        block[id as usize % BLOCK] = Some(spot);
    }

    /// Takes a number out if it is at this spot.
    pub(crate) fn remove(&mut self, id: u32, spot: Spot) {
        if self.find(id) != Some(spot) {
            return;
        }
        let block = &mut self.blocks[id as usize / BLOCK];
        if let Some(spots) = block {
            spots[id as usize % BLOCK] = None;
            if spots.iter().all(Option::is_none) {
                *block = None;
            }
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
            let mut index = Index::default();
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
        let mut index = Index::default();
        let (here, there) = (Spot { place: 1, slot: 1 }, Spot { place: 2, slot: 1 });
        index.insert(0, here);
        assert_eq!(index.find(0), None);
        index.insert(7, here);
        index.remove(7, there);
        assert_eq!(index.find(7), Some(here));
    }
}
