//! The storage floor: repositories, refs, objects, trees, notes, locks.
//!
//! | file | what it does |
//! | --- | --- |
//! | `open`, `discover` | finding and opening a repository, or saying clearly why not |
//! | `config`, `config_env` | git configuration with scopes, from files and `git -c` |
//! | `names` | the one constructor of every ref name of a loop |
//! | `refs`, `transaction`, `reflock` | reading refs, and changing several at once by compare-and-swap |
//! | `revision` | what the names of revisions stand for |
//! | `objects`, `loose`, `tree` | objects whose hash is checked; small loose ones; building and editing trees |
//! | `durable` | what has to be on the disk before a decision is announced |
//! | `bounds` | how much of an object is read into memory |
//! | `notes` | receipts as git notes |
//! | `short` | short forms of what the rest of the house does all the time |
//! | `lock` | one runner per loop and machine |
//! | `command`, `remote`, `branch` | the only place that starts git, and what it is needed for |

pub(crate) mod bounds;
mod branch;
mod command;
mod config;
mod config_env;
mod discover;
mod durable;
mod lock;
pub(crate) mod loose;
mod names;
mod notes;
mod objects;
mod open;
mod reflock;
mod refs;
mod remote;
mod revision;
mod short;
mod signature;
#[cfg(test)]
pub(crate) mod testing;
mod transaction;
mod tree;

pub use bounds::Bound;
pub use branch::{BranchError, InUse};
pub use command::{CommandError, GitCommand, GitOutput, GitProgram, GitVersion, MINIMUM_VERSION};
pub use config::{Config, ConfigEntry, ConfigError, Overlays, Scope};
pub use lock::{Holder, LockError, LoopLock, WorktreesLock};
pub use names::{
    ASIDE_PREFIX, LOOPS_PREFIX, LoopId, LoopRef, LoopRefKind, LoopRefs, NOTES_PREFIX, NameError, RemoteNames,
};
pub use notes::NotesError;
pub use objects::{Durability, ObjectError};
pub use open::{Allow, Repo, RepoError};
pub use refs::RefError;
pub use remote::{PushEnd, PushRef, Pushed, RemoteError};
pub use revision::{RevisionError, resolve_revision};
pub use short::{TreesInMemory, signature};
pub use signature::{Signature, SignatureError};
pub use transaction::{Expect, RefChange};
pub use tree::{
    MAX_DEPTH, MAX_ENTRIES, Modes, PathEntry, TreeBuilder, TreeEntry, TreeError, TreeProblem, parse_tree,
};
