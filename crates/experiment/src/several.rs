//! Several questions to one experiment.

/// Adjusts the probabilities of several tests so that the chance of any false alarm among them stays what it is
/// for one (Holm). In the order given; whatever depends on whatever.
#[must_use]
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&one, &other| p_values[one].total_cmp(&p_values[other]));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut most: f64 = 0.0;
    for (place, &index) in order.iter().enumerate() {
        let remaining = (p_values.len() - place) as f64;
        most = most.max((remaining * p_values[index]).min(1.0));
        adjusted[index] = most;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_counts_most_and_order_is_kept() {
        let adjusted = holm(&[0.04, 0.01, 0.03]);
        let wanted = [0.06, 0.03, 0.06];
        for (one, other) in adjusted.iter().zip(wanted) {
            assert!((one - other).abs() < 1e-12, "{adjusted:?}");
        }
        assert_eq!(holm(&[0.7, 0.9]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }
}
