//! `package.json` and `package-lock.json`.

use serde_json::{Map, Value};

use super::{Listed, Unreadable};

const SECTIONS: &[&str] = &["dependencies", "devDependencies", "peerDependencies", "optionalDependencies"];

/// The packages that a manifest asks for. An alias (`npm:name@range`) is the package it stands for; what a path or a workspace
/// gives is in this tree.
pub fn manifest(file: &Value) -> Result<Listed, Unreadable> {
    let file = file.as_object().ok_or("it is no object")?;
    let mut listed = Listed::default();
    listed.own.extend(file.get("name").and_then(Value::as_str).map(str::to_owned));
    for section in SECTIONS.iter().filter_map(|name| file.get(*name)) {
        for (name, range) in section.as_object().ok_or("its dependencies are no object")? {
            let range = range.as_str().unwrap_or_default();
            if ["workspace:", "file:", "link:", "portal:"].iter().any(|local| range.starts_with(local)) {
                continue;
            }
            let (name, range) = range.strip_prefix("npm:").map_or((name.as_str(), range), split);
            listed.direct(name, range);
        }
    }
    Ok(listed)
}

/// `name@range` as its two parts; the `@` of a scope is of the name.
pub fn split(descriptor: &str) -> (&str, &str) {
    let at = descriptor.char_indices().skip(1).find(|(_, c)| *c == '@').map(|(at, _)| at);
    at.map_or((descriptor, ""), |at| (&descriptor[..at], &descriptor[at + 1..]))
}

/// The packages that a lock file holds, of its versions 1 to 3.
pub fn lock(file: &Value) -> Result<Listed, Unreadable> {
    let file = file.as_object().ok_or("it is no object")?;
    let mut listed = Listed::default();
    if let Some(packages) = file.get("packages") {
        for (path, package) in packages.as_object().ok_or("its packages are no object")? {
            // Other paths are workspaces: the packages of this tree.
            let Some((_, name)) = path.rsplit_once("node_modules/") else { continue };
            if package.get("link").and_then(Value::as_bool) != Some(true) {
                listed.locked(
                    text(package, "name").unwrap_or(name),
                    text(package, "version").unwrap_or_default(),
                );
            }
        }
    } else if let Some(first) = file.get("dependencies").and_then(Value::as_object) {
        // Each package holds those that only it sees.
        let mut left: Vec<&Map<String, Value>> = vec![first];
        while let Some(dependencies) = left.pop() {
            for (name, package) in dependencies {
                let version = text(package, "version").unwrap_or_default();
                let (name, version) = version.strip_prefix("npm:").map_or((name.as_str(), version), split);
                if !version.starts_with("file:") {
                    listed.locked(name, version);
                }
                left.extend(package.get("dependencies").and_then(Value::as_object));
            }
        }
    }
    Ok(listed)
}

fn text<'a>(package: &'a Value, key: &str) -> Option<&'a str> {
    package.get(key)?.as_str()
}
