//! Sizes as people write them: `"500MiB"`, `"2GiB"`; whole bytes inside.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A number of bytes.
///
/// The text form is a whole number and a unit: `KiB`, `MiB`, `GiB` or `TiB`. [`fmt::Display`] gives the one canonical form
/// (the largest unit that leaves a whole number), which is also how it is serialized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(u64);

/// Why a text is not a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a size")]
pub struct BadSize;

const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];

impl Bytes {
    /// This many GiB.
    pub const fn gib(number: u64) -> Self {
        Self(number << 30)
    }

    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl FromStr for Bytes {
    type Err = BadSize;

    fn from_str(text: &str) -> Result<Self, BadSize> {
        let (digits, shift) =
            UNITS.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift))).ok_or(BadSize)?;
        // `parse` alone would take a sign.
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(BadSize);
        }
        let number: u64 = digits.parse().map_err(|_| BadSize)?;
        number.checked_mul(1 << shift).map(Self).ok_or(BadSize)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |shift: u32| self.0 >> shift << shift == self.0;
        match UNITS.iter().find(|(_, shift)| self.0 > 0 && fits(*shift)) {
            Some((unit, shift)) => write!(f, "{}{unit}", self.0 >> shift),
            None => write!(f, "{}KiB", self.0 >> 10),
        }
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(|_| de::Error::custom("expected a size such as \"500MiB\" or \"2GiB\""))
    }
}

impl JsonSchema for Bytes {
    fn schema_name() -> Cow<'static, str> {
        "Bytes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^[0-9]+(KiB|MiB|GiB|TiB)$",
            "x-kind": "size",
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_a_number_and_a_unit() {
        for (text, bytes, shown) in [
            ("1KiB", 1 << 10, "1KiB"),
            ("1024KiB", 1 << 20, "1MiB"),
            ("1500MiB", 1500 << 20, "1500MiB"),
            ("2GiB", 2 << 30, "2GiB"),
            ("16TiB", 16 << 40, "16TiB"),
            ("0GiB", 0, "0KiB"),
        ] {
            let size: Bytes = text.parse().unwrap();
            assert_eq!((size.get(), size.to_string().as_str()), (bytes, shown), "{text}");
        }
    }

    #[test]
    fn refuses_every_other_form() {
        for text in
            ["", "1", "GiB", "1GB", "1gib", "1 GiB", "+1GiB", "-1GiB", "1.5GiB", "1GiB ", "99999999TiB"]
        {
            assert_eq!(text.parse::<Bytes>(), Err(BadSize), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn shown_and_read_again_is_the_same(kib in 0..1_u64 << 50) {
            let size = Bytes(kib << 10);
            prop_assert_eq!(size.to_string().parse(), Ok(size));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,20}|[0-9KMGTiB]{0,30}") {
            let _ = text.parse::<Bytes>();
        }
    }
}
