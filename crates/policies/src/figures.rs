//! Whole numbers of figures that are not negative; what is too large becomes the largest.

use numad_core::figures::whole;

/// The nearest, halves upwards.
pub(crate) fn rounded(figure: f64) -> u64 {
    whole(figure + 0.5)
}

/// A share in hundredths.
pub(crate) fn percent(share: f64) -> u32 {
    u32::try_from(rounded(share * 100.0)).unwrap_or(u32::MAX)
}
