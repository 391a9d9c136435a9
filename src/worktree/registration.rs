//! Linked worktrees as git knows them (`gitrepository-layout(5)`, `worktrees/<name>/`), made and removed without git.
//!
//! The order is what makes a crash at any point harmless: owner file, registration, folder; and back. Whatever a
//! worker does to `.git` in its worktree or to the registration is never read back: the paths are known here.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use gix::ObjectId;
use sha2::{Digest, Sha256};

use super::error::WorktreeError;
use super::index::write_index;
use super::manifest::Manifest;
use super::overlay::make_work;
use super::owner::{Owner, OwnerFile};
use super::remove::remove_all;
use super::sealed::{self, SealOptions};
#[cfg(unix)]
use super::sys;
use crate::crash;

/// How the names of our worktrees begin.
pub const NAME_PREFIX: &str = "loop-";

/// How the names of the folders end that overlays work in.
pub(super) const WORK: &str = ".work";

/// The name of the worktree of one environment: `loop-<id>-<environment>`.
pub fn worktree_name(loop_id: &str, environment: &str) -> String {
    format!("{NAME_PREFIX}{loop_id}-{environment}")
}

/// The folder that holds the worktrees of a repository: `<configured>/<hash>`, else `<cache_home>/git-loop/<hash>`,
/// with the hash of the repository's common directory. It is made if need be, for this user alone.
pub fn worktree_folder(
    common_dir: &Path,
    configured: Option<&Path>,
    cache_home: &Path,
) -> Result<PathBuf, WorktreeError> {
    let common = real(common_dir)?;
    let digest = Sha256::digest(common.as_os_str().as_encoded_bytes());
    let hash =
        format!("{:016x}", digest.iter().take(8).fold(0u64, |hash, byte| hash << 8 | u64::from(*byte)));
    let parent = configured.map_or_else(|| cache_home.join("git-loop"), Path::to_owned);
    let refuse = |path: &Path, why| Err(WorktreeError::BadPlace { path: path.to_owned(), why });
    if !parent.is_absolute() {
        return refuse(&parent, "it is not an absolute path");
    }

    // Judged before anything is made. What does not exist yet lies where its nearest ancestor that does lies.
    let existing = parent.ancestors().find_map(|path| path.canonicalize().ok()).unwrap_or_default();
    let work_tree = (common.file_name() == Some(".git".as_ref())).then(|| common.parent()).flatten();
    if existing.starts_with(&common) || work_tree.is_some_and(|work_tree| existing.starts_with(work_tree)) {
        return refuse(&parent, "it lies inside the repository");
    }

    let folder = parent.join(hash);
    private_dirs(&folder)?;
    let folder = real(&folder)?;
    #[cfg(unix)]
    {
        let stat = sys::lstat(&folder).map_err(WorktreeError::io("look at", &folder))?;
        if stat.uid != sys::effective_uid() {
            return refuse(&folder, "it belongs to another user");
        }
        if stat.mode & 0o022 != 0 {
            return refuse(&folder, "others may write to it");
        }
    }
    Ok(folder)
}

fn private_dirs(path: &Path) -> Result<(), WorktreeError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(WorktreeError::io("make the folder", path))
}

/// The path without links and relative parts.
pub(super) fn real(path: &Path) -> Result<PathBuf, WorktreeError> {
    path.canonicalize().map_err(WorktreeError::io("find", path))
}

/// A worktree that is registered in its repository and belongs to this process until it is removed.
#[derive(Debug)]
pub struct LinkedWorktree {
    name: String,
    place: PathBuf,
    /// `<common dir>/worktrees/<name>`.
    admin: PathBuf,
    /// Whether what git must not find in halves is waited for.
    sync: bool,
    /// `None` once it is removed.
    owner: Option<OwnerFile>,
}

impl LinkedWorktree {
    /// Registers the worktree `name` of `repo` with a detached `HEAD` at `head`, and makes its empty folder
    /// `folder/name`. `remark` is for people who read `git worktree list -v`; the lock's reason names this process too.
    ///
    /// Nothing else in the repository is touched, no hook runs, and a name that is in use is an error.
    pub fn create(
        repo: &gix::Repository,
        folder: &Path,
        name: &str,
        head: ObjectId,
        remark: &str,
    ) -> Result<Self, WorktreeError> {
        Self::create_durably(repo, folder, name, head, remark, false)
    }

    /// The same. With `sync` a loss of power leaves no registration that git stumbles over: git passes by one that has no `gitdir`, and gives
    /// up, for all of the repository, over one that has it and an empty `commondir`. So that is written last, once the rest is on the disk.
    pub fn create_durably(
        repo: &gix::Repository,
        folder: &Path,
        name: &str,
        head: ObjectId,
        remark: &str,
        sync: bool,
    ) -> Result<Self, WorktreeError> {
        check_name(name)?;
        let common = real(repo.common_dir())?;
        let place = real(folder)?.join(name);
        let admin = common.join("worktrees").join(name);
        let reason = Owner::me().reason(remark);

        let owner = OwnerFile::create(&place, &reason)?;
        crash::point("worktree:owned");
        // Nothing that existed before is ever removed: neither a folder nor a registration of this name.
        let made = if place.symlink_metadata().is_ok() {
            Err(WorktreeError::NameTaken { name: name.to_owned() })
        } else {
            register(&admin, &place, head, &reason, sync).and_then(|()| {
                crash::point("worktree:registered");
                fs::create_dir(&place).map_err(|error| {
                    let _ = remove_registration(&admin);
                    WorktreeError::io("make the folder", &place)(error)
                })
            })
        };
        match made {
            Ok(()) => {
                crash::point("worktree:made");
                Ok(Self { name: name.to_owned(), place, admin, sync, owner: Some(owner) })
            }
            Err(error) => {
                let _ = owner.remove();
                Err(error)
            }
        }
    }

    /// The name under `worktrees/`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The folder: absolute, without links.
    pub fn path(&self) -> &Path {
        &self.place
    }

    /// The registration in the repository. A worker that works in a linked worktree may write there.
    pub fn admin_dir(&self) -> &Path {
        &self.admin
    }

    /// Makes git in the worktree work on the repository itself: all its refs and objects are visible.
    pub fn link(&self, checked_out: &Manifest) -> Result<(), WorktreeError> {
        write_index(checked_out, &self.admin.join("index"))?;
        write_new(&self.place.join(".git"), &[b"gitdir: ", &bytes(&self.admin), b"\n"])
    }

    /// Makes git in the worktree work on a throw-away repository that holds the commit `base` and nothing else; see
    /// [`sealed::create`]. The registration stays, so `git worktree list` shows the worktree as before.
    pub fn seal(
        &self,
        repo: &gix::Repository,
        base: ObjectId,
        checked_out: &Manifest,
        options: &SealOptions<'_>,
    ) -> Result<(), WorktreeError> {
        sealed::create(repo, base, checked_out, &self.place, options)
    }

    /// Makes the empty folder that an overlay needs beside its upper layer, which is the worktree's own. It is removed with the
    /// worktree, and the command must not get at it.
    pub fn make_work(&self) -> Result<PathBuf, WorktreeError> {
        let work = work_path(&self.place);
        make_work(&work)?;
        Ok(work)
    }

    /// Empties the folder.
    pub fn clear(&self) -> Result<(), WorktreeError> {
        remove_all(&self.place)?;
        fs::create_dir(&self.place).map_err(WorktreeError::io("make the folder", &self.place))
    }

    /// Makes `head` the commit that git shows, and takes away what [`Self::link`] or [`Self::seal`] made: either is to be called anew.
    pub fn move_to(&self, head: ObjectId) -> Result<(), WorktreeError> {
        remove_all(&self.place.join(".git"))?;
        remove_all(&self.admin.join("index"))?;
        let (path, new) = (self.admin.join("HEAD"), self.admin.join("HEAD.new"));
        write_new(&new, &[head.to_string().as_bytes(), b"\n"])?;
        if self.sync {
            on_disk(&[&new])?;
        }
        fs::rename(&new, &path).map_err(WorktreeError::io("write", &path))
    }

    /// Removes the folder and the registration, whatever was done to either. Everything is tried; the first failure
    /// is returned, and what is left is found by [`reclaim`](super::reclaim()) once this process has ended.
    pub fn remove(mut self) -> Result<(), WorktreeError> {
        self.remove_now()
    }

    /// What a process that is killed does: nothing more, and the kernel drops its lock.
    #[cfg(test)]
    pub(super) fn forget(mut self) {
        drop(self.owner.take());
    }

    fn remove_now(&mut self) -> Result<(), WorktreeError> {
        let Some(owner) = self.owner.take() else { return Ok(()) };
        remove_parts(&self.place, &self.admin, owner)
    }
}

impl Drop for LinkedWorktree {
    fn drop(&mut self) {
        // The last resort of an early return or a panic; `reclaim` is the one after that.
        let _ = self.remove_now();
    }
}

/// Removes the folder, the registration, and then the owner file.
pub(super) fn remove_parts(place: &Path, admin: &Path, owner: OwnerFile) -> Result<(), WorktreeError> {
    let place_gone = remove_all(place).and(remove_all(&work_path(place)));
    crash::point("worktree:emptied");
    let admin_gone = remove_registration(admin);
    crash::point("worktree:unregistered");
    place_gone.and(admin_gone)?;
    owner.remove()?;
    crash::point("worktree:removed");
    Ok(())
}

/// Where the overlay of the worktree in the folder `place` has its working space.
fn work_path(place: &Path) -> PathBuf {
    let mut path = place.as_os_str().to_owned();
    path.push(WORK);
    PathBuf::from(path)
}

/// Removes a registration, and like git the folder of all registrations if it was the last one.
pub(super) fn remove_registration(admin: &Path) -> Result<(), WorktreeError> {
    remove_all(admin)?;
    if let Some(all) = admin.parent() {
        let _ = fs::remove_dir(all);
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), WorktreeError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    // Git makes a ref name of it, and an owner file is named after it.
    let has_suffix = |suffix| Path::new(name).extension().is_some_and(|end| end == suffix);
    if !name.starts_with(NAME_PREFIX)
        || name.len() > 200
        || !name.chars().all(plain)
        || name.contains("..")
        || name.ends_with('.')
        || has_suffix("lock")
        || has_suffix("owner")
        || has_suffix("work")
    {
        return Err(WorktreeError::BadName { name: name.to_owned() });
    }
    Ok(())
}

fn register(
    admin: &Path,
    place: &Path,
    head: ObjectId,
    reason: &str,
    sync: bool,
) -> Result<(), WorktreeError> {
    const TRIES: usize = 8;
    for attempt in 1..=TRIES {
        let result = try_register(admin, place, head, reason, sync);
        match &result {
            // `worktrees/` was removed with its last entry, or a prune met the registration before its lock was in
            // it: both are windows of microseconds, and both begin again.
            Err(WorktreeError::Io { source, .. })
                if source.kind() == io::ErrorKind::NotFound && attempt < TRIES => {}
            _ => return result,
        }
    }
    Ok(())
}

fn try_register(
    admin: &Path,
    place: &Path,
    head: ObjectId,
    reason: &str,
    sync: bool,
) -> Result<(), WorktreeError> {
    if let Some(all) = admin.parent() {
        fs::create_dir_all(all).map_err(WorktreeError::io("make the folder", all))?;
    }
    match fs::create_dir(admin) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let name = admin.file_name().unwrap_or_default().to_string_lossy().into_owned();
            return Err(WorktreeError::NameTaken { name });
        }
        other => other.map_err(WorktreeError::io("make the folder", admin))?,
    }
    crash::point("worktree:registering");
    // First of all the lock: `git worktree prune` leaves alone what has one.
    let written = write_new(&admin.join("locked"), &[reason.as_bytes(), b"\n"])
        .and_then(|()| write_new(&admin.join("commondir"), &[b"../..\n"]))
        .and_then(|()| write_new(&admin.join("HEAD"), &[head.to_string().as_bytes(), b"\n"]))
        .and_then(|()| {
            if sync { on_disk(&[&admin.join("commondir"), &admin.join("HEAD"), admin]) } else { Ok(()) }
        })
        .and_then(|()| write_new(&admin.join("gitdir"), &[&bytes(&place.join(".git")), b"\n"]));
    if written.is_err() {
        let _ = remove_all(admin);
    }
    written
}

/// Waits until files, or the names in a folder, are on the disk.
fn on_disk(paths: &[&Path]) -> Result<(), WorktreeError> {
    for path in paths {
        let synced = fs::File::open(path).and_then(|file| file.sync_all());
        // Some file systems cannot do it for folders.
        if let Err(error) = synced
            && !path.is_dir()
        {
            return Err(WorktreeError::io("write to the disk", *path)(error));
        }
    }
    Ok(())
}

fn bytes(path: &Path) -> Vec<u8> {
    gix::path::into_bstr(path).map_or_else(
        |_| path.to_string_lossy().into_owned().into_bytes(),
        |path| gix::path::to_unix_separators_on_windows(path).into_owned().into(),
    )
}

pub(super) fn write_new(path: &Path, parts: &[&[u8]]) -> Result<(), WorktreeError> {
    fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .and_then(|mut file| file.write_all(&parts.concat()))
        .map_err(WorktreeError::io("write", path))
}

#[cfg(test)]
mod tests {
    use super::check_name;

    #[test]
    fn names_are_recognisable_and_plain() {
        for name in ["loop-fix-env1", "loop-a.b_c-0"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in [
            "fix",
            "loop-a/b",
            "loop-..",
            "loop-a.lock",
            "loop-a.owner",
            "loop-a.work",
            "loop-a b",
            "loop-\n",
            "",
        ] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
