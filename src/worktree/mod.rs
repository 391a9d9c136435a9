//! Fresh linked worktrees, and candidates from exactly what a worktree holds.
//!
//! Everything happens in this process: no git is run, so no hook, filter, file system monitor or config of a
//! repository can take part. The order of use is
//!
//! 1. [`worktree_folder`] finds the private folder for worktrees, outside the repository;
//! 2. [`reclaim()`] removes what dead processes left there and in `worktrees/`;
//! 3. [`LinkedWorktree::create`] registers a worktree that `git worktree list` shows;
//! 4. [`checkout()`] fills it, or [`Overlaid::fill`] makes it the upper layer of an overlay over a [`Layer`];
//!    [`LinkedWorktree::link`] or [`LinkedWorktree::seal`] makes it one that git can work in;
//! 5. [`snapshot()`] or [`snapshot_overlaid`] stores what is there afterwards;
//! 6. [`LinkedWorktree::remove`] removes it, whatever happened to it.

mod access;
mod ahead;
mod checkout;
mod difference;
mod digest;
mod error;
mod ignore;
mod include;
mod index;
pub mod layer;
mod manifest;
mod names;
pub mod overlay;
mod owner;
mod pack;
mod pool;
mod reclaim;
mod registration;
mod remove;
pub mod sealed;
mod selection;
mod size;
mod snapshot;
mod sys;
#[cfg(all(test, unix))]
mod tests;
pub mod warm;

/// How many bytes can still be written to the file system of `path`; `None` where the system does not say.
pub fn free_bytes(path: &std::path::Path) -> Option<u64> {
    sys::free_bytes(path).ok()
}

pub use ahead::{advance, is_as_made};
pub use checkout::{CheckoutOptions, CheckoutStats, checkout};
pub use digest::{FolderDigest, digest_file, digest_folder};
pub use error::WorktreeError;
pub use ignore::BaseIgnores;
pub use include::{Collected, Included};
pub use index::write_index;
pub use layer::{Layer, reclaim_layers};
pub use manifest::{Holds, MAX_DEPTH, MAX_ENTRIES, Manifest};
pub use overlay::{Lies, Marks, Overlaid, Probe};
pub(crate) use owner::{has_ended, process_space};
pub use reclaim::{Reclaimed, reclaim};
pub use registration::{LinkedWorktree, NAME_PREFIX, worktree_folder, worktree_name};
pub use remove::remove_all;
pub use sealed::SealOptions;
pub use selection::Selection;
pub use size::holds_more;
pub use snapshot::{
    Snapshot, SnapshotOptions, SnapshotStats, Violation, ViolationKind, snapshot, snapshot_overlaid,
};
pub use sys::{Stat, Time};
pub use warm::{CopyStats, Layered, WarmLayers, copy_on_write, is_nothing_but};
