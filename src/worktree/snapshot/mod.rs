//! From files to a tree: exactly what the folder holds, less what a commit's own ignore rules ignore.
//!
//! Raw bytes, no filter, no hook, no index of anybody: whatever a worker did to `.git`, to ignore files or to config
//! makes no difference. No link is followed, so nothing outside the folder can get in.

mod merged;
mod read;
mod trees;
mod walk;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use gix::ObjectId;
use gix::bstr::BString;
use gix::objs::tree::EntryMode;

use super::access;
use super::error::{WorktreeError, to_path};
use super::ignore::BaseIgnores;
use super::manifest::{Manifest, join};
use super::overlay::Overlaid;
use super::sys::Dir;
use merged::Merge;
use read::{Content, Reader};
use trees::store_trees;
use walk::Walk;

/// Bounds for what a worker may leave behind, and how much is believed without reading.
#[derive(Debug, Clone, Copy)]
pub struct SnapshotOptions<'a> {
    /// A new or changed file larger than this is a violation. Bytes; it is held in memory while it is stored.
    pub max_file_bytes: u64,
    /// More than this in new and changed files together is an error. Bytes.
    pub max_total_bytes: u64,
    /// Read every file, also those that `stat` shows to be untouched.
    pub read_all: bool,
    /// Once it is set nobody wants the snapshot any more: it ends with [`WorktreeError::Stopped`].
    pub stop: Option<&'a AtomicBool>,
}

impl Default for SnapshotOptions<'_> {
    fn default() -> Self {
        Self { max_file_bytes: 256 << 20, max_total_bytes: 4 << 30, read_all: false, stop: None }
    }
}

/// Fails once `stop` is set.
fn go_on(stop: Option<&AtomicBool>) -> Result<(), WorktreeError> {
    match stop {
        Some(stop) if stop.load(Ordering::SeqCst) => Err(WorktreeError::Stopped),
        _ => Ok(()),
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
    /// Nested deeper than [`MAX_DEPTH`](super::MAX_DEPTH).
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
/// `ignores` are the rules of the base commit. A `.git` at the top is never looked at. What was not checked out stays as it is, unless something
/// has taken its place.
pub fn snapshot(
    repo: &gix::Repository,
    checked_out: &Manifest,
    place: &Path,
    ignores: &BaseIgnores,
    options: SnapshotOptions<'_>,
) -> Result<Snapshot, WorktreeError> {
    let root = access::open_place(place).map_err(WorktreeError::io("open the folder", place))?;
    let trust_stat = !options.read_all && root.content_moves_ctime();
    let known = checked_out.whole();
    let found = Walk::new(place, known, ignores, trust_stat, options.stop).run(&root)?;
    store(repo, known, &root, found, options)
}

/// The same of a folder that was the upper layer of an overlay: what the command saw in it, which is `overlaid`'s layer with
/// the changes that lie in the folder. Only the changes are read.
pub fn snapshot_overlaid(
    repo: &gix::Repository,
    checked_out: &Manifest,
    overlaid: &Overlaid,
    ignores: &BaseIgnores,
    options: SnapshotOptions<'_>,
) -> Result<Snapshot, WorktreeError> {
    let place = overlaid.place();
    let root = access::open_place(place).map_err(WorktreeError::io("open the folder", place))?;
    let known = checked_out.whole();
    let walk = Walk::new(place, known, ignores, false, options.stop);
    let found = Merge::new(walk, overlaid, options.max_file_bytes).run(&root)?;
    store(repo, known, &root, found, options)
}

/// Reads what must be read and stores the trees.
fn store(
    repo: &gix::Repository,
    known: &Manifest,
    root: &Dir,
    found: Walk<'_>,
    options: SnapshotOptions<'_>,
) -> Result<Snapshot, WorktreeError> {
    let Walk { place, mut nodes, mut violations, mut stats, .. } = found;

    let reader = Reader::new(known, place, root, options);
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
    let (tree, files) = store_trees(repo, known, &nodes)?;
    stats.files += files;
    violations.sort_unstable();
    Ok(Snapshot { tree, violations, stats })
}

impl Violation {
    /// Where it is on disk, for a message.
    pub fn location(&self, place: &Path) -> PathBuf {
        place.join(to_path(self.path.as_ref()))
    }
}
