//! Which paths a candidate changed, and whether it may.
//!
//! Nothing here reads a work tree, an index or a line of a worker's output: the input is trees, the output is a
//! judgement. The same functions judge a candidate when it is made and again when a ledger is verified.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`pattern`] | path sets in gitignore notation |
//! | [`fold`] | when two names are one file on some machine |
//! | [`names`] | names that git or a file system would take for something else |
//! | [`tree`] and [`edit`] | trees, read strictly and edited |
//! | [`diff`] | the changes between two trees |
//! | [`frozen`] | the check paths of the base, and the tree that the check sees |
//! | [`mod@judge`] | rows 1, 2 (paths), 5 and 6 of the decision |

pub mod diff;
pub mod edit;
pub mod fold;
pub mod frozen;
pub mod judge;
pub mod names;
pub mod pattern;
pub mod tree;

pub use diff::{Change, DiffError, changes};
pub use frozen::{FreezeError, Frozen, FrozenEntry, check_tree, freeze, overlap};
pub use judge::{Paths, TreeJudgement, Violation, judge};
pub use pattern::{PathSet, PatternError};
pub use tree::Mode;

#[cfg(test)]
mod testing;
