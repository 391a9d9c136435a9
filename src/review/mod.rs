//! What a promotion of lasting code rests on.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`citation`] | places in the candidate's tree: `path:line`, `path:start-end`, and paths |
//! | [`form`] | what a reviewer fills in with an editor |
//! | [`identity`] | which agent and which model did something |
//! | [`policy`] | the conditions of a promotion |
//! | [`packet`] | the promotion packet: what its fields must be, and what of the tree is frozen with it |

pub mod citation;
pub mod form;
pub mod identity;
pub mod packet;
pub mod policy;

pub use packet::{Cited, FrozenPacket, Packet};
