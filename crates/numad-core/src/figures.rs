//! Whole numbers of figures: 0 of what is negative, and of what is too large the largest.

/// What a figure has before the point.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, at 0 for what is negative"
)]
#[must_use]
pub fn whole(figure: f64) -> u64 {
    figure as u64
}

/// The nearest, halves upwards.
pub(crate) fn rounded(figure: f64) -> u32 {
    u32::try_from(whole(figure + 0.5)).unwrap_or(u32::MAX)
}
