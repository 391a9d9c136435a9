//! The reference of `loop.toml`, generated from the types: one table of every key, and the JSON Schema.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::SCHEMA_ID;
use super::hint::or_list;
use super::shape::{self, Kind, Node};

const HEAD: &str = "\
# `loop.toml`: every key

<!-- Generated from the types in src/contract. Do not edit: GIT_LOOP_BLESS=1 cargo test --lib contract::table writes it. -->

A `loop.toml` holds the terms of a loop. `git loop start` validates it, resolves it against the base commit and freezes it.
An unknown key is an error. A limit of 0 is an error, never \"no limit\". Values that are marked as not built yet are
refused, never ignored. In a key, `[]` stands for each entry of an array of tables and `<name>` for a key of your own.
Durations are whole seconds written as `\"90s\"`, `\"20m\"`, `\"1h30m\"`; sizes are whole `KiB`, `MiB`, `GiB` or `TiB`, as `\"2GiB\"`; money is in US dollars with at most six decimal
places, as a number or a string, and is counted exactly.

| key | type | default | range | meaning |
| --- | --- | --- | --- | --- |
";

/// The page `docs/src/reference/loop-toml.md`: a table of every key with its type, default, range and meaning.
pub fn markdown() -> String {
    let mut page = HEAD.to_owned();
    rows(shape::root(), "", &mut page);
    page
}

/// The JSON Schema (draft 2020-12) of `loop.toml` as a JSON document would hold it; its id is [`SCHEMA_ID`].
pub fn json_schema() -> Value {
    let mut schema = Map::new();
    schema.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
    schema.insert("$id".into(), SCHEMA_ID.into());
    if let Value::Object(generated) = shape::schema() {
        for (key, value) in generated {
            schema.entry(key).or_insert(value);
        }
    }
    Value::Object(schema)
}

fn rows(node: &Node, path: &str, page: &mut String) {
    for field in node.fields() {
        let key = if path.is_empty() { field.name.clone() } else { format!("{path}.{}", field.name) };
        let node = &field.node;
        let nested = nested(node);
        let own_row = nested.is_none_or(|(_, suffix)| !suffix.is_empty() || node.built.is_some());
        if own_row {
            let default = match &node.default {
                _ if field.required => "required".to_owned(),
                Some(Value::String(text)) if is_told(text) => text.clone(),
                Some(Value::String(text)) if matches!(node.kind, Kind::Dollars { .. }) => format!("`{text}`"),
                Some(value) => format!("`{}`", toml_value(value)),
                None => "–".to_owned(),
            };
            let shown = if matches!(node.kind, Kind::Map(_)) { format!("{key}.<name>") } else { key.clone() };
            let cells = [format!("`{shown}`"), type_name(node), default, range(node), meaning(node)];
            let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
            // Writing to a String cannot fail.
            let _ = writeln!(page, "| {} |", cells.join(" | "));
        }
        if let Some((table, suffix)) = nested {
            rows(table, &format!("{key}{suffix}"), page);
        }
    }
}

/// The table that a value is or holds, and what stands between its key and those of the table.
fn nested(node: &Node) -> Option<(&Node, &'static str)> {
    match &node.kind {
        Kind::Table(_) => Some((node, "")),
        Kind::List { item, .. } => matches!(item.kind, Kind::Table(_)).then_some((&**item, "[]")),
        _ => None,
    }
}

/// Defaults that are computed are told in words.
fn is_told(default: &str) -> bool {
    default.contains(' ') || matches!(default, "computed" | "detected" | "nobody")
}

fn type_name(node: &Node) -> String {
    match &node.kind {
        Kind::Table(_) => "table".into(),
        Kind::Map(item) => type_name(item),
        Kind::List { item, .. } => match &item.kind {
            Kind::Table(_) => "array of tables".into(),
            Kind::Choice(_) => format!("array of {}", type_name(item)),
            _ => "array of strings".into(),
        },
        Kind::Text { .. } => "string".into(),
        Kind::Duration { .. } => "duration".into(),
        Kind::Dollars { .. } => "dollars".into(),
        Kind::Size { .. } => "size".into(),
        Kind::Integer { .. } => "integer".into(),
        Kind::Number { .. } => "number".into(),
        Kind::Boolean => "boolean".into(),
        Kind::Choice(choices) => or_list(choices.iter().map(|choice| format!("`\"{}\"`", choice.word))),
        Kind::Either(branches) => or_list(branches.iter().map(|branch| match &branch.kind {
            Kind::Table(fields) => {
                let fields: Vec<String> = fields
                    .iter()
                    .map(|field| format!("{} = {}", field.name, type_name(&field.node)))
                    .collect();
                format!("{{ {} }}", fields.join(", "))
            }
            _ => type_name(branch),
        })),
        Kind::Unknown => String::new(),
    }
}

fn range(node: &Node) -> String {
    match &node.kind {
        Kind::List { min: 1, .. } => "not empty".into(),
        Kind::Text { max, .. } if *max < u64::MAX => format!("up to {max} characters"),
        Kind::Duration { min, max } | Kind::Dollars { min, max } | Kind::Size { min, max } => {
            format!("{min} to {max}")
        }
        Kind::Integer { min, max } => format!("{min} to {max}"),
        Kind::Number { min, max } => match (min, max) {
            (Some(min), Some(max)) => format!("{min} to {max}"),
            (Some(min), None) => format!("{min} or more"),
            (None, Some(max)) => format!("{max} or less"),
            (None, None) => "finite".into(),
        },
        _ => "–".into(),
    }
}

fn meaning(node: &Node) -> String {
    let mut text = node.doc.clone();
    let item = match &node.kind {
        Kind::List { item, .. } => item,
        _ => node,
    };
    if let Kind::Choice(choices) = &item.kind {
        for choice in choices {
            let doc = choice.doc.trim_end_matches('.');
            let _ = write!(text, " `{}`: {}{doc}.", choice.word, unbuilt_mark(item, &choice.word));
        }
    }
    match node.built.as_deref() {
        Some([]) => text.push_str(" **Not built yet.**"),
        Some(built) if !matches!(node.kind, Kind::Choice(_)) => {
            let _ =
                write!(text, " **Only {} so far.**", or_list(built.iter().map(|value| format!("`{value}`"))));
        }
        _ => {}
    }
    text
}

fn unbuilt_mark(node: &Node, word: &str) -> &'static str {
    match &node.built {
        Some(built) if !built.iter().any(|value| value == word) => "(**not built yet**) ",
        _ => "",
    }
}

/// A default as TOML.
fn toml_value(value: &Value) -> String {
    match value {
        Value::Object(table) => {
            let pairs: Vec<String> =
                table.iter().map(|(key, value)| format!("{key} = {}", toml_value(value))).collect();
            if pairs.is_empty() { "{}".into() } else { format!("{{ {} }}", pairs.join(", ")) }
        }
        Value::Array(items) => format!("[{}]", items.iter().map(toml_value).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_docs_have_every_key() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/src/reference/loop-toml.md");
        if std::env::var_os("GIT_LOOP_BLESS").is_some_and(|value| value == "1") {
            std::fs::create_dir_all(std::path::Path::new(path).parent().unwrap()).unwrap();
            std::fs::write(path, markdown()).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(written == markdown(), "{path} is stale: run the test again with GIT_LOOP_BLESS=1");
    }

    #[test]
    fn the_schema_names_itself() {
        let schema = json_schema();
        assert_eq!(schema["$id"], SCHEMA_ID);
        assert_eq!(schema["properties"]["limits"]["properties"]["iterations"]["maximum"], 100);
        assert_eq!(schema["additionalProperties"], false);
    }
}
