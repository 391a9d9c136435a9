//! The map of the house. A loop lives in git: `ledger` is its memory, `contract` its law, `decide` its judge.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`cli`] | the command line: one file per command, streams, colour, hints |
//! | [`error`] and [`exit`] | kinds and hints; the one table of halt reasons and exit codes |
//! | [`git`] | repository handle, refs, trees, notes; the only place that spawns git |
//! | [`sign`] | SSH signatures, key sources, allowed signers |
//! | [`sandbox`] | running the worker and the check: isolation, environment, process trees, output caps |
//! | [`worktree`] | fresh linked worktrees; candidates from exactly what a worktree holds |
//! | [`check`] | test reports, metrics, usage reports: bytes in, facts out |
//! | [`gate`] | what refuses a push: the tripwire, the rules of ledgers, the hooks |
//! | [`contract`] | the terms of a loop: `loop.toml` as types, with faults that name their place |

pub mod cli;
pub mod contract;
pub mod error;
pub mod exit;
pub mod gate;
