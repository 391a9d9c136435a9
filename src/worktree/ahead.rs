//! A checkout that was made before it was known of which tree: seen to be as it was made, and then moved to the right one.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice};

use super::difference::{Difference, How};
use super::error::WorktreeError;
use super::manifest::{Directory, Manifest, join};
use super::pool;
use super::sys::{self, Dir, FileKind};

/// Whether the folder `place` is as [`checkout`](super::checkout()) left it: the same names, and `stat` says of each file and link what it
/// said then. `besides` are paths that were added since: neither they nor what lies below them is looked at.
pub fn is_as_made(manifest: &Manifest, place: &Path, besides: &[BString]) -> Result<bool, WorktreeError> {
    let fail = || WorktreeError::io("read the folder", place);
    let root = Dir::open(place).map_err(fail())?;
    // Folders above an added path may have been made for it.
    let mut added: HashSet<&BStr> = HashSet::new();
    for path in besides {
        added.insert(path.as_ref());
        added.extend(path.find_iter("/").map(|slash| path[..slash].as_bstr()));
    }
    let units: Vec<usize> = (0..manifest.dirs.len()).collect();
    let threads = pool::threads_for(manifest.file_count()).min(units.len());
    let seen = pool::each(&units, vec![(); threads], |(), at| {
        folder_is_as_made(&manifest.dirs[*at], &root, &added).map(|same| !same)
    });
    Ok(!seen.map_err(fail())?.contains(&true))
}

fn folder_is_as_made(folder: &Directory, root: &Dir, added: &HashSet<&BStr>) -> io::Result<bool> {
    let path = folder.path.as_bstr();
    let missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound || sys::is_other_kind(error);
    let dir = match root.open_path(path) {
        Ok(dir) => dir,
        Err(error) if missing(&error) => return Ok(false),
        Err(error) => return Err(error),
    };
    for entry in &folder.entries {
        let stat = match dir.stat(entry.name.as_ref()) {
            Ok(stat) => stat,
            Err(error) if missing(&error) => return Ok(false),
            Err(error) => return Err(error),
        };
        let same = if entry.mode.is_blob_or_symlink() {
            entry.stat == Some(stat)
        } else if entry.mode.is_commit() {
            stat.kind() == FileKind::Dir && dir.open_dir(entry.name.as_ref())?.entries()?.is_empty()
        } else {
            stat.kind() == FileKind::Dir
        };
        if !same {
            return Ok(false);
        }
    }
    let known: HashSet<&BStr> = folder.entries.iter().map(|entry| entry.name.as_bstr()).collect();
    let names = dir.entries()?;
    Ok(names.iter().all(|found| {
        let name = found.name.as_bstr();
        known.contains(name) || added.contains(join(path, name).as_bstr())
    }))
}

/// Makes of the checkout of `from` in `place` that of `tree`, as if that had been checked out there. Files that are the same in both stay, all others
/// are made anew. With `verify` what is new is hashed again. Only for a folder that [`is_as_made`].
pub fn advance(
    repo: &gix::Repository,
    from: &Manifest,
    tree: ObjectId,
    place: &Path,
    verify: bool,
) -> Result<Manifest, WorktreeError> {
    if from.tree() == tree {
        return Ok(from.clone());
    }
    let mut to = Manifest::read_selected(repo, tree, verify, from.selection())?;
    Difference::new(repo, from, place, verify, How::InPlace).make(&mut to)?;
    to.note_times();
    Ok(to)
}
