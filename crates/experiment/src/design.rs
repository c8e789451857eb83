//! What is decided before the first slice: the order of arms, the length of slices, the washout.

use std::fmt;

use crate::chance::Chance;

/// Most blocks of an experiment. The exact test costs the cube of it: at 500, a tenth of a second.
pub const BLOCKS_MAX: usize = control::experiment::BLOCKS_MAX as usize;

/// Most arms of an experiment.
const ARMS_MAX: usize = 16;

/// Why an experiment cannot be designed so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DesignError {
    /// One arm compares with nothing; too many take too long.
    Arms(usize),
    /// No block, or more than [`BLOCKS_MAX`].
    Blocks(usize),
    /// Slices must be at least this long, in milliseconds, for the effects of a switch to be over.
    SliceTooShort {
        /// The length that would do.
        least_ms: u64,
    },
}

impl fmt::Display for DesignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Arms(1) => write!(f, "one policy has nothing to be compared with"),
            Self::Arms(count) => write!(f, "{count} policies; 2 to {ARMS_MAX} can be compared"),
            Self::Blocks(count) => write!(f, "{count} blocks; 1 to {BLOCKS_MAX} are possible"),
            Self::SliceTooShort { least_ms } => {
                write!(f, "slices must be at least {least_ms} ms long")
            }
        }
    }
}

impl std::error::Error for DesignError {}

/// The order of arms: blocks of neighbouring slices, in each block every arm once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Design {
    blocks: Vec<Vec<usize>>,
}

impl Design {
    /// Draws the order within each block from the seed. Arms are numbers from 0; arm 0 is the control.
    ///
    /// A longer design with the same seed and arms begins like the shorter one.
    ///
    /// # Errors
    /// Fewer than 2 or more than 16 arms; no block or more than [`BLOCKS_MAX`].
    pub fn draw(arms: usize, blocks: usize, seed: u64) -> Result<Self, DesignError> {
        if !(2..=ARMS_MAX).contains(&arms) {
            return Err(DesignError::Arms(arms));
        }
        if !(1..=BLOCKS_MAX).contains(&blocks) {
            return Err(DesignError::Blocks(blocks));
        }
        let mut chance = Chance::new(seed);
        let draw = |_| {
            let mut order: Vec<usize> = (0..arms).collect();
            chance.shuffle(&mut order);
            order
        };
        Ok(Self {
            blocks: (0..blocks).map(draw).collect(),
        })
    }

    /// The arms of each block in the order in which they run.
    #[must_use]
    pub fn blocks(&self) -> &[Vec<usize>] {
        &self.blocks
    }

    /// All slices in order: block and arm.
    pub fn slices(&self) -> impl Iterator<Item = (usize, usize)> {
        self.blocks
            .iter()
            .enumerate()
            .flat_map(|(block, order)| order.iter().map(move |&arm| (block, arm)))
    }
}

/// How long a slice is, and how much of its beginning is not measured. The same in all arms: a washout
/// that waited for the mover would depend on the arm, and the test would no longer be exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Length of a slice in milliseconds.
    pub slice_ms: u64,
    /// The first part of it that is dropped, in milliseconds.
    pub washout_ms: u64,
}

impl Timing {
    /// Fixes the washout for slices of this length, given the time constant of a switch: after that
    /// time, 63 % of what a switch moves has moved.
    ///
    /// From 10 time constants on a quarter of the slice is dropped, from 5 on a half: then at least 96 %
    /// of a true effect is measured (98 % with a quarter).
    ///
    /// # Errors
    /// Slices shorter than 5 time constants, with the length that would do.
    pub const fn for_slices(slice_ms: u64, time_constant_ms: u64) -> Result<Self, DesignError> {
        let least_ms = time_constant_ms.saturating_mul(5);
        if slice_ms < least_ms || slice_ms == 0 {
            let least_ms = if least_ms == 0 { 1 } else { least_ms };
            return Err(DesignError::SliceTooShort { least_ms });
        }
        let washout_ms = if slice_ms >= least_ms.saturating_mul(2) {
            slice_ms / 4
        } else {
            slice_ms / 2
        };
        Ok(Self {
            slice_ms,
            washout_ms,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_has_every_arm_once() {
        let design = Design::draw(4, 50, 9).unwrap();
        for block in design.blocks() {
            let mut arms = block.clone();
            arms.sort_unstable();
            assert_eq!(arms, [0, 1, 2, 3]);
        }
        assert_eq!(design.slices().count(), 200);
    }

    #[test]
    fn a_seed_is_an_order_and_a_longer_experiment_begins_alike() {
        let short = Design::draw(2, 10, 3).unwrap();
        let long = Design::draw(2, 20, 3).unwrap();
        assert_eq!(short.blocks(), &long.blocks()[..10]);
        assert_ne!(short, Design::draw(2, 10, 4).unwrap());
    }

    #[test]
    fn either_arm_goes_first_about_as_often() {
        let first = (0..400)
            .flat_map(|seed| Design::draw(2, 10, seed).unwrap().blocks)
            .filter(|block| block[0] == 0)
            .count();
        // Five standard errors around 2,000.
        assert!(first.abs_diff(2000) < 158, "{first}");
    }

    #[test]
    fn designs_without_sense_are_refused() {
        assert_eq!(Design::draw(1, 10, 0), Err(DesignError::Arms(1)));
        assert_eq!(Design::draw(17, 10, 0), Err(DesignError::Arms(17)));
        assert_eq!(Design::draw(2, 0, 0), Err(DesignError::Blocks(0)));
        assert_eq!(Design::draw(2, 501, 0), Err(DesignError::Blocks(501)));
    }

    #[test]
    fn washout_goes_by_the_time_constant() {
        let timing = |slice, constant| Timing::for_slices(slice, constant).map(|it| it.washout_ms);
        assert_eq!(timing(60_000, 6_000), Ok(15_000));
        assert_eq!(timing(59_000, 6_000), Ok(29_500));
        assert_eq!(timing(30_000, 6_000), Ok(15_000));
        assert_eq!(
            timing(29_999, 6_000),
            Err(DesignError::SliceTooShort { least_ms: 30_000 })
        );
        assert_eq!(
            timing(0, 0),
            Err(DesignError::SliceTooShort { least_ms: 1 })
        );
    }
}
