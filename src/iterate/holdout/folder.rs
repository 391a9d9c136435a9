//! The folder of a holdout as git would store it: its tree id, and a copy to run in. Nothing is written into any repository, where a
//! worker might find it.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};

use gix::hash::{Kind, ObjectId};
use gix::objs;

use crate::guard::tree::{Entry, Mode, serialize};
use crate::oid::Oid;

/// The most bytes of all files together.
const MAX_BYTES: u64 = 1 << 30;
/// The most files.
const MAX_FILES: usize = 100_000;
/// The deepest nesting.
const MAX_DEPTH: usize = 128;

/// A folder that was read.
#[derive(Debug)]
pub(super) struct Folder {
    /// The id that git gives to a tree with these files.
    pub tree: Oid,
    /// Its files and links.
    pub files: Vec<Leaf>,
}

/// A file or a link.
#[derive(Debug)]
pub(super) struct Leaf {
    /// From the top of the folder.
    pub path: PathBuf,
    /// The blob.
    pub id: ObjectId,
    /// Bytes.
    pub size: u64,
}

/// Why a folder cannot be frozen or copied.
#[derive(Debug, thiserror::Error)]
pub(super) enum FolderError {
    /// The system refuses.
    #[error("{} cannot be {what}: {source}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// What it says.
        source: io::Error,
    },
    /// Something that a frozen folder may not hold.
    #[error("{} {why}", path.display())]
    Unfit {
        /// Where.
        path: PathBuf,
        /// What it is.
        why: &'static str,
    },
}

/// Reads `folder`, and copies it into the empty folder `to` if one is named. What is copied is what the id is of, whatever happens
/// to the folder meanwhile. A `.git` at its top is no part of it, and neither are empty folders, which git does not know.
pub(super) fn read(folder: &Path, to: Option<&Path>, hash: Kind) -> Result<Folder, FolderError> {
    let mut reading = Reading { top: folder, to, hash, files: Vec::new(), bytes: 0 };
    let tree = reading.folder(Path::new(""), 0)?;
    match tree {
        Some(tree) => Ok(Folder { tree: Oid(tree), files: reading.files }),
        None => Err(FolderError::Unfit { path: folder.to_owned(), why: "holds no file" }),
    }
}

struct Reading<'a> {
    top: &'a Path,
    to: Option<&'a Path>,
    hash: Kind,
    files: Vec<Leaf>,
    bytes: u64,
}

impl Reading<'_> {
    /// The tree of one folder; `None` if there is no file in it.
    fn folder(&mut self, at: &Path, depth: usize) -> Result<Option<ObjectId>, FolderError> {
        let here = self.top.join(at);
        if depth > MAX_DEPTH {
            return Err(FolderError::Unfit { path: here, why: "is nested too deep" });
        }
        if let Some(to) = self.to.filter(|_| depth > 0) {
            fs::create_dir(to.join(at)).map_err(io_at(&here, "copied"))?;
        }
        let mut entries = Vec::new();
        for found in fs::read_dir(&here).map_err(io_at(&here, "read"))? {
            let found = found.map_err(io_at(&here, "read"))?;
            let path = at.join(found.file_name());
            let kind = found.file_type().map_err(io_at(&found.path(), "looked at"))?;
            if found.file_name().eq_ignore_ascii_case(".git") {
                if depth == 0 {
                    continue;
                }
                return Err(FolderError::Unfit { path: found.path(), why: "is a repository inside" });
            }
            let (mode, id) = if kind.is_dir() {
                match self.folder(&path, depth + 1)? {
                    Some(id) => (Mode::Tree, id),
                    None => continue,
                }
            } else if kind.is_symlink() {
                (Mode::Symlink, self.link(&path)?)
            } else if kind.is_file() {
                self.file(&path)?
            } else {
                return Err(FolderError::Unfit { path: found.path(), why: "is neither a file nor a folder" });
            };
            let name = gix::path::os_string_into_bstring(found.file_name())
                .map_err(|_| FolderError::Unfit { path: found.path(), why: "has a name that is no text" })?;
            entries.push(Entry { mode, name, id });
        }
        if entries.is_empty() {
            return Ok(None);
        }
        Ok(Some(self.id(objs::Kind::Tree, &serialize(entries))))
    }

    fn file(&mut self, path: &Path) -> Result<(Mode, ObjectId), FolderError> {
        let from = self.top.join(path);
        let file = open(&from).map_err(io_at(&from, "read"))?;
        let meta = file.metadata().map_err(io_at(&from, "read"))?;
        self.bytes = self.bytes.saturating_add(meta.len());
        if !meta.is_file() || self.bytes > MAX_BYTES || self.files.len() >= MAX_FILES {
            return Err(FolderError::Unfit { path: self.top.to_owned(), why: "is too large" });
        }
        let mut bytes = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(io_at(&from, "read"))?;
        let executable = is_executable(&meta);
        if let Some(to) = self.to {
            write(&to.join(path), &bytes, executable).map_err(io_at(&from, "copied"))?;
        }
        let id = self.id(objs::Kind::Blob, &bytes);
        self.files.push(Leaf { path: path.to_owned(), id, size: bytes.len() as u64 });
        Ok((if executable { Mode::Executable } else { Mode::File }, id))
    }

    fn link(&mut self, path: &Path) -> Result<ObjectId, FolderError> {
        let from = self.top.join(path);
        let target = fs::read_link(&from).map_err(io_at(&from, "read"))?;
        if leaves(path, &target) {
            // What it leads to would be neither frozen nor copied.
            return Err(FolderError::Unfit { path: from, why: "is a link that leads out of the folder" });
        }
        if let Some(to) = self.to {
            symlink(&target, &to.join(path)).map_err(io_at(&from, "copied"))?;
        }
        let bytes = link_bytes(target).ok_or_else(|| FolderError::Unfit {
            path: from.clone(),
            why: "is a link to a name that is no text",
        })?;
        let id = self.id(objs::Kind::Blob, &bytes);
        self.files.push(Leaf { path: path.to_owned(), id, size: bytes.len() as u64 });
        Ok(id)
    }

    fn id(&self, kind: objs::Kind, bytes: &[u8]) -> ObjectId {
        objs::compute_hash(self.hash, kind, bytes).expect("hashing memory does not fail")
    }
}

/// A file in `place` that is not what was copied there any more.
pub(super) fn changed<'a>(files: &'a [Leaf], place: &Path, hash: Kind) -> Option<&'a Path> {
    let same = |leaf: &Leaf| {
        let at = place.join(&leaf.path);
        let bytes = match fs::symlink_metadata(&at) {
            Ok(meta) if meta.is_symlink() => fs::read_link(&at).ok().and_then(link_bytes),
            // Whatever lies there now is neither waited for nor read beyond what was copied.
            Ok(meta) if meta.is_file() => open(&at).ok().and_then(|file| {
                let mut bytes: Vec<u8> = Vec::new();
                file.take(leaf.size.saturating_add(1)).read_to_end(&mut bytes).ok()?;
                Some(bytes)
            }),
            _ => None,
        };
        bytes.is_some_and(|bytes| {
            objs::compute_hash(hash, objs::Kind::Blob, &bytes).is_ok_and(|id| id == leaf.id)
        })
    };
    files.iter().find(|leaf| !same(leaf)).map(|leaf| leaf.path.as_path())
}

/// Whether a link at `path` with this target leads out of the folder.
fn leaves(path: &Path, target: &Path) -> bool {
    let mut depth = path.components().count().saturating_sub(1);
    target.components().any(|part| match part {
        Component::Normal(_) => {
            depth += 1;
            false
        }
        Component::CurDir => false,
        Component::ParentDir if depth > 0 => {
            depth -= 1;
            false
        }
        _ => true,
    })
}

/// What git stores of a link.
fn link_bytes(target: PathBuf) -> Option<Vec<u8>> {
    Some(gix::path::into_bstr(target).ok()?.into_owned().into())
}

fn io_at(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> FolderError {
    let path = path.to_owned();
    move |source| FolderError::Io { path, what, source }
}

#[cfg(unix)]
fn open(path: &Path) -> io::Result<fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    // Neither a link nor a pipe that was put there meanwhile.
    fs::OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

#[cfg(not(unix))]
fn open(path: &Path) -> io::Result<fs::File> {
    fs::File::open(path)
}

fn write(path: &Path, bytes: &[u8], executable: bool) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, if executable { 0o755 } else { 0o644 });
    #[cfg(not(unix))]
    let _ = executable;
    options.open(path)?.write_all(bytes)
}

#[cfg(unix)]
fn is_executable(meta: &fs::Metadata) -> bool {
    std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o100 != 0
}

#[cfg(not(unix))]
fn is_executable(_meta: &fs::Metadata) -> bool {
    false
}

#[cfg(unix)]
fn symlink(target: &Path, at: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, at)
}

#[cfg(not(unix))]
fn symlink(_target: &Path, _at: &Path) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "links are not copied on this system"))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::git::testing::TestRepo;

    fn fill(at: &Path) {
        fs::create_dir_all(at.join("cases/deep")).unwrap();
        fs::create_dir_all(at.join("empty")).unwrap();
        fs::write(at.join("cases/deep/one"), "1\n").unwrap();
        // `a` the folder sorts behind `a.b` the file.
        fs::write(at.join("cases.txt"), "x").unwrap();
        write(&at.join("run.sh"), b"#!/bin/sh\n", true).unwrap();
        symlink(Path::new("cases/deep/one"), &at.join("first")).unwrap();
        symlink(Path::new("../../run.sh"), &at.join("cases/deep/up")).unwrap();
    }

    #[test]
    fn the_id_is_the_one_that_git_gives() {
        for format in ["sha1", "sha256"] {
            let repo = TestRepo::with(&[&format!("--object-format={format}")]);
            fill(repo.path());
            repo.git(["add", "-A"]);
            let commit = repo.commit("all of it");
            let tree = repo.git(["rev-parse", &format!("{commit}^{{tree}}")]);
            let copy = tempfile::tempdir().unwrap();
            let hash = repo.open().hash_kind();
            let read_it = read(repo.path(), Some(copy.path()), hash).unwrap();
            assert_eq!(read_it.tree.to_string(), tree.trim(), "{format}");
            let again = read(copy.path(), None, hash).unwrap();
            assert_eq!(again.tree, read_it.tree, "{format}");
            assert_eq!(changed(&read_it.files, copy.path(), hash), None);
            fs::write(copy.path().join("more"), "built").unwrap();
            assert_eq!(changed(&read_it.files, copy.path(), hash), None, "what is added changes nothing");
            fs::write(copy.path().join("cases.txt"), "xx").unwrap();
            assert_eq!(changed(&read_it.files, copy.path(), hash), Some(Path::new("cases.txt")));
        }
    }

    #[test]
    fn what_cannot_be_frozen_is_refused() {
        let told = |make: &dyn Fn(&Path)| {
            let dir = tempfile::tempdir().unwrap();
            make(dir.path());
            match read(dir.path(), None, Kind::Sha1) {
                Err(FolderError::Unfit { why, .. }) => why,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(told(&|_| ()), "holds no file");
        assert_eq!(told(&|at| fs::create_dir(at.join("empty")).unwrap()), "holds no file");
        let out = "is a link that leads out of the folder";
        assert_eq!(told(&|at| symlink(Path::new("/etc/passwd"), &at.join("x")).unwrap()), out);
        assert_eq!(told(&|at| symlink(Path::new("a/../../y"), &at.join("x")).unwrap()), out);
        let inside = |at: &Path| fs::create_dir_all(at.join("sub/.git")).unwrap();
        assert_eq!(told(&inside), "is a repository inside");
        let pipe = |at: &Path| {
            std::process::Command::new("mkfifo").arg(at.join("pipe")).status().unwrap();
        };
        assert_eq!(told(&pipe), "is neither a file nor a folder");
    }
}
