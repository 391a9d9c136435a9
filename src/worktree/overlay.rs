//! A fresh worktree as the upper layer of an overlay: on disk lies only what differs from a [`Layer`], and the
//! kernel shows both as one folder to the command that it is mounted for.
//!
//! The mount lives in the command's own mount namespace (see `sandbox::root`): nothing is mounted on the host, so a
//! killed runner leaves a folder to remove and no mount.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice};
use gix::objs::tree::{EntryKind, EntryMode};

use super::checkout::{blob, collision, make_file};
use super::error::WorktreeError;
use super::layer::Layer;
use super::manifest::{Entry, Manifest, join};
use super::sys::{Dir, FileKind};

/// Where overlayfs keeps what it notes on folders of the upper layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marks {
    /// In `trusted.overlay.*`, which needs an administrator. Folders of the layer can be renamed.
    Trusted,
    /// In `user.overlay.*` (`userxattr`), as in a user namespace. A rename of a folder of the layer fails as between two disks.
    User,
}

/// What shows through a folder of the upper layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Below {
    /// Nothing: it is opaque.
    Nothing,
    /// The folder at the same path.
    SamePlace,
    /// Another folder of the one below the folder that it lies in.
    Renamed(BString),
    /// The folder at this path, from the top.
    Absolute(BString),
}

impl Marks {
    /// Reads the marks of an open folder.
    pub(super) fn below(self, dir: &Dir) -> io::Result<Below> {
        let (opaque, redirect): (&CStr, &CStr) = match self {
            Self::Trusted => (c"trusted.overlay.opaque", c"trusted.overlay.redirect"),
            Self::User => (c"user.overlay.opaque", c"user.overlay.redirect"),
        };
        if dir.attribute(opaque)?.is_some_and(|value| value == b"y") {
            return Ok(Below::Nothing);
        }
        Ok(match dir.attribute(redirect)? {
            None => Below::SamePlace,
            Some(path) => match path.strip_prefix(b"/") {
                Some(path) => Below::Absolute(path.into()),
                None => Below::Renamed(path.into()),
            },
        })
    }
}

/// A worktree whose folder is an upper layer.
#[derive(Debug, Clone)]
pub struct Overlaid {
    place: PathBuf,
    layer: Arc<Manifest>,
    lower: PathBuf,
    marks: Marks,
}

/// Where something lies that the command saw in its worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lies<'a> {
    /// Nowhere.
    Nowhere,
    /// Here, on disk: it was made or changed.
    Changed(PathBuf),
    /// In the layer, untouched, with this mode and object.
    Untouched(EntryMode, &'a ObjectId),
}

impl Overlaid {
    /// Fills the empty folder `place` so that an overlay of it over `layer` shows exactly `tree`. The manifest knows what
    /// `stat` will say of each file there. With `verify` each object is hashed again; those of the layer were.
    ///
    /// `None` if more than `limit` paths differ: then a whole checkout is worth it.
    pub fn fill(
        repo: &gix::Repository,
        layer: &Layer,
        tree: ObjectId,
        place: &Path,
        marks: Marks,
        verify: bool,
        limit: usize,
    ) -> Result<Option<(Self, Arc<Manifest>)>, WorktreeError> {
        let overlaid = Self {
            place: place.to_owned(),
            layer: layer.manifest().clone(),
            lower: layer.path().to_owned(),
            marks,
        };
        if tree == layer.manifest().tree() {
            return Ok(Some((overlaid, layer.manifest().clone())));
        }
        let mut manifest = Manifest::read(repo, tree, verify)?;
        if differences(layer.manifest(), &manifest, 0, 0) > limit {
            return Ok(None);
        }
        let root = Dir::open(place).map_err(WorktreeError::io("open the folder", place))?;
        let mut fill = Fill { repo, from: layer.manifest(), place, verify, buf: Vec::new() };
        fill.dir(&mut manifest, Some(0), 0, &root)?;
        Ok(Some((overlaid, Arc::new(manifest))))
    }

    /// The folder.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// The folder of the layer.
    pub fn lower(&self) -> &Path {
        &self.lower
    }

    /// How the overlay is to be mounted.
    pub fn marks(&self) -> Marks {
        self.marks
    }

    pub(super) fn layer(&self) -> &Manifest {
        &self.layer
    }

    /// Finds a file that the command saw at `path`. A link or a folder that was moved on the way to it counts as nothing:
    /// neither is followed.
    pub fn find(&self, path: &BStr) -> io::Result<Lies<'_>> {
        let mut dir = Dir::open(&self.place)?;
        let mut lower = Some(0);
        let (above, name) = match path.rfind_byte(b'/') {
            Some(slash) => (path[..slash].as_bstr(), path[slash + 1..].as_bstr()),
            None => (b"".as_bstr(), path),
        };
        for part in above.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
            let part = part.as_bstr();
            let below = lower.and_then(|dir| self.layer.find(dir, part)).filter(|entry| entry.mode.is_tree());
            match dir.stat(part) {
                Ok(stat) if stat.kind() == FileKind::Dir => {
                    dir = super::access::open_dir(&dir, part)?;
                    let end = part.as_ptr() as usize - path.as_ptr() as usize + part.len();
                    lower = match self.marks.below(&dir)? {
                        Below::SamePlace => below.map(|entry| entry.dir),
                        Below::Nothing => None,
                        // It was moved and came back.
                        Below::Renamed(old) if old == part => below.map(|entry| entry.dir),
                        Below::Absolute(old) if old == path[..end] => below.map(|entry| entry.dir),
                        Below::Renamed(_) | Below::Absolute(_) => return Ok(Lies::Nowhere),
                    };
                }
                Ok(_) => return Ok(Lies::Nowhere),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    // From here on only the layer has anything.
                    let rest = &path[part.as_ptr() as usize - path.as_ptr() as usize..];
                    return Ok(self.untouched(lower, rest.as_bstr()));
                }
                Err(error) => return Err(error),
            }
        }
        match dir.is_whiteout(name) {
            Ok(true) => Ok(Lies::Nowhere),
            Ok(false) => Ok(Lies::Changed(self.place.join(super::error::to_path(path)))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(self.untouched(lower, name)),
            Err(error) => Err(error),
        }
    }

    fn untouched(&self, dir: Option<usize>, path: &BStr) -> Lies<'_> {
        let Some(mut dir) = dir else { return Lies::Nowhere };
        let mut names = path.split(|byte| *byte == b'/').peekable();
        while let Some(name) = names.next() {
            match self.layer.find(dir, name.as_bstr()) {
                Some(entry) if names.peek().is_none() => return Lies::Untouched(entry.mode, &entry.id),
                Some(entry) if entry.mode.is_tree() => dir = entry.dir,
                _ => break,
            }
        }
        Lies::Nowhere
    }
}

/// How many paths differ between a folder of one manifest and one of another.
fn differences(from: &Manifest, to: &Manifest, from_dir: usize, to_dir: usize) -> usize {
    let (was, is) = (&from.dirs[from_dir], &to.dirs[to_dir]);
    if was.tree == is.tree {
        return 0;
    }
    let gone = was.entries.iter().filter(|entry| to.find(to_dir, entry.name.as_ref()).is_none()).count();
    let changed = is.entries.iter().map(|entry| match from.find(from_dir, entry.name.as_ref()) {
        Some(was) if was.id == entry.id && was.mode.kind() == entry.mode.kind() => 0,
        Some(was) if was.mode.is_tree() && entry.mode.is_tree() => differences(from, to, was.dir, entry.dir),
        _ if entry.mode.is_tree() => to.dirs[entry.dir].files,
        _ => 1,
    });
    gone + changed.sum::<usize>()
}

/// Puts into an upper folder what makes of one tree another.
struct Fill<'a> {
    repo: &'a gix::Repository,
    from: &'a Manifest,
    place: &'a Path,
    verify: bool,
    buf: Vec<u8>,
}

impl Fill<'_> {
    /// `was` is the folder of the layer at the same path, if it has one there.
    fn dir(
        &mut self,
        to: &mut Manifest,
        was: Option<usize>,
        at: usize,
        place: &Dir,
    ) -> Result<(), WorktreeError> {
        let from = self.from;
        let path = to.dirs[at].path.clone();
        for gone in was.into_iter().flat_map(|dir| &from.dirs[dir].entries) {
            if to.find(at, gone.name.as_ref()).is_none() {
                self.white_out(place, path.as_ref(), gone.name.as_ref())?;
            }
        }
        for index in 0..to.dirs[at].entries.len() {
            let entry = to.dirs[at].entries[index].clone();
            let before = was.and_then(|dir| from.find(dir, entry.name.as_ref()));
            if let Some(before) =
                before.filter(|was| was.id == entry.id && was.mode.kind() == entry.mode.kind())
            {
                if entry.mode.is_tree() {
                    copy_stats(from, to, before.dir, entry.dir);
                } else {
                    to.dirs[at].entries[index].stat = before.stat;
                }
                continue;
            }
            let below = before.filter(|was| was.mode.is_tree()).map(|was| was.dir);
            let name = entry.name.as_bstr();
            match entry.mode.kind() {
                EntryKind::Tree | EntryKind::Commit => {
                    let inner = place.make_dir(name, 0o777).and_then(|()| place.open_dir(name));
                    let inner = inner.map_err(collision(
                        "make the folder",
                        self.place,
                        join(path.as_ref(), name).as_ref(),
                    ))?;
                    if entry.mode.is_tree() {
                        self.dir(to, below, entry.dir, &inner)?;
                    } else {
                        // The empty folder of a submodule.
                        for hidden in below.into_iter().flat_map(|dir| &from.dirs[dir].entries) {
                            let path = join(path.as_ref(), name);
                            self.white_out(&inner, path.as_ref(), hidden.name.as_ref())?;
                        }
                    }
                }
                EntryKind::Blob | EntryKind::BlobExecutable | EntryKind::Link => {
                    to.dirs[at].entries[index].stat = Some(self.file(place, path.as_ref(), &entry)?);
                }
            }
        }
        Ok(())
    }

    fn white_out(&self, dir: &Dir, path: &BStr, name: &BStr) -> Result<(), WorktreeError> {
        dir.make_whiteout(name)
            .map_err(|error| WorktreeError::io_below("hide", self.place, join(path, name).as_ref())(error))
    }

    fn file(&mut self, dir: &Dir, path: &BStr, entry: &Entry) -> Result<super::Stat, WorktreeError> {
        let data = blob(&self.repo.objects, self.from.hash, path, entry, self.verify, &mut self.buf)?;
        let name = entry.name.as_bstr();
        let made = match entry.mode.kind() {
            EntryKind::Link => dir.make_link(data, name).and_then(|()| dir.stat(name)),
            EntryKind::BlobExecutable => make_file(dir, name, 0o755, data, None),
            _ => make_file(dir, name, 0o644, data, None),
        };
        made.map_err(collision("write", self.place, join(path, name).as_ref()))
    }
}

/// Notes of a folder that is the same in both what `stat` says of its files.
fn copy_stats(from: &Manifest, to: &mut Manifest, was: usize, is: usize) {
    for index in 0..to.dirs[is].entries.len() {
        let before = &from.dirs[was].entries[index];
        to.dirs[is].entries[index].stat = before.stat;
        if before.mode.is_tree() {
            let (was, is) = (before.dir, to.dirs[is].entries[index].dir);
            copy_stats(from, to, was, is);
        }
    }
}

/// A small overlay to see whether this machine can do what is relied on.
#[derive(Debug)]
pub struct Probe {
    /// The layer below.
    pub lower: PathBuf,
    /// The upper layer.
    pub upper: PathBuf,
    /// The kernel's working space.
    pub work: PathBuf,
}

impl Probe {
    /// What is done in the overlay, as one line for a shell.
    pub const SCRIPT: &str =
        "rm gone && rm -r made && mkdir made && : > made/new && mv old moved && echo changed >> kept";

    /// Makes the folders in `place`.
    pub fn prepare(place: &Path) -> Result<Self, WorktreeError> {
        let probe = Self { lower: place.join("lower"), upper: place.join("upper"), work: place.join("work") };
        for dir in
            [&probe.lower, &probe.upper, &probe.work, &probe.lower.join("made"), &probe.lower.join("old")]
        {
            fs::create_dir(dir).map_err(WorktreeError::io("make the folder", dir))?;
        }
        for name in ["gone", "made/hidden", "old/file", "kept"] {
            let file = probe.lower.join(name);
            fs::write(&file, "before\n").map_err(WorktreeError::io("write", &file))?;
        }
        Ok(probe)
    }

    /// Whether the upper folder says what was done, in these marks.
    pub fn shows(&self, marks: Marks) -> bool {
        self.looks_right(marks).unwrap_or(false)
    }

    fn looks_right(&self, marks: Marks) -> io::Result<bool> {
        let upper = Dir::open(&self.upper)?;
        let below = |name: &str| marks.below(&upper.open_dir(name.into())?);
        let moved = match below("moved")? {
            Below::Renamed(from) | Below::Absolute(from) => marks == Marks::Trusted && from == "old",
            // A copy, as between two disks.
            Below::Nothing | Below::SamePlace => {
                marks == Marks::User && self.upper.join("moved/file").is_file()
            }
        };
        Ok(moved
            && upper.is_whiteout("gone".into())?
            && upper.is_whiteout("old".into())?
            && below("made")? == Below::Nothing
            && self.upper.join("made/new").is_file()
            && fs::read(self.upper.join("kept"))? == b"before\nchanged\n"
            && fs::read(self.lower.join("kept"))? == b"before\n")
    }
}

/// Makes the empty folder that the kernel needs beside the upper one. It must not be reachable for the command.
pub(super) fn make_work(path: &Path) -> Result<(), WorktreeError> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(WorktreeError::io("make the folder", path))
}
