//! A whole tree, read once: what a checkout is made from, what an index is written from, and what a snapshot is
//! compared with.

use std::cmp::Ordering;

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice};
use gix::objs::tree::EntryMode;

use super::error::WorktreeError;
use super::names;
use super::selection::Selection;
use super::sys::{Stat, Time};

/// Directories nested deeper than this are neither made nor read: one file descriptor is open for each level.
pub const MAX_DEPTH: usize = 128;
/// More entries than this in one tree are refused; a few kilobytes of trees can name billions of paths.
pub const MAX_ENTRIES: usize = 4_000_000;

/// Every path of one tree, directory by directory.
#[derive(Debug, Clone)]
pub struct Manifest {
    pub(super) hash: gix::hash::Kind,
    /// Depth first, the root first, so that a directory comes before all of its own.
    pub(super) dirs: Vec<Directory>,
    /// The latest `ctime` of anything that the checkout made; see [`Manifest::is_untouched`].
    pub(super) made_until: Option<Time>,
    /// Where this is not all of the tree: all of it, and what was chosen by.
    pub(super) part: Option<Box<Part>>,
}

/// What a manifest of a part of a tree is a part of.
#[derive(Debug, Clone)]
pub(super) struct Part {
    whole: Manifest,
    pub selection: Selection,
}

/// One directory of a [`Manifest`].
#[derive(Debug, Clone)]
pub(super) struct Directory {
    /// From the root, without a slash at either end; empty for the root.
    pub path: BString,
    pub tree: ObjectId,
    /// Files and links here and below.
    pub files: usize,
    /// Whether something here or below is not checked out.
    pub partial: bool,
    /// In the order of the tree object.
    pub entries: Vec<Entry>,
}

/// One entry of a [`Directory`].
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub name: BString,
    pub mode: EntryMode,
    pub id: ObjectId,
    /// Where this entry is a tree: its place in [`Manifest::dirs`].
    pub dir: usize,
    /// What the checkout left on disk.
    pub stat: Option<Stat>,
    /// Whether nothing of it is checked out; only in a manifest of which a part was selected.
    pub absent: bool,
}

/// What a tree has at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// Nothing.
    Nothing,
    /// A folder.
    Folder,
    /// A file, a link or a submodule.
    Other,
    /// Nothing that a path could name: a file, a link or a submodule lies on the way to it.
    Blocked,
}

/// Git's order of names in a tree: a directory sorts as if its name ended with a slash.
pub(super) fn tree_order(a: &BStr, a_is_tree: bool, b: &BStr, b_is_tree: bool) -> Ordering {
    let common = a.len().min(b.len());
    a[..common].cmp(&b[..common]).then_with(|| {
        let next = |name: &BStr, is_tree: bool| name.get(common).copied().or(is_tree.then_some(b'/'));
        next(a, a_is_tree).cmp(&next(b, b_is_tree))
    })
}

impl Manifest {
    /// Reads `tree` and everything below it. With `verify` each tree object is hashed again, because neither git nor
    /// gix does that on read.
    pub fn read(repo: &gix::Repository, tree: ObjectId, verify: bool) -> Result<Self, WorktreeError> {
        let mut manifest = Self::empty(repo.object_hash());
        let mut entries = 0;
        manifest.read_dir(repo, tree, BString::default(), verify, 0, &mut entries)?;
        Ok(manifest)
    }

    /// Reads `tree`, and leaves out what `selection` does not select, if there is one.
    pub fn read_selected(
        repo: &gix::Repository,
        tree: ObjectId,
        verify: bool,
        selection: Option<&Selection>,
    ) -> Result<Self, WorktreeError> {
        let mut whole = Self::read(repo, tree, verify)?;
        let Some(selection) = selection else { return Ok(whole) };
        let mut selected = Self::empty(whole.hash);
        selection.select(&mut whole, 0, Some(0), &mut selected);
        selected.part = Some(Box::new(Part { whole, selection: selection.clone() }));
        Ok(selected)
    }

    fn empty(hash: gix::hash::Kind) -> Self {
        Self { hash, dirs: Vec::new(), made_until: None, part: None }
    }

    /// All of the tree, also what is not checked out.
    pub(super) fn whole(&self) -> &Self {
        self.part.as_ref().map_or(self, |part| &part.whole)
    }

    /// What was checked out of the tree, if not all.
    pub(super) fn selection(&self) -> Option<&Selection> {
        self.part.as_ref().map(|part| &part.selection)
    }

    fn read_dir(
        &mut self,
        repo: &gix::Repository,
        tree: ObjectId,
        path: BString,
        verify: bool,
        depth: usize,
        count: &mut usize,
    ) -> Result<usize, WorktreeError> {
        if depth > MAX_DEPTH {
            return Err(WorktreeError::TooLarge { what: "nested folders", limit: MAX_DEPTH as u64 });
        }
        let mut buf = Vec::new();
        let entries = if tree == ObjectId::empty_tree(self.hash) {
            Vec::new()
        } else {
            let at = Some(path.as_ref());
            let data = read_object(&repo.objects, tree, gix::objs::Kind::Tree, at, &mut buf)?;
            if verify {
                verify_object(self.hash, gix::objs::Kind::Tree, tree, at, data)?;
            }
            parse(tree, path.as_ref(), data, self.hash)?
        };
        *count += entries.len();
        if *count > MAX_ENTRIES {
            return Err(WorktreeError::TooLarge { what: "paths in the tree", limit: MAX_ENTRIES as u64 });
        }
        let at = self.dirs.len();
        let own = entries.iter().filter(|entry| entry.mode.is_blob_or_symlink()).count();
        self.dirs.push(Directory { path, tree, files: own, partial: false, entries });
        for index in 0..self.dirs[at].entries.len() {
            let entry = &self.dirs[at].entries[index];
            if entry.mode.is_tree() {
                let (id, child) = (entry.id, join(self.dirs[at].path.as_ref(), entry.name.as_ref()));
                let below = self.read_dir(repo, id, child, verify, depth + 1, count)?;
                self.dirs[at].entries[index].dir = below;
                self.dirs[at].files += self.dirs[below].files;
            }
        }
        Ok(at)
    }

    /// The tree this was read from.
    pub fn tree(&self) -> ObjectId {
        self.dirs[0].tree
    }

    /// How many files and links the tree holds.
    pub fn file_count(&self) -> usize {
        self.dirs[0].files
    }

    /// Bytes of all files that were checked out.
    pub fn bytes(&self) -> u64 {
        self.dirs.iter().flat_map(|dir| &dir.entries).filter_map(|entry| Some(entry.stat?.size)).sum()
    }

    /// Finds a name in a directory, as a file or as a tree.
    pub(super) fn find(&self, dir: usize, name: &BStr) -> Option<&Entry> {
        let entries = &self.dirs[dir].entries;
        [false, true].into_iter().find_map(|as_tree| {
            entries
                .binary_search_by(|entry| {
                    tree_order(entry.name.as_ref(), entry.mode.is_tree(), name, as_tree)
                })
                .ok()
                .map(|index| &entries[index])
                .filter(|entry| entry.name == name)
        })
    }

    /// The directory at `path`; the empty path is the root.
    pub(super) fn find_dir(&self, path: &BStr) -> Option<usize> {
        path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).try_fold(0, |dir, name| {
            self.find(dir, name.as_bstr()).filter(|entry| entry.mode.is_tree()).map(|entry| entry.dir)
        })
    }

    /// The entry at `path`, if no link or file is on the way to it.
    pub(super) fn find_path(&self, path: &BStr) -> Option<&Entry> {
        let (dir, name) = super::warm::split(path);
        self.find(self.find_dir(dir)?, name)
    }

    /// What the tree has at `path`: nothing, a folder, or something that is in the way of one. A link on the way to it is
    /// in the way, too. What is not checked out counts.
    pub fn holds(&self, path: &BStr) -> Holds {
        let this = self.whole();
        let mut dir = 0;
        let mut names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).peekable();
        while let Some(name) = names.next() {
            match this.find(dir, name.as_bstr()) {
                None => return Holds::Nothing,
                Some(entry) if entry.mode.is_tree() => dir = entry.dir,
                Some(_) if names.peek().is_none() => return Holds::Other,
                Some(_) => return Holds::Blocked,
            }
        }
        Holds::Folder
    }

    /// For each directory, the one at the same path in `other`.
    pub(super) fn matching_dirs(&self, other: &Self) -> Vec<Option<usize>> {
        let mut matching = vec![None; self.dirs.len()];
        matching[0] = Some(0);
        for (at, dir) in self.dirs.iter().enumerate() {
            let Some(there) = matching[at] else { continue };
            for entry in dir.entries.iter().filter(|entry| entry.mode.is_tree()) {
                matching[entry.dir] = other
                    .find(there, entry.name.as_ref())
                    .filter(|found| found.mode.is_tree())
                    .map(|found| found.dir);
            }
        }
        matching
    }

    /// To be called once all that `stat` says is noted.
    pub(super) fn note_times(&mut self) {
        self.made_until =
            self.dirs.iter().flat_map(|dir| &dir.entries).filter_map(|entry| Some(entry.stat?.ctime)).max();
        self.note_in_whole();
    }

    /// Notes in the manifest of the whole tree what is noted in that of its part.
    pub(super) fn note_in_whole(&mut self) {
        let Some(part) = &mut self.part else { return };
        part.whole.made_until = self.made_until;
        for dir in &self.dirs {
            let Some(at) = part.whole.find_dir(dir.path.as_ref()) else { continue };
            let mut entries = dir.entries.iter();
            for entry in part.whole.dirs[at].entries.iter_mut().filter(|entry| !entry.absent) {
                // Both are in the order of the tree, and each of these is in both.
                entry.stat = entries.next().and_then(|entry| entry.stat);
            }
        }
    }

    /// Whether what is on disk is provably what the checkout wrote for `entry`.
    ///
    /// Equal `ctime`s show that nothing touched the inode, if a later change would have got a later `ctime`. File
    /// system clocks are coarse, so that holds for what was made before the clock last moved during the checkout:
    /// anything that carries the very last `ctime` could have been changed within the same tick.
    pub(super) fn is_untouched(&self, entry: &Entry, now: &Stat) -> bool {
        match (entry.stat, self.made_until) {
            (Some(made), Some(until)) => made == *now && made.ctime < until,
            _ => false,
        }
    }
}

/// `dir/name`, or `name` in the root.
pub(super) fn join(dir: &BStr, name: &BStr) -> BString {
    let mut path = BString::from(Vec::with_capacity(dir.len() + 1 + name.len()));
    path.extend_from_slice(dir);
    if !dir.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// The entries of a tree object, all names safe, in strictly ascending order.
fn parse(
    tree: ObjectId,
    path: &BStr,
    data: &[u8],
    hash: gix::hash::Kind,
) -> Result<Vec<Entry>, WorktreeError> {
    let mut entries: Vec<Entry> = Vec::new();
    for entry in gix::objs::TreeRefIter::from_bytes(data, hash) {
        let entry = entry.map_err(|_| WorktreeError::BadTree { id: tree, why: "it cannot be parsed" })?;
        if let Some(why) = names::objection(entry.filename, entry.mode.is_link()) {
            return Err(WorktreeError::UnsafePath { path: join(path, entry.filename), why });
        }
        if let Some(last) = entries.last() {
            let (a, b) = (last.name.as_ref(), entry.filename);
            if last.name == b || tree_order(a, last.mode.is_tree(), b, entry.mode.is_tree()).is_ge() {
                return Err(WorktreeError::BadTree { id: tree, why: "its entries are not in order" });
            }
        }
        // Beside the five modes of today only the group-writable one of git's first months is a file.
        if entry.mode.value() != entry.mode.kind() as u16 && entry.mode.value() != 0o100_664 {
            return Err(WorktreeError::BadTree { id: tree, why: "an entry has an unknown mode" });
        }
        entries.push(Entry {
            name: entry.filename.to_owned(),
            mode: entry.mode,
            id: entry.oid.to_owned(),
            dir: usize::MAX,
            stat: None,
            absent: false,
        });
    }
    Ok(entries)
}

/// Reads an object into `buf` and insists on its kind.
pub(super) fn read_object<'b>(
    objects: &gix::OdbHandle,
    id: ObjectId,
    kind: gix::objs::Kind,
    path: Option<&BStr>,
    buf: &'b mut Vec<u8>,
) -> Result<&'b [u8], WorktreeError> {
    let fail = |source: Box<dyn std::error::Error + Send + Sync>| WorktreeError::Object {
        id,
        path: path.map(ToOwned::to_owned),
        source,
    };
    if crate::git::loose::read_anew(objects.store_ref().path(), &id, buf) == Some(kind) {
        return Ok(buf);
    }
    match gix::objs::Find::try_find(objects, &id, buf) {
        Ok(Some(data)) if data.kind == kind => Ok(data.data),
        Ok(Some(data)) => Err(fail(format!("it is a {}, not a {kind}", data.kind).into())),
        Ok(None) => Err(fail("it is missing".into())),
        Err(error) => Err(fail(error.into())),
    }
}

/// Hashes the content of an object again.
pub(super) fn verify_object(
    hash: gix::hash::Kind,
    kind: gix::objs::Kind,
    id: ObjectId,
    path: Option<&BStr>,
    data: &[u8],
) -> Result<(), WorktreeError> {
    let actual = hash_object(hash, kind, id, data)?;
    if actual == id {
        return Ok(());
    }
    Err(WorktreeError::Corrupt { id, actual, path: path.map(ToOwned::to_owned) })
}

/// The name of an object. Fails only for content that attacks SHA-1; `about` is named then.
pub(super) fn hash_object(
    hash: gix::hash::Kind,
    kind: gix::objs::Kind,
    about: ObjectId,
    data: &[u8],
) -> Result<ObjectId, WorktreeError> {
    gix::objs::compute_hash(hash, kind, data).map_err(|error| WorktreeError::Object {
        id: about,
        path: None,
        source: error.into(),
    })
}

/// The raw bytes of a tree object.
pub(super) fn encode_tree<'a>(entries: impl Iterator<Item = (&'a BStr, EntryMode, &'a ObjectId)>) -> Vec<u8> {
    let mut data = Vec::new();
    for (name, mode, id) in entries {
        let mut digits = Default::default();
        data.extend_from_slice(mode.as_bytes(&mut digits));
        data.push(b' ');
        data.extend_from_slice(name);
        data.push(0);
        data.extend_from_slice(id.as_slice());
    }
    data
}
