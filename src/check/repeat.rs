//! Several runs of one check on one tree as one measurement.

/// The median: of an even number of values the mean of the two in the middle, `(a + b) / 2` in binary64. `None` of no values, or if
/// it is not finite.
#[allow(
    clippy::manual_midpoint,
    reason = "the rule is a formula that anyone can follow in binary64, overflow and all"
)]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    let median = if sorted.len() % 2 == 1 {
        upper
    } else {
        let lower = sorted[middle - 1];
        (lower + upper) / 2.0
    };
    median.is_finite().then_some(median)
}

/// The noise: the median absolute deviation from the median, not scaled.
pub fn noise(values: &[f64]) -> Option<f64> {
    let middle = median(values)?;
    median(&values.iter().map(|value| (value - middle).abs()).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn by_hand() {
        assert_eq!((median(&[]), noise(&[])), (None, None));
        assert_eq!((median(&[4.5]), noise(&[4.5])), (Some(4.5), Some(0.0)));
        assert_eq!((median(&[3.0, 1.0, 2.0]), noise(&[3.0, 1.0, 2.0])), (Some(2.0), Some(1.0)));
        assert_eq!((median(&[1.0, 4.0, 2.0, 10.0]), noise(&[1.0, 4.0, 2.0, 10.0])), (Some(3.0), Some(1.5)));
        // One outlier moves neither much.
        assert_eq!(noise(&[1.0, 1.0, 1.0, 1.0, 1e9]), Some(0.0));
        assert_eq!(median(&[f64::MAX, f64::MAX]), None);
        assert_eq!(median(&[-1.0, -3.0]), Some(-2.0));
    }

    proptest! {
        #[test]
        fn half_lies_on_either_side(values in proptest::collection::vec(-1e6..1e6_f64, 1..12)) {
            let middle = median(&values).unwrap();
            let half = values.len().div_ceil(2);
            prop_assert!(values.iter().filter(|value| **value <= middle).count() >= half);
            prop_assert!(values.iter().filter(|value| **value >= middle).count() >= half);
            prop_assert!(noise(&values).unwrap() >= 0.0);
        }
    }
}
