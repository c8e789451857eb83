//! Whole numbers of figures that are not negative; what is too large becomes the largest.

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, at 0 for what is negative"
)]
pub(crate) fn whole(figure: f64) -> u64 {
    figure as u64
}

pub(crate) fn rounded(figure: f64) -> u64 {
    whole(figure + 0.5)
}

/// A share in hundredths.
pub(crate) fn percent(share: f64) -> u32 {
    u32::try_from(rounded(share * 100.0)).unwrap_or(u32::MAX)
}
