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
use report::{Delta, Why};
use source::{Facts, Language, NoTree};
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
        sums.packages = compare_packages(repo, old, new, &mut sums)?;
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

/// Counts what one changed path comes to.
///
/// A side that cannot be measured must never make the number smaller. The new one leaves out both sides, and is noted as
/// [unmeasurable](Measured::unmeasurable) where its kind is measured otherwise; the old one counts as empty, so that the whole new
/// side is growth. Else a candidate could hide what it adds, or what an earlier one added, behind a file that does not parse.
fn one(repo: &Repo, change: &Change, sums: &mut Sums, left: &mut Left) -> Result<()> {
    let path = escape_path(change.path.as_ref());
    sums.lines.files += 1;
    if let Role::Unread = Role::of(&change.path) {
        sums.leave_out(&path, &[Delta::Dependencies], Why::UnreadFormat, None);
    }
    let is_file = |side: Option<(Mode, ObjectId)>| {
        side.is_some_and(|(mode, _)| matches!(mode, Mode::File | Mode::GroupFile | Mode::Executable))
    };
    let (was_file, is_now_file) = (is_file(change.old), is_file(change.new));
    // Another mode alone changes no line. The text of a symlink that becomes a file becomes source.
    if change.old.map(|side| side.1) == change.new.map(|side| side.1) && was_file == is_now_file {
        return Ok(());
    }
    let (old, new) = (Side::read(repo, change.old)?, Side::read(repo, change.new)?);
    lines_of(change, &path, &old, &new, sums, left);
    let source = |side, is_file| if is_file { side } else { Side::Nothing };
    let (old, new) = (source(old, was_file), source(new, is_now_file));
    if was_file || is_now_file {
        source_of(change, &path, &old, &new, sums, left)?;
    }
    Ok(())
}

/// Counts the lines of the two sides. What git takes for binary has no lines, but source has: a NUL in a comment hides none.
fn lines_of(change: &Change, path: &str, old: &Side, new: &Side, sums: &mut Sums, left: &mut Left) {
    let lines = |side: &Side| match side {
        Side::Nothing => Ok(()),
        Side::TooLarge => Err(Why::TooLarge),
        Side::Content(text) => {
            let is_source = Language::of_file(&change.path, text).is_some();
            if lines::is_binary(text) && !is_source { Err(Why::Binary) } else { Ok(()) }
        }
    };
    let mut leave_out = |why: Why, side: &str| {
        if why == Why::Binary && !sums.lines.binary.iter().any(|known| known == path) {
            sums.lines.binary.push(path.to_owned());
        }
        sums.leave_out(path, &[Delta::ChangedLines], why, Some(side.to_owned()));
    };
    let (was, is) = (lines(old), lines(new));
    match (was, is) {
        (Err(why), Err(other)) if why == other => leave_out(why, "both sides"),
        _ => {
            was.err().into_iter().for_each(|why| leave_out(why, "the old side"));
            is.err().into_iter().for_each(|why| leave_out(why, "the new side"));
        }
    }
    let text = |side: &Side, known: bool| if known { side.bytes().to_vec() } else { Vec::new() };
    let counted = lines::count(&text(old, was.is_ok()), &text(new, is.is_ok()), &mut left.steps);
    sums.lines.added += counted.added;
    sums.lines.removed += counted.removed;
    if !counted.exact {
        sums.leave_out(path, &[Delta::ChangedLines], Why::TooDifferent, None);
    }
    if is == Err(Why::TooLarge) {
        sums.unmeasurable(path);
    }
}

/// Counts what is in the two sides of a source file.
fn source_of(
    change: &Change,
    path: &str,
    old: &Side,
    new: &Side,
    sums: &mut Sums,
    left: &mut Left,
) -> Result<()> {
    let language = |side: &Side| match side {
        Side::Nothing => None,
        Side::TooLarge => Language::of(&change.path),
        Side::Content(text) => Language::of_file(&change.path, text),
    };
    let (before, after) = (language(old), language(new));
    let is_gone = matches!(new, Side::Nothing);
    if !is_gone && after.is_none() || before.is_none() && is_gone {
        let is_binary = lines::is_binary(if is_gone { old.bytes() } else { new.bytes() });
        if !is_binary && !matches!(Role::of(&change.path), Role::Read(_) | Role::Unread) {
            sums.leave_out(path, Delta::OF_SOURCE, Why::UnknownLanguage, None);
        }
        return Ok(());
    }
    let mut facts = |language: Option<Language>, side: &Side| -> Result<std::result::Result<Facts, Why>> {
        let (Some(language), false) = (language, matches!(side, Side::Nothing)) else {
            return Ok(Ok(Facts::default()));
        };
        let Side::Content(content) = side else { return Ok(Err(Why::TooLarge)) };
        if content.starts_with(b"\xff\xfe") || content.starts_with(b"\xfe\xff") {
            return Ok(Err(Why::NotUtf8));
        }
        let Some(rest) = left.parsed.checked_sub(content.len()) else { return Ok(Err(Why::ChangeTooLarge)) };
        left.parsed = rest;
        match source::facts(language, &change.path, content) {
            Ok(facts) => Ok(Ok(facts)),
            Err(NoTree::TooLarge) => Ok(Err(Why::TooLarge)),
            Err(NoTree::TooComplex) => Ok(Err(Why::TooComplex)),
            // The number would be one of the machine, not of the trees.
            Err(NoTree::NoStack) => {
                Err(Error::workspace(format!("{path} cannot be parsed: there is no stack for it"))
                    .hint("raise the limit on address space: ulimit -v unlimited"))
            }
        }
    };
    let after = match facts(after, new)? {
        Ok(after) => after,
        Err(why) => {
            sums.leave_out(path, Delta::OF_SOURCE, why, Some("the new side".to_owned()));
            sums.unmeasurable(path);
            return Ok(());
        }
    };
    let before = match facts(before, old)? {
        Ok(before) => before,
        Err(why) => {
            let detail = "the old side, which counts as empty".to_owned();
            sums.leave_out(path, Delta::OF_SOURCE, why, Some(detail));
            Facts::default()
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

/// The packages of both trees. A file that cannot be read in the new tree is left out on both sides: else breaking a lock file would
/// remove every dependency. One that could not be read in the old tree counts as empty there.
fn compare_packages(
    repo: &Repo,
    old: ObjectId,
    new: ObjectId,
    sums: &mut Sums,
) -> Result<packages::PackageChanges> {
    let [before, after] = [sides_of(repo, old)?, sides_of(repo, new)?];
    let mut unread: BTreeMap<&BString, String> = BTreeMap::new();
    for (path, side) in &after {
        if let Err(why) = &side.listed {
            unread.insert(path, why.clone());
            if before.get(path).is_none_or(|before| before.id != side.id) {
                sums.unmeasurable(&escape_path(path.as_ref()));
            }
        }
    }
    let mut old_packages = All::default();
    for (path, side) in &before {
        match &side.listed {
            Ok(_) if unread.contains_key(path) => {}
            Ok(listed) => old_packages.add(side.manifest.ecosystem(), listed.clone()),
            Err(why) => {
                unread.entry(path).or_insert_with(|| format!("the old side, which counts as empty: {why}"));
            }
        }
    }
    let mut new_packages = All::default();
    for side in after.values() {
        if let Ok(listed) = &side.listed {
            new_packages.add(side.manifest.ecosystem(), listed.clone());
        }
    }
    for (path, why) in unread {
        sums.leave_out(&escape_path(path.as_ref()), &[Delta::Dependencies], Why::Unreadable, Some(why));
    }
    Ok(packages::compare(&old_packages, &new_packages))
}

/// A manifest or lock file of one tree.
struct PackageFile {
    manifest: Manifest,
    id: ObjectId,
    /// What it names, or why it cannot be read.
    listed: std::result::Result<packages::Listed, String>,
}

fn sides_of(repo: &Repo, tree: ObjectId) -> Result<BTreeMap<BString, PackageFile>> {
    let mut found = BTreeMap::new();
    for (number, (path, manifest, id)) in manifests(repo, tree)?.into_iter().enumerate() {
        let listed = if number >= MAX_MANIFESTS {
            Err(format!("the tree has more than {MAX_MANIFESTS} manifests and lock files"))
        } else {
            read_manifest(repo, manifest, id)?
        };
        found.insert(path, PackageFile { manifest, id, listed });
    }
    Ok(found)
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
