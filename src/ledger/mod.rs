//! The ledger: an append-only chain of signed record commits under `refs/loops/<id>/ledger`, and the only authority.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`record`], [`receipt`], [`state`] | the three JSON files of a record's tree |
//! | [`fold`] | state before, one record, state after; which record may follow which |
//! | [`message`] | the commit message, a function of the record |
//! | [`append`] | drafting, signing and publishing records by compare-and-swap |
//! | [`load`] | reading one record commit, unverified |
//! | [`verify`] | the whole chain: signatures, positions, roles, fold and every decision again |
//! | [`parent`] | what a renewed contract says of its parent, compared with the parent's ledger |
//! | [`waypoint`] | up to where a ledger was verified before, for whoever appends to it |
//! | [`glance`] | the two ends of a chain only, for lists |
//! | [`holdout`] | what a holdout's end comes to |
//! | [`lasting`] | what is told of a candidate of lasting code, and what that comes to |
//! | [`observe`] and [`rederive`] | what a check showed; every verdict and decision again from the evidence |
//! | [`trust`] | the trust root: who is known here, and which keys are revoked |

pub mod agents;
pub mod append;
pub mod fold;
pub mod glance;
pub mod holdout;
pub mod lasting;
pub mod load;
pub mod message;
pub mod observe;
pub mod outside;
pub mod parent;
pub mod receipt;
pub mod record;
pub mod rederive;
pub mod schemas;
pub mod state;
#[cfg(test)]
mod tests;
pub mod trust;
pub mod verify;
pub mod waypoint;
