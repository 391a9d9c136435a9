//! The JSON Schema of [`LoopFile`] as a tree that can be walked beside a TOML document or printed as a table.

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use super::file::LoopFile;

/// One value of the file: what it may be, and what its key means.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) kind: Kind,
    /// The doc comment of the field.
    pub(super) doc: String,
    /// What the key is worth where it is absent, as the table shows it.
    pub(super) default: Option<Value>,
    /// The only values that this version implements; `None`: all.
    pub(super) built: Option<Vec<Value>>,
}

/// What a value may be.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    Table(Vec<Field>),
    /// A table whose keys are free.
    Map(Box<Node>),
    List {
        item: Box<Node>,
        min: u64,
    },
    Text {
        min: u64,
        max: u64,
    },
    Duration {
        min: String,
        max: String,
    },
    Dollars {
        min: String,
        max: String,
    },
    Size {
        min: String,
        max: String,
    },
    Integer {
        min: i128,
        max: i128,
    },
    Number {
        min: Option<f64>,
        max: Option<f64>,
    },
    Boolean,
    Choice(Vec<Choice>),
    Either(Vec<Node>),
    /// A form of schema that this module does not know; a test sees to it that there is none.
    Unknown,
}

/// One key of a table.
#[derive(Debug, Clone)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) required: bool,
    pub(super) node: Node,
}

/// One word of an enumeration.
#[derive(Debug, Clone)]
pub(super) struct Choice {
    pub(super) word: String,
    pub(super) doc: String,
}

/// The JSON Schema of `loop.toml`, every type in its place.
pub(super) fn schema() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<LoopFile>().to_value()
}

/// The shape of a whole `loop.toml`.
pub(super) fn root() -> &'static Node {
    static ROOT: LazyLock<Node> = LazyLock::new(|| Node::read(&schema(), None));
    &ROOT
}

impl Node {
    /// Reads a schema. `outer` has the keywords that stand at the field, which win over those of its type.
    fn read(schema: &Value, outer: Option<&Map<String, Value>>) -> Self {
        let empty = Map::new();
        let own = schema.as_object().unwrap_or(&empty);
        let keyword = |name: &str| outer.and_then(|outer| outer.get(name)).or_else(|| own.get(name));
        let text = |name: &str| keyword(name).and_then(Value::as_str).unwrap_or_default().to_owned();

        // `Option<T>` of an enumeration or a table: the other branch is what counts.
        if let Some(branches) = own.get("anyOf").and_then(Value::as_array) {
            let mut branches: Vec<&Value> =
                branches.iter().filter(|branch| branch["type"] != "null").collect();
            if let [only] = branches.as_slice() {
                return Self::read(only, Some(outer.unwrap_or(own)));
            }
            let kind = Kind::Either(branches.drain(..).map(|branch| Self::read(branch, None)).collect());
            return Self { kind, ..Self::labels(&keyword) };
        }
        let choices = own.get("oneOf").and_then(Value::as_array);
        let kind = if let Some(choices) = choices {
            Kind::Choice(choices.iter().filter_map(Choice::read).collect())
        } else if text("x-kind") == "duration" {
            Kind::Duration { min: text("x-min"), max: text("x-max") }
        } else if text("x-kind") == "dollars" {
            Kind::Dollars { min: text("x-min"), max: text("x-max") }
        } else if text("x-kind") == "size" {
            Kind::Size { min: text("x-min"), max: text("x-max") }
        } else {
            let number = |name: &str| keyword(name).and_then(Value::as_f64);
            let whole = |name: &str| keyword(name).and_then(whole);
            let length = |name: &str| keyword(name).and_then(Value::as_u64);
            match type_name(own) {
                "object" if own.contains_key("properties") => Kind::Table(Field::read_all(own)),
                "object" => Kind::Map(Box::new(Self::read(&own["additionalProperties"], None))),
                "array" => {
                    let mut item = Self::read(&own["items"], None);
                    item.built = keyword("x-built-items").and_then(Value::as_array).cloned();
                    Kind::List { item: Box::new(item), min: length("minItems").unwrap_or(0) }
                }
                "string" => Kind::Text {
                    min: length("minLength").unwrap_or(0),
                    max: length("maxLength").unwrap_or(u64::MAX),
                },
                "integer" => Kind::Integer {
                    min: whole("minimum").unwrap_or(i64::MIN.into()),
                    max: whole("maximum").unwrap_or(i64::MAX.into()),
                },
                "number" => Kind::Number { min: number("minimum"), max: number("maximum") },
                "boolean" => Kind::Boolean,
                _ => Kind::Unknown,
            }
        };
        Self { kind, ..Self::labels(&keyword) }
    }

    fn labels<'v>(keyword: &impl Fn(&str) -> Option<&'v Value>) -> Self {
        Self {
            kind: Kind::Unknown,
            doc: keyword("description").and_then(Value::as_str).unwrap_or_default().replace('\n', " "),
            default: keyword("x-default")
                .or_else(|| keyword("default"))
                .filter(|value| !value.is_null())
                .cloned(),
            built: keyword("x-built").and_then(Value::as_array).cloned(),
        }
    }

    /// The keys of a table.
    pub(super) fn fields(&self) -> &[Field] {
        match &self.kind {
            Kind::Table(fields) => fields,
            _ => &[],
        }
    }
}

impl Field {
    fn read_all(table: &Map<String, Value>) -> Vec<Self> {
        let required = table.get("required").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let properties = table.get("properties").and_then(Value::as_object);
        properties
            .into_iter()
            .flatten()
            .map(|(name, schema)| Self {
                name: name.clone(),
                required: required.iter().any(|key| key == name),
                node: Node::read(schema, None),
            })
            .collect()
    }
}

impl Choice {
    fn read(schema: &Value) -> Option<Self> {
        let word = schema["const"].as_str()?.to_owned();
        Some(Self { word, doc: schema["description"].as_str().unwrap_or_default().replace('\n', " ") })
    }
}

fn whole(value: &Value) -> Option<i128> {
    value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from))
}

/// The type that is not `null`.
fn type_name(schema: &Map<String, Value>) -> &str {
    match schema.get("type") {
        Some(Value::String(name)) => name,
        Some(Value::Array(names)) => {
            names.iter().filter_map(Value::as_str).find(|name| *name != "null").unwrap_or_default()
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(path: &str, node: &Node, see: &mut impl FnMut(&str, &Node)) {
        see(path, node);
        match &node.kind {
            Kind::Table(fields) => {
                for field in fields {
                    visit(&format!("{path}.{}", field.name), &field.node, see);
                }
            }
            Kind::Map(node) => visit(path, node, see),
            Kind::List { item, .. } => visit(path, item, see),
            Kind::Either(branches) => {
                for branch in branches {
                    visit(path, branch, see);
                }
            }
            _ => {}
        }
    }

    #[test]
    fn every_value_has_a_known_shape_and_every_number_a_range() {
        visit("", root(), &mut |path, node| match &node.kind {
            Kind::Unknown => panic!("{path}: a schema that cannot be read: {node:?}"),
            Kind::Integer { min, max } => {
                assert!(*min >= 0 && *max < i128::from(i64::MAX), "{path}: no range");
            }
            Kind::Duration { min, max } => {
                assert!(min.parse::<super::super::Seconds>().is_ok(), "{path}: x-min {min:?}");
                assert!(max.parse::<super::super::Seconds>().is_ok(), "{path}: x-max {max:?}");
            }
            Kind::Dollars { min, max } => {
                assert!(min.parse::<super::super::Dollars>().is_ok(), "{path}: x-min {min:?}");
                assert!(max.parse::<super::super::Dollars>().is_ok(), "{path}: x-max {max:?}");
            }
            Kind::Size { min, max } => {
                assert!(min.parse::<super::super::Bytes>().is_ok(), "{path}: x-min {min:?}");
                assert!(max.parse::<super::super::Bytes>().is_ok(), "{path}: x-max {max:?}");
            }
            Kind::Choice(choices) => {
                assert!(!choices.is_empty(), "{path}");
                let undocumented = choices.iter().find(|choice| choice.doc.is_empty());
                assert!(undocumented.is_none(), "{path}: {undocumented:?}");
            }
            _ => {}
        });
    }

    #[test]
    fn every_key_is_documented() {
        fn check(path: &str, node: &Node) {
            for field in node.fields() {
                let path = format!("{path}.{}", field.name);
                assert!(field.node.doc.ends_with('.'), "{path} is not documented in whole sentences");
                check(&path, &field.node);
            }
        }
        check("", root());
    }
}
