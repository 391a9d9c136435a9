//! The JSON Schemas of everything that a ledger stores, generated from the types.

use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Value, json};

use super::receipt::{RECEIPT_SCHEMA, Receipt};
use super::record::{RECORD_SCHEMA, Record};
use super::state::{STATE_SCHEMA, State};
use crate::contract::Contract;
use crate::contract::frozen::CONTRACT_SCHEMA;

/// Each schema with its id, by the name of its file.
pub fn all() -> Vec<(&'static str, Value)> {
    vec![
        ("contract", schema::<Contract>(CONTRACT_SCHEMA)),
        ("record", schema::<Record>(RECORD_SCHEMA)),
        ("receipt", schema::<Receipt>(RECEIPT_SCHEMA)),
        ("state", schema::<State>(STATE_SCHEMA)),
    ]
}

fn schema<T: schemars::JsonSchema>(id: &str) -> Value {
    let generator: SchemaGenerator = SchemaSettings::draft2020_12().into_generator();
    let mut value = generator.into_root_schema_for::<T>().to_value();
    if let Some(object) = value.as_object_mut() {
        object.insert("$id".to_owned(), json!(id));
    }
    value
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// `GIT_LOOP_BLESS=1 cargo test schemas` writes them anew.
    #[test]
    fn the_schemas_in_the_docs_are_those_of_the_types() {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/src/reference/schemas");
        for (name, schema) in all() {
            let path = folder.join(format!("{name}.schema.json"));
            let text = crate::canonical::canonical_json(&schema);
            if std::env::var_os("GIT_LOOP_BLESS").is_some() {
                std::fs::create_dir_all(&folder).unwrap();
                std::fs::write(&path, text).unwrap();
                continue;
            }
            let found = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(
                found == text,
                "{} is not what the types give; GIT_LOOP_BLESS=1 writes it",
                path.display()
            );
        }
    }
}
