//! JSON as a report may hold it: stricter than what serde_json takes by itself.
//!
//! A key that comes twice in one object says two things, and readers differ in which of them they hear; deep nesting is
//! no report. `NaN`, infinities, numbers that no 64-bit float holds, lone surrogates and raw control characters in strings
//! are refused by serde_json itself.

use std::collections::HashMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// How deep arrays and objects may nest. Real reports need six levels.
const MAX_DEPTH: usize = 64;

/// A value of a report.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    /// A whole number from 0 on, written without a fraction or an exponent.
    Count(u64),
    /// Any other number.
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Map(HashMap<String, Json>),
}

impl Json {
    pub fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Map(map) => map.get(key),
            _ => None,
        }
    }

    /// The keys of an object, in byte order.
    pub fn keys(&self) -> Vec<&str> {
        let mut keys: Vec<&str> = match self {
            Self::Map(map) => map.keys().map(String::as_str).collect(),
            _ => Vec::new(),
        };
        keys.sort_unstable();
        keys
    }

    pub fn text(&self, key: &str) -> Option<&str> {
        match self.get(key) {
            Some(Self::Text(text)) => Some(text),
            _ => None,
        }
    }

    pub fn list(&self, key: &str) -> Option<&[Self]> {
        match self.get(key) {
            Some(Self::List(list)) => Some(list),
            _ => None,
        }
    }

    pub fn count(&self, key: &str) -> Option<u64> {
        match self.get(key) {
            Some(Self::Count(count)) => Some(*count),
            _ => None,
        }
    }

    pub fn flag(&self, key: &str) -> Option<bool> {
        match self.get(key) {
            Some(Self::Bool(flag)) => Some(*flag),
            _ => None,
        }
    }
}

/// Why a text is no JSON that is read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadJson {
    /// The text ends too early.
    pub cut_off: bool,
    /// The line, counted from 1.
    pub line: u64,
    pub why: String,
}

/// Reads one value and nothing but white space around it.
pub(crate) fn read(text: &str) -> Result<Json, BadJson> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Depth(0).deserialize(&mut deserializer);
    value.and_then(|value| deserializer.end().map(|()| value)).map_err(|error| BadJson {
        cut_off: error.is_eof(),
        line: error.line().max(1) as u64,
        why: error.to_string(),
    })
}

/// How many arrays and objects are open around a value.
#[derive(Clone, Copy)]
struct Depth(usize);

impl Depth {
    fn inner<E: Error>(self) -> Result<Self, E> {
        if self.0 < MAX_DEPTH {
            Ok(Self(self.0 + 1))
        } else {
            Err(E::custom(format!("nested deeper than {MAX_DEPTH}")))
        }
    }
}

impl<'de> DeserializeSeed<'de> for Depth {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Depth {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Json, E> {
        Ok(Json::Bool(flag))
    }

    fn visit_u64<E: Error>(self, count: u64) -> Result<Json, E> {
        Ok(Json::Count(count))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Json, E> {
        #[allow(clippy::cast_precision_loss, reason = "a number of a report is a 64-bit float")]
        Ok(Json::Number(number as f64))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Json, E> {
        Ok(Json::Number(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Json, E> {
        Ok(Json::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let inner = self.inner()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(inner)? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
        let inner = self.inner()?;
        let mut map = HashMap::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(inner)?;
            if map.contains_key(&key) {
                return Err(A::Error::custom(format!("the key `{}` comes twice", super::excerpt(&key))));
            }
            map.insert(key, value);
        }
        Ok(Json::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values() {
        let value = read(r#" {"a": [null, true, 3, -3, 3.0, 1e2, "\ud83d\ude00"], "b": {}} "#).unwrap();
        let list = [
            Json::Null,
            Json::Bool(true),
            Json::Count(3),
            Json::Number(-3.0),
            Json::Number(3.0),
            Json::Number(100.0),
            Json::Text("😀".into()),
        ];
        assert_eq!(value.list("a"), Some(&list[..]));
        assert_eq!(value.get("b"), Some(&Json::Map(HashMap::new())));
        assert_eq!(value.text("a"), None);
    }

    #[test]
    fn what_no_report_holds() {
        for (text, why) in [
            (r#"{"a":1,"a":1}"#, "the key `a` comes twice"),
            (r#"{"a":1,"\u0061":2}"#, "the key `a` comes twice"),
            (r#"[{"b":{"x":1,"x":2}}]"#, "the key `x` comes twice"),
            ("NaN", "expected"),
            ("[Infinity]", "expected"),
            ("1e999", "out of range"),
            (r#""\ud800""#, ""),
            (r#""\udc00""#, ""),
            ("\"a\u{1}\"", "control character"),
            ("{} {}", "trailing"),
            ("{'a':1}", "key must be a string"),
            ("[1,]", "trailing comma"),
            ("\u{feff}{}", "expected"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.why.contains(why), "{text}: {error:?}");
            assert!(!error.cut_off, "{text}: {error:?}");
        }
        for text in ["", "{", r#"{"a""#, "[1", "\"a", "tru"] {
            assert!(read(text).unwrap_err().cut_off, "{text}");
        }
    }

    #[test]
    fn nesting_has_a_bound() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(read(&nested(MAX_DEPTH)).is_ok());
        assert!(read(&nested(MAX_DEPTH + 1)).unwrap_err().why.contains("nested deeper than 64"));
        // A stack is not what bounds it.
        assert!(read(&"[".repeat(1 << 20)).is_err());
        assert!(read(&"{\"a\":".repeat(1 << 20)).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_total(text in any::<String>(), like in "[\\[\\]{}\",:a1e.\\\\u-]{0,24}") {
            let _ = read(&text);
            let _ = read(&like);
        }
    }
}
