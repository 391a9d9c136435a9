//! Canonical JSON: the same value always gives the same bytes, and only those bytes are read back.
//!
//! Records, states and evidence are named by the hash of what they say, so two writings of one value would be two
//! values. The form: UTF-8, fields in schema order, two-space indent, one final newline.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::error::{Error, Kind};

/// The lower-case hex digits of the SHA-256 of `bytes`.
pub fn sha256_hex(bytes: impl AsRef<[u8]>) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes.as_ref()) {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// `value` in canonical form: two-space indent and one final newline.
///
/// # Panics
///
/// If `value` has a map whose keys are not strings, or a `Serialize` that fails; no type of a schema does either.
pub fn canonical_json<T: Serialize + ?Sized>(value: &T) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("a schema type always serializes");
    text.push('\n');
    text
}

/// `value` on one line and without a newline: a line of a note, the text behind a fingerprint.
///
/// # Panics
///
/// As [`canonical_json`].
pub fn compact_json<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("a schema type always serializes")
}

/// Why bytes are not the canonical form of a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CanonicalError {
    /// Not UTF-8.
    #[error("not UTF-8: the byte at offset {offset} starts no character")]
    NotUtf8 {
        /// The offset of the first bad byte.
        offset: usize,
    },
    /// Not JSON.
    #[error("not JSON: {message}")]
    NotJson {
        /// What the parser says, with line and column.
        message: String,
    },
    /// JSON, but in another writing: white space, duplicate keys, number forms, escapes.
    #[error("not in canonical form: line {line} is written in another way")]
    NotCanonical {
        /// The first line that differs, counted from 1.
        line: usize,
    },
    /// Canonical JSON of another shape than the schema's.
    #[error("not of its schema: {message}")]
    Schema {
        /// What the deserializer says.
        message: String,
    },
    /// A known field is missing, out of order, or in another form than we write it.
    #[error("the field at `{pointer}` is missing, out of order or in another form")]
    Field {
        /// The JSON pointer of the field.
        pointer: String,
    },
}

impl From<CanonicalError> for Error {
    fn from(error: CanonicalError) -> Self {
        Self::new(Kind::Invariant, error.to_string())
            .hint("fetch the record again from where it was published; a stored record is never edited")
    }
}

/// Reads a value from its canonical form and refuses every other writing of it.
///
/// Unknown fields of a newer minor version are kept out of the way, but whatever `T` would write must be there, in
/// the order of the schema: nothing known is read as an implicit null.
pub fn read_canonical<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Result<T, CanonicalError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| CanonicalError::NotUtf8 { offset: error.valid_up_to() })?;
    // Nearly always the text is what `T` writes, byte for byte: then it is canonical, and nothing is missing in it. All else needs the
    // long way, which tells a newer version from a bad writing.
    if let Ok(typed) = serde_json::from_str::<T>(text)
        && canonical_json(&typed) == text
    {
        return Ok(typed);
    }
    let value: Value =
        serde_json::from_str(text).map_err(|error| CanonicalError::NotJson { message: error.to_string() })?;
    let canonical = canonical_json(&value);
    if canonical != text {
        return Err(CanonicalError::NotCanonical { line: first_difference(&canonical, text) });
    }
    let schema = |error: serde_json::Error| CanonicalError::Schema { message: error.to_string() };
    let typed = T::deserialize(&value).map_err(schema)?;
    let written = serde_json::to_value(&typed).map_err(schema)?;
    let mut pointer = String::new();
    if embeds(&written, &value, &mut pointer) { Ok(typed) } else { Err(CanonicalError::Field { pointer }) }
}

/// The number of the first line in which two different texts differ.
fn first_difference(a: &str, b: &str) -> usize {
    a.split('\n').zip(b.split('\n')).take_while(|(a, b)| a == b).count() + 1
}

/// Whether `inner` is `outer` less some fields of its objects. If not, `pointer` leads to where they part.
fn embeds(inner: &Value, outer: &Value, pointer: &mut String) -> bool {
    match (inner, outer) {
        (Value::Object(inner), Value::Object(outer)) => {
            let mut rest = outer.iter();
            inner.iter().all(|(key, inner)| {
                let length = enter(pointer, key);
                let held = rest
                    .find(|(other, _)| *other == key)
                    .is_some_and(|(_, outer)| embeds(inner, outer, pointer));
                if held {
                    pointer.truncate(length);
                }
                held
            })
        }
        (Value::Array(inner), Value::Array(outer)) => {
            inner.len() == outer.len()
                && inner.iter().zip(outer).enumerate().all(|(index, (inner, outer))| {
                    let length = enter(pointer, &index.to_string());
                    let held = embeds(inner, outer, pointer);
                    if held {
                        pointer.truncate(length);
                    }
                    held
                })
        }
        (inner, outer) => inner == outer,
    }
}

/// Appends a step to a JSON pointer and says how long it was before.
fn enter(pointer: &mut String, key: &str) -> usize {
    let length = pointer.len();
    pointer.push('/');
    pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
    length
}

/// SHA-256, in hex, over the canonical JSON of `value`.
pub fn sha256_of<T: Serialize + ?Sized>(value: &T) -> String {
    sha256_hex(canonical_json(value))
}

/// A typed value from one that is part of canonical JSON: nothing known may be absent or out of order.
pub fn from_value<T: Serialize + DeserializeOwned>(value: &Value) -> Result<T, CanonicalError> {
    read_canonical(canonical_json(value).as_bytes())
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Inner {
        x: f64,
        names: BTreeSet<String>,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Sample {
        schema: String,
        count: u64,
        missing: Option<i32>,
        list: Vec<Inner>,
        map: BTreeMap<String, bool>,
    }

    fn sample() -> Sample {
        Sample {
            schema: "test/v1".into(),
            count: 3,
            missing: None,
            list: vec![Inner { x: 0.1, names: BTreeSet::from(["a".into(), "b".into()]) }],
            map: BTreeMap::from([("k/1".into(), true)]),
        }
    }

    fn read(text: &str) -> Result<Sample, CanonicalError> {
        read_canonical(text.as_bytes())
    }

    #[test]
    fn the_form_is_what_the_design_says() {
        assert_eq!(
            canonical_json(&sample()),
            "{\n  \"schema\": \"test/v1\",\n  \"count\": 3,\n  \"missing\": null,\n  \"list\": [\n    {\n      \
             \"x\": 0.1,\n      \"names\": [\n        \"a\",\n        \"b\"\n      ]\n    }\n  ],\n  \"map\": {\n    \
             \"k/1\": true\n  }\n}\n"
        );
        assert_eq!(compact_json(&sample().list), r#"[{"x":0.1,"names":["a","b"]}]"#);
        assert_eq!(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn every_other_writing_is_refused() {
        let good = canonical_json(&sample());
        assert_eq!(read(&good), Ok(sample()));
        for (from, to) in [
            ("  \"count\"", "   \"count\""),
            ("\": 3", "\":3"),
            ("0.1", "1e-1"),
            ("0.1", "0.10"),
            ("0.1", "0.1000000000000000055"),
            ("\"a\"", "\"\\u0061\""),
            ("  \"count\": 3,\n", "  \"count\": 3,\n  \"count\": 3,\n"),
            ("}\n", "}\n\n"),
            ("null,\n", "null, \n"),
            ("\n", "\r\n"),
        ] {
            let bad = good.replace(from, to);
            assert!(matches!(read(&bad), Err(CanonicalError::NotCanonical { .. })), "{from:?} to {to:?}");
        }
        assert_eq!(read(&good.replace("null", "null ")), Err(CanonicalError::NotCanonical { line: 4 }));
        assert!(matches!(read(good.trim_end()), Err(CanonicalError::NotCanonical { .. })));
        assert!(matches!(read(&good[..40]), Err(CanonicalError::NotJson { .. })));
        assert!(matches!(read(&format!("\u{feff}{good}")), Err(CanonicalError::NotJson { .. })));
        assert_eq!(read_canonical::<Sample>(b"{\xff}"), Err(CanonicalError::NotUtf8 { offset: 1 }));
        let deep = "[".repeat(100_000);
        assert!(matches!(read(&deep), Err(CanonicalError::NotJson { .. })));
    }

    #[test]
    fn nothing_known_is_missing_or_moved() {
        let field = |text: &str| match read(text) {
            Err(CanonicalError::Field { pointer }) => pointer,
            other => panic!("{other:?}"),
        };
        let good = canonical_json(&sample());
        assert_eq!(field(&good.replace("  \"missing\": null,\n", "")), "/missing");
        assert_eq!(
            field(&good.replace(
                "  \"count\": 3,\n  \"missing\": null,\n",
                "  \"missing\": null,\n  \"count\": 3,\n"
            )),
            "/missing"
        );
        // A set that is not sorted, and an integer where a float is written.
        assert_eq!(field(&good.replace("\"a\",\n        \"b\"", "\"b\",\n        \"a\"")), "/list/0/names/0");
        assert_eq!(field(&good.replace("0.1", "1")), "/list/0/x");
        assert!(matches!(read(&good.replace('3', "-3")), Err(CanonicalError::Schema { .. })));
    }

    #[test]
    fn fields_of_a_newer_version_are_ignored() {
        let good = canonical_json(&sample());
        let newer = good
            .replace("  \"count\": 3,\n", "  \"count\": 3,\n  \"added\": {\n    \"y\": 1\n  },\n")
            .replace("      \"x\": 0.1,\n", "      \"w\": null,\n      \"x\": 0.1,\n");
        assert_ne!(newer, good);
        assert_eq!(read(&newer), Ok(sample()));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_filter("finite", |x| x.is_finite()).prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                proptest::collection::vec((any::<String>(), inner), 0..6)
                    .prop_map(|fields| fields.into_iter().collect::<Value>()),
            ]
        })
    }

    /// The long way of [`read_canonical`] alone.
    fn read_slowly(text: &str) -> Option<Sample> {
        let value: Value = serde_json::from_str(text).ok()?;
        let typed = Sample::deserialize(&value).ok()?;
        let written = serde_json::to_value(&typed).ok()?;
        (canonical_json(&value) == text && embeds(&written, &value, &mut String::new())).then_some(typed)
    }

    proptest! {
        #[test]
        fn both_ways_agree(at in 0usize..200, byte in prop_oneof![Just(b'0'), Just(b'.'), Just(b' '), Just(b'"'), any::<u8>()], insert: bool) {
            let mut bytes = canonical_json(&sample()).into_bytes();
            let at = at % bytes.len();
            if insert { bytes.insert(at, byte) } else { bytes[at] = byte }
            if let Ok(text) = std::str::from_utf8(&bytes) {
                prop_assert_eq!(read(text).ok(), read_slowly(text));
            }
        }

        #[test]
        fn values_round_trip(value in any_json()) {
            let text = canonical_json(&value);
            let read: Value = read_canonical(text.as_bytes()).unwrap();
            prop_assert_eq!(canonical_json(&read), text);
        }

        #[test]
        fn floats_round_trip(x in any::<f64>().prop_filter("finite", |x| x.is_finite())) {
            let inner = Inner { x, names: BTreeSet::new() };
            prop_assert_eq!(read_canonical::<Inner>(canonical_json(&inner).as_bytes()).unwrap(), inner);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = read_canonical::<Sample>(&bytes);
            let _ = read_canonical::<Value>(&bytes);
        }
    }
}
