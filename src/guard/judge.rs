//! What the trees alone say about a candidate: rows 1, 2 (paths), 5 and 6 of the decision.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::rc::Rc;

use gix::bstr::{BStr, BString, ByteSlice};
use gix::hash::{ObjectId, oid};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::diff::{Change, DiffError, changes};
use super::fold::fold_component;
use super::frozen::{Frozen, drift};
use super::names::{self, UnsafeName, classify, collisions};
use super::pattern::PathSet;
use super::tree::{self, Entry, Mode, TreeError, Trees, join, parents};
use crate::escape::escape_path;

/// The longest target of a symlink that is read: Linux's `PATH_MAX`.
const MAX_TARGET: usize = tree::MAX_PATH;
/// How many symlinks are followed one after the other, as Linux does.
const MAX_LINKS: usize = 40;

/// A path that a candidate may not have, or not in this state.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Violation {
    /// The path, escaped ([`escape_path`]).
    pub path: String,
    /// What is wrong with it: a stable word, such as `check_path_edited` or `symlink_leaves_tree`.
    pub what: String,
    /// What it is in conflict with, escaped: the other path of a collision, the target of a symlink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<String>,
}

impl Violation {
    /// A violation without a second party.
    pub fn new(path: &BStr, what: &str) -> Self {
        Self { path: escape_path(path), what: what.to_owned(), other: None }
    }

    fn with(path: &BStr, what: &str, other: &BStr) -> Self {
        Self { other: Some(escape_path(other)), ..Self::new(path, what) }
    }
}

/// The `[paths]` of a contract.
#[derive(Debug, Clone, Copy)]
pub struct Paths<'a> {
    /// What a worker may change. What it names exactly may be changed although it is blocked.
    pub mutable: &'a PathSet,
    /// What is frozen; wins over `mutable`.
    pub check: &'a PathSet,
    /// What a worker may not change although `mutable` matches it.
    pub blocked: &'a PathSet,
}

/// What the trees say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeJudgement {
    /// Every changed path, against green, in path order.
    pub changes: Vec<Change>,
    /// Row 1: check paths that are not as frozen.
    pub drift: Vec<Violation>,
    /// Row 2: blocked paths that changed, and what the snapshot of the worktree found.
    pub blocked: Vec<Violation>,
    /// Row 6: changed paths that `paths.mutable` does not match, the drifted and the blocked ones among them.
    pub outside: Vec<BString>,
    /// Row 5: the candidate's tree is green's.
    pub unchanged: bool,
}

/// Judges the tree `candidate` against the tree `green` and the frozen check paths.
///
/// `snapshot` are violations that only the worktree could show (a nested repository, say); they count as blocked. A
/// candidate with a malformed tree is a violation; only what cannot be read, or a malformed tree that the loop started
/// from, is an error.
pub fn judge<T: Trees + ?Sized>(
    trees: &T,
    paths: Paths<'_>,
    frozen: &Frozen,
    green: &oid,
    candidate: &oid,
    snapshot: &[Violation],
) -> Result<TreeJudgement, TreeError> {
    let mut judgement = TreeJudgement {
        changes: Vec::new(),
        drift: Vec::new(),
        blocked: snapshot.to_vec(),
        outside: Vec::new(),
        unchanged: green == candidate,
    };
    let listed = changes(trees, green, candidate)
        .and_then(|changes| Ok((changes, drift(trees, candidate, frozen, paths.check)?)));
    let (changes, drifted) = match listed {
        Ok(listed) => listed,
        Err(DiffError::New(TreeError::Malformed { path, why, .. })) => {
            let what = "malformed_tree".to_owned();
            judgement.blocked.push(Violation { path, what, other: Some(why.to_owned()) });
            return Ok(judgement);
        }
        Err(DiffError::New(error) | DiffError::Old(error)) => return Err(error),
    };
    judgement.drift =
        drifted.iter().map(|(path, kind)| Violation::new(path.as_bstr(), kind.as_str())).collect();

    let mut new_tree = Lookup::new(trees, candidate);
    for change in &changes {
        if let Some(violation) = blocked(change, paths, &mut new_tree)? {
            judgement.blocked.push(violation);
        }
        if !paths.mutable.matches(change.path.as_bstr()) {
            judgement.outside.push(change.path.clone());
        }
    }
    judgement.blocked.extend(new_collisions(
        &changes,
        paths.mutable,
        &mut new_tree,
        &mut Lookup::new(trees, green),
    )?);
    judgement.changes = changes;
    Ok(judgement)
}

/// Why a changed path is blocked: its name, the contract, or what it is now. The first reason is told.
fn blocked<T: Trees + ?Sized>(
    change: &Change,
    paths: Paths<'_>,
    new_tree: &mut Lookup<'_, T>,
) -> Result<Option<Violation>, TreeError> {
    let path = change.path.as_bstr();
    let named = paths.mutable.is_literal(path);
    if let Some(name) = classify(path)
        && !(named && (name.can_be_allowed() || change.new.is_none()))
    {
        return Ok(Some(Violation::new(path, name.as_str())));
    }
    if named {
        return Ok(None);
    }
    let is_gitlink = [change.old, change.new].into_iter().flatten().any(|(mode, _)| mode == Mode::Gitlink);
    if paths.blocked.matches_folded_as(path, is_gitlink) {
        return Ok(Some(Violation::new(path, "blocked_path")));
    }
    if is_gitlink {
        return Ok(Some(Violation::new(path, "submodule_link_changed")));
    }
    if let Some((Mode::Symlink, id)) = change.new {
        match new_tree.trees.read_blob(&id, MAX_TARGET)? {
            None => return Ok(Some(Violation::new(path, "symlink_leaves_tree"))),
            Some(target) if new_tree.leaves_tree(path, &target)? => {
                return Ok(Some(Violation::with(path, "symlink_leaves_tree", target.as_bstr())));
            }
            Some(_) => {}
        }
    }
    Ok(None)
}

/// Collisions that the candidate brings: of each pair at least one is new. Those of the base are not the worker's.
fn new_collisions<T: Trees + ?Sized>(
    changes: &[Change],
    mutable: &PathSet,
    new_tree: &mut Lookup<'_, T>,
    old_tree: &mut Lookup<'_, T>,
) -> Result<Vec<Violation>, TreeError> {
    let added = || changes.iter().filter(|change| change.old.is_none());
    // For each folder that an added path goes through, the folded names that are on its way.
    let mut wanted: HashMap<BString, HashSet<BString>> = HashMap::new();
    for change in added() {
        let path = change.path.as_bstr();
        for prefix in parents(path).chain([path]) {
            let (dir, name) = split(prefix);
            wanted.entry(dir.to_owned()).or_default().insert(fold_component(name).into_owned());
        }
    }
    let mut candidates = Vec::new();
    for (dir, names) in &wanted {
        for entry in new_tree.folder(dir.as_bstr())?.iter().flat_map(|entries| entries.iter()) {
            if names.contains(fold_component(entry.name.as_bstr()).as_ref()) {
                candidates.push(join(dir.as_bstr(), entry.name.as_bstr()));
            }
        }
    }
    let mut violations = BTreeSet::new();
    for (a, b) in collisions(candidates.iter().map(|path| path.as_bstr())) {
        for (path, other) in [(&a, &b), (&b, &a)] {
            if old_tree.entry(path.as_bstr())?.is_some() {
                continue;
            }
            let below = |change: &&Change| {
                change
                    .path
                    .strip_prefix(path.as_slice())
                    .is_some_and(|rest| rest.first().is_none_or(|b| *b == b'/'))
            };
            if !added().filter(below).all(|change| mutable.is_literal(change.path.as_bstr())) {
                violations.insert(Violation::with(path.as_bstr(), "path_collision", other.as_bstr()));
            }
        }
    }
    Ok(violations.into_iter().collect())
}

fn split(path: &BStr) -> (&BStr, &BStr) {
    match path.rfind_byte(b'/') {
        Some(slash) => (path[..slash].as_bstr(), path[slash + 1..].as_bstr()),
        None => (BStr::new(""), path),
    }
}

/// A tree in which single paths are looked up; every folder is read once.
struct Lookup<'a, T: ?Sized> {
    trees: &'a T,
    root: ObjectId,
    folders: HashMap<BString, Option<Rc<Vec<Entry>>>>,
}

impl<'a, T: Trees + ?Sized> Lookup<'a, T> {
    fn new(trees: &'a T, root: &oid) -> Self {
        Self { trees, root: root.to_owned(), folders: HashMap::new() }
    }

    /// What the folder `dir` holds, or `None` if it is no folder.
    fn folder(&mut self, dir: &BStr) -> Result<Option<Rc<Vec<Entry>>>, TreeError> {
        if let Some(known) = self.folders.get(dir) {
            return Ok(known.clone());
        }
        let id = if dir.is_empty() {
            Some(self.root)
        } else {
            self.entry(dir)?.filter(|(mode, _)| mode.is_tree()).map(|(_, id)| id)
        };
        let entries = id.map(|id| tree::read(self.trees, &id, dir).map(Rc::new)).transpose()?;
        self.folders.insert(dir.to_owned(), entries.clone());
        Ok(entries)
    }

    fn entry(&mut self, path: &BStr) -> Result<Option<(Mode, ObjectId)>, TreeError> {
        let (dir, name) = split(path);
        let Some(entries) = self.folder(dir)? else { return Ok(None) };
        Ok(entries.iter().find(|entry| entry.name == name).map(|entry| (entry.mode, entry.id)))
    }

    /// Whether following the symlink `link` with this target can lead out of the tree: to an absolute path, above the
    /// root, into a `.git`, or round in a circle. Symlinks on the way are followed as they are in this tree; what does
    /// not exist is taken as a folder.
    fn leaves_tree(&mut self, link: &BStr, target: &[u8]) -> Result<bool, TreeError> {
        let (dir, _) = split(link);
        let mut at: Vec<BString> =
            dir.split(|b| *b == b'/').filter(|name| !name.is_empty()).map(BString::from).collect();
        let mut links = 0;
        let mut todo = VecDeque::new();
        if !prepend(&mut todo, target) {
            return Ok(true);
        }
        while let Some(name) = todo.pop_front() {
            match name.as_slice() {
                b"" | b"." => continue,
                b".." => {
                    if at.pop().is_none() {
                        return Ok(true);
                    }
                    continue;
                }
                _ => {}
            }
            if matches!(
                classify(name.as_bstr()),
                Some(UnsafeName::DotGit | UnsafeName::DotComponent | UnsafeName::Empty)
            ) || names::is_dot_git(name.as_bstr())
            {
                return Ok(true);
            }
            at.push(name);
            let path = BString::from(bstr_join(&at));
            if let Some((Mode::Symlink, id)) = self.entry(path.as_bstr())? {
                links += 1;
                at.pop();
                let target = self.trees.read_blob(&id, MAX_TARGET)?;
                if links > MAX_LINKS || !target.is_some_and(|target| prepend(&mut todo, &target)) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

fn bstr_join(names: &[BString]) -> Vec<u8> {
    gix::bstr::join("/", names)
}

/// Puts the components of a relative target before what is to be followed; `false` if the target is absolute, for any
/// system, or no path at all. A backslash separates, as on Windows.
fn prepend(todo: &mut VecDeque<BString>, target: &[u8]) -> bool {
    let drive = target.get(1) == Some(&b':') && target[0].is_ascii_alphabetic();
    if target.is_empty() || matches!(target[0], b'/' | b'\\') || drive || target.contains(&0) {
        return false;
    }
    for name in target.split(|b| matches!(b, b'/' | b'\\')).rev() {
        todo.push_front(name.into());
    }
    true
}

#[cfg(test)]
mod tests;
