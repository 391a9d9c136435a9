//! `Cargo.toml` and `Cargo.lock`.

use toml::{Table, Value};

use super::{Listed, Unreadable};

const SECTIONS: &[&str] =
    &["dependencies", "dev-dependencies", "build-dependencies", "dev_dependencies", "build_dependencies"];

/// The packages that a manifest asks for: of its own tables, of those per target, and of the table that a workspace shares. What
/// is taken from that table by a member is counted there; what has a path is in this tree.
pub fn manifest(file: &Table) -> Result<Listed, Unreadable> {
    let mut listed = Listed::default();
    let mut tables: Vec<&Table> = vec![file];
    tables.extend(file.get("workspace").and_then(Value::as_table));
    let targets = file.get("target").and_then(Value::as_table);
    tables.extend(targets.into_iter().flat_map(Table::values).filter_map(Value::as_table));
    for table in tables {
        for section in SECTIONS.iter().filter_map(|name| table.get(*name)) {
            let Some(section) = section.as_table() else {
                return Err("its dependencies are no table".to_owned());
            };
            for (name, asked) in section {
                let version = asked.as_str().or_else(|| asked.get("version")?.as_str()).unwrap_or_default();
                let named = asked.get("package").and_then(Value::as_str).unwrap_or(name);
                let inherited = asked.get("workspace").and_then(Value::as_bool) == Some(true);
                if !inherited && asked.get("path").is_none() {
                    listed.direct(named, version);
                }
            }
        }
    }
    Ok(listed)
}

/// The packages that a lock file holds; those without a source are in this tree.
pub fn lock(file: &Table) -> Result<Listed, Unreadable> {
    let mut listed = Listed::default();
    let packages = match file.get("package") {
        None => return Ok(listed),
        Some(packages) => packages.as_array().ok_or("its packages are no list")?,
    };
    for package in packages {
        let text = |key| package.get(key).and_then(Value::as_str);
        let name = text("name").ok_or("a package in it has no name")?;
        if text("source").is_some() {
            listed.locked(name, text("version").unwrap_or_default());
        }
    }
    Ok(listed)
}
