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
use gix::objs::tree::EntryMode;

use super::difference::{Difference, How, differences};
use super::error::WorktreeError;
use super::layer::Layer;
use super::manifest::Manifest;
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
    /// The folder of the warm folders, if they lie below the layer.
    warm: Option<PathBuf>,
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
    /// Fills the empty folder `place` so that an overlay of it over `layer` shows exactly `tree`, or the part of it that the layer is a part of its tree by. The manifest knows what
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
            warm: None,
            marks,
        };
        if tree == layer.manifest().tree() {
            return Ok(Some((overlaid, layer.manifest().clone())));
        }
        let selection = layer.manifest().selection();
        let mut manifest = Manifest::read_selected(repo, tree, verify, selection)?;
        if differences(layer.manifest(), &manifest, 0, 0) > limit {
            return Ok(None);
        }
        Difference::new(repo, layer.manifest(), place, verify, How::Above).make(&mut manifest)?;
        manifest.note_in_whole();
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

    /// Says that the folder `warm` is to be mounted below the layer: what lies in it is not part of the tree.
    #[must_use]
    pub fn with_warm(self, warm: &Path) -> Self {
        Self { warm: Some(warm.to_owned()), ..self }
    }

    /// The folder below the layer.
    pub fn warm(&self) -> Option<&Path> {
        self.warm.as_deref()
    }

    /// The layers as they are to be mounted, the uppermost first.
    pub fn layers(&self) -> Vec<PathBuf> {
        std::iter::once(self.lower.clone()).chain(self.warm.clone()).collect()
    }

    /// Whether the folders on the way to `path` show what lies below the layer: the tree has hidden none of them.
    pub fn shows_below(&self, path: &BStr, tree: &Manifest) -> bool {
        path.find_iter("/")
            .map(|slash| path[..slash].as_bstr())
            .all(|above| self.layer.find_dir(above).is_none() || tree.find_dir(above).is_some())
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
    #[cfg(unix)]
    let builder = {
        let mut builder = fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder
    };
    #[cfg(not(unix))]
    let builder = fs::DirBuilder::new();
    builder.create(path).map_err(WorktreeError::io("make the folder", path))
}
