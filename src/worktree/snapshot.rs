//! From files to a tree: exactly what the folder holds, less what a commit's own ignore rules ignore.
//!
//! Raw bytes, no filter, no hook, no index of anybody: whatever a worker did to `.git`, to ignore files or to config
//! makes no difference. No link is followed, so nothing outside the folder can get in.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice};
use gix::objs::Kind;
use gix::objs::tree::{EntryKind, EntryMode};

use super::access;
use super::error::{WorktreeError, to_path};
use super::ignore::BaseIgnores;
use super::manifest::{
    Entry, MAX_DEPTH, MAX_ENTRIES, Manifest, encode_tree, hash_object, join, same_kind, tree_order,
};
use super::names;
use super::pool;
use super::sys::{self, Dir, DirEntry, FileKind, Stat};

/// Bounds for what a worker may leave behind, and how much is believed without reading.
#[derive(Debug, Clone, Copy)]
pub struct SnapshotOptions {
    /// A new or changed file larger than this is a violation. Bytes; it is held in memory while it is stored.
    pub max_file_bytes: u64,
    /// More than this in new and changed files together is an error. Bytes.
    pub max_total_bytes: u64,
    /// Read every file, also those that `stat` shows to be untouched.
    pub read_all: bool,
}

impl Default for SnapshotOptions {
    fn default() -> Self {
        Self { max_file_bytes: 256 << 20, max_total_bytes: 4 << 30, read_all: false }
    }
}

/// What a worktree held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The tree, stored in the repository with everything it needs.
    pub tree: ObjectId,
    /// What no tree can or may hold, in the order of paths. It is not in the tree.
    pub violations: Vec<Violation>,
    /// How much work it was.
    pub stats: SnapshotStats,
}

/// Something in a worktree that must not become part of a candidate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// Where, from the top of the worktree.
    pub path: BString,
    /// What.
    pub what: ViolationKind,
}

/// Why a path must not become part of a candidate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ViolationKind {
    /// A FIFO, a socket or a device.
    SpecialFile,
    /// A `.git` below the top: a repository in the repository. The files beside it are in the tree as files.
    NestedRepository,
    /// A name that git, HFS+ or NTFS would take for `.git`, or that no path may have; with the reason.
    UnsafeName(String),
    /// Something lies in the folder of a submodule; its link stays as it was.
    SubmoduleContent,
    /// Larger than [`SnapshotOptions::max_file_bytes`].
    TooLarge,
    /// Nested deeper than [`MAX_DEPTH`].
    TooDeep,
}

impl std::fmt::Display for ViolationKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::SpecialFile => f.write_str("a FIFO, socket or device"),
            Self::NestedRepository => f.write_str("a repository inside the worktree"),
            Self::UnsafeName(why) => write!(f, "an unsafe name: {why}"),
            Self::SubmoduleContent => f.write_str("content in the folder of a submodule"),
            Self::TooLarge => f.write_str("a file that is too large"),
            Self::TooDeep => f.write_str("folders nested too deep"),
        }
    }
}

/// Counts of a [`snapshot`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SnapshotStats {
    /// Files and links in the tree.
    pub files: usize,
    /// Those of them that had to be read.
    pub read: usize,
    /// Paths left out because the base ignores them; a folder counts as one.
    pub ignored: usize,
}

/// A directory as found on disk.
struct Node {
    path: BString,
    /// The directory of the manifest at the same path.
    known: Option<usize>,
    entries: Vec<Found>,
}

/// One entry that goes into the tree.
struct Found {
    name: BString,
    what: What,
}

enum What {
    /// As the manifest has it.
    Same(EntryMode, ObjectId),
    /// A file or link that must be read.
    Read,
    /// A directory: its node.
    Dir(usize),
    /// Left out after all.
    Gone,
}

/// Stores what the folder `place` holds. `checked_out` is the manifest of what was put there (or of the tree the
/// candidate starts from): its paths are never ignored, and what `stat` shows to be untouched since is not read again.
/// `ignores` are the rules of the base commit. A `.git` at the top is never looked at.
pub fn snapshot(
    repo: &gix::Repository,
    checked_out: &Manifest,
    place: &Path,
    ignores: &BaseIgnores,
    options: SnapshotOptions,
) -> Result<Snapshot, WorktreeError> {
    let root = access::open_place(place).map_err(WorktreeError::io("open the folder", place))?;
    let mut walk = Walk {
        place,
        known: checked_out,
        ignores,
        trust_stat: !options.read_all && root.content_moves_ctime(),
        nodes: Vec::new(),
        violations: Vec::new(),
        stats: SnapshotStats::default(),
    };
    walk.read_dir(&root, BString::default(), Some(0), false, 0)?;
    let Walk { mut nodes, mut violations, mut stats, .. } = walk;

    let reader = Reader { known: checked_out, place, root: &root, options, stored: AtomicU64::new(0) };
    for (node, read) in reader.read_all(repo, &nodes)? {
        for (index, outcome) in read {
            stats.read += 1;
            let what = match outcome {
                Content::Stored(mode, id) => What::Same(mode, id),
                Content::Vanished => What::Gone,
                Content::TooLarge => {
                    let path = join(nodes[node].path.as_ref(), nodes[node].entries[index].name.as_ref());
                    violations.push(Violation { path, what: ViolationKind::TooLarge });
                    What::Gone
                }
            };
            nodes[node].entries[index].what = what;
        }
    }
    let (tree, files) = store_trees(repo, checked_out, &nodes)?;
    stats.files = files;
    violations.sort_unstable();
    Ok(Snapshot { tree, violations, stats })
}

/// The first pass, on one thread: which paths there are.
struct Walk<'a> {
    place: &'a Path,
    known: &'a Manifest,
    ignores: &'a BaseIgnores,
    trust_stat: bool,
    nodes: Vec<Node>,
    violations: Vec<Violation>,
    stats: SnapshotStats,
}

impl Walk<'_> {
    fn read_dir(
        &mut self,
        dir: &Dir,
        path: BString,
        known: Option<usize>,
        ignored: bool,
        depth: usize,
    ) -> Result<usize, WorktreeError> {
        let mut names =
            dir.entries().map_err(WorktreeError::io_below("read the folder", self.place, path.as_ref()))?;
        names.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let at = self.nodes.len();
        if at + names.len() > MAX_ENTRIES {
            return Err(WorktreeError::TooLarge { what: "paths in the worktree", limit: MAX_ENTRIES as u64 });
        }
        self.nodes.push(Node { path, known, entries: Vec::with_capacity(names.len()) });
        for name in names {
            if let Some(what) = self.look_at(at, dir, &name, ignored, depth)? {
                self.nodes[at].entries.push(Found { name: name.name, what });
            }
        }
        Ok(at)
    }

    /// Decides about one name; `None` leaves it out.
    fn look_at(
        &mut self,
        at: usize,
        dir: &Dir,
        found: &DirEntry,
        ignored: bool,
        depth: usize,
    ) -> Result<Option<What>, WorktreeError> {
        let name = found.name.as_bstr();
        if depth == 0 && name == ".git" {
            return Ok(None);
        }
        let path = join(self.nodes[at].path.as_ref(), name);
        let manifest = self.known;
        let known = self.nodes[at].known.and_then(|dir| manifest.find(dir, name));
        let mut stat = None;
        if found.kind.is_none() || self.trust_stat && found.kind != Some(FileKind::Dir) {
            stat = match dir.stat(name) {
                Ok(stat) => Some(stat),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                Err(error) => {
                    return Err(WorktreeError::io_below("look at", self.place, path.as_ref())(error));
                }
            };
        }
        let kind = stat.map(|stat| stat.kind()).or(found.kind).unwrap_or(FileKind::Device);
        let is_dir = kind == FileKind::Dir;

        // A folder takes the place of a submodule or of a folder, a file that of a file or link: only then is the
        // path the one that the base tracks, which no rule can ignore.
        let tracked = known.is_some_and(|known| {
            if is_dir { known.mode.is_tree() || known.mode.is_commit() } else { known.mode.is_no_tree() }
        });
        // A tracked file needs no look at the rules; a tracked folder does, for what is new in it.
        let excluded = (!tracked || is_dir) && (ignored || self.ignores.excludes(path.as_ref(), is_dir));
        if excluded && !tracked {
            self.stats.ignored += 1;
            return Ok(None);
        }
        if let Some(why) = names::objection(name, kind == FileKind::Link) {
            let what =
                if name == ".git" { ViolationKind::NestedRepository } else { ViolationKind::UnsafeName(why) };
            self.violations.push(Violation { path, what });
            return Ok(None);
        }
        match kind {
            FileKind::Dir => self.enter(dir, name, path, known, excluded, depth),
            FileKind::File | FileKind::Link => {
                if let (true, Some(known), Some(stat)) = (self.trust_stat, known, &stat)
                    && self.known.is_untouched(known, stat)
                {
                    return Ok(Some(What::Same(known.mode, known.id)));
                }
                Ok(Some(What::Read))
            }
            FileKind::Fifo | FileKind::Socket | FileKind::Device => {
                self.violations.push(Violation { path, what: ViolationKind::SpecialFile });
                Ok(None)
            }
        }
    }

    fn enter(
        &mut self,
        dir: &Dir,
        name: &BStr,
        path: BString,
        known: Option<&Entry>,
        ignored: bool,
        depth: usize,
    ) -> Result<Option<What>, WorktreeError> {
        if depth >= MAX_DEPTH {
            self.violations.push(Violation { path, what: ViolationKind::TooDeep });
            return Ok(None);
        }
        let fail = |error| WorktreeError::io_below("open the folder", self.place, path.as_ref())(error);
        let below = match access::open_dir(dir, name) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) if sys::is_other_kind(&error) => return Err(WorktreeError::Changed { path }),
            other => other.map_err(fail)?,
        };
        match known {
            Some(link) if link.mode.is_commit() => {
                let content = below.entries().map_err(fail)?;
                if !content.is_empty() {
                    self.violations.push(Violation { path, what: ViolationKind::SubmoduleContent });
                }
                Ok(Some(What::Same(link.mode, link.id)))
            }
            known => {
                let known = known.filter(|known| known.mode.is_tree()).map(|known| known.dir);
                Ok(Some(What::Dir(self.read_dir(&below, path, known, ignored, depth + 1)?)))
            }
        }
    }
}

/// The second pass, on several threads: what is in the files.
struct Reader<'a> {
    known: &'a Manifest,
    place: &'a Path,
    root: &'a Dir,
    options: SnapshotOptions,
    /// Bytes of new content so far.
    stored: AtomicU64,
}

/// What became of one file that had to be read.
enum Content {
    Stored(EntryMode, ObjectId),
    Vanished,
    TooLarge,
}

/// A node, and what became of its unread entries.
type NodeContent = (usize, Vec<(usize, Content)>);

struct Local {
    objects: gix::OdbHandle,
    buf: Vec<u8>,
}

impl Reader<'_> {
    fn read_all(&self, repo: &gix::Repository, nodes: &[Node]) -> Result<Vec<NodeContent>, WorktreeError> {
        const UNIT: usize = 256;
        let mut units: Vec<(usize, Vec<usize>)> = Vec::new();
        let mut count = 0;
        for (at, node) in nodes.iter().enumerate() {
            let unread: Vec<usize> = (0..node.entries.len())
                .filter(|index| matches!(node.entries[*index].what, What::Read))
                .collect();
            count += unread.len();
            units.extend(unread.chunks(UNIT).map(|indices| (at, indices.to_vec())));
        }
        let locals = (0..pool::threads_for(count).min(units.len().max(1)))
            .map(|_| Local { objects: repo.objects.clone(), buf: Vec::new() })
            .collect();
        pool::each(&units, locals, |local, (at, indices)| {
            let node = &nodes[*at];
            let dir = self.root.open_path(node.path.as_ref()).map_err(WorktreeError::io_below(
                "open the folder",
                self.place,
                node.path.as_ref(),
            ))?;
            let mut read = Vec::with_capacity(indices.len());
            for index in indices {
                let name = node.entries[*index].name.as_bstr();
                let known = node.known.and_then(|dir| self.known.find(dir, name));
                read.push((*index, self.read(local, &dir, node.path.as_ref(), name, known)?));
            }
            Ok((*at, read))
        })
    }

    fn read(
        &self,
        local: &mut Local,
        dir: &Dir,
        parent: &BStr,
        name: &BStr,
        known: Option<&Entry>,
    ) -> Result<Content, WorktreeError> {
        let path = || join(parent, name);
        let fail = |error| WorktreeError::io_below("read", self.place, path().as_ref())(error);
        let file = match dir.open_file(name) {
            Err(error) if sys::is_permission(&error) => {
                // The worker ran as this user and took the right to read away; the file is not kept anyway.
                let mode = dir.stat(name).map_err(fail)?.mode & 0o777 | 0o400;
                dir.set_mode_of(name, mode).and_then(|()| dir.open_file(name)).map_err(fail)?
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Content::Vanished),
            Err(error) if sys::is_other_kind(&error) => {
                local.buf = match dir.read_link(name) {
                    Ok(target) => target,
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                        return Ok(Content::Vanished);
                    }
                    Err(_) => return Err(WorktreeError::Changed { path: path() }),
                };
                return self.store(local, EntryKind::Link, known, path);
            }
            other => other.map_err(fail)?,
        };
        let stat = sys::fstat(&file).map_err(fail)?;
        if stat.kind() != FileKind::File {
            return Err(WorktreeError::Changed { path: path() });
        }
        let kind = if stat.is_executable() { EntryKind::BlobExecutable } else { EntryKind::Blob };
        if stat.size > self.options.max_file_bytes {
            return self.compare_large(file, &stat, kind, known, path);
        }
        local.buf.clear();
        // One byte more than allowed shows that it grew beyond the limit since.
        let limit = self.options.max_file_bytes.saturating_add(1);
        local.buf.reserve_exact(usize::try_from(stat.size).unwrap_or(0).saturating_add(1));
        file.take(limit).read_to_end(&mut local.buf).map_err(fail)?;
        if local.buf.len() as u64 > self.options.max_file_bytes {
            return Ok(Content::TooLarge);
        }
        self.store(local, kind, known, path)
    }

    fn store(
        &self,
        local: &mut Local,
        kind: EntryKind,
        known: Option<&Entry>,
        path: impl Fn() -> BString,
    ) -> Result<Content, WorktreeError> {
        let fail = |source: gix::Error| WorktreeError::Store { path: path(), source: source.into() };
        let id = gix::objs::compute_hash(self.known.hash, Kind::Blob, &local.buf).map_err(fail)?;
        if let Some(known) = known.filter(|known| known.id == id && known.mode.is_blob_or_symlink()) {
            let mode = if same_kind(known.mode, kind) { known.mode } else { kind.into() };
            return Ok(Content::Stored(mode, id));
        }
        let length = local.buf.len() as u64;
        let limit = self.options.max_total_bytes;
        if self.stored.fetch_add(length, Ordering::Relaxed).saturating_add(length) > limit {
            return Err(WorktreeError::TooLarge { what: "bytes of new content", limit });
        }
        if !local.objects.exists_without_refresh(&id) {
            gix::objs::Write::write_buf_with_known_id(&local.objects, Kind::Blob, &local.buf, id)
                .map_err(fail)?;
        }
        Ok(Content::Stored(kind.into(), id))
    }

    /// A file over the limit may be one that the base holds: hashed in pieces, never held in memory.
    fn compare_large(
        &self,
        mut file: std::fs::File,
        stat: &Stat,
        kind: EntryKind,
        known: Option<&Entry>,
        path: impl Fn() -> BString,
    ) -> Result<Content, WorktreeError> {
        let same_size = known.is_some_and(|known| known.stat.is_some_and(|made| made.size == stat.size));
        let Some(known) = known.filter(|known| same_size && known.mode.is_blob()) else {
            return Ok(Content::TooLarge);
        };
        let mut hasher = gix::hash::hasher(self.known.hash);
        hasher.update(&gix::objs::encode::loose_header(Kind::Blob, stat.size));
        let mut piece = vec![0; 1 << 16];
        loop {
            let got = file.read(&mut piece).map_err(WorktreeError::io_below(
                "read",
                self.place,
                path().as_ref(),
            ))?;
            if got == 0 {
                break;
            }
            hasher.update(&piece[..got]);
        }
        let mode = if same_kind(known.mode, kind) { known.mode } else { kind.into() };
        match hasher.try_finalize() {
            Ok(id) if id == known.id => Ok(Content::Stored(mode, id)),
            _ => Ok(Content::TooLarge),
        }
    }
}

/// The third pass: tree objects, from the bottom up. A folder that is as the manifest has it costs nothing.
fn store_trees(
    repo: &gix::Repository,
    known: &Manifest,
    nodes: &[Node],
) -> Result<(ObjectId, usize), WorktreeError> {
    let empty = ObjectId::empty_tree(known.hash);
    let mut trees: Vec<Option<ObjectId>> = vec![None; nodes.len()];
    let mut files = 0;
    // A node comes before those below it.
    for (at, node) in nodes.iter().enumerate().rev() {
        let mut entries: Vec<(&BStr, EntryMode, ObjectId)> = Vec::with_capacity(node.entries.len());
        for found in &node.entries {
            let name = found.name.as_bstr();
            match &found.what {
                What::Same(mode, id) => {
                    files += usize::from(mode.is_blob_or_symlink());
                    entries.push((name, *mode, *id));
                }
                What::Dir(below) => {
                    if let Some(id) = trees[*below] {
                        entries.push((name, EntryKind::Tree.into(), id));
                    }
                }
                What::Read | What::Gone => {}
            }
        }
        let before = node.known.map(|dir| &known.dirs[dir]);
        if entries.is_empty() {
            // Git keeps no empty folders, unless the base came with one.
            trees[at] = (at == 0 || before.is_some_and(|dir| dir.tree == empty)).then_some(empty);
            continue;
        }
        entries.sort_unstable_by(|a, b| tree_order(a.0, a.1.is_tree(), b.0, b.1.is_tree()));
        let unchanged = before.filter(|dir| {
            dir.entries.len() == entries.len()
                && dir
                    .entries
                    .iter()
                    .zip(&entries)
                    .all(|(was, is)| was.name == is.0 && was.mode == is.1 && was.id == is.2)
        });
        let id = match unchanged {
            Some(dir) => dir.tree,
            None => store_tree(repo, known.hash, node.path.as_ref(), &entries)?,
        };
        trees[at] = Some(id);
    }
    let tree = trees.first().copied().flatten().unwrap_or(empty);
    if tree == empty {
        // The one tree that every git knows without having it; it is stored all the same, for other readers.
        store_tree(repo, known.hash, b"".as_bstr(), &[])?;
    }
    Ok((tree, files))
}

fn store_tree(
    repo: &gix::Repository,
    hash: gix::hash::Kind,
    path: &BStr,
    entries: &[(&BStr, EntryMode, ObjectId)],
) -> Result<ObjectId, WorktreeError> {
    let data = encode_tree(entries.iter().map(|(name, mode, id)| (*name, *mode, id)));
    let id = hash_object(hash, Kind::Tree, ObjectId::null(hash), &data)?;
    if !repo.objects.exists_without_refresh(&id) {
        gix::objs::Write::write_buf_with_known_id(&repo.objects, Kind::Tree, &data, id)
            .map_err(|source| WorktreeError::Store { path: path.to_owned(), source: source.into() })?;
    }
    Ok(id)
}

impl Violation {
    /// Where it is on disk, for a message.
    pub fn location(&self, place: &Path) -> PathBuf {
        place.join(to_path(self.path.as_ref()))
    }
}
