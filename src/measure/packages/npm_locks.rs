//! The lock files of yarn and pnpm. Both programs write them in one fixed layout, of which only the lines that begin a package
//! are read.

use super::npm::split;
use super::{Listed, Unreadable};

/// `yarn.lock`, of version 1 and later: at the start of a line the descriptors of a package, `name@range, name@range:`, below them
/// its version.
pub fn yarn(text: &str) -> Result<Listed, Unreadable> {
    let mut listed = Listed::default();
    // The package whose version comes next.
    let mut name: Option<String> = None;
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        if !line.starts_with(' ') {
            let Some(descriptors) = line.trim_end().strip_suffix(':') else {
                return Err(format!("a line is no list of packages: {line:?}"));
            };
            let first = descriptors.split(',').next().unwrap_or_default().trim_matches([' ', '"']);
            let (alias, range) = split(first);
            let local =
                ["workspace:", "link:", "portal:", "file:"].iter().any(|local| range.starts_with(local));
            let real = range.strip_prefix("npm:").map(split).filter(|(_, range)| !range.is_empty());
            name = (!local && first != "__metadata").then(|| real.map_or(alias, |(real, _)| real).to_owned());
        } else if let Some(version) = line.strip_prefix("  version")
            && let Some(name) = name.take()
        {
            listed.locked(name, version.trim_start_matches(':').trim().trim_matches('"'));
        }
    }
    Ok(listed)
}

/// `pnpm-lock.yaml`: below `packages:` the keys `/name/1.0`, `/name@1.0(peer@1)` or `name@1.0`, by version of the format.
pub fn pnpm(text: &str) -> Result<Listed, Unreadable> {
    if !text.lines().any(|line| line.starts_with("lockfileVersion:")) {
        return Err("it does not say its version".to_owned());
    }
    let mut listed = Listed::default();
    let mut inside = false;
    for line in text.lines() {
        if !line.starts_with([' ', '#']) && !line.trim().is_empty() {
            inside = line.trim_end() == "packages:";
            continue;
        }
        let Some(key) = line.strip_prefix("  ").filter(|rest| inside && !rest.starts_with([' ', '#'])) else {
            continue;
        };
        let Some(key) = key.trim_end().strip_suffix(':') else { continue };
        let key = key.trim_matches(['\'', '"']);
        let key = key.split('(').next().unwrap_or(key);
        let (name, version) = match key.strip_prefix('/') {
            Some(key) => match split(key) {
                (_, "") => key.rsplit_once('/').unwrap_or((key, "")),
                both => both,
            },
            None => split(key),
        };
        if version.is_empty() {
            return Err(format!("a package has no version: {key:?}"));
        }
        if !version.starts_with("file:") && !version.starts_with("link:") {
            listed.locked(name, version);
        }
    }
    Ok(listed)
}
