//! `go.mod` and `go.sum`.

use super::{Listed, Unreadable};

/// `go.mod`: what it requires. What it marks as indirect is locked here, not asked for.
pub fn module(text: &str) -> Result<Listed, Unreadable> {
    let mut listed = Listed::default();
    // The directive whose parenthesis is open.
    let mut block: Option<String> = None;
    for line in text.lines() {
        let (code, comment) = line.split_once("//").unwrap_or((line, ""));
        let mut words = code.split_whitespace().map(|word| word.trim_matches(['"', '`']));
        let Some(first) = words.next() else { continue };
        if first == ")" {
            block = None;
            continue;
        }
        let (directive, first) = match &block {
            Some(block) => (block.as_str(), Some(first)),
            None => (first, words.next()),
        };
        match (directive, first) {
            (_, Some("(")) => block = Some(directive.to_owned()),
            ("module", Some(name)) => {
                listed.own.insert(name.to_owned());
            }
            ("require", Some(name)) => {
                let version = words.next().ok_or_else(|| format!("{name} has no version"))?;
                if comment.trim_start().starts_with("indirect") {
                    listed.locked(name, version);
                } else {
                    listed.direct(name, version);
                }
            }
            _ => {}
        }
    }
    Ok(listed)
}

/// `go.sum`: the modules whose content is hashed. A line with `/go.mod` is of a module that was only looked at to choose versions.
pub fn sums(text: &str) -> Result<Listed, Unreadable> {
    let mut listed = Listed::default();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let mut words = line.split_whitespace();
        let (Some(name), Some(version), Some(_), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(format!("a line is not a module, a version and a hash: {line:?}"));
        };
        if !version.ends_with("/go.mod") {
            listed.locked(name, version);
        }
    }
    Ok(listed)
}
