//! `pom.xml`.

use std::collections::BTreeMap;

use quick_xml::Reader;
use quick_xml::events::Event;

use super::{Listed, Unreadable};

/// The most elements in each other: a pom has about ten.
const MAX_DEPTH: usize = 100;

/// The dependencies, plugins and extensions of a project, of its profiles and of its plugins. What stands below
/// `dependencyManagement` or `pluginManagement` only chooses versions.
pub fn project(text: &str) -> Result<Listed, Unreadable> {
    let mut reader = Reader::from_str(text);
    reader.config_mut().trim_text(true);
    let mut path: Vec<String> = Vec::new();
    // The children of each element on the path that are text.
    let mut texts: Vec<BTreeMap<String, String>> = vec![BTreeMap::new()];
    let mut content = String::new();
    let mut found: Vec<BTreeMap<String, String>> = Vec::new();
    let mut project: BTreeMap<String, String> = BTreeMap::new();
    let mut parent: BTreeMap<String, String> = BTreeMap::new();
    loop {
        match reader.read_event().map_err(|error| format!("it is no XML: {error}"))? {
            Event::Start(start) => {
                if path.len() == MAX_DEPTH {
                    return Err("its elements are nested too deep".to_owned());
                }
                path.push(String::from_utf8_lossy(start.local_name().as_ref()).into_owned());
                texts.push(BTreeMap::new());
                content.clear();
            }
            Event::Text(text) => {
                content.push_str(&text.decode().map_err(|error| format!("it is no XML: {error}"))?);
            }
            Event::CData(text) => content.push_str(&String::from_utf8_lossy(&text)),
            Event::End(_) => {
                let (Some(name), Some(children)) = (path.pop(), texts.pop()) else { break };
                let managed =
                    path.iter().any(|name| name == "dependencyManagement" || name == "pluginManagement");
                let outer = path.last().map(String::as_str);
                match (name.as_str(), outer) {
                    ("dependency", Some("dependencies")) | ("extension", Some("extensions")) if !managed => {
                        found.push(children);
                    }
                    ("plugin", Some("plugins")) if !managed => {
                        let mut plugin = children;
                        plugin
                            .entry("groupId".to_owned())
                            .or_insert_with(|| "org.apache.maven.plugins".to_owned());
                        found.push(plugin);
                    }
                    ("parent", Some("project")) => parent = children,
                    ("project", None) => project = children,
                    _ => {
                        if let Some(outer) = texts.last_mut() {
                            outer.insert(name, std::mem::take(&mut content));
                        }
                    }
                }
                content.clear();
            }
            Event::Eof => break,
            _ => {}
        }
    }
    if !path.is_empty() {
        return Err("it is no XML: it ends inside of an element".to_owned());
    }
    let mut listed = Listed::default();
    let group = project.get("groupId").or_else(|| parent.get("groupId")).cloned().unwrap_or_default();
    let resolved = |name: &str| match name {
        "${project.groupId}" | "${pom.groupId}" | "${groupId}" => group.clone(),
        name => name.to_owned(),
    };
    if let Some(artifact) = project.get("artifactId") {
        listed.own.insert(format!("{group}:{artifact}"));
    }
    for one in found {
        let text = |key| one.get(key).map(String::as_str).unwrap_or_default();
        if text("artifactId").is_empty() {
            return Err("a dependency has no artifactId".to_owned());
        }
        listed.direct(format!("{}:{}", resolved(text("groupId")), text("artifactId")), text("version"));
    }
    Ok(listed)
}
