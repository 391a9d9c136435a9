//! Money: an integer number of micro-dollars. No sum ever passes through a float.

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use crate::error::Error;

const MICROS_PER_DOLLAR: u64 = 1_000_000;
const MICROS_PER_CENT: u64 = 10_000;

/// A longer text is not a price, and is refused before it is looked at.
const MAX_TEXT: usize = 400;

/// An amount of US dollars that is not negative, in millionths.
///
/// Shown and stored as a decimal string with exactly six places (`"0.123456"`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MicroUsd(u64);

/// Why something is not an amount of money.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MoneyError {
    /// Neither a decimal number nor a string that holds one.
    #[error("not a decimal number of dollars")]
    Syntax,
    /// Below zero.
    #[error("an amount of money cannot be negative")]
    Negative,
    /// NaN or infinite.
    #[error("an amount of money must be finite")]
    NotFinite,
    /// More than 64 bits of micro-dollars hold.
    #[error("an amount of money this large cannot be counted")]
    TooLarge,
}

impl From<MoneyError> for Error {
    fn from(error: MoneyError) -> Self {
        Self::usage(error.to_string()).hint("write dollars as a decimal number, such as 1.50")
    }
}

impl MicroUsd {
    /// Nothing: a known amount, not an unknown one.
    pub const ZERO: Self = Self(0);

    /// This many millionths of a dollar.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// The amount in millionths of a dollar.
    pub const fn micros(self) -> u64 {
        self.0
    }

    /// The amount in cents; a started cent counts.
    pub const fn cents_rounded_up(self) -> u64 {
        self.0.div_ceil(MICROS_PER_CENT)
    }

    /// The sum, if it can be counted.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// The sum, or the largest amount there is: a limit never fails to bite because a sum wrapped.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// What is left of `self` after `other` is spent; nothing if that is more.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// One of `parts` equal parts, rounded up.
    #[must_use]
    pub const fn div_rounded_up(self, parts: NonZeroU64) -> Self {
        Self(self.0.div_ceil(parts.get()))
    }

    /// The amount that a float stands for: its shortest decimal form, rounded up to a millionth.
    pub fn from_f64(value: f64) -> Result<Self, MoneyError> {
        match value {
            value if !value.is_finite() => Err(MoneyError::NotFinite),
            0.0 => Ok(Self::ZERO),
            value => Self::from_decimal(&format!("{value:e}")),
        }
    }

    /// An amount written as a JSON number or as a string that holds a decimal number.
    pub fn from_json(value: &Value) -> Result<Self, MoneyError> {
        match value {
            Value::Number(number) => match (number.as_u64(), number.as_f64()) {
                (Some(dollars), _) => {
                    dollars.checked_mul(MICROS_PER_DOLLAR).map(Self).ok_or(MoneyError::TooLarge)
                }
                (None, Some(dollars)) => Self::from_f64(dollars),
                (None, None) => Err(MoneyError::Syntax),
            },
            Value::String(text) => Self::from_decimal(text),
            _ => Err(MoneyError::Syntax),
        }
    }

    /// An amount written in decimal, with or without an exponent. What is finer than a millionth is rounded up: a cost
    /// is never understated.
    pub fn from_decimal(text: &str) -> Result<Self, MoneyError> {
        if text.len() > MAX_TEXT {
            return Err(MoneyError::Syntax);
        }
        let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, parse_exponent(exponent)?),
            None => (text, 0),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((_, "")) => return Err(MoneyError::Syntax),
            Some(parts) => parts,
            None => (mantissa, ""),
        };
        if !is_digits(whole) || !(fraction.is_empty() || is_digits(fraction)) {
            return Err(MoneyError::Syntax);
        }
        if negative {
            return Err(MoneyError::Negative);
        }
        let digits = format!("{whole}{fraction}");
        let digits = digits.trim_start_matches('0');
        if digits.is_empty() {
            return Ok(Self::ZERO);
        }
        // `digits` times ten to the `shift` is the amount in micro-dollars. Texts are short: no sum here overflows.
        let shift = exponent + 6 - i64::try_from(fraction.len()).map_err(|_| MoneyError::Syntax)?;
        let (kept, cut) = match usize::try_from(-shift) {
            Ok(places) => digits.split_at(digits.len().saturating_sub(places)),
            Err(_) => (digits, ""),
        };
        let kept = if kept.is_empty() { 0 } else { kept.parse().map_err(|_| MoneyError::TooLarge)? };
        let power = u32::try_from(shift.max(0)).map_err(|_| MoneyError::TooLarge)?;
        10_u64
            .checked_pow(power)
            .and_then(|factor| u64::checked_mul(kept, factor))
            .and_then(|micros| micros.checked_add(u64::from(cut.bytes().any(|digit| digit != b'0'))))
            .map(Self)
            .ok_or(MoneyError::TooLarge)
    }
}

/// The exponent of a decimal number, cut off where it no longer makes a difference.
fn parse_exponent(text: &str) -> Result<i64, MoneyError> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if !is_digits(digits) {
        return Err(MoneyError::Syntax);
    }
    let size = digits.parse().unwrap_or(i64::MAX).min(10_000);
    Ok(if negative { -size } else { size })
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

impl fmt::Display for MicroUsd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.0 / MICROS_PER_DOLLAR, self.0 % MICROS_PER_DOLLAR)
    }
}

impl FromStr for MicroUsd {
    type Err = MoneyError;

    /// Reads any decimal form, as [`MicroUsd::from_decimal`] does.
    fn from_str(text: &str) -> Result<Self, MoneyError> {
        Self::from_decimal(text)
    }
}

impl Serialize for MicroUsd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MicroUsd {
    /// Reads exactly what is written: one amount has one text.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        let amount = Self::from_decimal(&text).map_err(de::Error::custom)?;
        if amount.to_string() == text {
            Ok(amount)
        } else {
            Err(de::Error::custom(format!("an amount is written with six decimal places, as `{amount}`")))
        }
    }
}

impl JsonSchema for MicroUsd {
    fn schema_name() -> Cow<'static, str> {
        "MicroUsd".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "US dollars as a decimal string with exactly six places",
            "type": "string",
            "pattern": "^(0|[1-9][0-9]*)\\.[0-9]{6}$",
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn micros(text: &str) -> Result<u64, MoneyError> {
        MicroUsd::from_decimal(text).map(MicroUsd::micros)
    }

    #[test]
    fn decimals_are_exact() {
        for (text, expected) in [
            ("0", 0),
            ("0.1", 100_000),
            ("0.412345", 412_345),
            ("0.1234560", 123_456),
            ("0.1234561", 123_457),
            ("0.00000000001", 1),
            ("0e99999999999999999999", 0),
            ("1e-7", 1),
            ("1e-10000000", 1),
            ("1.5E+3", 1_500_000_000),
            ("12.5e-1", 1_250_000),
            ("1e13", 10_000_000_000_000_000_000),
            ("18446744073709.551615", u64::MAX),
            ("007.50", 7_500_000),
        ] {
            assert_eq!(micros(text), Ok(expected), "{text}");
        }
        for (text, error) in [
            ("", MoneyError::Syntax),
            (".5", MoneyError::Syntax),
            ("5.", MoneyError::Syntax),
            ("+5", MoneyError::Syntax),
            (" 5", MoneyError::Syntax),
            ("1,5", MoneyError::Syntax),
            ("0x10", MoneyError::Syntax),
            ("NaN", MoneyError::Syntax),
            ("inf", MoneyError::Syntax),
            ("1e", MoneyError::Syntax),
            ("1e1.5", MoneyError::Syntax),
            ("$1", MoneyError::Syntax),
            ("-0.01", MoneyError::Negative),
            ("18446744073709.551616", MoneyError::TooLarge),
            ("18446744073709.5516151", MoneyError::TooLarge),
            ("1e14", MoneyError::TooLarge),
            ("1e99999999999999999999", MoneyError::TooLarge),
        ] {
            assert_eq!(micros(text), Err(error), "{text}");
        }
        assert_eq!(micros(&"1".repeat(401)), Err(MoneyError::Syntax));
    }

    #[test]
    fn json_numbers_and_strings() {
        for (value, expected) in [
            (json!(0), Ok(0)),
            (json!(0.0), Ok(0)),
            (json!(-0.0), Ok(0)),
            (json!(3), Ok(3_000_000)),
            (json!(0.1), Ok(100_000)),
            (json!("0.1"), Ok(100_000)),
            (json!(0.1 + 0.2), Ok(300_001)),
            (json!(-1), Err(MoneyError::Negative)),
            (json!(-0.5), Err(MoneyError::Negative)),
            (json!(u64::MAX), Err(MoneyError::TooLarge)),
            (json!(1e300), Err(MoneyError::TooLarge)),
            (json!("free"), Err(MoneyError::Syntax)),
            (json!(null), Err(MoneyError::Syntax)),
            (json!(true), Err(MoneyError::Syntax)),
            (json!([1]), Err(MoneyError::Syntax)),
        ] {
            assert_eq!(MicroUsd::from_json(&value).map(MicroUsd::micros), expected, "{value}");
        }
        assert_eq!(MicroUsd::from_f64(f64::NAN), Err(MoneyError::NotFinite));
        assert_eq!(MicroUsd::from_f64(f64::INFINITY), Err(MoneyError::NotFinite));
    }

    #[test]
    fn one_amount_has_one_text() {
        let amount = MicroUsd::from_micros(1_200_034);
        assert_eq!(serde_json::to_value(amount).unwrap(), json!("1.200034"));
        assert_eq!(serde_json::from_value::<MicroUsd>(json!("1.200034")).unwrap(), amount);
        for other in
            [json!("1.2"), json!("01.200034"), json!("1.2000340"), json!(1.200_034), json!("-1.000000")]
        {
            assert!(serde_json::from_value::<MicroUsd>(other.clone()).is_err(), "{other}");
        }
    }

    #[test]
    fn sums_and_parts() {
        let max = MicroUsd::from_micros(u64::MAX);
        assert_eq!(max.checked_add(MicroUsd::from_micros(1)), None);
        assert_eq!(max.saturating_add(MicroUsd::from_micros(1)), max);
        assert_eq!(MicroUsd::ZERO.saturating_sub(max), MicroUsd::ZERO);
        assert_eq!(MicroUsd::from_micros(0).cents_rounded_up(), 0);
        assert_eq!(MicroUsd::from_micros(1).cents_rounded_up(), 1);
        assert_eq!(MicroUsd::from_micros(10_000).cents_rounded_up(), 1);
        assert_eq!(MicroUsd::from_micros(10_001).cents_rounded_up(), 2);
        let three = NonZeroU64::new(3).unwrap();
        assert_eq!(MicroUsd::from_micros(1_000_000).div_rounded_up(three).micros(), 333_334);
    }

    proptest! {
        #[test]
        fn shown_and_read_again_is_the_same(micros: u64) {
            let amount = MicroUsd::from_micros(micros);
            prop_assert_eq!(amount.to_string().parse(), Ok(amount));
            let json = serde_json::to_string(&amount).unwrap();
            prop_assert_eq!(serde_json::from_str::<MicroUsd>(&json).unwrap(), amount);
        }

        #[test]
        fn any_text_and_any_float_are_total(text: String, float: f64, shaped in "-?[0-9]{0,25}\\.?[0-9]{0,25}(e-?[0-9]{0,22})?") {
            let _ = MicroUsd::from_decimal(&text);
            let _ = MicroUsd::from_decimal(&shaped);
            let _ = MicroUsd::from_f64(float);
        }

        #[test]
        fn a_cost_is_never_understated(float in 0.0..1e6_f64) {
            let micros = MicroUsd::from_f64(float).unwrap().micros() as f64;
            prop_assert!(micros >= (float * 1e6) * (1.0 - 1e-15));
            prop_assert!(micros <= float * 1e6 + 1.0 + 1e-3);
        }
    }
}
