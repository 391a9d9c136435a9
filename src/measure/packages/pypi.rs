//! Python's manifests and lock files in TOML and JSON.

use serde_json::Value as Json;
use toml::{Table, Value};

use super::requirements::{normal, requirement};
use super::{Listed, Unreadable};

/// `pyproject.toml`: PEP 621, PEP 735, the build system's own, and the tables of poetry, uv and pdm.
pub fn project(file: &Table) -> Listed {
    let mut listed = Listed::default();
    let at = |path: &[&str]| -> Option<&Value> {
        let (first, rest) = path.split_first()?;
        rest.iter().try_fold(file.get(*first)?, |value, key| value.get(*key))
    };
    let own = [at(&["project", "name"]), at(&["tool", "poetry", "name"])];
    listed.own.extend(own.into_iter().flatten().filter_map(Value::as_str).map(normal));
    let mut lists = vec![
        at(&["project", "dependencies"]),
        at(&["build-system", "requires"]),
        at(&["tool", "uv", "dev-dependencies"]),
    ];
    let groups = [
        at(&["project", "optional-dependencies"]),
        at(&["dependency-groups"]),
        at(&["tool", "pdm", "dev-dependencies"]),
    ];
    for group in groups.into_iter().flatten().filter_map(Value::as_table) {
        lists.extend(group.values().map(Some));
    }
    // An entry that is a table includes another group.
    let entries = lists.into_iter().flatten().filter_map(Value::as_array).flatten();
    for (name, version) in entries.filter_map(Value::as_str).filter_map(requirement) {
        listed.direct(name, version);
    }
    let poetry = at(&["tool", "poetry"]);
    let mut tables = vec![
        poetry.and_then(|poetry| poetry.get("dependencies")),
        poetry.and_then(|poetry| poetry.get("dev-dependencies")),
    ];
    let groups = poetry.and_then(|poetry| poetry.get("group")).and_then(Value::as_table);
    tables.extend(groups.into_iter().flat_map(Table::values).map(|group| group.get("dependencies")));
    for table in tables.into_iter().flatten().filter_map(Value::as_table) {
        section(table, &mut listed);
    }
    listed
}

/// `Pipfile`.
pub fn pipfile(file: &Table) -> Listed {
    let mut listed = Listed::default();
    let settings = ["source", "requires", "scripts", "pipenv"];
    for (name, table) in file {
        if let Some(table) = table.as_table().filter(|_| !settings.contains(&name.as_str())) {
            section(table, &mut listed);
        }
    }
    listed
}

/// A table of names and requirements, as poetry and pipenv write it.
fn section(table: &Table, listed: &mut Listed) {
    for (name, asked) in table {
        // poetry names the interpreter like a package.
        if name == "python" || asked.get("path").is_some() {
            continue;
        }
        let version = asked.as_str().or_else(|| asked.get("version")?.as_str()).unwrap_or_default();
        listed.direct(normal(name), version);
    }
}

/// `Pipfile.lock`.
pub fn pipfile_lock(file: &Json) -> Result<Listed, Unreadable> {
    let mut listed = Listed::default();
    for (group, packages) in file.as_object().ok_or("it is no object")? {
        if group == "_meta" {
            continue;
        }
        for (name, package) in packages.as_object().ok_or("a group in it is no object")? {
            if package.get("path").is_none() {
                listed
                    .locked(normal(name), package.get("version").and_then(Json::as_str).unwrap_or_default());
            }
        }
    }
    Ok(listed)
}

/// `uv.lock`, `poetry.lock`, `pdm.lock` (a list `package`) and `pylock.toml` (a list `packages`).
pub fn lock(file: &Table) -> Result<Listed, Unreadable> {
    let mut listed = Listed::default();
    let packages = match file.get("package").or_else(|| file.get("packages")) {
        None => return Ok(listed),
        Some(packages) => packages.as_array().ok_or("its packages are no list")?,
    };
    for package in packages {
        let text = |key| package.get(key).and_then(Value::as_str);
        let name = normal(text("name").ok_or("a package in it has no name")?);
        let source = package.get("source");
        let here = |key| source.and_then(|source| source.get(key)).is_some();
        if ["editable", "virtual", "directory"].into_iter().any(here) || package.get("directory").is_some() {
            listed.own.insert(name);
        } else {
            listed.locked(name, text("version").unwrap_or_default());
        }
    }
    Ok(listed)
}
