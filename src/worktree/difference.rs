//! What makes of one tree on disk another: only the paths that differ are touched.

use std::path::Path;

use gix::bstr::{BStr, ByteSlice};
use gix::objs::tree::EntryKind;

use super::checkout::{blob, collision, make_file};
use super::error::{WorktreeError, to_path};
use super::manifest::{Entry, Manifest, join};
use super::remove::remove_all;
use super::sys::Dir;

/// How many paths differ between a folder of one manifest and one of another.
pub(super) fn differences(from: &Manifest, to: &Manifest, from_dir: usize, to_dir: usize) -> usize {
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

/// Where the first tree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// In a layer below: the folder is the upper one of an overlay, and what goes is hidden.
    Above,
    /// In the folder itself: what goes is removed.
    InPlace,
}

/// Puts into a folder what makes of one tree another.
pub(super) struct Difference<'a> {
    repo: &'a gix::Repository,
    from: &'a Manifest,
    place: &'a Path,
    verify: bool,
    how: How,
    buf: Vec<u8>,
}

impl<'a> Difference<'a> {
    /// `from` is the tree that is there. With `verify` each object that is read is hashed again.
    pub fn new(
        repo: &'a gix::Repository,
        from: &'a Manifest,
        place: &'a Path,
        verify: bool,
        how: How,
    ) -> Self {
        Self { repo, from, place, verify, how, buf: Vec::new() }
    }

    /// Makes `to` of it, and notes in `to` what `stat` says of each file.
    pub fn make(mut self, to: &mut Manifest) -> Result<(), WorktreeError> {
        let root = Dir::open(self.place).map_err(WorktreeError::io("open the folder", self.place))?;
        self.dir(to, Some(0), 0, &root)
    }

    /// `was` is the folder of the first tree at the same path, if it has one there.
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
                self.take_away(place, path.as_ref(), gone)?;
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
            let stays = self.how == How::InPlace && below.is_some() && entry.mode.is_tree();
            if let (How::InPlace, Some(before), false) = (self.how, before, stays) {
                self.take_away(place, path.as_ref(), before)?;
            }
            let name = entry.name.as_bstr();
            match entry.mode.kind() {
                EntryKind::Tree | EntryKind::Commit => {
                    let made = if stays { Ok(()) } else { place.make_dir(name, 0o777) };
                    let inner = made.and_then(|()| place.open_dir(name));
                    let inner = inner.map_err(collision(
                        "make the folder",
                        self.place,
                        join(path.as_ref(), name).as_ref(),
                    ))?;
                    if entry.mode.is_tree() {
                        self.dir(to, below, entry.dir, &inner)?;
                    } else if self.how == How::Above {
                        // The empty folder of a submodule.
                        for hidden in below.into_iter().flat_map(|dir| &from.dirs[dir].entries) {
                            let path = join(path.as_ref(), name);
                            self.take_away(&inner, path.as_ref(), hidden)?;
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

    fn take_away(&self, dir: &Dir, path: &BStr, entry: &Entry) -> Result<(), WorktreeError> {
        let name = entry.name.as_bstr();
        let (doing, done) = match self.how {
            How::Above => ("hide", dir.make_whiteout(name)),
            How::InPlace if entry.mode.is_blob_or_symlink() => ("remove", dir.unlink(name)),
            How::InPlace => return remove_all(&self.place.join(to_path(join(path, name).as_ref()))),
        };
        done.map_err(|error| WorktreeError::io_below(doing, self.place, join(path, name).as_ref())(error))
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
