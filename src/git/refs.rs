//! Reading refs, always from the disk.
//!
//! gix keeps `packed-refs` in memory and trusts its time stamp; git itself compares more. A ledger's tip decides what
//! is appended and what is pushed, so here nothing is kept.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gix::ObjectId;
use gix::bstr::{BStr, BString, ByteSlice};
use gix::refs::{FullName, FullNameRef};

use super::Repo;

/// What went wrong with refs.
#[derive(Debug, thiserror::Error)]
pub enum RefError {
    /// A ref is not what the caller expected: somebody else was faster.
    #[error("{name} {}", moved(*expected, *found))]
    Moved {
        /// The ref.
        name: FullName,
        /// What it should have been; none for a ref that should not exist.
        expected: Option<ObjectId>,
        /// What it is.
        found: Option<ObjectId>,
    },
    /// Somebody else holds the lock of a ref.
    #[error("{} is locked by {} since {} s", path.display(), locker(*pid), age.as_secs())]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// How old it is.
        age: Duration,
        /// The process, where it is one of ours. git's own locks do not say.
        pid: Option<u32>,
    },
    /// The ref names another ref, or is a symlink.
    #[error("{name} is a symbolic ref, which a loop never has")]
    Symbolic {
        /// The ref.
        name: FullName,
    },
    /// The file of a ref does not hold an object id.
    #[error("{name} is damaged: {} holds {content:?}", path.display())]
    Malformed {
        /// The ref.
        name: FullName,
        /// Its file.
        path: PathBuf,
        /// The start of what it holds.
        content: String,
    },
    /// A file in the way of a folder, or the other way round.
    #[error("{name} cannot exist beside {other}")]
    Conflict {
        /// The ref to be made.
        name: FullName,
        /// The ref that is there.
        other: BString,
    },
    /// A ref that is none of ours.
    #[error("{name} is not a ref of a loop; only those are ever changed")]
    Foreign {
        /// The ref.
        name: FullName,
    },
    /// Two changes of one ref.
    #[error("{name} is changed twice in one transaction")]
    Twice {
        /// The ref.
        name: FullName,
    },
    /// A ref would point at nothing.
    #[error("{name} cannot be set to {id}, which does not exist")]
    NoObject {
        /// The ref.
        name: FullName,
        /// The object.
        id: ObjectId,
    },
    /// A hook that judges a push must not change refs.
    #[error("refs cannot be changed while a push is being judged")]
    Quarantine,
    /// Not all of a transaction was done.
    #[error("{name} could not be changed{}", done_before(done))]
    Commit {
        /// The ref that failed.
        name: FullName,
        /// The ones that were changed before.
        done: Vec<FullName>,
        /// Why.
        source: io::Error,
    },
    /// `packed-refs` cannot be read.
    #[error("{} is damaged", path.display())]
    Packed {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<gix::Error>,
    },
    /// What the refs shall reach is not on the disk.
    #[error(transparent)]
    Objects(#[from] super::ObjectError),
    /// A file cannot be read or written.
    #[error("cannot access {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

fn moved(expected: Option<ObjectId>, found: Option<ObjectId>) -> String {
    match (expected, found) {
        (None, Some(found)) => format!("exists already, at {found}"),
        (Some(expected), Some(found)) => format!("is at {found}, not at {expected}"),
        (Some(expected), None) => format!("does not exist; it should be at {expected}"),
        (None, None) => "has moved".into(),
    }
}

fn locker(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another program".into(), |pid| format!("git-loop process {pid}"))
}

fn done_before(done: &[FullName]) -> String {
    if done.is_empty() {
        return String::new();
    }
    let done: Vec<_> = done.iter().map(ToString::to_string).collect();
    format!(", after {}", done.join(", "))
}

impl From<RefError> for crate::error::Error {
    fn from(error: RefError) -> Self {
        let message = error.to_string();
        match error {
            RefError::Moved { .. } => {
                Self::workspace(message).hint("run it again: it starts from what is there now")
            }
            RefError::Locked { path, pid: None, .. } => {
                Self::workspace(message).hint("wait for the git command that holds it").hint(format!(
                    "if no git command runs, it was left by one that died: rm '{}'",
                    path.display()
                ))
            }
            RefError::Locked { .. } => {
                Self::workspace(message).hint("run it again when that process is done")
            }
            RefError::Symbolic { name } => {
                Self::workspace(message).hint(format!("remove it: git symbolic-ref --delete {name}"))
            }
            RefError::Malformed { name, .. } => {
                Self::workspace(message).hint(format!("look at where it was: git reflog show {name}"))
            }
            RefError::Conflict { other, .. } => Self::workspace(message)
                .hint(format!("remove or rename the other one: git update-ref -d '{other}'")),
            RefError::Commit { source, .. } | RefError::Io { source, .. } => Self::workspace(message)
                .caused_by(source)
                .hint("check the free space and who may write there"),
            RefError::Objects(error) => error.into(),
            RefError::Packed { source, .. } => {
                Self::workspace(message).caused_by(source).hint("look at it: git fsck; git for-each-ref")
            }
            RefError::Foreign { .. }
            | RefError::Twice { .. }
            | RefError::NoObject { .. }
            | RefError::Quarantine => Self::internal(message),
        }
    }
}

/// What is in the file of a ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Loose {
    Id(ObjectId),
    Symbolic(BString),
}

/// Where a ref is, or what is wrong with it.
pub type Target = Result<ObjectId, RefError>;

/// Git follows symbolic refs this far.
const MAX_SYMBOLIC: usize = 5;

impl Repo {
    /// The object a ref is at, read from the disk now. A symbolic ref like `HEAD` is followed, except that the refs
    /// of a loop must not be symbolic. `None` if it does not exist.
    pub fn read_ref(&self, name: &FullNameRef) -> Result<Option<ObjectId>, RefError> {
        let mut name = name.to_owned();
        for _ in 0..MAX_SYMBOLIC {
            match self.read_loose(name.as_ref())? {
                Some(Loose::Id(id)) => return Ok(Some(id)),
                Some(Loose::Symbolic(_)) if is_ours(name.as_ref()) => {
                    return Err(RefError::Symbolic { name });
                }
                Some(Loose::Symbolic(target)) => {
                    name = FullName::try_from(target).map_err(|_| RefError::Symbolic { name })?;
                }
                None => {
                    let packed = self.packed_refs()?;
                    return packed.map_or(Ok(None), |packed| packed.find(name.as_ref()));
                }
            }
        }
        Err(RefError::Symbolic { name })
    }

    /// Every ref below `prefix` (`refs/loops/`) and where it is, by name. One that is damaged or symbolic is an error: nothing is
    /// skipped in silence.
    pub fn list_refs(&self, prefix: &str) -> Result<Vec<(FullName, ObjectId)>, RefError> {
        let each = self.list_each_ref(prefix)?;
        each.into_iter().map(|(name, target)| Ok((name, target?))).collect()
    }

    /// The same, with what is wrong with a ref in the place of where it is, so that one bad ref does not hide the others.
    pub fn list_each_ref(&self, prefix: &str) -> Result<Vec<(FullName, Target)>, RefError> {
        // Packed ones first: what is in a file of its own is newer. And read after the files: a ref that is being
        // packed in between is in one of the two, whatever the order of events.
        let mut loose = BTreeMap::new();
        self.walk_loose(prefix, &mut loose)?;
        let mut packed = BTreeMap::new();
        if let Some(refs) = self.packed_refs()? {
            refs.collect(prefix, &mut packed)?;
        }
        let mut found: BTreeMap<_, _> = packed.into_iter().map(|(name, id)| (name, Ok(id))).collect();
        found.extend(loose);
        Ok(found.into_iter().collect())
    }

    /// The file of a ref. Some refs are of one work tree, all others of the repository.
    pub(super) fn ref_path(&self, name: &FullNameRef) -> PathBuf {
        let bytes = name.as_bstr();
        let per_worktree = !bytes.starts_with(b"refs/")
            || ["refs/bisect/", "refs/worktree/", "refs/rewritten/"]
                .iter()
                .any(|p| bytes.starts_with(p.as_bytes()));
        let base = if per_worktree { self.git_dir() } else { self.common_dir() };
        base.join(native(bytes))
    }

    pub(super) fn read_loose(&self, name: &FullNameRef) -> Result<Option<Loose>, RefError> {
        let path = self.ref_path(name);
        let io_error = |source| RefError::Io { path: path.clone(), source };
        // A symlink in the place of a loop's ref would let it be changed from elsewhere.
        if is_ours(name) && path.symlink_metadata().is_ok_and(|meta| meta.is_symlink()) {
            return Err(RefError::Symbolic { name: name.to_owned() });
        }
        let content = match std::fs::read(&path) {
            Ok(content) => content,
            Err(error) if is_absent(&error) => return Ok(None),
            // A folder: refs below it exist, or existed.
            Err(_) if path.is_dir() => return Ok(None),
            Err(error) => return Err(io_error(error)),
        };
        match parse_loose(&content, self.hash_kind()) {
            Some(loose) => Ok(Some(loose)),
            None => Err(RefError::Malformed {
                name: name.to_owned(),
                path,
                content: String::from_utf8_lossy(&content[..content.len().min(80)]).into_owned(),
            }),
        }
    }

    fn walk_loose(&self, prefix: &str, found: &mut BTreeMap<FullName, Target>) -> Result<(), RefError> {
        let mut pending = vec![prefix.trim_end_matches('/').to_owned()];
        while let Some(dir_name) = pending.pop() {
            let dir = self.common_dir().join(&dir_name);
            let io_error = |source| RefError::Io { path: dir.clone(), source };
            let entries = match std::fs::read_dir(&dir) {
                Ok(entries) => entries,
                Err(error) if is_absent(&error) => continue,
                Err(error) => return Err(io_error(error)),
            };
            for entry in entries {
                let entry = entry.map_err(io_error)?;
                let Some(name) = entry.file_name().to_str().map(|name| format!("{dir_name}/{name}")) else {
                    continue; // Loop ids are ASCII; other refs below our prefixes are judged by name, not listed.
                };
                if entry.file_type().map_err(io_error)?.is_dir() {
                    pending.push(name);
                    continue;
                }
                // Locks and other files that cannot be refs.
                let Ok(name) = FullName::try_from(name) else { continue };
                let target = match self.read_loose(name.as_ref()) {
                    Ok(Some(Loose::Id(id))) => Ok(id),
                    Ok(Some(Loose::Symbolic(_))) => Err(RefError::Symbolic { name: name.clone() }),
                    Ok(None) => continue,
                    Err(error) => Err(error),
                };
                found.insert(name, target);
            }
        }
        Ok(())
    }

    pub(super) fn packed_refs(&self) -> Result<Option<PackedRefs>, RefError> {
        PackedRefs::open(self.common_dir().join("packed-refs"), self.hash_kind())
    }
}

/// A snapshot of `packed-refs`.
pub(super) struct PackedRefs {
    path: PathBuf,
    buffer: gix::refs::packed::Buffer,
}

impl PackedRefs {
    fn open(path: PathBuf, hash: gix::hash::Kind) -> Result<Option<Self>, RefError> {
        match path.metadata() {
            Ok(meta) if meta.len() == 0 => return Ok(None),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(RefError::Io { path, source }),
        }
        match gix::refs::packed::Buffer::open(path.clone(), 32 * 1024, hash) {
            Ok(buffer) => Ok(Some(Self { path, buffer })),
            Err(source) => Err(RefError::Packed { path, source: Box::new(source) }),
        }
    }

    pub(super) fn find(&self, name: &FullNameRef) -> Result<Option<ObjectId>, RefError> {
        let found = self.buffer.try_find(name).map_err(|source| self.damaged(source))?;
        Ok(found.map(|reference| reference.target()))
    }

    pub(super) fn collect(
        &self,
        prefix: &str,
        into: &mut BTreeMap<FullName, ObjectId>,
    ) -> Result<(), RefError> {
        for reference in self.buffer.iter_prefixed(prefix.into()).map_err(|source| self.damaged(source))? {
            let reference = reference.map_err(|source| self.damaged(source))?;
            into.insert(reference.name.to_owned(), reference.target());
        }
        Ok(())
    }

    fn damaged(&self, source: gix::Error) -> RefError {
        RefError::Packed { path: self.path.clone(), source: Box::new(source) }
    }
}

/// Whether we may change it, and hold it to be a plain ref.
pub(super) fn is_ours(name: &FullNameRef) -> bool {
    let name = name.as_bstr();
    name.starts_with(super::names::LOOPS_PREFIX.as_bytes())
        || name.starts_with(super::names::NOTES_PREFIX.as_bytes())
        || super::names::is_tracked_loop_ref(name)
        || super::names::is_aside_ref(name)
}

/// The name of a ref as a path. Only Windows has names that it cannot express; none of a loop is one.
pub(super) fn native(name: &BStr) -> PathBuf {
    match gix::path::from_bstr(name) {
        Ok(path) => path.into_owned(),
        Err(_) => PathBuf::from(name.to_str_lossy().into_owned()),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Exactly what git writes: an id or `ref: NAME`, and white space at the end.
fn parse_loose(content: &[u8], hash: gix::hash::Kind) -> Option<Loose> {
    if let Some(target) = content.strip_prefix(b"ref:") {
        let target = target.trim_ascii();
        return (!target.is_empty()).then(|| Loose::Symbolic(target.into()));
    }
    let hex = content.trim_ascii_end();
    if hex.len() != hash.len_in_hex() {
        return None;
    }
    ObjectId::from_hex(hex).ok().map(Loose::Id)
}

/// Folders between `path` and `top` that are now empty are removed, as git does.
pub(super) fn remove_empty_parents(path: &Path, top: &Path) {
    for dir in path.ancestors().skip(1).take_while(|dir| *dir != top && dir.starts_with(top)) {
        if std::fs::remove_dir(dir).is_err() {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::names::LoopId;
    use crate::git::testing::TestRepo;
    use proptest::prelude::*;

    fn name(name: &str) -> FullName {
        FullName::try_from(name).unwrap()
    }

    #[test]
    fn loose_packed_and_symbolic_refs_are_read_afresh() {
        let repo = TestRepo::new();
        let (open, first) = (repo.open(), repo.id("HEAD"));
        let id = LoopId::new("fix").unwrap();
        let ledger = id.refs().ledger();
        let read = |name: &FullName| open.read_ref(name.as_ref()).unwrap();
        assert_eq!(read(&ledger), None);
        repo.git(["update-ref", "refs/loops/fix/ledger", &first.to_string()]);
        assert_eq!(read(&ledger), Some(first));
        repo.git(["pack-refs", "--all"]);
        assert!(!repo.path().join(".git/refs/loops/fix/ledger").exists());
        assert_eq!(read(&ledger), Some(first));
        let second = repo.commit("second");
        repo.git(["update-ref", "refs/loops/fix/ledger", &second.to_string()]);
        assert_eq!(read(&ledger), Some(second), "a file of its own wins over the packed one");
        repo.git(["pack-refs", "--all"]);
        assert_eq!(read(&ledger), Some(second));
        assert_eq!(read(&name("HEAD")), Some(second));
        repo.git(["update-ref", "-d", "refs/loops/fix/ledger"]);
        assert_eq!(read(&ledger), None);
    }

    #[test]
    fn lists_have_every_ref_once_with_its_newest_value() {
        let repo = TestRepo::new();
        let first = repo.id("HEAD").to_string();
        for ref_name in ["refs/loops/b/ledger", "refs/loops/a/head", "refs/loopsy/c", "refs/notes/loops/a"] {
            repo.git(["update-ref", ref_name, &first]);
        }
        repo.git(["pack-refs", "--all"]);
        let second = repo.commit("second");
        repo.git(["update-ref", "refs/loops/b/ledger", &second.to_string()]);
        repo.git(["update-ref", "refs/loops/a/ledger", &second.to_string()]);
        std::fs::write(repo.path().join(".git/refs/loops/a/head.lock"), "").unwrap();
        let list = repo.open().list_refs("refs/loops/").unwrap();
        let list: Vec<_> = list.iter().map(|(name, id)| (name.to_string(), *id == second)).collect();
        assert_eq!(
            list,
            [
                ("refs/loops/a/head".into(), false),
                ("refs/loops/a/ledger".into(), true),
                ("refs/loops/b/ledger".into(), true)
            ]
        );
        assert_eq!(TestRepo::new().open().list_refs("refs/loops/").unwrap(), []);
    }

    #[test]
    fn damaged_and_symbolic_refs_of_loops_are_errors() {
        let repo = TestRepo::new();
        let open = repo.open();
        let dir = repo.path().join(".git/refs/loops/fix");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("ledger"), "").unwrap();
        let read = || open.read_ref(name("refs/loops/fix/ledger").as_ref()).unwrap_err();
        assert!(matches!(read(), RefError::Malformed { .. }));
        assert!(open.list_refs("refs/loops/").is_err(), "a damaged ref is never skipped in silence");
        std::fs::write(dir.join("ledger"), "ref: refs/heads/main\n").unwrap();
        assert!(matches!(read(), RefError::Symbolic { .. }));
        #[cfg(unix)]
        {
            std::fs::remove_file(dir.join("ledger")).unwrap();
            std::os::unix::fs::symlink("../../heads/main", dir.join("ledger")).unwrap();
            assert!(matches!(read(), RefError::Symbolic { .. }));
        }
    }

    proptest! {
        #[test]
        fn parsing_a_ref_is_total(content in proptest::collection::vec(any::<u8>(), 0..80)) {
            for hash in [gix::hash::Kind::Sha1, gix::hash::Kind::Sha256] {
                if let Some(Loose::Id(id)) = parse_loose(&content, hash) {
                    prop_assert_eq!(id.kind(), hash);
                }
            }
        }
    }
}
