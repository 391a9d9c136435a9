//! Object ids as they stand in JSON: lower-case hex of the repository's hash, 40 or 64 digits.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use gix::ObjectId;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A git object id that serializes as hex.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Oid(pub ObjectId);

impl Oid {
    /// The first 12 hex digits, for people.
    pub fn short(self) -> String {
        self.0.to_hex_with_len(12).to_string()
    }

    /// The first 12 hex digits as a number: the `contract_id` when this is a contract record.
    pub fn contract_id(self) -> u64 {
        self.0.as_bytes().iter().take(6).fold(0, |number, byte| (number << 8) | u64::from(*byte))
    }
}

impl From<ObjectId> for Oid {
    fn from(id: ObjectId) -> Self {
        Self(id)
    }
}

impl From<Oid> for ObjectId {
    fn from(id: Oid) -> Self {
        id.0
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Oid {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // gix accepts upper case; canonical JSON has one spelling of a value only.
        if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(format!("object id {text:?} is not lower-case hex"));
        }
        ObjectId::from_hex(text.as_bytes()).map(Self).map_err(|_| format!("{text:?} is not an object id"))
    }
}

impl Serialize for Oid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Oid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

impl JsonSchema for Oid {
    fn schema_name() -> Cow<'static, str> {
        "Oid".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^([0-9a-f]{40}|[0-9a-f]{64})$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contract_id_is_the_first_twelve_digits_as_a_number() {
        let id: Oid = "00000000000fffffffffffffffffffffffffffff".parse().unwrap();
        assert_eq!(id.contract_id(), 0xf);
        let id: Oid = "ffffffffffff0000000000000000000000000000".parse().unwrap();
        // Safe in JSON: below 2^53.
        assert_eq!(id.contract_id(), (1 << 48) - 1);
    }

    #[test]
    fn upper_case_and_short_ids_are_refused() {
        assert!("ABCDEF0000000000000000000000000000000000".parse::<Oid>().is_err());
        assert!("abc".parse::<Oid>().is_err());
    }
}
