//! The first pass over the upper folder of an overlay: which paths the command saw, without a look at those that it left
//! alone.
//!
//! What the kernel writes into an upper folder is documented (Documentation/filesystems/overlayfs.rst): a whiteout for what
//! was removed, an attribute on a folder that hides the one below it (`opaque`), an attribute on a folder that was
//! moved and says where it lay (`redirect`). The last two cannot be set from inside: overlayfs keeps these names to
//! itself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use gix::bstr::{BStr, BString, ByteSlice};
use gix::objs::tree::EntryKind;

use super::walk::{Judged, Walk};
use super::{Found, Node, Violation, ViolationKind, What};
use crate::worktree::access;
use crate::worktree::error::WorktreeError;
use crate::worktree::manifest::{Entry, MAX_DEPTH, Manifest, join};
use crate::worktree::overlay::{Below, Marks, Overlaid};
use crate::worktree::sys::{self, Dir, DirEntry, FileKind};
use crate::worktree::warm::bring_up;

pub(super) struct Merge<'a> {
    walk: Walk<'a>,
    lower: &'a Manifest,
    marks: Marks,
    /// The warm folders, if they lie below the layer: their folder, open, and where it is.
    warm: Option<(&'a Path, Dir)>,
    max_file_bytes: u64,
}

/// One name as the command saw it.
enum Seen<'a> {
    /// It lies in the upper folder, on top of what the layer may have there.
    Upper(DirEntry, Option<&'a Entry>),
    /// The layer has it, and the command left it alone.
    Lower(&'a Entry),
}

/// A folder of the merged tree.
#[derive(Clone, Copy)]
struct Place<'d> {
    upper: Option<&'d Dir>,
    /// The folder of the layer that shows through.
    lower: Option<usize>,
    /// The path of the folder of warm folders that shows through, if it lies at its own path.
    warm: Option<&'d BString>,
}

impl<'a> Merge<'a> {
    pub fn new(walk: Walk<'a>, overlaid: &'a Overlaid, max_file_bytes: u64) -> Self {
        let warm = overlaid.warm().and_then(|place| Some((place, Dir::open(place).ok()?)));
        Self { walk, lower: overlaid.layer(), marks: overlaid.marks(), warm, max_file_bytes }
    }

    pub fn run(mut self, root: &Dir) -> Result<Walk<'a>, WorktreeError> {
        let above = BString::default();
        let top = Place { upper: Some(root), lower: Some(0), warm: self.warm.as_ref().map(|_| &above) };
        self.read_dir(top, BString::default(), Some(0), false, 0)?;
        Ok(self.walk)
    }

    /// The names in a folder, in the order of their bytes.
    fn names(&self, place: Place<'_>, path: &BStr) -> Result<BTreeMap<BString, Seen<'a>>, WorktreeError> {
        let lower = self.lower;
        let mut names: BTreeMap<BString, Seen<'a>> = BTreeMap::new();
        for entry in place.lower.into_iter().flat_map(|dir| &lower.dirs[dir].entries) {
            names.insert(entry.name.clone(), Seen::Lower(entry));
        }
        let Some(upper) = place.upper else { return Ok(names) };
        let fail = |error| WorktreeError::io_below("read the folder", self.walk.place, path)(error);
        for found in upper.entries().map_err(fail)? {
            let below = match names.remove(&found.name) {
                Some(Seen::Lower(entry)) => Some(entry),
                _ => None,
            };
            let special = matches!(found.kind, None | Some(FileKind::Device));
            if special && upper.is_whiteout(found.name.as_ref()).map_err(fail)? {
                continue;
            }
            names.insert(found.name.clone(), Seen::Upper(found, below));
        }
        Ok(names)
    }

    fn read_dir(
        &mut self,
        place: Place<'_>,
        path: BString,
        known: Option<usize>,
        ignored: bool,
        depth: usize,
    ) -> Result<usize, WorktreeError> {
        let mut names = self.names(place, path.as_ref())?;
        if depth == 0 {
            names.remove(b".git".as_bstr());
        }
        let at = self.walk.nodes.len();
        self.walk.count(names.len())?;
        self.walk.nodes.push(Node { path, known, entries: Vec::with_capacity(names.len()) });
        let all: BTreeSet<BString> =
            if self.walk.known.dirs[0].partial { names.keys().cloned().collect() } else { BTreeSet::new() };
        for (name, seen) in names {
            let what = match seen {
                Seen::Upper(found, below) => self.changed(at, place, &found, below, ignored, depth)?,
                Seen::Lower(entry) => self.untouched(at, entry, ignored, depth)?,
            };
            if let Some(what) = what {
                self.walk.nodes[at].entries.push(Found { name, what });
            }
        }
        self.walk.keep_absent(at, &|name| all.contains(name))?;
        Ok(at)
    }

    /// Decides about a name in the upper folder.
    fn changed(
        &mut self,
        at: usize,
        place: Place<'_>,
        found: &DirEntry,
        below: Option<&'a Entry>,
        ignored: bool,
        depth: usize,
    ) -> Result<Option<What>, WorktreeError> {
        let name = found.name.as_bstr();
        let Some(upper) = place.upper else { return Ok(None) };
        let kind = match found.kind {
            Some(kind) => kind,
            None => upper.stat(name).map(|stat| stat.kind()).map_err(|error| {
                let path = join(self.walk.nodes[at].path.as_ref(), name);
                WorktreeError::io_below("look at", self.walk.place, path.as_ref())(error)
            })?,
        };
        let Some(judged) = self.walk.judge(at, name, kind, ignored) else { return Ok(None) };
        match kind {
            FileKind::File | FileKind::Link => Ok(Some(What::Read)),
            FileKind::Fifo | FileKind::Socket | FileKind::Device => {
                let what = ViolationKind::SpecialFile;
                self.walk.violations.push(Violation { path: judged.path, what });
                Ok(None)
            }
            FileKind::Dir => {
                let fail = |error| {
                    WorktreeError::io_below("open the folder", self.walk.place, judged.path.as_ref())(error)
                };
                let dir = match access::open_dir(upper, name) {
                    Err(error) if sys::is_other_kind(&error) => {
                        return Err(WorktreeError::Changed { path: judged.path });
                    }
                    other => other.map_err(fail)?,
                };
                let marks = self.marks.below(&dir).map_err(fail)?;
                let warm = self.bring_up_moved(place, name, &marks, &dir, &judged)?;
                let shown = match marks {
                    Below::Nothing => None,
                    Below::SamePlace => below.filter(|entry| entry.mode.is_tree()).map(|entry| entry.dir),
                    Below::Absolute(path) => self.lower.find_dir(path.as_ref()),
                    Below::Renamed(old) => place
                        .lower
                        .and_then(|dir| self.lower.find(dir, old.as_ref()))
                        .filter(|entry| entry.mode.is_tree())
                        .map(|entry| entry.dir),
                };
                let inner = Place { upper: Some(&dir), lower: shown, warm: warm.as_ref() };
                self.enter(inner, judged, depth)
            }
        }
    }

    /// What of the warm folders shows through the upper folder `dir`: where it lies at its own path that is not part of any candidate, and the path
    /// is given. Elsewhere the command has moved it, as files of its own: they are copied to where it sees them.
    fn bring_up_moved(
        &self,
        place: Place<'_>,
        name: &BStr,
        marks: &Below,
        dir: &Dir,
        judged: &Judged<'_>,
    ) -> Result<Option<BString>, WorktreeError> {
        let Some((source, root)) = &self.warm else { return Ok(None) };
        let origin = match marks {
            Below::Nothing => None,
            Below::SamePlace => place.warm.map(|above| join(above.as_ref(), name)),
            Below::Renamed(old) => place.warm.map(|above| join(above.as_ref(), old.as_ref())),
            Below::Absolute(path) => Some(path.clone()),
        };
        let Some(origin) = origin else { return Ok(None) };
        let Ok(below) = root.open_path(origin.as_ref()) else { return Ok(None) };
        if origin == judged.path {
            return Ok(Some(origin));
        }
        bring_up(dir, &below, self.marks, source)?;
        Ok(None)
    }

    /// Decides about a name that only the layer has.
    fn untouched(
        &mut self,
        at: usize,
        entry: &'a Entry,
        ignored: bool,
        depth: usize,
    ) -> Result<Option<What>, WorktreeError> {
        let kind = match entry.mode.kind() {
            EntryKind::Tree | EntryKind::Commit => FileKind::Dir,
            EntryKind::Link => FileKind::Link,
            EntryKind::Blob | EntryKind::BlobExecutable => FileKind::File,
        };
        let Some(judged) = self.walk.judge(at, entry.name.as_ref(), kind, ignored) else { return Ok(None) };
        if kind == FileKind::Dir {
            let lower = entry.mode.is_tree().then_some(entry.dir);
            return self.enter(Place { upper: None, lower, warm: None }, judged, depth);
        }
        let same = judged.known.filter(|known| known.id == entry.id && known.mode.is_blob_or_symlink());
        let size = entry.stat.map_or(0, |stat| stat.size);
        if same.is_none() && kind == FileKind::File && size > self.max_file_bytes {
            self.walk.violations.push(Violation { path: judged.path, what: ViolationKind::TooLarge });
            return Ok(None);
        }
        let mode = match same {
            Some(known) if known.mode.kind() == entry.mode.kind() => known.mode,
            _ => entry.mode.kind().into(),
        };
        Ok(Some(What::Same(mode, entry.id)))
    }

    fn enter(
        &mut self,
        place: Place<'_>,
        judged: Judged<'a>,
        depth: usize,
    ) -> Result<Option<What>, WorktreeError> {
        let Judged { path, known, excluded } = judged;
        if depth >= MAX_DEPTH {
            self.walk.violations.push(Violation { path, what: ViolationKind::TooDeep });
            return Ok(None);
        }
        if let Some(link) = known.filter(|known| known.mode.is_commit()) {
            if !self.names(place, path.as_ref())?.is_empty() {
                self.walk.violations.push(Violation { path, what: ViolationKind::SubmoduleContent });
            }
            return Ok(Some(What::Same(link.mode, link.id)));
        }
        let known = known.filter(|known| known.mode.is_tree()).map(|known| known.dir);
        if let (None, Some(lower), Some(dir)) = (place.upper, place.lower, known)
            && self.lower.dirs[lower].tree == self.walk.known.dirs[dir].tree
            // Of two folders with one tree other parts may be checked out.
            && (!self.lower.dirs[lower].partial || self.lower.dirs[lower].path == path)
            && (!self.walk.known.dirs[dir].partial || self.lower.dirs[lower].path == path)
        {
            // All of it is tracked, so no rule can leave anything out.
            let known = &self.walk.known.dirs[dir];
            self.walk.stats.files += known.files;
            return Ok(Some(What::Same(EntryKind::Tree.into(), known.tree)));
        }
        Ok(Some(What::Dir(self.read_dir(place, path, known, excluded, depth + 1)?)))
    }
}
