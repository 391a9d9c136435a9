//! What has to be on the disk before a decision is announced.
//!
//! Objects are written without waiting for the disk and remembered here. The transaction that makes a ref reach them is the
//! barrier: first the files of all of them, then the folders that name them, then the refs and their folders. A file is
//! handed to the disk before the first one is waited for, so that a journalling file system commits them together.
//!
//! With `loop.fsync = false` nothing is remembered and nothing is waited for: a killed process still loses nothing, a
//! loss of power may.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gix::ObjectId;
use gix::objs::tree::EntryKind;

use super::objects::{Durability, ObjectError};
use super::transaction::sync_folder;
use super::tree::{MAX_DEPTH, TreeEntry, TreeError};
use super::{Repo, RepoError};
use crate::crash;

/// So many files are open at once while they are synced.
const AT_ONCE: usize = 64;

/// What is known of the objects that this process wrote.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// On the disk.
    synced: HashSet<ObjectId>,
    /// Written, and perhaps only in memory yet.
    pending: Vec<ObjectId>,
    /// The disk has refused once. It forgets what it could not write, and a second attempt would seem to succeed.
    failed: bool,
}

/// One for all clones of a handle.
pub(super) type Shared = Arc<Mutex<Written>>;

/// Whether refs and what they reach are waited for, by `loop.fsync`.
pub(super) fn configured(config: &super::Config) -> Result<Durability, RepoError> {
    Ok(if config.loop_fsync()? { Durability::Fsync } else { Durability::Fast })
}

impl Repo {
    /// How sure the refs of a loop are when they have moved: `loop.fsync`.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers objects that were written, or found to be there already: whoever wrote them may not have waited.
    pub fn remember_written(&self, ids: &[ObjectId]) {
        if self.durability == Durability::Fsync {
            self.written().pending.extend_from_slice(ids);
        }
    }

    /// Remembers the trees and files of `tree` that are not in `known`. Submodules are other repositories.
    pub fn remember_tree(&self, tree: ObjectId, known: Option<ObjectId>) -> Result<(), TreeError> {
        if self.durability != Durability::Fsync || known == Some(tree) {
            return Ok(());
        }
        let mut ids = vec![tree];
        let mut open = vec![(tree, known, 0)];
        while let Some((tree, known, depth)) = open.pop() {
            if depth > MAX_DEPTH {
                return Err(TreeError::TooLarge { id: tree });
            }
            let before: HashMap<_, TreeEntry> = match known {
                Some(known) => {
                    self.read_tree(known)?.into_iter().map(|entry| (entry.name.clone(), entry)).collect()
                }
                None => HashMap::new(),
            };
            for entry in self.read_tree(tree)? {
                let was = before.get(&entry.name);
                if entry.mode == EntryKind::Commit || was.is_some_and(|old| old.id == entry.id) {
                    continue;
                }
                ids.push(entry.id);
                if entry.mode == EntryKind::Tree {
                    let was = was.filter(|old| old.mode == EntryKind::Tree).map(|old| old.id);
                    open.push((entry.id, was, depth + 1));
                }
            }
        }
        self.remember_written(&ids);
        Ok(())
    }

    /// The barrier: everything that was remembered is on the disk when this returns.
    pub fn sync_written(&self) -> Result<(), ObjectError> {
        crash::point("objects:written");
        let (pending, failed) = {
            let mut written = self.written();
            (std::mem::take(&mut written.pending), written.failed)
        };
        if failed {
            let source = io::Error::other("an earlier attempt failed, and what it did not write is lost");
            return Err(ObjectError::Sync { path: self.common_dir().join("objects"), source });
        }
        self.sync_objects(&pending).inspect_err(|_| self.written().failed = true)?;
        crash::point("objects:synced");
        Ok(())
    }

    /// Makes objects durable that were written with [`Durability::Fast`]. Packed ones are: git syncs packs.
    pub fn sync_objects(&self, ids: &[ObjectId]) -> Result<(), ObjectError> {
        let mut wanted: Vec<ObjectId> = {
            let written = self.written();
            ids.iter().filter(|id| !written.synced.contains(*id)).copied().collect()
        };
        wanted.sort_unstable();
        wanted.dedup();
        let mut folders = BTreeSet::new();
        for batch in wanted.chunks(AT_ONCE) {
            let mut files = Vec::with_capacity(batch.len());
            for id in batch {
                let path = self.loose_path(*id);
                match File::open(&path) {
                    Ok(file) => {
                        begin_writing(&file);
                        files.push((path, file));
                    }
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(source) => return Err(ObjectError::Sync { path, source }),
                }
            }
            for (path, file) in files {
                file.sync_all().map_err(|source| ObjectError::Sync { path: path.clone(), source })?;
                folders.extend(path.parent().map(Path::to_owned));
            }
        }
        if let Some(objects) = folders.first().and_then(|folder| folder.parent()).map(Path::to_owned) {
            folders.insert(objects);
        }
        for path in folders {
            sync_folder(&path).map_err(|source| ObjectError::Sync { path: path.clone(), source })?;
        }
        self.written().synced.extend(wanted);
        Ok(())
    }

    /// Writes a small file of ours in the common git folder so that it is whole or not there, and by `loop.fsync` on the
    /// disk, when this returns.
    pub fn write_durably(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        use io::Write as _;
        let mut name = path.as_os_str().to_owned();
        name.push(".new");
        let unfinished = PathBuf::from(name);
        let mut file = File::create(&unfinished)?;
        file.write_all(content)?;
        let sync = self.durability == Durability::Fsync;
        if sync {
            file.sync_all()?;
        }
        drop(file);
        crash::point("cost:unnamed");
        std::fs::rename(&unfinished, path)?;
        if let (true, Some(folder)) = (sync, path.parent()) {
            sync_folder(folder)?;
            // A loop that was never run before has a new folder.
            folder.parent().map_or(Ok(()), sync_folder)?;
        }
        Ok(())
    }
}

/// Has the system begin to write a file, without waiting for it. Only a matter of time; where it fails, the sync that
/// follows does everything.
#[cfg(target_os = "linux")]
fn begin_writing(file: &File) {
    use std::os::fd::AsRawFd;
    // SAFETY: the descriptor is open for as long as `file` is borrowed, and no memory is passed.
    unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
}

#[cfg(not(target_os = "linux"))]
fn begin_writing(_: &File) {}
