//! What the known costs of a loop say about the next one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::money::MicroUsd;

/// The known costs so far, as sums: enough for their mean and their population variance, exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Costs {
    /// How many costs were reported.
    pub known: u32,
    /// Their sum.
    pub sum: MicroUsd,
    /// The sum of their squares, in square micro-dollars, in decimal.
    #[serde(with = "decimal")]
    #[schemars(with = "String")]
    pub squares: u128,
}

/// From which known cost on one may be an anomaly.
const FIRST_COMPARED: u32 = 4;

#[allow(
    clippy::cast_precision_loss,
    reason = "rounding to the nearest binary64 is part of the rule, or for people"
)]
impl Costs {
    /// The costs so far and one more.
    #[must_use]
    pub fn with(self, cost: MicroUsd) -> Self {
        let micros = u128::from(cost.micros());
        Self {
            known: self.known.saturating_add(1),
            sum: self.sum.saturating_add(cost),
            squares: self.squares.saturating_add(micros.saturating_mul(micros)),
        }
    }

    /// Whether `cost`, which is not among these, is greater than their mean plus `sigma` times their population standard
    /// deviation. Where they do not vary nothing is an anomaly.
    ///
    /// With n costs, sum S and sum of squares Q that is n·cost - S > sigma·√(n·Q - S²): both differences are whole numbers, and only
    /// then become binary64. Squared, so that no root is taken.
    pub fn is_anomaly(self, cost: MicroUsd, sigma: f64) -> bool {
        if self.known + 1 < FIRST_COMPARED {
            return false;
        }
        let n = u128::from(self.known);
        let sum = u128::from(self.sum.micros());
        let Some(above) = (n * u128::from(cost.micros())).checked_sub(sum) else { return false };
        let spread = n.saturating_mul(self.squares).saturating_sub(sum.saturating_mul(sum));
        let (above, spread) = (above as f64, spread as f64);
        spread > 0.0 && above * above > sigma * sigma * spread
    }

    /// Their mean in dollars, for people.
    pub fn mean_usd(self) -> Option<f64> {
        (self.known > 0).then(|| self.sum.micros() as f64 / f64::from(self.known) / MICROS)
    }

    /// Their population standard deviation in dollars, for people.
    pub fn deviation_usd(self) -> Option<f64> {
        let n = u128::from(self.known);
        let sum = u128::from(self.sum.micros());
        let spread = n.saturating_mul(self.squares).saturating_sub(sum.saturating_mul(sum));
        (self.known > 0).then(|| (spread as f64).sqrt() / f64::from(self.known) / MICROS)
    }

    /// What a cost must be more than to be an anomaly, in dollars, for people; none while there are too few, or where they do
    /// not vary.
    pub fn bound_usd(self, sigma: f64) -> Option<f64> {
        let deviation = self.deviation_usd().filter(|deviation| *deviation > 0.0)?;
        (self.known + 1 >= FIRST_COMPARED).then_some(self.mean_usd()? + sigma * deviation)
    }
}

const MICROS: f64 = 1e6;

/// A `u128` as a string of decimal digits, as JSON numbers are not that large.
mod decimal {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(value: &u128, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u128, D::Error> {
        let text = String::deserialize(deserializer)?;
        // One value has one form.
        let value = text.parse::<u128>().ok().filter(|value| value.to_string() == text);
        value.ok_or_else(|| serde::de::Error::custom(format!("`{text}` is not a whole number in decimal")))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn costs(micros: &[u64]) -> Costs {
        micros.iter().fold(Costs::default(), |so_far, cost| so_far.with(MicroUsd::from_micros(*cost)))
    }

    fn anomaly(before: &[u64], cost: u64, sigma: f64) -> bool {
        costs(before).is_anomaly(MicroUsd::from_micros(cost), sigma)
    }

    #[test]
    fn from_the_fourth_known_cost_on_and_only_over_the_bound() {
        // Mean 20, population standard deviation √(200/3) = 8.1649…
        let before = [10, 20, 30];
        assert!(!anomaly(&before, 44, 3.0));
        assert!(anomaly(&before, 45, 3.0));
        assert!(!anomaly(&before, 28, 1.0));
        assert!(anomaly(&before, 29, 1.0));
        assert!(!anomaly(&before[..2], 1_000_000, 3.0));
        // Mean 2, standard deviation exactly 1: equal is not greater.
        let before = [1, 3, 1, 3];
        assert!(!anomaly(&before, 5, 3.0));
        assert!(anomaly(&before, 6, 3.0));
        // Cheap is no anomaly, and costs that do not vary know none.
        assert!(!anomaly(&before, 0, 0.1));
        assert!(!anomaly(&[5, 5, 5, 5], 5_000_000, 3.0));
        assert!(!anomaly(&[0, 0, 0], 1, 0.1));
        assert!(!anomaly(&[], 1, 0.1));
    }

    #[test]
    fn no_sum_overflows() {
        let most = 10_000_000_000;
        let many = vec![most; 100];
        assert!(!anomaly(&many, most, 0.1));
        let mut varied = many;
        varied.push(0);
        assert!(anomaly(&varied, most * 100, 100.0));
        // Sums that no limit allows are held at the largest there is.
        let _ = anomaly(&[u64::MAX; 5], u64::MAX, 100.0);
    }

    #[test]
    fn the_squares_are_written_in_one_way() {
        let text = serde_json::to_string(&costs(&[10, 20])).unwrap();
        assert_eq!(text, r#"{"known":2,"sum":"0.000030","squares":"500"}"#);
        assert_eq!(serde_json::from_str::<Costs>(&text).unwrap(), costs(&[10, 20]));
        for bad in ["\"0500\"", "\"+5\"", "\"\"", "500", "\"-1\"", "\"5e2\""] {
            assert!(serde_json::from_str::<Costs>(&text.replace("\"500\"", bad)).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn as_the_formula_says_it(before in proptest::collection::vec(0..1_000_000_u64, 0..8), cost in 0..2_000_000_u64, sigma in 0.1..5.0_f64) {
            let n = before.len() as f64;
            let mean = before.iter().sum::<u64>() as f64 / n;
            let deviation = (before.iter().map(|one| (*one as f64 - mean).powi(2)).sum::<f64>() / n).sqrt();
            let bound = mean + sigma * deviation;
            // Away from the bound, where rounding decides.
            prop_assume!((cost as f64 - bound).abs() > 1e-3);
            let expected = before.len() >= 3 && deviation > 0.0 && cost as f64 > bound;
            prop_assert_eq!(anomaly(&before, cost, sigma), expected);
        }
    }
}
