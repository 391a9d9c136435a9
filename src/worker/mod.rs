//! What a worker leaves behind besides its worktree.

pub mod evidence;
pub mod usage;
