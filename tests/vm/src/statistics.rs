//! Means with an interval of confidence.

/// A mean, and how far from it the true one may lie with 95 % confidence.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Spread {
    pub(crate) mean: f64,
    /// Not a number with a single value: nothing is known then.
    pub(crate) margin: f64,
}

/// Student's t for 95 %, two-sided, by degrees of freedom from 1 on.
const STUDENT: [f64; 10] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
];

/// Mean and margin of some values.
pub(crate) fn spread(values: &[f64]) -> Spread {
    #[expect(clippy::cast_precision_loss, reason = "a handful of values")]
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let Some(freedom) = values.len().checked_sub(2) else {
        return Spread {
            mean,
            margin: f64::NAN,
        };
    };
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let deviation = (squares / (count - 1.0)).sqrt();
    let t = STUDENT.get(freedom).copied().unwrap_or(1.96);
    Spread {
        mean,
        margin: t * deviation / count.sqrt(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_margin_is_students() {
        let spread = spread(&[1.0, 2.0, 3.0]);
        assert!((spread.mean - 2.0).abs() < 1e-12);
        // 4.303 * 1 / sqrt(3)
        assert!((spread.margin - 2.484).abs() < 1e-3, "{spread:?}");
    }

    #[test]
    fn one_value_knows_no_margin() {
        assert!(spread(&[5.0]).margin.is_nan());
    }
}
