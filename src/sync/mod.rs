//! Sharing loops through a remote: fetch, verify, bring together, push; and who alone runs a shared loop.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`plan`] | what is to be done with one ledger; pure |
//! | [`exchange`] | one synchronisation: fetched, brought together, pushed, and again if somebody was faster |
//! | `bring` | one loop: from what both sides have to what both shall have |
//! | [`reappend`] | own records after those of the remote, signed anew and decided again |
//! | [`receipts`] | the notes of both sides as one |
//! | [`seen`] | where ledgers were on remotes |
//! | [`told`] | what came of it |
//!
//! The order makes a killed process harmless. Fetching makes objects and no ref. What is not carried over is put under a ref
//! of its own before the ledger moves; the ledger moves by compare-and-swap; the remote gets everything in one atomic push,
//! each ref with a lease. Whatever was not done is found out again from the refs of both sides.

mod bring;
pub mod exchange;
pub mod plan;
pub mod reappend;
pub mod receipts;
pub mod seen;
pub mod told;

pub use exchange::{Exchange, Request};
pub use told::LoopEnd;
