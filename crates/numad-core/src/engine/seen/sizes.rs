//! How much memory a page fault stands for.
//!
//! A page that we provoke a fault of faults once, however large it is. So of a thread whose memory
//! is mapped in large pages there are 512 times fewer samples than of one that has small ones, and
//! next to those it would seem to do nothing. Where a program has both, a sample of a large page
//! counts as many as there are small ones in it. That makes nothing surer: it is one sample still.

use crate::tables::large::bits_in_large;
use crate::tables::pages::PageTable;

/// What a sample counts, one of a page that is as small as the program's smallest being 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::engine) struct Sizes {
    /// One of a page that is mapped as part of a larger one.
    pub large: f64,
    /// One of them all, in the mean.
    pub mean: f64,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            large: 1.0,
            mean: 1.0,
        }
    }
}

impl Sizes {
    /// What samples of these pages count, of which the small ones have `1 << shift` bytes.
    pub(super) fn of(pages: &PageTable, shift: u32) -> Self {
        let [large, small] = pages.samples_by_size();
        if large <= 0.0 || small <= 0.0 {
            return Self::default();
        }
        let times = f64::from(1_u32 << bits_in_large(shift));
        Self {
            large: times,
            mean: (large * times + small) / (large + small),
        }
    }

    /// What a sample counts, by whether its page is part of a larger one.
    pub(super) const fn weight(self, is_large: bool) -> f64 {
        if is_large { self.large } else { 1.0 }
    }
}
