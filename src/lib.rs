//! The map of the house. A loop lives in git: `ledger` is its memory, `contract` its law, `decide` its judge.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`cli`] | the command line: one file per command, streams, colour, hints |
//! | [`error`] and [`exit`] | kinds and hints; the one table of halt reasons and exit codes |
//! | [`contract`] | `loop.toml` as types, with faults that name their place; resolved and frozen as `contract.json` |
//! | [`ledger`] | records, receipts, state and its fold; append by compare-and-swap; verification |
//! | [`decide`] | the decision: evidence in, decision out |
//! | [`explain`] | why a loop halted: trajectory, verdict, the next command |
//! | [`iterate`] | the iteration as a transaction; crash recovery; resume |
//! | [`worker`] | what a worker says it used |
//! | [`check`] | test reports, metrics, the judgement of one run: bytes in, facts out |
//! | [`sandbox`] | running the worker and the check: isolation, environment, process trees, output caps |
//! | [`worktree`] | fresh linked worktrees; candidates from exactly what a worktree holds |
//! | [`guard`] | which paths a candidate changed, and whether it may |
//! | `measure` | by how much a change makes a project larger (feature `measure`) |
//! | [`review`] | the promotion packet of lasting code and what it cites |
//! | [`gate`] | what a push brings, and whether it may leave; the hooks that ask |
//! | [`sign`] | SSH signatures, key sources, allowed signers |
//! | [`git`] | repository handle, refs, trees, notes; the only place that spawns git |
//! | [`render`] | what people read |
//! | [`escape`] | hostile text, shown so that it can hide nothing |
//! | [`canonical`], [`money`], [`oid`], [`at`] | canonical JSON and hashes; micro-dollars; object ids; times |
//! | [`sync`] | sharing loops through a remote; who alone runs a shared one |
//! | [`setup`] | what `git loop init` looks at and writes |
//! | [`host`] | the environment that this process was started in |
//! | [`crash`] | where tests may have this process killed |

pub mod at;
pub mod canonical;
pub mod check;
pub mod cli;
pub mod contract;
pub mod crash;
pub mod decide;
pub mod error;
pub mod escape;
pub mod exit;
pub mod explain;
pub mod gate;
pub mod git;
pub mod guard;
pub mod host;
pub mod iterate;
pub mod ledger;
#[cfg(feature = "measure")]
pub mod measure;
pub mod money;
pub mod oid;
pub mod render;
pub mod review;
pub mod sandbox;
pub mod setup;
pub mod sign;
pub mod sync;
pub mod worker;
pub mod worktree;
