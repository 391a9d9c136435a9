//! Reading and building trees.
//!
//! Every tree is read with its hash checked and parsed strictly: entries in git's order, no name twice, none that is
//! empty, has a slash, or that git would not check out (`.`, `..`, `.git`). A tree that two readers could understand
//! in two ways has no meaning that a signature could cover.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice};
use gix::objs::Kind;
use gix::objs::tree::{EntryKind, name_order};

use super::Repo;
use super::bounds::Bound;
use super::objects::{Durability, ObjectError};

/// What went wrong with a tree.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// An object cannot be read or written.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The bytes of a tree are not one.
    #[error("tree {id} is malformed: {problem}")]
    Malformed {
        /// The tree.
        id: ObjectId,
        /// What is wrong.
        problem: TreeProblem,
    },
    /// A path that cannot be in a tree.
    #[error("{path:?} cannot be a path in a tree: {problem}")]
    Path {
        /// The path.
        path: BString,
        /// Why.
        problem: &'static str,
    },
    /// A file where a folder has to be, or the other way round.
    #[error("{path:?} is in the way of another path")]
    Conflict {
        /// The path.
        path: BString,
    },
    /// Something no honest tree has: more than [`MAX_ENTRIES`] entries or [`MAX_DEPTH`] levels.
    #[error("tree {id} has more than {MAX_ENTRIES} entries or {MAX_DEPTH} levels")]
    TooLarge {
        /// The tree.
        id: ObjectId,
    },
}

impl From<TreeError> for crate::error::Error {
    fn from(error: TreeError) -> Self {
        match error {
            TreeError::Object(error) => error.into(),
            TreeError::Malformed { .. } | TreeError::TooLarge { .. } => {
                Self::workspace(error.to_string()).hint("look at it: git fsck --strict")
            }
            TreeError::Path { .. } | TreeError::Conflict { .. } => Self::workspace(error.to_string()),
        }
    }
}

/// What is wrong with the bytes of a tree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TreeProblem {
    /// It ends in the middle of an entry.
    #[error("it ends inside of an entry")]
    Truncated,
    /// A mode that git does not write.
    #[error("the mode {0:?} is not one that git writes")]
    Mode(BString),
    /// A name that no checkout may have.
    #[error("the name {0:?} is not allowed")]
    Name(BString),
    /// Two entries with one name.
    #[error("the name {0:?} is there twice")]
    Duplicate(BString),
    /// Not in git's order.
    #[error("the name {0:?} is not in order")]
    Order(BString),
}

/// No repository has more files, but a tree of trees that repeat can claim to.
pub const MAX_ENTRIES: usize = 4_000_000;
/// Paths have at most 4096 bytes on the systems we know.
pub const MAX_DEPTH: usize = 2048;

/// One entry of one tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    /// What it is.
    pub mode: EntryKind,
    /// Its name in this tree.
    pub name: BString,
    /// The object.
    pub id: ObjectId,
}

/// A file, symlink or submodule anywhere in a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathEntry {
    /// The path from the root, with `/`.
    pub path: BString,
    /// What it is.
    pub mode: EntryKind,
    /// The object.
    pub id: ObjectId,
}

/// Which modes a tree may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Modes {
    /// The five that git writes.
    Strict,
    /// Those of old repositories, too: `100664`, `040000` and the like.
    Historic,
}

/// Parses the bytes of a tree. Names have to be such that every reader sees the same entries.
pub fn parse_tree(bytes: &[u8], hash: gix::hash::Kind, modes: Modes) -> Result<Vec<TreeEntry>, TreeProblem> {
    let mut entries: Vec<TreeEntry> = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (mode, after) = rest.split_once_str(" ").ok_or(TreeProblem::Truncated)?;
        let (name, after) = after.split_once_str("\0").ok_or(TreeProblem::Truncated)?;
        let id = after.get(..hash.len_in_bytes()).ok_or(TreeProblem::Truncated)?;
        rest = &after[hash.len_in_bytes()..];
        let mode = parse_mode(mode, modes).ok_or_else(|| TreeProblem::Mode(mode.into()))?;
        if name_problem(name).is_some() {
            return Err(TreeProblem::Name(name.into()));
        }
        if let Some(last) = entries.last() {
            // Git sorts a folder as if its name ended in a slash.
            match name_order(&last.name, last.mode == EntryKind::Tree, name, mode == EntryKind::Tree) {
                Ordering::Less => {}
                Ordering::Equal => return Err(TreeProblem::Duplicate(name.into())),
                Ordering::Greater => return Err(TreeProblem::Order(name.into())),
            }
        }
        entries.push(TreeEntry { mode, name: name.into(), id: ObjectId::from_bytes_or_panic(id) });
    }
    // `a` the file and `a` the folder are apart in git's order if there is an `a.b` between them.
    let mut names: Vec<_> = entries.iter().map(|entry| entry.name.as_bstr()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(TreeProblem::Duplicate(pair[0].to_owned())),
        None => Ok(entries),
    }
}

fn parse_mode(mode: &[u8], modes: Modes) -> Option<EntryKind> {
    Some(match mode {
        b"40000" => EntryKind::Tree,
        b"100644" => EntryKind::Blob,
        b"100755" => EntryKind::BlobExecutable,
        b"120000" => EntryKind::Link,
        b"160000" => EntryKind::Commit,
        _ if modes == Modes::Strict || mode.is_empty() || mode.len() > 7 => return None,
        _ => {
            let octal = mode.iter().try_fold(0_u32, |value, digit| match digit {
                b'0'..=b'7' => Some(value * 8 + u32::from(digit - b'0')),
                _ => None,
            })?;
            // As git reads them: the type as it is, of the permissions only whether the owner may execute.
            match octal & 0o170_000 {
                0o040_000 => EntryKind::Tree,
                0o120_000 => EntryKind::Link,
                0o160_000 => EntryKind::Commit,
                0o100_000 if octal & 0o100 != 0 => EntryKind::BlobExecutable,
                0o100_000 => EntryKind::Blob,
                _ => return None,
            }
        }
    })
}

fn name_problem(name: &[u8]) -> Option<&'static str> {
    match name {
        b"" => Some("a part of it is empty"),
        b"." | b".." => Some("it has a '.' or '..'"),
        _ if name.eq_ignore_ascii_case(b".git") => Some("it has a '.git'"),
        _ if name.contains(&b'/') => Some("a name has a slash"),
        _ if name.contains(&0) => Some("it has a zero byte"),
        _ => None,
    }
}

/// The bytes of a tree with these entries, in any order. The names must be different.
fn serialize(entries: &mut [TreeEntry]) -> Vec<u8> {
    entries
        .sort_by(|a, b| name_order(&a.name, a.mode == EntryKind::Tree, &b.name, b.mode == EntryKind::Tree));
    let mut bytes = Vec::with_capacity(entries.len() * 48);
    for entry in entries {
        bytes.extend_from_slice(entry.mode.as_octal_str());
        bytes.push(b' ');
        bytes.extend_from_slice(&entry.name);
        bytes.push(0);
        bytes.extend_from_slice(entry.id.as_bytes());
    }
    bytes
}

impl Repo {
    /// The entries of one tree. Old repositories have modes that git no longer writes; they are read as git does.
    pub fn read_tree(&self, id: ObjectId) -> Result<Vec<TreeEntry>, TreeError> {
        self.read_tree_with(id, Modes::Historic, Bound::of(Kind::Tree))
    }

    /// The entries of a tree of a record, which has no other modes than git writes and not many entries.
    pub fn read_record_tree(&self, id: ObjectId) -> Result<Vec<TreeEntry>, TreeError> {
        self.read_tree_with(id, Modes::Strict, Bound::RECORD_TREE)
    }

    fn read_tree_with(&self, id: ObjectId, modes: Modes, bound: Bound) -> Result<Vec<TreeEntry>, TreeError> {
        let bytes = self.read_at_most(id, Kind::Tree, bound)?;
        parse_tree(&bytes, self.hash_kind(), modes).map_err(|problem| TreeError::Malformed { id, problem })
    }

    /// Every file, symlink and submodule of a tree, in the order of their paths. Folders are not listed.
    pub fn list_tree_recursive(&self, tree: ObjectId) -> Result<Vec<PathEntry>, TreeError> {
        let mut found = Vec::new();
        // A stack of our own: how deep a tree is, is up to whoever made it.
        let mut open = vec![(BString::default(), self.read_tree(tree)?.into_iter())];
        let mut seen = 0;
        while let Some((prefix, entries)) = open.last_mut() {
            let Some(entry) = entries.next() else {
                open.pop();
                continue;
            };
            let mut path = prefix.clone();
            path.extend_from_slice(&entry.name);
            seen += 1;
            if seen > MAX_ENTRIES || open.len() > MAX_DEPTH {
                return Err(TreeError::TooLarge { id: tree });
            }
            if entry.mode == EntryKind::Tree {
                path.push(b'/');
                open.push((path, self.read_tree(entry.id)?.into_iter()));
            } else {
                found.push(PathEntry { path, mode: entry.mode, id: entry.id });
            }
        }
        // Within one tree git's order is that of the whole paths.
        Ok(found)
    }

    /// What is at `path`, a folder too; `None` if there is nothing.
    pub fn entry_at(&self, tree: ObjectId, path: &BStr) -> Result<Option<TreeEntry>, TreeError> {
        let mut parts = split(path)?.into_iter();
        let mut id = tree;
        while let Some(part) = parts.next() {
            let Some(entry) = self.read_tree(id)?.into_iter().find(|entry| entry.name == part) else {
                return Ok(None);
            };
            if parts.len() == 0 {
                return Ok(Some(entry));
            }
            if entry.mode != EntryKind::Tree {
                return Ok(None);
            }
            id = entry.id;
        }
        Ok(None)
    }

    /// Writes the trees that hold `entries`, and returns the root. Paths must be different and not in each other's
    /// way.
    pub fn write_tree<'a>(
        &self,
        entries: impl IntoIterator<Item = (&'a BStr, EntryKind, ObjectId)>,
        durability: Durability,
    ) -> Result<ObjectId, TreeError> {
        let mut builder = TreeBuilder::empty();
        for (path, mode, id) in entries {
            if builder.insert(self, path, mode, id, OnConflict::Refuse)? {
                return Err(TreeError::Conflict { path: path.to_owned() });
            }
        }
        builder.write(self, durability)
    }
}

fn split(path: &BStr) -> Result<Vec<&[u8]>, TreeError> {
    let parts: Vec<_> = path.split_str("/").collect();
    let problem = parts.iter().find_map(|part| name_problem(part));
    let problem = problem.or_else(|| (parts.len() > MAX_DEPTH).then_some("it has too many parts"));
    match problem {
        Some(problem) => Err(TreeError::Path { path: path.to_owned(), problem }),
        None => Ok(parts),
    }
}

#[derive(Debug, Clone)]
enum Node {
    /// A file, a symlink, a submodule, or a folder that nothing has looked into.
    Entry(EntryKind, ObjectId),
    Folder(Folder),
}

type Folder = BTreeMap<BString, Node>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnConflict {
    Refuse,
    Replace,
}

/// A tree being changed. Only the folders on the way to a change are read and written.
#[derive(Debug, Clone)]
pub struct TreeBuilder {
    root: Node,
}

impl TreeBuilder {
    /// Starts with nothing.
    pub fn empty() -> Self {
        Self { root: Node::Folder(Folder::new()) }
    }

    /// Starts with a tree.
    pub fn from_tree(tree: ObjectId) -> Self {
        Self { root: Node::Entry(EntryKind::Tree, tree) }
    }

    /// Puts something at `path`, making the folders on the way. What was there is replaced: a file by a folder and a
    /// folder with everything in it by a file, too.
    pub fn upsert(
        &mut self,
        repo: &Repo,
        path: &BStr,
        mode: EntryKind,
        id: ObjectId,
    ) -> Result<(), TreeError> {
        self.insert(repo, path, mode, id, OnConflict::Replace).map(drop)
    }

    /// Removes what is at `path`, a folder with everything in it, and the folders that are empty then. False if
    /// there was nothing.
    pub fn remove(&mut self, repo: &Repo, path: &BStr) -> Result<bool, TreeError> {
        let parts = split(path)?;
        let Some((name, folders)) = parts.split_last() else {
            return Ok(false);
        };
        let mut folder = open_folder(repo, &mut self.root)?;
        for &part in folders {
            let Some(node) = folder.get_mut(part.as_bstr()) else {
                return Ok(false);
            };
            if matches!(node, Node::Entry(mode, _) if *mode != EntryKind::Tree) {
                return Ok(false);
            }
            folder = open_folder(repo, node)?;
        }
        Ok(folder.remove(name.as_bstr()).is_some())
    }

    /// True if there was something at `path`.
    fn insert(
        &mut self,
        repo: &Repo,
        path: &BStr,
        mode: EntryKind,
        id: ObjectId,
        on_conflict: OnConflict,
    ) -> Result<bool, TreeError> {
        let parts = split(path)?;
        let Some((name, folders)) = parts.split_last() else {
            return Ok(false);
        };
        let mut folder = open_folder(repo, &mut self.root)?;
        for &part in folders {
            let node = folder.entry(part.into()).or_insert_with(|| Node::Folder(Folder::new()));
            if matches!(node, Node::Entry(mode, _) if *mode != EntryKind::Tree) {
                if on_conflict == OnConflict::Refuse {
                    return Err(TreeError::Conflict { path: path.to_owned() });
                }
                *node = Node::Folder(Folder::new());
            }
            folder = open_folder(repo, node)?;
        }
        Ok(folder.insert((*name).into(), Node::Entry(mode, id)).is_some())
    }

    /// Writes the changed trees and returns the root. Folders without anything in them vanish; the root may be empty.
    pub fn write(&self, repo: &Repo, durability: Durability) -> Result<ObjectId, TreeError> {
        let mut trees = Vec::new();
        let root = match &self.root {
            Node::Entry(_, id) => *id,
            Node::Folder(folder) => {
                let root = collect(repo, folder, &mut trees)?;
                if root.is_none() {
                    trees.push(Vec::new());
                }
                root.unwrap_or_else(|| ObjectId::empty_tree(repo.hash_kind()))
            }
        };
        // A folder comes after everything in it, so that no tree on the disk names one that is not.
        let trees: Vec<_> = trees.iter().map(|bytes| (Kind::Tree, bytes.as_slice())).collect();
        repo.write_many(&trees, durability)?;
        Ok(root)
    }
}

/// What is in a folder, read if nobody has looked into it.
fn open_folder<'a>(repo: &Repo, node: &'a mut Node) -> Result<&'a mut Folder, TreeError> {
    if let Node::Entry(_, id) = node {
        let entries = repo.read_tree(*id)?;
        let folder =
            entries.into_iter().map(|entry| (entry.name, Node::Entry(entry.mode, entry.id))).collect();
        *node = Node::Folder(folder);
    }
    match node {
        Node::Folder(folder) => Ok(folder),
        Node::Entry(..) => unreachable!("it was just replaced"),
    }
}

/// The id of a folder, with the bytes of all trees in it that may be new; `None` if there is nothing in it.
/// [`split`] bounds how deep this goes.
fn collect(repo: &Repo, folder: &Folder, trees: &mut Vec<Vec<u8>>) -> Result<Option<ObjectId>, TreeError> {
    let mut entries = Vec::with_capacity(folder.len());
    for (name, node) in folder {
        let (mode, id) = match node {
            Node::Entry(mode, id) => (*mode, *id),
            Node::Folder(below) => match collect(repo, below, trees)? {
                Some(id) => (EntryKind::Tree, id),
                None => continue,
            },
        };
        entries.push(TreeEntry { mode, name: name.clone(), id });
    }
    if entries.is_empty() {
        return Ok(None);
    }
    let bytes = serialize(&mut entries);
    let id = gix::objs::compute_hash(repo.hash_kind(), Kind::Tree, &bytes)
        .map_err(|source| ObjectError::Write { kind: Kind::Tree, source: Box::new(source) })?;
    trees.push(bytes);
    Ok(Some(id))
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
