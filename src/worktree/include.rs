//! Ignored files of the user's own work tree that every fresh worktree gets a copy of: those that a file of the base commit names,
//! in gitignore syntax, and that the base ignores. No link is followed or copied.

use std::fs;
use std::io;
use std::path::Path;

use gix::bstr::{BStr, BString, ByteSlice};

use super::error::{WorktreeError, to_path};
use super::ignore::BaseIgnores;
use super::manifest::{Holds, MAX_DEPTH, Manifest, join, read_object};
use super::names;
use super::sys::{self, Dir, FileKind};
use super::warm::{copy_file, make_path, split};

/// The most files that are copied, and the most bytes of them together: this is for configuration, not for dependencies.
const MAX_FILES: usize = 1000;
const MAX_BYTES: u64 = 64 << 20;

/// The files that were copied out of the user's work tree.
#[derive(Debug, Clone)]
pub struct Included {
    source: std::path::PathBuf,
    paths: Vec<BString>,
}

/// What [`Included::collect`] found besides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Collected {
    /// Files that were copied, in the order of paths.
    pub copied: Vec<BString>,
    /// Files that are named and neither tracked nor ignored: they would become a part of every candidate.
    pub not_ignored: Vec<BString>,
}

struct Collecting<'a> {
    base: &'a Manifest,
    ignores: BaseIgnores,
    wanted: BaseIgnores,
    folders: &'a [BString],
    top: &'a Path,
    bytes: u64,
    found: Collected,
}

impl Included {
    /// Copies from the work tree `top` to the new folder `target` what `file` of the tree `base` names. The folders in `warm` are looked at
    /// by nobody.
    pub fn collect(
        repo: &gix::Repository,
        base: &Manifest,
        file: &BStr,
        top: &Path,
        warm: &[BString],
        target: &Path,
    ) -> Result<Collected, WorktreeError> {
        let mut wanted = BaseIgnores::default();
        if let Some(rules) = base.find_path(file).filter(|entry| entry.mode.is_blob()) {
            let mut buf = Vec::new();
            let rules = read_object(&repo.objects, rules.id, gix::objs::Kind::Blob, Some(file), &mut buf)?;
            // The rules count from the top, wherever the file lies.
            wanted.add(b"".as_bstr(), rules);
        }
        let ignores = BaseIgnores::of(repo, base)?;
        let found = Collected::default();
        let mut this = Collecting { base, ignores, wanted, folders: warm, top, bytes: 0, found };
        let root = Dir::open(top).map_err(WorktreeError::io("open the folder", top))?;
        this.look(&root, b"".as_bstr(), false, false, 0)?;
        let mut found = this.found;
        found.copied.sort_unstable();
        found.not_ignored.sort_unstable();

        let part = target.with_extension("include.new");
        super::remove_all(&part)?;
        fs::create_dir(&part).map_err(WorktreeError::io("make the folder", &part))?;
        for path in &found.copied {
            let (from, to) = (top.join(to_path(path.as_ref())), part.join(to_path(path.as_ref())));
            let above = to.parent().unwrap_or(&part);
            fs::create_dir_all(above).map_err(WorktreeError::io("make the folder", above))?;
            copy_file(&from, &to).map_err(WorktreeError::io("copy", &from))?;
        }
        fs::rename(&part, target).map_err(WorktreeError::io("keep the files of", &part))?;
        Ok(found)
    }

    /// What lies in a folder that was collected; a missing one has nothing.
    pub fn find(source: &Path) -> Result<Self, WorktreeError> {
        let mut paths = Vec::new();
        match Dir::open(source) {
            Ok(root) => list(&root, source, b"".as_bstr(), &mut paths)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(WorktreeError::io("open the folder", source)(error)),
        }
        paths.sort_unstable();
        Ok(Self { source: source.to_owned(), paths })
    }

    /// Where the files belong in a worktree, sorted.
    pub fn paths(&self) -> impl Iterator<Item = &BStr> {
        self.paths.iter().map(|path| path.as_bstr())
    }

    /// Each with the SHA-256 of its content, as hex.
    pub fn digests(&self) -> Result<Vec<(BString, String)>, WorktreeError> {
        let digest = |path: &BString| {
            let file = self.source.join(to_path(path.as_ref()));
            Ok((path.clone(), super::digest_file(&file)?))
        };
        self.paths.iter().map(digest).collect()
    }

    /// Copies all into the worktree at `place`, which holds `tree`, and gives the paths that had something in their way. No link on
    /// the way is followed.
    pub fn copy_to(&self, place: &Path, tree: &Manifest) -> Result<Vec<BString>, WorktreeError> {
        let root = Dir::open(place).map_err(WorktreeError::io("open the folder", place))?;
        let mut left_out = Vec::new();
        for path in &self.paths {
            let (above, name) = split(path.as_ref());
            if tree.holds(path.as_ref()) != Holds::Nothing {
                left_out.push(path.clone());
                continue;
            }
            let dir = match make_path(&root, above) {
                Ok(dir) => dir,
                Err(error) if sys::is_other_kind(&error) => {
                    left_out.push(path.clone());
                    continue;
                }
                Err(error) => return Err(WorktreeError::io_below("make the folder", place, above)(error)),
            };
            if dir.stat(name).is_ok() {
                left_out.push(path.clone());
                continue;
            }
            let target = place.join(to_path(path.as_ref()));
            copy_file(&self.source.join(to_path(path.as_ref())), &target)
                .map_err(WorktreeError::io("write", &target))?;
        }
        Ok(left_out)
    }
}

fn list(dir: &Dir, root: &Path, path: &BStr, found: &mut Vec<BString>) -> Result<(), WorktreeError> {
    let entries = dir.entries().map_err(WorktreeError::io_below("read the folder", root, path))?;
    for entry in entries {
        let name = entry.name.as_bstr();
        let below = join(path, name);
        let fail = |error| WorktreeError::io_below("read", root, below.as_ref())(error);
        match dir.stat(name).map_err(fail)?.kind() {
            FileKind::Dir => {
                let inner = dir.open_dir(name).map_err(fail)?;
                list(&inner, root, below.as_ref(), found)?;
            }
            FileKind::File => found.push(below),
            _ => {}
        }
    }
    Ok(())
}

impl Collecting<'_> {
    fn look(
        &mut self,
        dir: &Dir,
        path: &BStr,
        ignored: bool,
        wanted: bool,
        depth: usize,
    ) -> Result<(), WorktreeError> {
        let top = self.top;
        let fail = |error| WorktreeError::Io {
            doing: "read the folder",
            path: top.join(to_path(path)),
            source: error,
        };
        for entry in dir.entries().map_err(fail)? {
            let name = entry.name.as_bstr();
            // Whatever git could take for its own folder, here and in nested repositories.
            if names::objection(name, false).is_some() {
                continue;
            }
            let below = join(path, name);
            let stat = match dir.stat(name) {
                Ok(stat) => stat,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(fail(error)),
            };
            let is_dir = stat.kind() == FileKind::Dir;
            let ignored = ignored || self.ignores.excludes(below.as_ref(), is_dir);
            let wanted = wanted || self.wanted.excludes(below.as_ref(), is_dir);
            match stat.kind() {
                FileKind::Dir if depth < MAX_DEPTH && !self.folders.contains(&below) => {
                    match dir.open_dir(name) {
                        Ok(inner) => self.look(&inner, below.as_ref(), ignored, wanted, depth + 1)?,
                        // What this user may not read is nobody's configuration.
                        Err(error) if sys::is_permission(&error) => {}
                        Err(error) => return Err(fail(error)),
                    }
                }
                FileKind::File if wanted && self.base.holds(below.as_ref()) == Holds::Nothing => {
                    if !ignored {
                        self.found.not_ignored.push(below);
                        continue;
                    }
                    self.bytes = self.bytes.saturating_add(stat.size);
                    if self.found.copied.len() == MAX_FILES || self.bytes > MAX_BYTES {
                        let (what, limit) = if self.bytes > MAX_BYTES {
                            ("bytes of included files", MAX_BYTES)
                        } else {
                            ("included files", MAX_FILES as u64)
                        };
                        return Err(WorktreeError::TooLarge { what, limit });
                    }
                    self.found.copied.push(below);
                }
                _ => {}
            }
        }
        Ok(())
    }
}
