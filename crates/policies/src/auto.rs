//! The choice of a policy: several are asked in each window, and the engine takes the plan that is
//! worth most.
//!
//! The papers choose once, by a decision tree (`DeLocProf`; ALGORITHMS 10): whether a program can
//! gain at all, and whether it is static. What a plan saves and costs says both: where memory takes
//! little time nothing is worth its price, and a program that changes gets another plan when one is
//! worth it.
//!
//! The first of `among` is followed as if it were alone, its page moves included, unless another
//! one's plan for threads is worth more. So `auto` is what the first is, and better where another
//! sees more.

use numad_core::PolicyFactory;

use crate::candidates::{self, Candidates};
use crate::data_mapping;
use crate::even::EVEN;

/// Makes the policy `auto`.
pub(crate) static AUTO: PolicyFactory = PolicyFactory {
    name: "auto",
    summary: "Asks other policies what they would do, and does what the cost model finds best, \
              or nothing.",
    settings: &[
        // With `locality`, `lapt`, `rclb` and `balance` beside them `auto` does no better
        // (docs/measurements.md).
        candidates::among("deloc,ptb"),
        data_mapping::PAGES,
        data_mapping::RATIO,
        data_mapping::HISTORY,
        EVEN,
    ],
    seeks_gain: true,
    goes_by_order: false,
    published: None,
    build: |settings, seed| Ok(Box::new(Candidates::new(settings, seed, "auto")?)),
};
