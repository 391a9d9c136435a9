//! What the manifests and lock files of two trees come to.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{Ecosystem, Listed};

/// What is known of one package in one tree.
#[derive(Debug, Default, PartialEq, Eq)]
struct Known {
    versions: BTreeSet<String>,
    direct: bool,
    locked: bool,
}

/// The packages of one tree.
#[derive(Debug, Default)]
pub struct All {
    packages: BTreeMap<(Ecosystem, String), Known>,
    own: BTreeSet<(Ecosystem, String)>,
}

impl All {
    /// Adds what one file says.
    pub fn add(&mut self, ecosystem: Ecosystem, listed: Listed) {
        self.own.extend(listed.own.into_iter().map(|name| (ecosystem, name)));
        for named in listed.packages {
            let known = self.packages.entry((ecosystem, named.name)).or_default();
            if named.direct {
                known.direct = true;
            } else {
                known.locked = true;
            }
            if !named.version.is_empty() {
                known.versions.insert(named.version);
            }
        }
    }

    fn others(&self) -> BTreeMap<&(Ecosystem, String), &Known> {
        self.packages.iter().filter(|(name, _)| !self.own.contains(*name)).collect()
    }
}

/// One package that came or went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Package {
    /// Where it comes from.
    pub ecosystem: Ecosystem,
    /// Its name there.
    pub name: String,
    /// The locked versions and the requirements.
    pub versions: Vec<String>,
    /// Whether a manifest names it.
    pub direct: bool,
    /// Whether a lock file holds it.
    pub locked: bool,
}

/// One package whose versions or requirements are others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedPackage {
    /// Where it comes from.
    pub ecosystem: Ecosystem,
    /// Its name there.
    pub name: String,
    /// Those of the old tree that the new one does not have.
    pub old: Vec<String>,
    /// Those of the new tree that the old one does not have.
    pub new: Vec<String>,
}

/// How the packages of two trees differ.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PackageChanges {
    /// Those that only the new tree depends on.
    pub added: Vec<Package>,
    /// Those that only the old tree depended on.
    pub removed: Vec<Package>,
    /// Those of both trees whose versions or requirements are others.
    pub changed: Vec<ChangedPackage>,
}

impl PackageChanges {
    /// Added less removed.
    pub fn net(&self) -> i64 {
        crate::measure::report::rise(self.removed.len(), self.added.len())
    }
}

/// How the packages of two trees differ, by ecosystem and name.
pub fn compare(old: &All, new: &All) -> PackageChanges {
    let (before, after) = (old.others(), new.others());
    let package = |(name, known): (&&(Ecosystem, String), &&Known)| Package {
        ecosystem: name.0,
        name: name.1.clone(),
        versions: known.versions.iter().cloned().collect(),
        direct: known.direct,
        locked: known.locked,
    };
    let only = |here: &BTreeMap<&(Ecosystem, String), &Known>,
                there: &BTreeMap<&(Ecosystem, String), &Known>| {
        here.iter().filter(|(name, _)| !there.contains_key(**name)).map(package).collect()
    };
    let changed = after.iter().filter_map(|(name, now)| {
        let was = before.get(*name)?;
        (was.versions != now.versions).then(|| ChangedPackage {
            ecosystem: name.0,
            name: name.1.clone(),
            old: was.versions.difference(&now.versions).cloned().collect(),
            new: now.versions.difference(&was.versions).cloned().collect(),
        })
    });
    PackageChanges {
        added: only(&after, &before),
        removed: only(&before, &after),
        changed: changed.collect(),
    }
}
