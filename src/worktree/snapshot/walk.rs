//! The first pass, on one thread: which paths there are.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use gix::bstr::{BStr, BString, ByteSlice};

use super::{Found, Node, SnapshotStats, Violation, ViolationKind, What, go_on};
use crate::worktree::access;
use crate::worktree::error::WorktreeError;
use crate::worktree::ignore::BaseIgnores;
use crate::worktree::manifest::{Entry, MAX_DEPTH, MAX_ENTRIES, Manifest, join};
use crate::worktree::names;
use crate::worktree::sys::{self, Dir, DirEntry, FileKind};

pub(super) struct Walk<'a> {
    pub place: &'a Path,
    pub known: &'a Manifest,
    ignores: &'a BaseIgnores,
    trust_stat: bool,
    pub nodes: Vec<Node>,
    pub violations: Vec<Violation>,
    pub stats: SnapshotStats,
    entries: usize,
    stop: Option<&'a AtomicBool>,
}

/// A name that belongs to what the folder holds.
pub(super) struct Judged<'a> {
    pub path: BString,
    /// What the manifest has there.
    pub known: Option<&'a Entry>,
    /// Whether new things below it are ignored.
    pub excluded: bool,
}

impl<'a> Walk<'a> {
    pub fn new(
        place: &'a Path,
        known: &'a Manifest,
        ignores: &'a BaseIgnores,
        trust_stat: bool,
        stop: Option<&'a AtomicBool>,
    ) -> Self {
        Self {
            place,
            known,
            ignores,
            trust_stat,
            nodes: Vec::new(),
            violations: Vec::new(),
            stats: SnapshotStats::default(),
            entries: 0,
            stop,
        }
    }

    pub fn run(mut self, root: &Dir) -> Result<Self, WorktreeError> {
        self.read_dir(root, BString::default(), Some(0), false, 0)?;
        Ok(self)
    }

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
        self.count(names.len())?;
        self.nodes.push(Node { path, known, entries: Vec::with_capacity(names.len()) });
        for name in &names {
            if let Some(what) = self.look_at(at, dir, name, ignored, depth)? {
                self.nodes[at].entries.push(Found { name: name.name.clone(), what });
            }
        }
        self.keep_absent(at, &|name| names.binary_search_by(|found| found.name.as_bstr().cmp(name)).is_ok())?;
        Ok(at)
    }

    /// Adds to a folder what was not checked out of it, unless something is in its place.
    pub fn keep_absent(&mut self, at: usize, taken: &dyn Fn(&BStr) -> bool) -> Result<(), WorktreeError> {
        let manifest = self.known;
        let Some(dir) = self.nodes[at].known.filter(|dir| manifest.dirs[*dir].partial) else { return Ok(()) };
        for entry in manifest.dirs[dir].entries.iter().filter(|entry| !taken(entry.name.as_ref())) {
            let what = if entry.absent {
                What::Same(entry.mode, entry.id)
            } else if entry.mode.is_tree() && manifest.dirs[entry.dir].partial {
                // All of it that was there is gone.
                let below = self.nodes.len();
                let path = manifest.dirs[entry.dir].path.clone();
                self.nodes.push(Node { path, known: Some(entry.dir), entries: Vec::new() });
                self.keep_absent(below, &|_| false)?;
                What::Dir(below)
            } else {
                continue;
            };
            self.count(1)?;
            self.nodes[at].entries.push(Found { name: entry.name.clone(), what });
        }
        Ok(())
    }

    /// Counts more paths, and refuses too many. Nobody counts who was told to stop.
    pub fn count(&mut self, more: usize) -> Result<(), WorktreeError> {
        go_on(self.stop)?;
        self.entries += more;
        if self.entries > MAX_ENTRIES {
            return Err(WorktreeError::TooLarge { what: "paths in the worktree", limit: MAX_ENTRIES as u64 });
        }
        Ok(())
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
        let mut stat = None;
        if found.kind.is_none() || self.trust_stat && found.kind != Some(FileKind::Dir) {
            stat = match dir.stat(name) {
                Ok(stat) => Some(stat),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                Err(error) => {
                    let path = join(self.nodes[at].path.as_ref(), name);
                    return Err(WorktreeError::io_below("look at", self.place, path.as_ref())(error));
                }
            };
        }
        let kind = stat.map(|stat| stat.kind()).or(found.kind).unwrap_or(FileKind::Device);
        let Some(Judged { path, known, excluded }) = self.judge(at, name, kind, ignored) else {
            return Ok(None);
        };
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

    /// What the rules say of a name, whatever is in it; `None` leaves it out.
    pub fn judge(&mut self, at: usize, name: &BStr, kind: FileKind, ignored: bool) -> Option<Judged<'a>> {
        let path = join(self.nodes[at].path.as_ref(), name);
        let manifest = self.known;
        let known = self.nodes[at].known.and_then(|dir| manifest.find(dir, name));
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
            return None;
        }
        // A name that the manifest has was judged when the manifest was read; `.gitmodules` may have become a link.
        let judged = known.is_some() && kind != FileKind::Link;
        if let Some(why) = (!judged).then(|| names::objection(name, kind == FileKind::Link)).flatten() {
            let what =
                if name == ".git" { ViolationKind::NestedRepository } else { ViolationKind::UnsafeName(why) };
            self.violations.push(Violation { path, what });
            return None;
        }
        Some(Judged { path, known, excluded })
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
