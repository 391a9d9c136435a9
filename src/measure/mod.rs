//! Mechanical evidence: by how much a change makes a project larger, from two trees and nothing else.
//!
//! The definitions are in `docs/src/reference/measure.md`. Nothing here reads a work tree, runs a program, or looks at a clock:
//! the same two trees give the same numbers on every machine.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`lines`] | lines that differ |
//! | [`source`] | one source file: complexity, interfaces, fallback branches |
//! | [`packages`] | manifests and lock files |
//! | [`report`] | the result |

pub mod lines;
pub mod packages;
pub mod report;
pub mod source;
mod sums;
#[cfg(test)]
mod tests;

pub use report::{Measured, VERSION};

use std::collections::BTreeMap;

use gix::ObjectId;
use gix::bstr::BString;
use gix::objs::Kind;
use gix::objs::tree::EntryKind;

use crate::error::{Error, Result};
use crate::escape::escape_path;
use crate::git::{Repo, TreesInMemory};
use crate::guard::diff::{Change, changes};
use crate::guard::tree::Mode;
use packages::{All, Manifest, Role};
use report::{Delta, NotMeasured, Why};
use source::{Language, NoTree};
use sums::Sums;

/// The most bytes of source that are parsed for one change, both sides together.
pub const MAX_PARSED: usize = 256 << 20;
/// The most steps that are spent on counting lines for one change.
const MAX_STEPS: u64 = 1 << 31;
/// The most manifests and lock files of one tree that are read.
const MAX_MANIFESTS: usize = 10_000;

/// Measures the change from the tree `old` to the tree `new`.
///
/// Reads the objects of changed paths only; if one of these is a manifest or a lock file, those of all manifests and lock files of
/// both trees.
pub fn measure(repo: &Repo, old: ObjectId, new: ObjectId) -> Result<Measured> {
    let changed = changes(&TreesInMemory::new(repo), &old, &new)?;
    let mut sums = Sums::default();
    let mut left = Left { parsed: MAX_PARSED, steps: MAX_STEPS };
    for change in &changed {
        one(repo, change, &mut sums, &mut left)?;
    }
    let roles = || changed.iter().map(|change| Role::of(&change.path));
    if roles().any(|role| matches!(role, Role::Read(_))) {
        sums.packages = compare_packages(repo, old, new, &mut sums.not_measured)?;
    }
    Ok(sums.finish())
}

/// How much work may still be done.
struct Left {
    parsed: usize,
    steps: u64,
}

/// One side of a change.
enum Side {
    /// Nothing is there.
    Nothing,
    /// A file, a symlink's target, or what stands for a submodule.
    Content(Vec<u8>),
    /// More than is read.
    TooLarge,
}

impl Side {
    fn read(repo: &Repo, side: Option<(Mode, ObjectId)>) -> Result<Self> {
        Ok(match side {
            None => Self::Nothing,
            // What git shows of a submodule.
            Some((Mode::Gitlink, id)) => Self::Content(format!("Subproject commit {id}\n").into_bytes()),
            Some((_, id)) if repo.object_header(id)?.1 > crate::git::Bound::of(Kind::Blob).bytes => {
                Self::TooLarge
            }
            Some((_, id)) => Self::Content(repo.read_blob(id)?),
        })
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Content(bytes) => bytes,
            Self::Nothing | Self::TooLarge => &[],
        }
    }
}

fn one(repo: &Repo, change: &Change, sums: &mut Sums, left: &mut Left) -> Result<()> {
    let path = escape_path(change.path.as_ref());
    sums.lines.files += 1;
    if let Role::Unread = Role::of(&change.path) {
        sums.leave_out(&path, &[Delta::Dependencies], Why::UnreadFormat, None);
    }
    // Another mode alone changes no line.
    if change.old.map(|side| side.1) == change.new.map(|side| side.1) {
        return Ok(());
    }
    let (old, new) = (Side::read(repo, change.old)?, Side::read(repo, change.new)?);
    let is_file = |side: Option<(Mode, ObjectId)>| {
        side.is_none_or(|(mode, _)| matches!(mode, Mode::File | Mode::GroupFile | Mode::Executable))
    };
    let files = is_file(change.old) && is_file(change.new);
    if matches!(old, Side::TooLarge) || matches!(new, Side::TooLarge) {
        let mut of = Delta::OF_SOURCE.to_vec();
        of.push(Delta::ChangedLines);
        sums.leave_out(&path, &of, Why::TooLarge, None);
        return Ok(());
    }
    if lines::is_binary(old.bytes()) || lines::is_binary(new.bytes()) {
        sums.lines.binary.push(path.clone());
        if Language::of(&change.path).is_some() && files {
            sums.leave_out(&path, Delta::OF_SOURCE, Why::UnknownLanguage, Some("it is binary".to_owned()));
        }
        return Ok(());
    }
    let counted = lines::count(old.bytes(), new.bytes(), &mut left.steps);
    sums.lines.added += counted.added;
    sums.lines.removed += counted.removed;
    if !counted.exact {
        sums.leave_out(&path, &[Delta::ChangedLines], Why::TooDifferent, None);
    }
    if files {
        source_of(change, &path, old.bytes(), new.bytes(), sums, left)?;
    }
    Ok(())
}

/// Counts what is in the two sides of a source file. A side that cannot be parsed leaves out both: else a file would lose all its
/// complexity by growing beyond the bound.
fn source_of(
    change: &Change,
    path: &str,
    old: &[u8],
    new: &[u8],
    sums: &mut Sums,
    left: &mut Left,
) -> Result<()> {
    let Some(language) = Language::of(&change.path) else {
        if !matches!(Role::of(&change.path), Role::Read(_) | Role::Unread) {
            sums.leave_out(path, Delta::OF_SOURCE, Why::UnknownLanguage, None);
        }
        return Ok(());
    };
    let Some(rest) = left.parsed.checked_sub(old.len() + new.len()) else {
        sums.leave_out(path, Delta::OF_SOURCE, Why::ChangeTooLarge, None);
        return Ok(());
    };
    left.parsed = rest;
    let facts = |content: &[u8]| source::facts(language, &change.path, content);
    let (before, after) = match (facts(old), facts(new)) {
        (Ok(before), Ok(after)) => (before, after),
        (Err(why), _) | (_, Err(why)) => {
            let why = match why {
                NoTree::TooLarge => Why::TooLarge,
                NoTree::TooComplex => Why::TooComplex,
                // The number would be one of the machine, not of the trees.
                NoTree::NoStack => {
                    return Err(Error::workspace(format!(
                        "{path} cannot be parsed: there is no stack for it"
                    ))
                    .hint("raise the limit on address space: ulimit -v unlimited"));
                }
            };
            sums.leave_out(path, Delta::OF_SOURCE, why, None);
            return Ok(());
        }
    };
    if before.broken || after.broken {
        let detail = match (before.broken, after.broken) {
            (true, true) => "both sides",
            (true, false) => "the old side",
            _ => "the new side",
        };
        sums.leave_out(path, Delta::OF_SOURCE, Why::ParseErrors, Some(detail.to_owned()));
    }
    sums.add(path, &before, &after);
    Ok(())
}

/// The manifests and lock files of a tree, by path.
fn manifests(repo: &Repo, tree: ObjectId) -> Result<Vec<(BString, Manifest, ObjectId)>> {
    let mut found = Vec::new();
    for entry in repo.list_tree_recursive(tree)? {
        if let Role::Read(manifest) = Role::of(&entry.path)
            && matches!(entry.mode, EntryKind::Blob | EntryKind::BlobExecutable)
        {
            found.push((entry.path, manifest, entry.id));
        }
    }
    Ok(found)
}

/// The packages of both trees. A file that cannot be read on one side is left out on both: else breaking a lock file would remove
/// every dependency.
fn compare_packages(
    repo: &Repo,
    old: ObjectId,
    new: ObjectId,
    not_measured: &mut Vec<NotMeasured>,
) -> Result<packages::PackageChanges> {
    let mut left_out: BTreeMap<BString, String> = BTreeMap::new();
    let mut sides = Vec::new();
    for tree in [old, new] {
        let mut side = Vec::new();
        for (number, (path, manifest, id)) in manifests(repo, tree)?.into_iter().enumerate() {
            let read = if number >= MAX_MANIFESTS {
                Err(format!("the tree has more than {MAX_MANIFESTS} manifests and lock files"))
            } else {
                read_manifest(repo, manifest, id)?
            };
            match read {
                Ok(listed) => side.push((path, manifest, listed)),
                Err(why) => _ = left_out.insert(path, why),
            }
        }
        sides.push(side);
    }
    let mut all = sides.into_iter().map(|side| {
        let mut all = All::default();
        for (_, manifest, listed) in side.into_iter().filter(|(path, ..)| !left_out.contains_key(path)) {
            all.add(manifest.ecosystem(), listed);
        }
        all
    });
    let (before, after) = (all.next().unwrap_or_default(), all.next().unwrap_or_default());
    drop(all);
    not_measured.extend(left_out.into_iter().map(|(path, why)| NotMeasured {
        path: escape_path(path.as_ref()),
        of: vec![Delta::Dependencies],
        why: Why::Unreadable,
        detail: Some(why),
    }));
    Ok(packages::compare(&before, &after))
}

fn read_manifest(
    repo: &Repo,
    manifest: Manifest,
    id: ObjectId,
) -> Result<std::result::Result<packages::Listed, String>> {
    if repo.object_header(id)?.1 > packages::MAX_BYTES as u64 {
        return Ok(Err(format!("it has more than {} MiB", packages::MAX_BYTES >> 20)));
    }
    Ok(manifest.read(&repo.read_blob(id)?))
}
