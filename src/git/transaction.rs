//! Changing several refs of loops at once, if all of them are what the caller expects.
//!
//! gix's own transactions let a `MustNotExist` pass where the ref already has the new value, find conflicts between
//! files and folders late, never sync, and leave locks behind a killed process that nobody can attribute. This one
//! works on the same files with the same locks as git (so the two exclude each other) and mends these four.
//!
//! It is all or nothing but for a crash: between two renames a process can be killed. The changes are made in the
//! order they are given, so the ledger goes first; everything else is repaired from it.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use gix::ObjectId;
use gix::bstr::{BString, ByteSlice};
use gix::refs::{FullName, FullNameRef};

use super::objects::Durability;
use super::reflock::{AcquireError, FileLock, left_over, lock_path, sweep_tokens};
use super::refs::{Loose, RefError, is_ours, native, remove_empty_parents};
use super::{Repo, Signature};
use crate::crash;

/// What a ref must be for a transaction to go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Anything, also nothing.
    Any,
    /// It does not exist; that it has the wanted value already does not help.
    Absent,
    /// It is exactly here.
    Exactly(ObjectId),
}

impl Expect {
    /// What was read before: exactly that, or nothing.
    pub fn just(read: Option<ObjectId>) -> Self {
        read.map_or(Self::Absent, Self::Exactly)
    }
}

/// One change of one ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefChange {
    /// The ref; one of a loop's.
    pub name: FullName,
    /// What it must be now.
    pub expect: Expect,
    /// What it shall be; `None` deletes it.
    pub to: Option<ObjectId>,
    /// For the reflog.
    pub message: String,
}

/// How long a lock of another process is waited for. git holds one for milliseconds, and longer only for a hook.
const PATIENCE: Duration = Duration::from_secs(2);

impl Repo {
    /// Makes all of `changes`, in their order, if every ref is as expected; else none, and says which was not. Each
    /// change is in the ref's reflog, with `who`. Refs other than those of loops are refused: branches, tags and
    /// `HEAD` are the user's.
    ///
    /// With [`Durability::Fsync`] the refs are on the disk when this returns; the objects they name have to be
    /// written with it too, before.
    pub fn update_refs(
        &self,
        changes: &[RefChange],
        who: &Signature,
        durability: Durability,
    ) -> Result<(), RefError> {
        self.update_refs_within(changes, who, durability, PATIENCE)
    }

    fn update_refs_within(
        &self,
        changes: &[RefChange],
        who: &Signature,
        durability: Durability,
        patience: Duration,
    ) -> Result<(), RefError> {
        self.check_changes(changes)?;
        // In the order of their names, so that two transactions never wait for each other in a circle.
        let mut order: Vec<_> = (0..changes.len()).collect();
        order.sort_by_key(|&index| &changes[index].name);
        let mut locks: Vec<Option<FileLock>> = changes.iter().map(|_| None).collect();
        for index in order {
            locks[index] = Some(self.lock_ref(&changes[index].name, patience)?);
        }
        // From here on nobody else moves any of them.
        let mut before = Vec::with_capacity(changes.len());
        for change in changes {
            before.push(self.check_expected(change)?);
        }
        let sync = durability == Durability::Fsync;
        for (change, lock) in changes.iter().zip(&mut locks) {
            if let (Some(to), Some(lock)) = (change.to, lock) {
                let written = lock.write(format!("{to}\n").as_bytes(), sync);
                written.map_err(|source| RefError::Io {
                    path: lock_path(&self.ref_path(change.name.as_ref())),
                    source,
                })?;
            }
        }
        let deleted: Vec<_> =
            changes.iter().filter(|change| change.to.is_none()).map(|change| &change.name).collect();
        self.delete_packed(&deleted, sync, patience)?;
        crash::point("refs:locked");

        let mut done = Vec::new();
        for ((change, lock), before) in changes.iter().zip(locks).zip(before) {
            let Some(lock) = lock else { continue };
            if let Err(source) = self.commit_change(change, lock, before, who) {
                return Err(RefError::Commit { name: change.name.clone(), done, source });
            }
            done.push(change.name.clone());
            if done.len() == 1 && changes.len() > 1 {
                crash::point("refs:first-moved");
                // Renames reach the disk in no order. The others must not be there without the first, which is the ledger.
                if sync {
                    self.sync_ref_folders(&changes[..1])?;
                }
            }
        }
        crash::point("refs:moved");
        if sync {
            self.sync_ref_folders(changes)?;
        }
        Ok(())
    }

    /// Fails if one of these refs could not be changed now: it is locked, symbolic or unreadable, something is in its way,
    /// or its reflog cannot be written. Changes none of them.
    pub fn check_refs_can_change(&self, names: &[FullName]) -> Result<(), RefError> {
        self.check_refs_within(names, PATIENCE)
    }

    fn check_refs_within(&self, names: &[FullName], patience: Duration) -> Result<(), RefError> {
        let mut changes: Vec<_> = names
            .iter()
            .map(|name| RefChange {
                name: name.clone(),
                expect: Expect::Any,
                to: Some(ObjectId::null(self.hash_kind())),
                message: String::new(),
            })
            .collect();
        changes.sort_by(|a, b| a.name.cmp(&b.name));
        let mut locks = Vec::with_capacity(changes.len());
        for change in &changes {
            locks.push(self.lock_ref(&change.name, patience)?);
        }
        for change in &changes {
            self.check_expected(change)?;
            let log = self.reflog_path(change.name.as_ref());
            check_reflog(&log).map_err(|source| RefError::Io { path: log, source })?;
        }
        Ok(())
    }

    fn reflog_path(&self, name: &FullNameRef) -> PathBuf {
        self.common_dir().join("logs").join(native(name.as_bstr()))
    }

    fn check_changes(&self, changes: &[RefChange]) -> Result<(), RefError> {
        if self.host().non_empty_var("GIT_QUARANTINE_PATH").is_some() {
            return Err(RefError::Quarantine);
        }
        let mut seen = BTreeSet::new();
        for change in changes {
            let name = change.name.clone();
            if !is_ours(name.as_ref()) {
                return Err(RefError::Foreign { name });
            }
            if !seen.insert(&change.name) {
                return Err(RefError::Twice { name });
            }
            if let Some(id) = change.to
                && !self.has_object(id)
            {
                return Err(RefError::NoObject { name, id });
            }
        }
        Ok(())
    }

    fn lock_ref(&self, name: &FullName, patience: Duration) -> Result<FileLock, RefError> {
        let path = self.ref_path(name.as_ref());
        match FileLock::acquire(self.common_dir(), &path, patience) {
            Ok(lock) => Ok(lock),
            Err(AcquireError::Held(held)) => {
                Err(RefError::Locked { path: held.path, age: held.age, pid: held.pid })
            }
            // A ref is a file where a folder has to be.
            Err(AcquireError::Io(error)) if error.kind() == io::ErrorKind::NotADirectory => {
                let other = self.file_above(name).unwrap_or_default();
                Err(RefError::Conflict { name: name.clone(), other })
            }
            Err(AcquireError::Io(source)) => Err(RefError::Io { path: lock_path(&path), source }),
        }
    }

    /// Under its lock: what the ref is, if that is what was expected and it can be what it shall be.
    fn check_expected(&self, change: &RefChange) -> Result<Option<ObjectId>, RefError> {
        let name = &change.name;
        let found = match self.read_loose(name.as_ref())? {
            Some(Loose::Id(id)) => Some(id),
            Some(Loose::Symbolic(_)) => return Err(RefError::Symbolic { name: name.clone() }),
            None => self.packed_refs()?.map_or(Ok(None), |packed| packed.find(name.as_ref()))?,
        };
        let expected = match change.expect {
            Expect::Any => found,
            Expect::Absent => None,
            Expect::Exactly(id) => Some(id),
        };
        if expected != found {
            return Err(RefError::Moved { name: name.clone(), expected, found });
        }
        if found.is_none() && change.to.is_some() {
            if let Some(other) = self.file_above(name) {
                return Err(RefError::Conflict { name: name.clone(), other });
            }
            if let Some((other, _)) = self.list_refs(&format!("{name}/"))?.into_iter().next() {
                return Err(RefError::Conflict { name: name.clone(), other: other.as_bstr().to_owned() });
            }
        }
        Ok(found)
    }

    /// The ref, packed or not, that is a leading part of `name`.
    fn file_above(&self, name: &FullName) -> Option<BString> {
        let bytes = name.as_bstr();
        bytes.find_iter(b"/").skip(1).find_map(|end| {
            let above = FullName::try_from(bytes[..end].as_bstr()).ok()?;
            // One that cannot be read is in the way, too.
            let exists = self.read_ref(above.as_ref()).map_or(true, |found| found.is_some());
            exists.then(|| above.as_bstr().to_owned())
        })
    }

    fn commit_change(
        &self,
        change: &RefChange,
        lock: FileLock,
        before: Option<ObjectId>,
        who: &Signature,
    ) -> io::Result<()> {
        let name = change.name.as_ref();
        let path = self.ref_path(name);
        let log = self.reflog_path(name);
        if let Some(to) = change.to {
            if before == Some(to) {
                return Ok(()); // Dropping the lock leaves it as it is.
            }
            append_reflog(&log, &reflog_line(before, to, who, &change.message))?;
            crash::point("refs:logged");
            if path.is_dir() {
                remove_empty_folders(&path);
            }
            return lock.commit();
        }
        for file in [&path, &log] {
            match std::fs::remove_file(file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        drop(lock);
        remove_empty_parents(&path, &self.common_dir().join("refs"));
        remove_empty_parents(&log, &self.common_dir().join("logs").join("refs"));
        Ok(())
    }

    /// Takes refs out of `packed-refs`, before their own files go: the other way round the old packed value would
    /// show through for a moment.
    fn delete_packed(&self, names: &[&FullName], sync: bool, patience: Duration) -> Result<(), RefError> {
        let path = self.common_dir().join("packed-refs");
        if names.is_empty() || !path.exists() {
            return Ok(());
        }
        let io_error = |source| RefError::Io { path: path.clone(), source };
        let mut lock = match FileLock::acquire(self.common_dir(), &path, patience) {
            Ok(lock) => lock,
            Err(AcquireError::Held(held)) => {
                return Err(RefError::Locked { path: held.path, age: held.age, pid: held.pid });
            }
            Err(AcquireError::Io(source)) => return Err(RefError::Io { path: lock_path(&path), source }),
        };
        let packed = std::fs::read(&path).map_err(io_error)?;
        let Some(kept) = without_refs(&packed, names) else {
            return Ok(());
        };
        lock.write(&kept, sync).map_err(io_error)?;
        lock.commit().map_err(io_error)
    }

    fn sync_ref_folders(&self, changes: &[RefChange]) -> Result<(), RefError> {
        let top = self.common_dir().join("refs");
        let mut folders = BTreeSet::new();
        for change in changes {
            let path = self.ref_path(change.name.as_ref());
            // The new name is in the last folder, and the folders above may be new, too.
            folders
                .extend(path.ancestors().skip(1).take_while(|dir| dir.starts_with(&top)).map(Path::to_owned));
        }
        if changes.iter().any(|change| change.to.is_none()) {
            folders.insert(self.common_dir().to_owned());
        }
        for folder in folders {
            match sync_folder(&folder) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(RefError::Io { path: folder, source });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The locks of refs of loops that dead processes left; removed unless this is only a look.
    pub fn left_over_locks(&self, dry_run: bool) -> Result<Vec<PathBuf>, RefError> {
        left_over(self.common_dir(), dry_run)
            .map_err(|source| RefError::Io { path: self.common_dir().join("refs/loops"), source })
    }

    /// Removes what crashed processes left in our part of the git folder. Worth doing once per run.
    pub fn sweep_ref_locks(&self) {
        sweep_tokens(self.common_dir());
    }
}

/// Makes the names in a folder durable.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    // Windows cannot open a folder for that, and journals names anyway.
    if cfg!(windows) {
        return Ok(());
    }
    match File::open(folder)?.sync_all() {
        // Some network and user-space file systems know no such thing: they keep names as they keep them.
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
            Ok(())
        }
        other => other,
    }
}

/// `packed-refs` without some refs and the peeled values that follow them; `None` if none of them is in it.
fn without_refs(packed: &[u8], names: &[&FullName]) -> Option<Vec<u8>> {
    let mut kept = Vec::with_capacity(packed.len());
    let mut dropping = false;
    let mut dropped = false;
    for line in packed.split_inclusive(|&byte| byte == b'\n') {
        if !line.starts_with(b"^") {
            let name = line.trim_ascii_end().split_once_str(" ").map(|(_, name)| name);
            dropping =
                !line.starts_with(b"#") && names.iter().any(|gone| name == Some(gone.as_bstr().as_bytes()));
        }
        if dropping {
            dropped = true;
        } else {
            kept.extend_from_slice(line);
        }
    }
    dropped.then_some(kept)
}

fn reflog_line(before: Option<ObjectId>, to: ObjectId, who: &Signature, message: &str) -> String {
    let before = before.unwrap_or_else(|| to.kind().null());
    let message: Vec<_> = message.split_whitespace().collect();
    format!("{before} {to} {who}\t{}\n", message.join(" "))
}

fn append_reflog(log: &Path, line: &str) -> io::Result<()> {
    let open = || OpenOptions::new().append(true).create(true).open(log);
    let mut file = match open() {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            std::fs::create_dir_all(log.parent().unwrap_or(Path::new("")))?;
            open()?
        }
        // The logs of refs that once were below this name.
        Err(error) if log.is_dir() => {
            remove_empty_folders(log);
            if log.is_dir() {
                return Err(error);
            }
            open()?
        }
        Err(error) => return Err(error),
    };
    file.write_all(line.as_bytes())
}

/// Fails if [`append_reflog`] would. Makes nothing but folders.
fn check_reflog(log: &Path) -> io::Result<()> {
    if log.is_dir() {
        remove_empty_folders(log);
    }
    match OpenOptions::new().append(true).open(log) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            std::fs::create_dir_all(log.parent().unwrap_or(Path::new("")))
        }
        other => other.map(drop),
    }
}

/// Removes a tree of folders if there is nothing in it but folders.
fn remove_empty_folders(dir: &Path) {
    let mut folders: Vec<PathBuf> = vec![dir.to_owned()];
    let mut next = 0;
    while let Some(folder) = folders.get(next) {
        let below: Vec<_> = std::fs::read_dir(folder).into_iter().flatten().flatten().collect();
        folders.extend(
            below.iter().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(std::fs::DirEntry::path),
        );
        next += 1;
    }
    for folder in folders.iter().rev() {
        let _ = std::fs::remove_dir(folder);
    }
}

#[cfg(test)]
#[path = "transaction_tests.rs"]
mod tests;
