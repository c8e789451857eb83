//! Means with the interval of Student's t, for values that are about normal.

/// A mean, and how far from it the true one may lie with 95 % confidence.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// The mean; not a number without values.
    pub mean: f64,
    /// Not a number with fewer than two values: nothing is known then.
    pub margin: f64,
}

/// Mean and margin of some values.
#[must_use]
pub fn spread(values: &[f64]) -> Spread {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let margin = match deviation(values) {
        Some(deviation) => quantile(0.05, values.len() - 1) * deviation / count.sqrt(),
        None => f64::NAN,
    };
    Spread { mean, margin }
}

/// The standard deviation of what the values are drawn from; none of fewer than two.
#[must_use]
pub fn deviation(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (count - 1.0)).sqrt())
}

/// The amount that Student's t exceeds with probability `alpha`, both sides together. `freedom` is at least 1.
#[must_use]
pub fn quantile(alpha: f64, freedom: usize) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while two_sided(high, freedom) > alpha && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if two_sided(middle, freedom) > alpha {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// The probability that Student's t is further from 0 than `t`, by the finite series for whole degrees of freedom
/// (Abramowitz and Stegun 26.7.3 and 26.7.4). Costs their number.
fn two_sided(t: f64, freedom: usize) -> f64 {
    let freedom = freedom.max(1);
    let angle = (t.abs() / (freedom as f64).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let odd = freedom % 2 == 1;
    // Terms cos, 2/3 cos^3, 2*4/(3*5) cos^5 ... or 1, 1/2 cos^2, 1*3/(2*4) cos^4 ...
    let mut term = if odd { cosine } else { 1.0 };
    let mut power = usize::from(odd);
    let mut sum = 0.0;
    while power + 1 < freedom {
        sum += term;
        term *= cosine * cosine * (power + 1) as f64 / (power + 2) as f64;
        power += 2;
    }
    let inside = if odd {
        (angle + sine * sum) * std::f64::consts::FRAC_2_PI
    } else {
        sine * sum
    };
    1.0 - inside
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quantiles_are_the_published_ones() {
        let table = [
            (1, 12.706),
            (2, 4.303),
            (3, 3.182),
            (4, 2.776),
            (5, 2.571),
            (6, 2.447),
            (7, 2.365),
            (8, 2.306),
            (9, 2.262),
            (10, 2.228),
            (11, 2.201),
            (15, 2.131),
            (20, 2.086),
            (30, 2.042),
            (60, 2.000),
            (120, 1.980),
            (10_000, 1.960),
        ];
        for (freedom, wanted) in table {
            let found = quantile(0.05, freedom);
            assert!((found - wanted).abs() < 6e-4, "{freedom}: {found}");
        }
        assert!((quantile(0.01, 5) - 4.032).abs() < 6e-4);
    }

    /// The density, summed up: nothing in common with the series.
    #[test]
    fn the_tail_is_the_area_under_the_density() {
        for freedom in 1..=9usize {
            let density =
                |x: f64| (1.0 + x * x / freedom as f64).powf(-(freedom as f64 + 1.0) / 2.0);
            // By the substitution x = u / (1 - u), from 0 to everything and from 0 to 2.
            let area = |end: f64| -> f64 {
                let steps = 20_000;
                (0..steps)
                    .map(|step| {
                        let u = end * (f64::from(step) + 0.5) / f64::from(steps);
                        density(u / (1.0 - u)) / (1.0 - u).powi(2) * end / f64::from(steps)
                    })
                    .sum()
            };
            let wanted = 1.0 - area(2.0 / 3.0) / area(1.0);
            let found = two_sided(2.0, freedom);
            assert!((found - wanted).abs() < 1e-4, "{freedom}: {found} {wanted}");
        }
    }

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
        assert!(spread(&[]).mean.is_nan());
    }
}
