//! Whole trees on disk, to be shown through overlays: made once, byte for byte, and never written to again.
//!
//! They lie in `layers/` of the folder for worktrees, named after their tree, and are kept for the next run. A sandboxed
//! command never sees one but as the lower layer of an overlay, which the kernel does not write to. Other programs of
//! this user could: so whoever finds a layer reads and hashes all of it once before using it.
//!
//! Beside each lies a lock file. It is locked exclusively while a layer is made, checked or removed, and shared as long as it is in use; the
//! kernel drops locks with their process, so an unlocked layer is used by nobody, and what is unfinished then is waste.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use gix::ObjectId;
use gix::bstr::ByteSlice;
use gix::objs::Kind;
use gix::objs::tree::EntryKind;

use super::checkout::{CheckoutOptions, checkout};
use super::error::WorktreeError;
use super::manifest::{Directory, Manifest};
use super::owner::is_still_at;
use super::pool;
use super::remove::remove_all;
use super::selection::Selection;
use super::sys::{self, Dir, FileKind, Stat};

/// Layers that are kept although nobody uses them, and how many bytes of files they may hold together.
const KEPT: usize = 4;
const KEPT_BYTES: u64 = 4 << 30;
/// How the names of unfinished layers and of lock files end.
const PART: &str = ".part";
const LOCK: &str = ".lock";

/// How often, and after which pause, another is given the time to make a layer or to let go of a damaged one.
const TRIES: usize = 200;
const PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

/// A tree on disk that belongs to nobody and stays as it is as long as this value lives.
#[derive(Debug)]
pub struct Layer {
    path: PathBuf,
    manifest: Arc<Manifest>,
    /// Held for its lock.
    _lock: File,
}

impl Layer {
    /// Finds or makes the layer of `tree`, or of the part of it that is selected, in `folder`, the folder for worktrees. What is found is read and hashed whole, what is
    /// made is made of verified objects. Waits while another process makes it. `None` if there is one that is not intact and cannot
    /// be made again, because others use it.
    pub fn obtain(
        repo: &gix::Repository,
        folder: &Path,
        tree: ObjectId,
        selection: Option<&Selection>,
    ) -> Result<Option<Self>, WorktreeError> {
        let all = folder.join("layers");
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&all).map_err(WorktreeError::io("make the folder", &all))?;
        let name = selection.map_or_else(|| tree.to_string(), |part| format!("{tree}-{}", part.name()));
        let path = all.join(&name);
        let lock_path = all.join(format!("{name}{LOCK}"));
        for _ in 0..TRIES {
            let lock =
                OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&lock_path);
            let mut lock = lock.map_err(WorktreeError::io("open", &lock_path))?;
            let fail = || WorktreeError::io("lock", &lock_path);
            sys::wait_for_lock(&lock, true).map_err(fail())?;
            let is_ours = |lock: &File| is_still_at(lock, &lock_path).map_err(fail());
            // Whoever removed a layer meanwhile has removed this file with it.
            if !is_ours(&lock)? {
                continue;
            }
            let mut made = found(repo, tree, selection, &path)?;
            if made.is_none() {
                // A shared lock is given up for this, so that of several who want to make it one can.
                if !sys::try_lock(&lock).map_err(fail())? || !is_ours(&lock)? {
                    std::thread::sleep(PAUSE);
                    continue;
                }
                made = match found(repo, tree, selection, &path)? {
                    None => Some(make(repo, tree, selection, &path)?),
                    found => found,
                };
                sys::wait_for_lock(&lock, true).map_err(fail())?;
            }
            // Between two locks somebody who clears up could have had it.
            if let Some(manifest) = made.filter(|_| path.is_dir())
                && is_ours(&lock)?
            {
                note(&mut lock, &manifest);
                let _ = remove_unused(&all, KEPT, KEPT_BYTES, false);
                return Ok(Some(Self { path, manifest: Arc::new(manifest), _lock: lock }));
            }
        }
        Ok(None)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What lies in it.
    pub fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }
}

/// The layer as it lies there, if it is intact.
fn found(
    repo: &gix::Repository,
    tree: ObjectId,
    selection: Option<&Selection>,
    path: &Path,
) -> Result<Option<Manifest>, WorktreeError> {
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    let mut manifest = Manifest::read_selected(repo, tree, true, selection)?;
    let intact = is_intact(&mut manifest, path).map_err(WorktreeError::io("read the layer", path))?;
    Ok(intact.then_some(manifest))
}

/// Makes the layer anew. Whoever calls this has the exclusive lock.
fn make(
    repo: &gix::Repository,
    tree: ObjectId,
    selection: Option<&Selection>,
    path: &Path,
) -> Result<Manifest, WorktreeError> {
    let part = path.with_extension(&PART[1..]);
    remove_all(&part)?;
    remove_all(path)?;
    fs::create_dir(&part).map_err(WorktreeError::io("make the folder", &part))?;
    let options = CheckoutOptions { verify: true, selection, ..CheckoutOptions::default() };
    let (manifest, _) = checkout(repo, tree, &part, options)?;
    fs::rename(&part, path).map_err(WorktreeError::io("name the layer", path))?;
    Ok(manifest)
}

/// Writes down how large a layer is; that it was used now, the file's time says.
fn note(lock: &mut File, manifest: &Manifest) {
    let bytes = manifest.bytes();
    let written = lock
        .set_len(0)
        .and_then(|()| lock.seek(SeekFrom::Start(0)))
        .and_then(|_| lock.write_all(format!("{bytes}\n").as_bytes()));
    // Without it the layer counts as empty until it is used again.
    let _ = written.and_then(|()| lock.set_modified(SystemTime::now()));
}

/// Whether a folder holds exactly the tree: the same names, kinds, modes and bytes. Notes what `stat` says.
fn is_intact(manifest: &mut Manifest, path: &Path) -> io::Result<bool> {
    let root = match Dir::open(path) {
        Ok(root) if sys::lstat(path)?.kind() == FileKind::Dir => root,
        Ok(_) => return Ok(false),
        Err(error) if sys::is_other_kind(&error) => return Ok(false),
        Err(error) => return Err(error),
    };
    let units: Vec<usize> = (0..manifest.dirs.len()).collect();
    let threads = pool::threads_for(manifest.file_count()).min(units.len());
    let reading = &*manifest;
    let read = pool::each(&units, vec![Vec::new(); threads], |buf, at| {
        Ok::<_, io::Error>((*at, folder_is_intact(reading, &reading.dirs[*at], &root, buf)?))
    })?;
    for (at, stats) in read {
        let Some(stats) = stats else { return Ok(false) };
        for (index, stat) in stats {
            manifest.dirs[at].entries[index].stat = Some(stat);
        }
    }
    manifest.note_times();
    Ok(true)
}

/// `None` if anything in the folder itself is not as the tree has it; else what `stat` says of its files and links.
fn folder_is_intact(
    manifest: &Manifest,
    folder: &Directory,
    root: &Dir,
    buf: &mut Vec<u8>,
) -> io::Result<Option<Vec<(usize, Stat)>>> {
    let dir = match root.open_path(folder.path.as_ref()) {
        Ok(dir) => dir,
        Err(error) if error.kind() == io::ErrorKind::NotFound || sys::is_other_kind(&error) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    if dir.entries()?.len() != folder.entries.len() {
        return Ok(None);
    }
    let mut stats = Vec::with_capacity(folder.entries.len());
    for (index, entry) in folder.entries.iter().enumerate() {
        let name = entry.name.as_bstr();
        let stat = match dir.stat(name) {
            Ok(stat) => stat,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let wanted = match entry.mode.kind() {
            EntryKind::Tree => FileKind::Dir,
            EntryKind::Commit if stat.kind() == FileKind::Dir => {
                if dir.open_dir(name)?.entries()?.is_empty() {
                    continue;
                }
                return Ok(None);
            }
            EntryKind::Commit => return Ok(None),
            EntryKind::Link => FileKind::Link,
            EntryKind::Blob | EntryKind::BlobExecutable => FileKind::File,
        };
        if stat.kind() != wanted {
            return Ok(None);
        }
        match wanted {
            FileKind::Dir => continue,
            FileKind::Link => *buf = dir.read_link(name)?,
            _ => {
                let executable = entry.mode.kind() == EntryKind::BlobExecutable;
                let mode = if executable { 0o755 } else { 0o644 };
                if stat.mode & 0o7777 != mode || stat.nlink != 1 {
                    return Ok(None);
                }
                buf.clear();
                dir.open_file(name)?.read_to_end(buf)?;
            }
        }
        let id = gix::objs::compute_hash(manifest.hash, Kind::Blob, buf).map_err(io::Error::other)?;
        if id != entry.id {
            return Ok(None);
        }
        stats.push((index, stat));
    }
    Ok(Some(stats))
}

/// A layer that was removed, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedLayer {
    /// The tree it holds, and the name of the selection if it is a part.
    pub tree: String,
    /// Bytes of its files, as noted when it was last used.
    pub bytes: u64,
}

/// Removes every layer in `folder`, the folder for worktrees, that no process uses, and what is left of unfinished ones. With `dry_run` nothing is
/// removed.
pub fn reclaim_layers(folder: &Path, dry_run: bool) -> Result<Vec<RemovedLayer>, WorktreeError> {
    remove_unused(&folder.join("layers"), 0, 0, dry_run)
}

/// Removes unused layers, the longest unused first, until at most `kept` of them with at most `bytes` together are left.
fn remove_unused(
    all: &Path,
    kept: usize,
    bytes: u64,
    dry_run: bool,
) -> Result<Vec<RemovedLayer>, WorktreeError> {
    let fail = || WorktreeError::io("read the folder", all);
    let entries = match fs::read_dir(all) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(fail())?,
    };
    let mut unused = Vec::new();
    for entry in entries {
        let entry = entry.map_err(fail())?;
        let file = entry.file_name();
        let Some(tree) = file.to_str().and_then(|name| name.strip_suffix(LOCK)) else { continue };
        let Ok(mut lock) = OpenOptions::new().read(true).write(true).open(entry.path()) else { continue };
        if !matches!(sys::try_lock(&lock), Ok(true)) || !is_still_at(&lock, &entry.path()).unwrap_or(false) {
            continue;
        }
        let mut text = String::new();
        let _ = lock.read_to_string(&mut text);
        let used = lock.metadata().and_then(|meta| meta.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
        unused.push((used, tree.to_owned(), text.trim().parse().unwrap_or(0_u64), lock));
    }
    unused.sort_unstable_by(|a, b| (b.0, &b.1).cmp(&(a.0, &a.1)));
    let (mut count, mut sum) = (0, 0_u64);
    let mut removed = Vec::new();
    for (_, tree, size, lock) in unused {
        sum = sum.saturating_add(size);
        count += 1;
        let stays = count <= kept && sum <= bytes;
        let place = all.join(&tree);
        if !dry_run {
            remove_all(&place.with_extension(&PART[1..]))?;
        }
        if stays {
            continue;
        }
        if !dry_run {
            remove_all(&place)?;
            let path = all.join(format!("{tree}{LOCK}"));
            fs::remove_file(&path).map_err(WorktreeError::io("remove", &path))?;
        }
        drop(lock);
        removed.push(RemovedLayer { tree, bytes: size });
    }
    Ok(removed)
}
