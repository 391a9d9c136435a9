//! The terms of a loop: from the text of `loop.toml` to a validated, typed [`LoopFile`]. No repository is needed here.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`mod@file`] (with `judge`, `sandbox`, `worker`) and [`lasting`] | the types: the one source of the keys, their defaults, their ranges and their documentation |
//! | [`duration`], [`bytes`] and [`money`] | the value types with a text form of their own |
//! | `shape` | the types' JSON Schema as a tree that can be walked beside a TOML document |
//! | [`mod@parse`] with `walk` and `hint` | text to types: positions, unknown keys, wrong types, ranges |
//! | `validate`, `pattern`, `lint` | the rules that a schema cannot say; faults and warnings |
//! | [`problem`] | how a fault of the file is told: place, message, excerpt, hint |
//! | [`resolve`] and [`frozen`], with `terms` | the file resolved against a base commit; `contract.json`, and what it may say |
//! | [`renewal`] and [`overrides`] | what a contract says of the one that it renews; limits from the command line |
//! | [`scaffold`] | a first `loop.toml` for the project that is found |
//! | [`table`] | the generated reference of every key, and the JSON Schema |

pub mod bytes;
pub mod duration;
pub mod file;
pub mod frozen;
mod hint;
mod judge;
pub mod lasting;
mod lint;
pub mod money;
pub mod overrides;
pub mod parse;
pub(crate) mod pattern;
pub mod problem;
pub mod renewal;
pub mod resolve;
mod sandbox;
pub mod scaffold;
mod shape;
pub mod table;
mod terms;
#[cfg(test)]
mod tests;
mod validate;
mod walk;
mod worker;

pub use bytes::Bytes;
pub use duration::Seconds;
pub use file::{
    Adapter, Class, Direction, LoopFile, OnFailure, OnViolation, Preset, ReportFormat, UnknownCost, Usage,
};
pub use frozen::{CommandLine, Contract, ContractError, Guards, NetworkTerms, PathSets, SetupTerms};
pub use lasting::LastingTerms;
pub use money::Dollars;
pub use overrides::LimitOverrides;
pub use parse::{Parsed, parse, parse_bytes};
pub use problem::{LoopFileError, Problem, Warning};
pub use renewal::{ChangedTerm, RenewalTerms};

/// The id of the schema of `loop.toml`.
pub const SCHEMA_ID: &str = "git-loop/loop-file/v1";
