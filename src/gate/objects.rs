//! Reading what is judged: commits, trees and blobs, with the quarantine of a receiving server in view.
//!
//! Replacement refs have no effect: `git replace` would show the gate other content than the push sends. The
//! commit-graph is not consulted: it is derived data that nothing checks, and the walks here are short.

use std::collections::{BTreeMap, HashSet};

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice};
use gix::objs::commit::ref_iter::Token;
use gix::objs::{Find as _, FindHeader as _, Kind, TagRefIter, TreeRefIter};

use crate::git::Bound;
use crate::git::bounds::open_store;

/// The objects of a repository, and those that are being received.
pub struct Objects {
    store: gix::odb::Handle,
    incoming: Option<gix::odb::Handle>,
    hash: gix::hash::Kind,
    shallow: HashSet<ObjectId>,
    partial: bool,
}

/// What is needed of a commit.
#[derive(Debug, Clone)]
pub struct Commit {
    /// Its tree.
    pub tree: ObjectId,
    /// Its parents, the first one first.
    pub parents: Vec<ObjectId>,
    /// The committer's time in seconds; only an order to walk in depends on it.
    pub time: i64,
}

/// What a loop made a commit as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MadeBy {
    /// A record of a ledger.
    Record,
    /// A candidate.
    Candidate,
}

/// A file, symlink, submodule link or folder in a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub kind: EntryKind,
    /// Its object.
    pub id: ObjectId,
}

/// What a tree's entry is. Whether a file is executable is no content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A folder.
    Tree,
    /// A file.
    File,
    /// A symlink.
    Link,
    /// A submodule link.
    Commit,
}

/// What a ref points at when all tags are opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A commit.
    Commit(ObjectId),
    /// A bare tree.
    Tree(ObjectId),
    /// A bare blob.
    Blob(ObjectId),
}

/// What stands in the way of a judgement. It is always a refusal.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Unreadable {
    /// The history is cut off there.
    #[error("the history is cut off at {0}: this is a shallow clone")]
    Shallow(ObjectId),
    /// A partial clone does not have it.
    #[error("object {0} is missing: this is a partial clone")]
    Promised(ObjectId),
    /// It is not there.
    #[error("object {0} is missing")]
    Missing(ObjectId),
    /// It cannot be decoded, or is of another kind.
    #[error("object {id} cannot be read: {why}")]
    Corrupt {
        /// The object.
        id: ObjectId,
        /// What is wrong.
        why: String,
    },
}

impl Unreadable {
    /// The command that mends it. `remote` is where history can be fetched from.
    pub fn unblock(&self, remote: Option<&str>) -> String {
        let remote = remote.map(|name| format!(" {name}")).unwrap_or_default();
        match self {
            Self::Shallow(_) => format!("git fetch --unshallow{remote}"),
            Self::Promised(_) => format!("git fetch --refetch --no-filter{remote}"),
            Self::Missing(_) => format!("git fetch{remote}; what else is missing is told by git fsck"),
            Self::Corrupt { .. } => "git fsck; take the object from another clone".to_owned(),
        }
    }
}

/// git takes such a tree without a word where it does not check what it receives, and which of the two is meant differs
/// from reader to reader.
fn named_twice(tree: ObjectId, name: &BStr) -> Unreadable {
    Unreadable::Corrupt { id: tree, why: format!("it has {name} twice") }
}

/// Folders deeper than this are not opened: no system could check them out.
const MAX_DEPTH: usize = 512;

impl Objects {
    /// The objects of `repo`. `incoming` is the store of `GIT_OBJECT_DIRECTORY`, where a receiving server keeps what
    /// is pushed until its hooks agree.
    pub fn new(repo: &gix::Repository, incoming: Option<&gix::odb::Handle>) -> Result<Self, Box<gix::Error>> {
        let objects = repo.objects.store_ref().path();
        let mut store = open_store(objects, repo.object_hash())
            .map_err(|cause| Box::new(gix::Error::from_error(cause)))?;
        store.ignore_replacements = true;
        let mut incoming = incoming.cloned();
        if let Some(incoming) = &mut incoming {
            incoming.ignore_replacements = true;
        }
        let shallow = repo.shallow_commits().map_err(Box::new)?;
        let shallow = shallow.map(|ids| ids.iter().copied().collect()).unwrap_or_default();
        let partial = repo.config_snapshot().string("extensions.partialClone").is_some();
        Ok(Self { store, incoming, hash: repo.object_hash(), shallow, partial })
    }

    /// The hash that names the objects.
    pub fn hash(&self) -> gix::hash::Kind {
        self.hash
    }

    /// Whether the object is here.
    pub fn has(&self, id: ObjectId) -> bool {
        matches!(self.header(id), Ok(Some(_)))
    }

    fn header(&self, id: ObjectId) -> Result<Option<gix::objs::Header>, Unreadable> {
        // A lookup with an id of another hash would be a fault of the caller for gix.
        if id.kind() != self.hash {
            return Ok(None);
        }
        let fault = |error: gix::Error| Unreadable::Corrupt { id, why: error.to_string() };
        if let Some(incoming) = &self.incoming
            && let Some(found) = incoming.try_header(&id).map_err(fault)?
        {
            return Ok(Some(found));
        }
        self.store.try_header(&id).map_err(fault)
    }

    fn missing(&self, id: ObjectId) -> Unreadable {
        if self.partial { Unreadable::Promised(id) } else { Unreadable::Missing(id) }
    }

    fn read<T>(
        &self,
        id: ObjectId,
        kind: Kind,
        take: impl FnOnce(&[u8]) -> Result<T, String>,
    ) -> Result<T, Unreadable> {
        if id.kind() != self.hash {
            return Err(self.missing(id));
        }
        let mut buffer = Vec::new();
        let fault = |why: String| Unreadable::Corrupt { id, why };
        // A push is made by somebody else: two megabytes of a pack can stand for gigabytes.
        let (header, bound) = (self.header(id)?, Bound::of(kind));
        if let Some(header) = header.filter(|header| header.kind == kind && header.size > bound.bytes) {
            return Err(fault(format!(
                "it is a {kind} of {} bytes, more than the {} that are read",
                header.size, bound.bytes
            )));
        }
        let data = self.try_find(&id, &mut buffer).map_err(|error| fault(error.to_string()))?;
        let data = data.ok_or_else(|| self.missing(id))?;
        if data.kind != kind {
            return Err(fault(format!("it is a {}, not a {kind}", data.kind)));
        }
        take(data.data).map_err(fault)
    }

    /// Reads a commit.
    pub fn commit(&self, id: ObjectId) -> Result<Commit, Unreadable> {
        self.read(id, Kind::Commit, |data| {
            let (mut tree, mut parents, mut time) = (None, Vec::new(), 0);
            for token in gix::objs::CommitRefIter::from_bytes(data, self.hash) {
                match token.map_err(|error| error.to_string())? {
                    Token::Tree { id } => tree = Some(id),
                    Token::Parent { id } => parents.push(id),
                    Token::Author { .. } => {}
                    Token::Committer { signature } => {
                        // A date that nobody can read must not stop the walk: it only sorts.
                        time = signature.time().map_or(0, |time| time.seconds);
                        break;
                    }
                    _ => break,
                }
            }
            Ok(Commit { tree: tree.ok_or("it has no tree")?, parents, time })
        })
    }

    /// Reads a commit, and says by its message and its tree what a loop made it as.
    pub fn commit_of_a_loop(&self, id: ObjectId) -> Result<(Commit, Option<MadeBy>), Unreadable> {
        let commit = self.commit(id)?;
        let (looped, environment) = self.read(id, Kind::Commit, |data| {
            let message = data.find(b"\n\n").map_or(&b""[..], |at| &data[at..]);
            let has = |key: &[u8]| message.lines().any(|line| line.starts_with(key));
            Ok((has(b"Loop-Id: "), has(b"Loop-Environment: ")))
        })?;
        if looped && environment {
            return Ok((commit, Some(MadeBy::Candidate)));
        }
        let mut files = 0;
        // The message of a record is verified, but a ledger need not be to be kept out of the way.
        self.each_entry(commit.tree, |name, _| {
            files += usize::from(matches!(
                name.as_bytes(),
                b"contract.json" | b"record.json" | b".loop_state.json"
            ));
        })?;
        Ok((commit, (files == 3).then_some(MadeBy::Record)))
    }

    /// Reads the parent of `child`, and says so if the history is cut off between the two.
    pub fn parent(&self, child: ObjectId, parent: ObjectId) -> Result<Commit, Unreadable> {
        self.commit(parent).map_err(|error| match error {
            Unreadable::Missing(_) | Unreadable::Promised(_) if self.shallow.contains(&child) => {
                Unreadable::Shallow(child)
            }
            other => other,
        })
    }

    /// Opens tags, and tags of tags, until something else comes.
    pub fn peel(&self, mut id: ObjectId) -> Result<Target, Unreadable> {
        loop {
            let header = self.header(id)?.ok_or_else(|| self.missing(id))?;
            id = match header.kind {
                Kind::Commit => return Ok(Target::Commit(id)),
                Kind::Tree => return Ok(Target::Tree(id)),
                Kind::Blob => return Ok(Target::Blob(id)),
                // A tag names its target by hash, so a chain of them ends.
                Kind::Tag => self.read(id, Kind::Tag, |data| {
                    TagRefIter::from_bytes(data, self.hash).target_id().map_err(|error| error.to_string())
                })?,
            };
        }
    }

    /// The entries of a tree by name.
    pub fn tree(&self, id: ObjectId) -> Result<BTreeMap<BString, Entry>, Unreadable> {
        let mut entries = BTreeMap::new();
        let mut twice = None;
        self.each_entry(id, |name, entry| {
            if entries.insert(name.to_owned(), entry).is_some() {
                twice = Some(name.to_owned());
            }
        })?;
        match twice {
            Some(name) => Err(named_twice(id, name.as_bstr())),
            None => Ok(entries),
        }
    }

    fn each_entry(&self, id: ObjectId, mut visit: impl FnMut(&BStr, Entry)) -> Result<(), Unreadable> {
        // git knows the empty tree without storing it.
        if id == ObjectId::empty_tree(self.hash) {
            return Ok(());
        }
        self.read(id, Kind::Tree, |data| {
            for entry in TreeRefIter::from_bytes(data, self.hash) {
                let entry = entry.map_err(|error| error.to_string())?;
                let kind = match entry.mode.kind() {
                    gix::objs::tree::EntryKind::Tree => EntryKind::Tree,
                    gix::objs::tree::EntryKind::Link => EntryKind::Link,
                    gix::objs::tree::EntryKind::Commit => EntryKind::Commit,
                    _ => EntryKind::File,
                };
                visit(entry.filename, Entry { kind, id: entry.oid.to_owned() });
            }
            Ok(())
        })
    }

    /// What stands at `path` in a tree.
    pub fn lookup(&self, tree: ObjectId, path: &BStr) -> Result<Option<Entry>, Unreadable> {
        let mut current = Entry { kind: EntryKind::Tree, id: tree };
        for name in path.split_str("/") {
            if current.kind != EntryKind::Tree {
                return Ok(None);
            }
            let mut found = None;
            self.each_entry(current.id, |entry_name, entry| {
                if entry_name == name {
                    found = Some(entry);
                }
            })?;
            match found {
                Some(entry) => current = entry,
                None => return Ok(None),
            }
        }
        Ok(Some(current).filter(|entry| entry.kind != EntryKind::Tree))
    }

    /// How many bytes an object has.
    pub fn size(&self, id: ObjectId) -> Result<u64, Unreadable> {
        Ok(self.header(id)?.ok_or_else(|| self.missing(id))?.size)
    }

    /// The content of a file, or `None` if it is longer than `limit` bytes.
    pub fn blob(&self, id: ObjectId, limit: usize) -> Result<Option<Vec<u8>>, Unreadable> {
        let header = self.header(id)?.ok_or_else(|| self.missing(id))?;
        if header.size > limit as u64 {
            return Ok(None);
        }
        self.read(id, Kind::Blob, |data| Ok(data.to_vec())).map(Some)
    }

    /// Every file, symlink and submodule link below a tree, each object once, whatever its path.
    pub fn all_below(&self, tree: ObjectId) -> Result<HashSet<ObjectId>, Unreadable> {
        let (mut found, mut opened, mut open) = (HashSet::new(), HashSet::from([tree]), vec![tree]);
        while let Some(id) = open.pop() {
            self.each_entry(id, |_, entry| {
                if entry.kind != EntryKind::Tree {
                    found.insert(entry.id);
                } else if opened.insert(entry.id) {
                    open.push(entry.id);
                }
            })?;
        }
        Ok(found)
    }

    /// The paths of files, symlinks and submodule links that are new or other in `new`. Equal folders are not opened.
    pub fn changed_paths(&self, old: ObjectId, new: ObjectId) -> Result<Vec<BString>, Unreadable> {
        let mut paths = Vec::new();
        self.each_change(Some(old), new, &mut |path, _| paths.push(path))?;
        Ok(paths)
    }

    /// Calls `visit` with every file, symlink and submodule link that is new or other in `new`. Equal folders are not
    /// opened.
    pub fn each_change(
        &self,
        old: Option<ObjectId>,
        new: ObjectId,
        visit: &mut dyn FnMut(BString, Entry),
    ) -> Result<(), Unreadable> {
        self.changed_below(old, new, BStr::new(""), 0, visit)
    }

    fn changed_below(
        &self,
        old: Option<ObjectId>,
        new: ObjectId,
        at: &BStr,
        depth: usize,
        visit: &mut dyn FnMut(BString, Entry),
    ) -> Result<(), Unreadable> {
        if old == Some(new) {
            return Ok(());
        }
        if depth > MAX_DEPTH {
            return Err(Unreadable::Corrupt { id: new, why: "its folders are nested too deep".to_owned() });
        }
        let before = old.map(|id| self.tree(id)).transpose()?.unwrap_or_default();
        for (name, entry) in self.tree(new)? {
            let other = before.get(&name);
            if other == Some(&entry) {
                continue;
            }
            let mut path = at.to_owned();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(&name);
            if entry.kind == EntryKind::Tree {
                let other = other.filter(|other| other.kind == EntryKind::Tree).map(|other| other.id);
                self.changed_below(other, entry.id, path.as_bstr(), depth + 1, visit)?;
            } else {
                visit(path, entry);
            }
        }
        Ok(())
    }
}

impl gix::objs::Find for Objects {
    fn try_find<'a>(
        &self,
        id: &gix::oid,
        buffer: &'a mut Vec<u8>,
    ) -> Result<Option<gix::objs::Data<'a>>, gix::Error> {
        if let Some(incoming) = &self.incoming {
            // Asked for the header first: the borrow of a found object would outlive the branch that returns it.
            if incoming.try_header(id)?.is_some() {
                return incoming.try_find(id, buffer);
            }
        }
        self.store.try_find(id, buffer)
    }
}

/// Paths to look at in many pairs of trees: what is not on the way to one of them is not opened.
#[derive(Debug, Default)]
pub struct PathSet {
    children: BTreeMap<BString, PathSet>,
    wanted: bool,
}

impl PathSet {
    /// Adds a path.
    pub fn insert(&mut self, path: &BStr) {
        let mut node = self;
        for name in path.split_str("/") {
            node = node.children.entry(name.into()).or_default();
        }
        node.wanted = true;
    }

    /// Calls `visit` with every path of the set that `new` has and `old` has not, or with another object.
    pub fn diff(
        &self,
        objects: &Objects,
        old: Option<ObjectId>,
        new: ObjectId,
        visit: &mut dyn FnMut(BString, Option<Entry>, Entry),
    ) -> Result<(), Unreadable> {
        self.diff_below(objects, old, new, BStr::new(""), visit)
    }

    fn diff_below(
        &self,
        objects: &Objects,
        old: Option<ObjectId>,
        new: ObjectId,
        at: &BStr,
        visit: &mut dyn FnMut(BString, Option<Entry>, Entry),
    ) -> Result<(), Unreadable> {
        if old == Some(new) {
            return Ok(());
        }
        let before = old.map(|id| self.wanted_entries(objects, id)).transpose()?.unwrap_or_default();
        for (name, (child, entry)) in self.wanted_entries(objects, new)? {
            let other = before.get(&name).map(|(_, other)| *other);
            if other == Some(entry) {
                continue;
            }
            let mut path = at.to_owned();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(&name);
            if entry.kind == EntryKind::Tree {
                let other = other.filter(|other| other.kind == EntryKind::Tree).map(|other| other.id);
                child.diff_below(objects, other, entry.id, path.as_bstr(), visit)?;
            } else if child.wanted {
                visit(path, other.filter(|other| other.kind != EntryKind::Tree), entry);
            }
        }
        Ok(())
    }

    fn wanted_entries(
        &self,
        objects: &Objects,
        tree: ObjectId,
    ) -> Result<BTreeMap<BString, (&Self, Entry)>, Unreadable> {
        let mut found = BTreeMap::new();
        let mut twice = None;
        objects.each_entry(tree, |name, entry| {
            if let Some((name, child)) = self.children.get_key_value(name)
                && found.insert(name.clone(), (child, entry)).is_some()
            {
                twice = Some(name.clone());
            }
        })?;
        match twice {
            Some(name) => Err(named_twice(tree, name.as_bstr())),
            None => Ok(found),
        }
    }
}
