//! What a worker must leave alone besides files: this loop's refs, config that runs commands, hooks. Compared before and
//! after its run; under an adapter that closes the repository nothing of this can differ.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use gix::ObjectId;

use crate::canonical::sha256_hex;
use crate::error::{Result, ResultExt};
use crate::git::LoopRefs;
use crate::git::Repo;
use crate::ledger::receipt::GuardViolation;

/// A file larger than this is compared by size and time only.
const LARGEST: u64 = 4 * 1024 * 1024;

/// What was there at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    refs: BTreeMap<String, Option<ObjectId>>,
    files: BTreeMap<PathBuf, String>,
}

/// Looks at the refs of the loop and at the files of the repository that can make git run something.
pub fn look(repo: &Repo, loop_refs: LoopRefs<'_>) -> Result<Snapshot> {
    let mut refs = BTreeMap::new();
    for name in [loop_refs.head(), loop_refs.notes()] {
        let target = repo.read_ref(name.as_ref()).or_workspace(|| format!("{name} cannot be read"))?;
        refs.insert(name.to_string(), target);
    }
    let common = repo.common_dir();
    let mut files = BTreeMap::new();
    for name in
        ["config", "config.worktree", "info/attributes", "info/grafts", "shallow", "objects/info/alternates"]
    {
        note(&mut files, &common.join(name));
    }
    for folder in ["hooks", "refs/replace"] {
        note_folder(&mut files, &common.join(folder), 3);
    }
    Ok(Snapshot { refs, files })
}

impl Snapshot {
    /// What differs in `after`.
    pub fn differences(&self, after: &Self, repo: &Repo) -> Vec<GuardViolation> {
        let mut list = Vec::new();
        for (name, before) in &self.refs {
            if after.refs.get(name) != Some(before) {
                list.push(violation(name.clone(), "the worker moved this ref"));
            }
        }
        let mut paths: Vec<&PathBuf> = self.files.keys().chain(after.files.keys()).collect();
        paths.sort();
        paths.dedup();
        for path in paths {
            let what = match (self.files.get(path), after.files.get(path)) {
                (Some(before), Some(now)) if before == now => continue,
                (None, Some(_)) => "the worker added this file",
                (Some(_), None) => "the worker removed this file",
                _ => "the worker changed this file",
            };
            let shown = path.strip_prefix(repo.common_dir()).unwrap_or(path);
            list.push(violation(format!("$GIT_DIR/{}", shown.display()), what));
        }
        list
    }
}

fn violation(path: String, what: &str) -> GuardViolation {
    GuardViolation { path, what: what.to_owned() }
}

fn note_folder(files: &mut BTreeMap<PathBuf, String>, folder: &Path, depth: u32) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth > 0 => note_folder(files, &path, depth - 1),
            Ok(_) => note(files, &path),
            Err(_) => {}
        }
    }
}

/// Notes what a file is: its mode and content, or where it points.
fn note(files: &mut BTreeMap<PathBuf, String>, path: &Path) {
    let Ok(meta) = fs::symlink_metadata(path) else { return };
    let mode = mode(&meta);
    let content = if meta.is_symlink() {
        format!("-> {}", fs::read_link(path).unwrap_or_default().display())
    } else if meta.is_file() && meta.len() <= LARGEST {
        fs::read(path).map_or_else(|error| error.to_string(), sha256_hex)
    } else {
        format!("{} bytes, {:?}", meta.len(), meta.modified().ok())
    };
    files.insert(path.to_owned(), format!("{mode:o} {content}"));
}

#[cfg(unix)]
fn mode(meta: &fs::Metadata) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    meta.permissions().mode()
}

#[cfg(not(unix))]
fn mode(meta: &fs::Metadata) -> u32 {
    u32::from(meta.permissions().readonly())
}
