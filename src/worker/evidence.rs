//! What a worker says of its change to lasting code: the JSON file that `GIT_LOOP_EVIDENCE` names. It is a claim for those who read it,
//! and never a proof: that it is there and complete is all that row 11 asks.

use std::collections::BTreeSet;

use crate::check::excerpt;
use crate::check::json::{self, Json};

/// The most bytes that are read.
pub const MAX_BYTES: usize = 1 << 20;
/// The most characters of one text.
pub const MAX_TEXT: usize = 10_000;
/// The most entries of one list.
pub const MAX_LIST: usize = 100;

/// The texts that the contract requires.
const TEXTS: [&str; 8] = [
    "hypothesis",
    "mechanism",
    "documentation_impact",
    "summary",
    "call_graph",
    "diagnosis_path",
    "rollback_path",
    "maintenance_without_model",
];

/// What a worker may say besides them.
const OTHERS: [&str; 3] = ["semantic_changes", "cost", "promotion_packet"];

/// What a worker said of its change.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WorkerEvidence {
    /// The changes of meaning that it declares.
    pub semantic_changes: Vec<String>,
    /// The promotion packet, not yet validated.
    pub(crate) packet: Option<Json>,
}

/// Reads the evidence; `None` is a file that was not written. An error says what is missing or malformed.
pub fn parse(bytes: Option<&[u8]>) -> Result<WorkerEvidence, String> {
    let bytes = bytes.ok_or("the worker wrote no evidence")?;
    if bytes.len() > MAX_BYTES {
        return Err("it is larger than 1 MiB".to_owned());
    }
    let text = std::str::from_utf8(bytes).map_err(|error| format!("it is no UTF-8: {error}"))?;
    let object = json::read(text).map_err(|bad| format!("it is no JSON: line {}: {}", bad.line, bad.why))?;
    if !matches!(object, Json::Map(_)) {
        return Err("it is no JSON object".to_owned());
    }
    if let Some(key) = object.keys().into_iter().find(|key| !TEXTS.contains(key) && !OTHERS.contains(key)) {
        return Err(format!("`{}` is none of a worker's evidence", excerpt(key)));
    }
    for key in TEXTS {
        let text = object.get(key).ok_or_else(|| format!("`{key}` is missing"))?;
        match text {
            Json::Text(_) => string(text, key)?,
            Json::List(list) if !list.is_empty() && list.len() <= MAX_LIST => {
                list.iter().try_for_each(|text| string(text, key))?;
            }
            _ => return Err(format!("`{key}` is no text, and no list of 1 to {MAX_LIST} texts")),
        }
    }
    if !matches!(object.get("cost"), None | Some(Json::Null | Json::Map(_))) {
        return Err("`cost` is no object".to_owned());
    }
    let changes = object.get("semantic_changes").ok_or("`semantic_changes` is missing")?;
    let semantic_changes = strings(changes, "semantic_changes", 0)?;
    let packet = match object.get("promotion_packet") {
        None | Some(Json::Null) => None,
        Some(packet) => Some(packet.clone()),
    };
    Ok(WorkerEvidence { semantic_changes, packet })
}

/// A list of at least `least` distinct texts.
pub(crate) fn strings(value: &Json, key: &str, least: usize) -> Result<Vec<String>, String> {
    let list = match value {
        Json::List(list) if (least..=MAX_LIST).contains(&list.len()) => list,
        _ => return Err(format!("`{key}` is no list of {least} to {MAX_LIST} texts")),
    };
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for text in list {
        string(text, key)?;
        if let Json::Text(text) = text {
            if !seen.insert(text) {
                return Err(format!("`{key}` has `{}` twice", excerpt(text)));
            }
            found.push(text.clone());
        }
    }
    Ok(found)
}

/// Whether `value` is a text that says something.
pub(crate) fn string(value: &Json, key: &str) -> Result<(), String> {
    match value {
        Json::Text(text) if text.trim().is_empty() => Err(format!("`{key}` is empty")),
        Json::Text(text) if text.chars().count() > MAX_TEXT => {
            Err(format!("`{key}` has more than {MAX_TEXT} characters"))
        }
        Json::Text(_) => Ok(()),
        _ => Err(format!("`{key}` has something that is no text")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn whole() -> Value {
        let mut value = json!({ "semantic_changes": ["a"] });
        for key in TEXTS {
            value[key] = json!("x");
        }
        value
    }

    fn read(value: &Value) -> Result<WorkerEvidence, String> {
        parse(Some(value.to_string().as_bytes()))
    }

    #[test]
    fn everything_that_is_required() {
        let evidence = read(&whole()).unwrap();
        assert_eq!(evidence, WorkerEvidence { semantic_changes: vec!["a".to_owned()], packet: None });
        let mut more = whole();
        more["call_graph"] = json!(["a calls b", "b calls c"]);
        more["semantic_changes"] = json!([]);
        more["cost"] = json!({ "usd": 1, "anything": [] });
        more["promotion_packet"] = json!({});
        let evidence = read(&more).unwrap();
        assert!(evidence.packet.is_some() && evidence.semantic_changes.is_empty());
        more["promotion_packet"] = json!(null);
        assert_eq!(read(&more).unwrap().packet, None);
    }

    #[test]
    fn each_missing_or_malformed_part_is_named() {
        for key in TEXTS.into_iter().chain(["semantic_changes"]) {
            let mut value = whole();
            value.as_object_mut().unwrap().remove(key);
            assert_eq!(read(&value), Err(format!("`{key}` is missing")));
            for bad in [
                json!(null),
                json!(1),
                json!({}),
                json!([1]),
                json!([""]),
                json!(" \t"),
                json!("x".repeat(10_001)),
            ] {
                value[key] = bad;
                assert!(read(&value).unwrap_err().contains(key), "{value}");
            }
        }
        for (key, bad) in [
            ("cost", json!(1)),
            ("semantic_changes", json!(["a", "a"])),
            ("semantic_changes", json!(vec!["a"; 101])),
            ("summary", json!([])),
            // What a check may write is no worker's.
            ("invariant_effect", json!("preserved")),
            ("complexity_delta", json!(null)),
            ("metric_value", json!(0)),
            ("invented", json!(1)),
        ] {
            let mut value = whole();
            value[key] = bad;
            assert!(read(&value).unwrap_err().contains(key), "{key}");
        }
        assert!(parse(None).is_err());
        for bad in
            [&b""[..], b"[]", b"null", b"{", b"\xff", b"{\"summary\": 1, \"summary\": 1}", b"{\"x\": NaN}"]
        {
            assert!(parse(Some(bad)).is_err(), "{bad:?}");
        }
        let mut large = whole();
        large["cost"] = json!({ "x": "x".repeat(MAX_BYTES) });
        assert!(read(&large).unwrap_err().contains("1 MiB"));
    }

    proptest! {
        #[test]
        fn total(bytes in proptest::collection::vec(any::<u8>(), 0..300), cut in any::<proptest::sample::Index>()) {
            let _ = parse(Some(&bytes));
            let text = whole().to_string();
            let cut = cut.index(text.len());
            prop_assert!(parse(Some(&text.as_bytes()[..cut])).is_err());
        }
    }
}
