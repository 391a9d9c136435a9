//! What has to be on the disk before a decision is announced.
//!
//! Objects are written without waiting for the disk and remembered here. The transaction that makes a ref reach them is the
//! barrier: first the files of all of them, then the folders that name them, then the refs and their folders. A file is
//! handed to the disk before the first one is waited for, so that a journalling file system commits them together.
//!
//! With `loop.fsync = false` nothing is waited for: a killed process still loses nothing, a loss of power may.
//!
//! `git gc --prune=now` removes whatever no ref reached when it began, however new it is; git says that this is for a repository in
//! which nobody works. So what is about to be reached is held in memory as well, looked for again once the refs have moved, at the
//! next transactions and when a command ends, and put back if it is gone.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gix::ObjectId;
use gix::objs::tree::EntryKind;

use super::bounds;
use super::loose::{self, Look};
use super::objects::{Durability, ObjectError};
use super::transaction::sync_folder;
use super::tree::{MAX_DEPTH, TreeEntry, TreeError};
use super::{Repo, RepoError};
use crate::crash;
use crate::host::host_name;
use crate::worktree::has_ended;

/// So many files are open at once while they are synced.
const AT_ONCE: usize = 64;
/// How long the end of a `git gc` is waited for.
const GC_PATIENCE: Duration = Duration::from_secs(60);

/// What is known of the objects that this process wrote.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// On the disk.
    synced: HashSet<ObjectId>,
    /// Written, and perhaps only in memory yet.
    pending: Vec<ObjectId>,
    /// Not ours, but about to be reached; a partial clone does not have all of them.
    others: Vec<ObjectId>,
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
    pub(super) fn remember_written(&self, ids: &[ObjectId]) {
        self.written().pending.extend_from_slice(ids);
    }

    /// Remembers objects that others wrote, and that a ref is about to reach.
    pub fn remember_others(&self, ids: &[ObjectId]) {
        self.written().others.extend_from_slice(ids);
    }

    /// Remembers the trees and files of `tree` that are not in `known`. Submodules are other repositories.
    pub fn remember_tree(&self, tree: ObjectId, known: Option<ObjectId>) -> Result<(), TreeError> {
        if known == Some(tree) {
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
        self.remember_others(&ids);
        Ok(())
    }

    /// Holds the objects of `tree` from now on, so that they can be put back until a ref reaches them.
    pub fn hold_tree(&self, tree: ObjectId) -> Result<(), TreeError> {
        self.remember_tree(tree, None)?;
        let ids = self.written().others.clone();
        self.hold(&ids);
        Ok(())
    }

    /// The barrier: everything that was remembered is on the disk when this returns.
    pub fn sync_written(&self) -> Result<(), ObjectError> {
        crash::point("objects:written");
        let (pending, others, failed) = {
            let mut written = self.written();
            (std::mem::take(&mut written.pending), std::mem::take(&mut written.others), written.failed)
        };
        if failed {
            let source = io::Error::other("an earlier attempt failed, and what it did not write is lost");
            return Err(ObjectError::Sync { path: self.common_dir().join("objects"), source });
        }
        self.hold(&others);
        // What is held can be put back once the refs have moved, too; what is not must be there.
        self.restore_fresh()?;
        let mut nowhere =
            pending.iter().filter(|id| !loose::is_held(&self.stored_path(**id)) && !self.has_object(**id));
        if let Some(id) = nowhere.next() {
            return Err(self.missing(*id));
        }
        if self.durability == Durability::Fsync {
            let all = [pending.as_slice(), others.as_slice()].concat();
            self.sync_objects(&all).inspect_err(|error| {
                self.written().failed = matches!(error, ObjectError::Sync { .. });
            })?;
        }
        crash::point("objects:synced");
        Ok(())
    }

    fn hold(&self, ids: &[ObjectId]) {
        for id in ids {
            loose::hold_file(self.stored_path(*id), *id);
        }
    }

    /// The path under which a loose object is stored; held files are found by it.
    fn stored_path(&self, id: ObjectId) -> PathBuf {
        loose::path(self.gix().objects.store_ref().path(), &id)
    }

    /// Puts back what is held and was removed by a `git gc` that began before a ref reached it. Again, as long as it is at
    /// it: what was put back may lie where it has not been yet.
    pub fn restore_lost(&self) -> Result<(), ObjectError> {
        self.restore(Look::Whole)
    }

    /// [`restore_lost`](Self::restore_lost) before and after each transaction: of what was reached a while ago only now and then,
    /// as looking for everything each time takes longer than to write it.
    pub fn restore_fresh(&self) -> Result<(), ObjectError> {
        self.restore(Look::Often)
    }

    fn restore(&self, look: Look) -> Result<(), ObjectError> {
        const ROUNDS: u32 = 50;
        let mut look = look;
        for _ in 0..ROUNDS {
            if !self.restore_once(look)? {
                return Ok(());
            }
            // Somebody is at it.
            look = Look::Whole;
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn restore_once(&self, look: Look) -> Result<bool, ObjectError> {
        // Opened anew where a file is missing: our own handle may still have a pack in mind that is gone.
        let mut packs = None;
        let objects = self.gix().objects.store_ref().path();
        let lost = loose::put_back(objects, look, |id| !self.is_packed(id, &mut packs))
            .map_err(|(path, source)| ObjectError::Sync { path, source })?;
        self.written().synced.retain(|id| !lost.contains(id));
        if self.durability == Durability::Fsync {
            self.sync_objects(&lost)?;
        }
        Ok(!lost.is_empty())
    }

    fn is_packed(&self, id: ObjectId, packs: &mut Option<gix::odb::Handle>) -> bool {
        if packs.is_none() {
            *packs = bounds::open_store(&self.common_dir().join("objects"), self.hash_kind()).ok();
        }
        packs.as_ref().is_some_and(|packs| gix::objs::Exists::exists(packs, &id))
    }

    /// Before a command ends: waits for a `git gc` that is at work, and puts back what it took.
    pub fn settle(&self) -> Result<(), ObjectError> {
        let begin = Instant::now();
        while self.gc_is_at_work() && begin.elapsed() < GC_PATIENCE {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.restore_lost()
    }

    /// Whether a `git gc` of this machine runs here, by its own lock (`gc.pid`: process and machine).
    fn gc_is_at_work(&self) -> bool {
        let Ok(text) = std::fs::read_to_string(self.common_dir().join("gc.pid")) else { return false };
        let mut words = text.split_whitespace();
        let pid = words.next().and_then(|pid| pid.parse().ok());
        words.next() == Some(&host_name()) && pid.is_some_and(|pid| !has_ended(pid))
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
        let mut there = Vec::with_capacity(wanted.len());
        for batch in wanted.chunks(AT_ONCE) {
            let mut files = Vec::with_capacity(batch.len());
            for id in batch {
                let path = self.loose_path(*id);
                match File::open(&path) {
                    Ok(file) => {
                        begin_writing(&file);
                        there.push(*id);
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
        self.written().synced.extend(there);
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

#[cfg(test)]
mod tests {
    use gix::objs::Kind;

    use super::*;
    use crate::git::testing::TestRepo;

    /// The tree of a record was gone when the ledger reached it: `git gc --prune=now` had begun a moment before.
    #[test]
    fn what_gc_takes_before_it_is_reached_is_put_back() {
        let repo = TestRepo::new();
        let open = repo.open();
        let large = "large ".repeat(4000);
        let write = |content: &str| open.write_raw(Kind::Blob, content.as_bytes(), Durability::Fast).unwrap();
        let mut ids = vec![write("small"), write(&large)];
        // One that was in a pack, and that nothing reaches any more.
        let packed = repo.git_with_input(["hash-object", "-w", "--stdin"], "packed");
        repo.git(["update-ref", "refs/tags/keep", packed.trim()]);
        repo.git(["repack", "-adq"]);
        repo.git(["update-ref", "-d", "refs/tags/keep"]);
        ids.push(write("packed"));
        open.sync_written().unwrap();
        assert!(!open.restore_once(Look::Whole).unwrap());
        for command in [&["gc", "-q", "--prune=now"][..], &["prune", "--expire=now"], &["repack", "-adq"]] {
            repo.git(command.iter().copied());
            open.restore_lost().unwrap();
            for id in &ids {
                assert!(repo.open().read_kind(*id, Kind::Blob).is_ok(), "{command:?} took {id}");
            }
        }
        // Taken before the transaction: it is back when the transaction waits for the disk.
        let id = write("early");
        repo.git(["prune", "--expire=now"]);
        open.sync_written().unwrap();
        assert!(repo.open().read_kind(id, Kind::Blob).is_ok());
    }
}
