//! Removing what a worker may have prepared against removal: no link is followed, folders without permissions are
//! opened up, and no depth of nesting exhausts file descriptors.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use gix::bstr::{BStr, BString, ByteSlice};

use super::access::{open_dir, split};
use super::error::WorktreeError;
use super::manifest::join;
use super::pool;
use super::sys::{Dir, FileKind};

/// A folder deeper than this below the one that is cleared is first moved up to it. One descriptor is open per level.
const DEEP: usize = 64;
/// How often a folder is cleared again because something still adds to it.
const PATIENCE: usize = 20;
/// So many entries, in all folders together, are removed without a look at whether there is enough for a second thread: the look would
/// cost more than it brings.
const FEW: usize = 300;
/// So many folders side by side are worth a second thread, and more than this many need not be counted.
const ENOUGH: usize = 8;
const MOST: usize = 10_000;

/// Removes `path`, whatever it is. A missing path is fine; a link is removed, not what it points at. Only the folder
/// that `path` lies in must be trustworthy.
pub fn remove_all(path: &Path) -> Result<(), WorktreeError> {
    let fail = || WorktreeError::io("remove", path);
    let (parent, name) = split(path).map_err(fail())?;
    let parent = match Dir::open(parent) {
        Ok(parent) => parent,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(fail()(error)),
    };
    match parent.stat(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(fail()(error)),
        Ok(stat) if stat.kind() == FileKind::Dir => remove_dir(&parent, name).map_err(fail()),
        Ok(_) => parent.unlink(name).map_err(fail()),
    }
}

fn remove_dir(parent: &Dir, name: &BStr) -> io::Result<()> {
    let top = open_dir(parent, name)?;
    let moved = AtomicUsize::new(0);
    let few = Budget::of(FEW);
    clear(&top, &top, 0, &moved, &few)?;
    let all = Budget::of(usize::MAX);
    if few.is_spent() {
        // Only a faster way; what is in its way is met again, and reported, below.
        let units = units(&top).unwrap_or_default();
        if units.len() >= ENOUGH {
            let threads = vec![(); pool::threads_for(usize::MAX)];
            pool::each(&units, threads, |(), (path, depth)| match open_path(&top, path.as_ref()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                dir => clear(&dir?, &top, *depth, &moved, &all),
            })?;
        }
        clear(&top, &top, 0, &moved, &all)?;
    }
    for attempt in 0.. {
        match parent.remove_dir(name) {
            // What was too deep has been moved up and waits for its turn; or somebody is still writing.
            Err(error)
                if error.kind() == io::ErrorKind::DirectoryNotEmpty
                    && attempt < PATIENCE + moved.load(Ordering::Relaxed) => {}
            other => return other,
        }
        clear(&top, &top, 0, &moved, &all)?;
    }
    Ok(())
}

/// How many more entries may be removed.
struct Budget(AtomicUsize);

impl Budget {
    fn of(entries: usize) -> Self {
        Self(AtomicUsize::new(entries))
    }

    /// Takes one; false if there is none left.
    fn take(&self) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    fn is_spent(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

/// Folders of one level, as soon as a level has enough of them to share between threads.
fn units(top: &Dir) -> io::Result<Vec<(BString, usize)>> {
    const LEVELS: usize = 6;
    let mut level = vec![BString::default()];
    for depth in 1..=LEVELS {
        let mut below = Vec::new();
        for path in &level {
            let dir = open_path(top, path.as_ref())?;
            let found = dir.entries()?.into_iter().filter(|entry| entry.kind == Some(FileKind::Dir));
            below.extend(found.map(|entry| join(path.as_ref(), entry.name.as_ref())));
            if below.len() > MOST {
                break;
            }
        }
        if below.len() >= ENOUGH {
            let busy = holds_many(top, &below)?;
            return Ok(below.into_iter().filter(|_| busy).map(|path| (path, depth)).collect());
        }
        if below.is_empty() {
            break;
        }
        level = below;
    }
    Ok(Vec::new())
}

/// Whether there is enough in these folders to start a thread for.
fn holds_many(top: &Dir, folders: &[BString]) -> io::Result<bool> {
    let mut count = 0;
    for path in folders {
        count += open_path(top, path.as_ref())?.entries()?.len();
        if pool::threads_for(count) > 1 {
            return Ok(true);
        }
    }
    Ok(false)
}

fn open_path(top: &Dir, path: &BStr) -> io::Result<Dir> {
    let mut dir = top.open_dir(b"".as_bstr())?;
    for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        dir = open_dir(&dir, name.as_bstr())?;
    }
    Ok(dir)
}

/// Removes what a folder holds. Once the budget is spent it comes back, and leaves the rest for another attempt.
fn clear(dir: &Dir, top: &Dir, depth: usize, moved: &AtomicUsize, budget: &Budget) -> io::Result<()> {
    for entry in dir.entries()? {
        if !budget.take() {
            return Ok(());
        }
        let name = entry.name.as_bstr();
        let kind = match entry.kind {
            Some(kind) => kind,
            None => match dir.stat(name) {
                Ok(stat) => stat.kind(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            },
        };
        let removed = if kind != FileKind::Dir {
            dir.unlink(name)
        } else if depth >= DEEP {
            // Out of reach of this recursion: it becomes a folder at the top, which is cleared again.
            let number = moved.fetch_add(1, Ordering::Relaxed);
            open_dir(dir, name)?;
            dir.rename(name, top, unused_name(top, number)?.as_ref())
        } else {
            clear(&open_dir(dir, name)?, top, depth + 1, moved, budget)?;
            dir.remove_dir(name)
        };
        match removed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // Somebody still adds to it: the caller's next attempt gets what is left.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            other => other?,
        }
    }
    Ok(())
}

fn unused_name(top: &Dir, number: usize) -> io::Result<BString> {
    for suffix in 0..=u16::MAX {
        let name = BString::from(format!(".deep-{number}-{suffix}"));
        match top.stat(name.as_ref()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(name),
            Err(error) => return Err(error),
            Ok(_) => {}
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use gix::bstr::ByteSlice;

    use super::remove_all;
    use crate::worktree::sys::Dir;

    /// Field report 2.25: a teardown that followed a link emptied the shared `node_modules`.
    #[test]
    fn links_are_removed_and_never_followed() {
        let temp = tempfile::tempdir().unwrap();
        let shared = temp.path().join("shared");
        fs::create_dir_all(shared.join("pkg")).unwrap();
        fs::write(shared.join("pkg/index.js"), "x").unwrap();
        let place = temp.path().join("place");
        fs::create_dir_all(place.join("deep")).unwrap();
        symlink(&shared, place.join("node_modules")).unwrap();
        symlink(&shared, place.join("deep/node_modules")).unwrap();
        symlink("/nonexistent", place.join("broken")).unwrap();
        remove_all(&place).unwrap();
        assert!(!place.exists());
        assert!(shared.join("pkg/index.js").exists());

        symlink(&shared, &place).unwrap();
        remove_all(&place).unwrap();
        assert!(shared.join("pkg/index.js").exists());
        assert!(fs::symlink_metadata(&place).is_err());
        remove_all(&place).unwrap();
    }

    #[test]
    fn read_only_and_unreadable_folders_are_no_hindrance() {
        let temp = tempfile::tempdir().unwrap();
        let place = temp.path().join("place");
        fs::create_dir_all(place.join("a/b/c")).unwrap();
        fs::write(place.join("a/b/c/file"), "x").unwrap();
        for dir in ["a/b/c", "a/b", "a"] {
            fs::set_permissions(place.join(dir), fs::Permissions::from_mode(0o000)).unwrap();
        }
        fs::set_permissions(&place, fs::Permissions::from_mode(0o500)).unwrap();
        remove_all(&place).unwrap();
        assert!(!place.exists());
    }

    #[test]
    fn three_thousand_levels_need_no_three_thousand_descriptors() {
        let temp = tempfile::tempdir().unwrap();
        let place = temp.path().join("place");
        fs::create_dir(&place).unwrap();
        let mut dir = Dir::open(&place).unwrap();
        for _ in 0..3000 {
            dir.make_dir(b"d".as_bstr(), 0o755).unwrap();
            dir.make_link(b"/", b"l".as_bstr()).unwrap();
            dir = dir.open_dir(b"d".as_bstr()).unwrap();
        }
        remove_all(&place).unwrap();
        assert!(!place.exists());
    }
}
