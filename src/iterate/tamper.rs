//! What a worker must leave alone besides files: refs of loops, config that runs commands, hooks, the registrations of worktrees. Compared
//! before and after its run; under an adapter that closes the repository nothing of this can differ.
//!
//! Other loops may be running meanwhile: of their ledgers only what no runner does is held against the worker, that one goes away or does
//! not continue what it was. Worktrees of loops come and go, others stay as they are.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use gix::ObjectId;

use crate::canonical::sha256_hex;
use crate::error::{Result, ResultExt};
use crate::git::LoopRefs;
use crate::git::Repo;
use crate::host::HostEnv;
use crate::ledger::receipt::GuardViolation;
use crate::worktree::NAME_PREFIX;

/// A file larger than this is compared by size and time only.
const LARGEST: u64 = 4 * 1024 * 1024;

/// What was there at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    refs: BTreeMap<String, Option<ObjectId>>,
    ledgers: BTreeMap<String, ObjectId>,
    files: BTreeMap<PathBuf, String>,
}

/// Looks at the refs of the loop and at the files of the repository that can make git run something.
pub fn look(repo: &Repo, loop_refs: LoopRefs<'_>) -> Result<Snapshot> {
    let mut refs = BTreeMap::new();
    for name in [loop_refs.head(), loop_refs.notes()] {
        let target = repo.read_ref(name.as_ref()).or_workspace(|| format!("{name} cannot be read"))?;
        refs.insert(name.to_string(), target);
    }
    let unlisted = || "the refs cannot be listed".to_owned();
    for (name, target) in repo.list_each_ref("refs/replace/").or_workspace(unlisted)? {
        refs.insert(name.to_string(), target.ok());
    }
    let own = loop_refs.ledger();
    let mut ledgers = BTreeMap::new();
    for (name, target) in repo.list_each_ref("refs/loops/").or_workspace(unlisted)? {
        if name != own
            && name.as_bstr().ends_with(b"/ledger")
            && let Ok(target) = target
        {
            ledgers.insert(name.to_string(), target);
        }
    }
    let common = repo.common_dir();
    let mut files = BTreeMap::new();
    for name in
        ["config", "config.worktree", "shallow", "objects/info/alternates", "objects/info/http-alternates"]
    {
        note(&mut files, &common.join(name));
    }
    for folder in ["hooks", "info"] {
        note_folder(&mut files, &common.join(folder), 3);
    }
    // A list for servers that git writes anew when it packs.
    files.remove(&common.join("info/refs"));
    for entry in fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(NAME_PREFIX.as_bytes()) {
            continue;
        }
        for name in ["gitdir", "commondir", "locked", "config.worktree"] {
            note(&mut files, &entry.path().join(name));
        }
    }
    Ok(Snapshot { refs, ledgers, files })
}

/// The user's own configuration of git, which any program of theirs may write, a worker among them: that it changed is told and held
/// against nobody.
pub fn look_at_user(host: &HostEnv) -> BTreeMap<PathBuf, String> {
    let mut files = BTreeMap::new();
    let home = host.home_dir().map(Path::to_path_buf);
    let config = host.non_empty_var("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.or_else(|| home.as_ref().map(|home| home.join(".config")));
    if let Some(named) = host.non_empty_var("GIT_CONFIG_GLOBAL") {
        note(&mut files, Path::new(named));
    }
    if let Some(home) = &home {
        note(&mut files, &home.join(".gitconfig"));
    }
    if let Some(config) = &config {
        note_folder(&mut files, &config.join("git"), 1);
    }
    files
}

impl Snapshot {
    /// What differs in `after`.
    pub fn differences(&self, after: &Self, repo: &Repo) -> Vec<GuardViolation> {
        let mut list = Vec::new();
        let names: BTreeSet<&String> = self.refs.keys().chain(after.refs.keys()).collect();
        for name in names {
            let (before, now) =
                (self.refs.get(name).copied().flatten(), after.refs.get(name).copied().flatten());
            let what = match (before, now) {
                (before, now) if before == now => continue,
                (None, Some(_)) => "the worker added this ref",
                _ => "the worker moved this ref",
            };
            list.push(violation(name.clone(), what));
        }
        for (name, before) in &self.ledgers {
            let what = match after.ledgers.get(name) {
                None => "the worker removed the ledger of another loop",
                // What cannot be read does not continue it.
                Some(now) if repo.is_ancestor(*before, *now).unwrap_or(false) => continue,
                Some(_) => "the worker moved the ledger of another loop",
            };
            list.push(violation(name.clone(), what));
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
