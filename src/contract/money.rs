//! Money: dollars as people write them, integer micro-dollars inside, no float in between.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

const MICROS: u64 = 1_000_000;

/// An amount of US dollars that is not negative, kept as an integer number of micro-dollars.
///
/// `loop.toml` may write it as a number (`1`, `1.00`) or as a string (`"1.00"`). [`fmt::Display`] gives the shortest
/// decimal form with at least two places, which is also how it is serialized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Dollars(u64);

/// Why a text is not an amount of money.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadAmount {
    /// Not digits with at most one decimal point.
    #[error("not an amount such as 1.50")]
    Syntax,
    /// Below zero.
    #[error("an amount cannot be negative")]
    Negative,
    /// More than six decimal places.
    #[error("an amount has at most six decimal places")]
    TooFine,
    /// More than fits in 64 bits of micro-dollars.
    #[error("an amount this large cannot be counted")]
    TooLarge,
}

impl Dollars {
    /// This many millionths of a dollar.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// The amount in millionths of a dollar.
    pub const fn micros(self) -> u64 {
        self.0
    }

    /// The amount that a float stands for: its shortest decimal form, which is what was typed wherever that had at most
    /// 15 significant digits.
    pub fn from_float(value: f64) -> Result<Self, BadAmount> {
        if value.is_finite() { value.to_string().parse() } else { Err(BadAmount::Syntax) }
    }
}

impl FromStr for Dollars {
    type Err = BadAmount;

    fn from_str(text: &str) -> Result<Self, BadAmount> {
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        if let Some(rest) = whole.strip_prefix('-') {
            return Err(if digits(rest) && digits(fraction) {
                BadAmount::Negative
            } else {
                BadAmount::Syntax
            });
        }
        if whole.is_empty() || fraction.is_empty() || !digits(whole) || !digits(fraction) {
            return Err(BadAmount::Syntax);
        }
        let fraction = fraction.trim_end_matches('0');
        if fraction.len() > 6 {
            return Err(BadAmount::TooFine);
        }
        // At most six digits: cannot fail.
        let micros = format!("{fraction:0<6}").parse::<u64>().map_err(|_| BadAmount::Syntax)?;
        let whole = whole.parse::<u64>().map_err(|_| BadAmount::TooLarge)?;
        whole.checked_mul(MICROS).and_then(|sum| sum.checked_add(micros)).map(Self).ok_or(BadAmount::TooLarge)
    }
}

impl fmt::Display for Dollars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fraction = format!("{:06}", self.0 % MICROS);
        let kept = fraction.trim_end_matches('0').len().max(2);
        write!(f, "{}.{}", self.0 / MICROS, &fraction[..kept])
    }
}

impl Serialize for Dollars {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Dollars {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Dollars;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an amount in dollars such as 1.50")
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Dollars, E> {
                value.to_string().parse().map_err(E::custom)
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Dollars, E> {
                value.to_string().parse().map_err(E::custom)
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Dollars, E> {
                Dollars::from_float(value).map_err(E::custom)
            }

            fn visit_str<E: de::Error>(self, value: &str) -> Result<Dollars, E> {
                value.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for Dollars {
    fn schema_name() -> Cow<'static, str> {
        "Dollars".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["number", "string"],
            "minimum": 0,
            "pattern": "^[0-9]+(\\.[0-9]{1,6}0*)?$",
            "x-kind": "dollars",
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_exactly() {
        for (text, micros) in [
            ("1.00", 1_000_000),
            ("1", 1_000_000),
            ("0.1", 100_000),
            ("0.000001", 1),
            ("1.0000000000", 1_000_000),
            ("10000", 10_000_000_000),
            ("0.29", 290_000),
            ("00.5", 500_000),
        ] {
            assert_eq!(text.parse(), Ok(Dollars::from_micros(micros)), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_not_an_exact_amount() {
        use BadAmount::{Negative, Syntax, TooFine, TooLarge};
        for (text, error) in [
            ("", Syntax),
            (".5", Syntax),
            ("1.", Syntax),
            ("1e3", Syntax),
            ("$1", Syntax),
            ("1,5", Syntax),
            ("1.2.3", Syntax),
            ("nan", Syntax),
            ("-1", Negative),
            ("-x", Syntax),
            ("0.0000001", TooFine),
            ("99999999999999999999", TooLarge),
            ("18446744073710", TooLarge),
        ] {
            assert_eq!(text.parse::<Dollars>(), Err(error), "{text:?}");
        }
        assert_eq!(Dollars::from_float(f64::INFINITY), Err(Syntax));
    }

    proptest! {
        #[test]
        fn shown_and_read_again_is_the_same(micros: u64) {
            let amount = Dollars::from_micros(micros);
            prop_assert_eq!(amount.to_string().parse(), Ok(amount));
        }

        #[test]
        fn a_float_of_cents_is_exact(cents in 0_u32..100_000_000) {
            let text = format!("{}.{:02}", cents / 100, cents % 100);
            let float: f64 = text.parse().unwrap();
            prop_assert_eq!(Dollars::from_float(float), Ok(Dollars::from_micros(u64::from(cents) * 10_000)));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,20}|[-+0-9.e]{0,40}") {
            let _ = text.parse::<Dollars>();
        }
    }
}
