//! What can go wrong with a worktree.

use std::io;
use std::path::{Path, PathBuf};

use gix::ObjectId;
use gix::bstr::{BStr, BString};

use crate::error::Error;

/// A worktree could not be made, read or removed.
#[derive(Debug, thiserror::Error)]
pub enum WorktreeError {
    /// A system call failed.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// What was being done: a verb, and what to.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A tree holds a name that must never reach a disk.
    #[error("the tree holds an unsafe path, '{path}': {why}")]
    UnsafePath {
        /// The path in the tree.
        path: BString,
        /// What is wrong with its last component.
        why: String,
    },
    /// Two paths of a tree are one on this file system (case, Unicode form), or the folder was not empty.
    #[error(
        "'{path}' exists already in the new worktree; paths of the tree may differ in case or Unicode form only"
    )]
    Collision {
        /// The path in the tree.
        path: BString,
    },
    /// The folder of a new worktree holds something.
    #[error("{} is not empty", path.display())]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// An object is missing or cannot be decoded.
    #[error("cannot read object {id}{}", at(path.as_ref()))]
    Object {
        /// The object.
        id: ObjectId,
        /// The path that names it, where there is one.
        path: Option<BString>,
        /// What the object store said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The bytes of an object do not hash to its name.
    #[error("object {id}{} is corrupt: its content hashes to {actual}", at(path.as_ref()))]
    Corrupt {
        /// The name it was asked for by.
        id: ObjectId,
        /// What its content hashes to.
        actual: ObjectId,
        /// The path that names it, where there is one.
        path: Option<BString>,
    },
    /// A tree object breaks git's own rules: order, duplicates, modes.
    #[error("tree {id} is malformed: {why}")]
    BadTree {
        /// The tree.
        id: ObjectId,
        /// The rule.
        why: &'static str,
    },
    /// More than a worktree may hold.
    #[error("{what} exceed the limit of {limit}")]
    TooLarge {
        /// What is counted, in the plural.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// An object could not be stored.
    #[error("cannot store an object for '{path}'")]
    Store {
        /// The path it is the content of; empty for the root tree.
        path: BString,
        /// What the object store said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Something changed the worktree while it was being read.
    #[error("'{path}' changed while it was being read")]
    Changed {
        /// The path.
        path: BString,
    },
    /// Whoever wanted it does not any more.
    #[error("the worktree is not wanted any more")]
    Stopped,
    /// The folder for worktrees lies where it must not.
    #[error("{} cannot hold worktrees: {why}", path.display())]
    BadPlace {
        /// The folder.
        path: PathBuf,
        /// Why not.
        why: &'static str,
    },
    /// A worktree is called so already.
    #[error("a worktree named '{name}' is already registered")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// The name is not one that git and a file system take as it is.
    #[error(
        "'{name}' cannot name a worktree: only letters, digits, '.', '_' and '-', and it starts with 'loop-'"
    )]
    BadName {
        /// The name.
        name: String,
    },
}

/// A repository path as one of this system: any bytes on Unix, as near as possible elsewhere.
pub(super) fn to_path(path: &BStr) -> PathBuf {
    gix::path::from_bstr(path).map_or_else(|_| PathBuf::from(path.to_string()), std::borrow::Cow::into_owned)
}

fn at(path: Option<&BString>) -> String {
    path.map(|path| format!(" (at '{path}')")).unwrap_or_default()
}

impl WorktreeError {
    /// The failure of a system call on `path`.
    pub(super) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { doing, path, source }
    }

    /// The failure of a system call on `path` below `root`.
    pub(super) fn io_below(doing: &'static str, root: &Path, path: &BStr) -> impl FnOnce(io::Error) -> Self {
        let path = root.join(to_path(path));
        move |source| Self::Io { doing, path, source }
    }
}

impl From<WorktreeError> for Error {
    fn from(error: WorktreeError) -> Self {
        let hint = match &error {
            WorktreeError::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                "free some disk space, or point loop.worktreeDir at a larger file system"
            }
            WorktreeError::Io { source, .. } if source.kind() == io::ErrorKind::Unsupported => {
                "run git loop on Linux or macOS; this platform cannot make safe worktrees yet"
            }
            WorktreeError::Io { .. } | WorktreeError::BadPlace { .. } | WorktreeError::NotEmpty { .. } => {
                "set loop.worktreeDir to a folder of your own, outside the repository"
            }
            WorktreeError::UnsafePath { .. }
            | WorktreeError::Collision { .. }
            | WorktreeError::BadTree { .. } => {
                "rename the path in a new commit and start from there; `git fsck` lists what git objects to"
            }
            WorktreeError::Object { .. } | WorktreeError::Corrupt { .. } | WorktreeError::Store { .. } => {
                "run `git fsck --full` to see what the repository lacks, and fetch it again"
            }
            WorktreeError::TooLarge { .. } => {
                "remove or ignore what is not source, in a commit before the loop"
            }
            WorktreeError::Changed { .. } => "make sure that nothing the worker started outlives it",
            WorktreeError::NameTaken { .. } | WorktreeError::BadName { .. } | WorktreeError::Stopped => {
                return Self::internal(error.to_string()).caused_by(error);
            }
        };
        Self::workspace(error.to_string()).caused_by(error).hint(hint)
    }
}
