//! What a promotion of lasting code rests on.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`citation`] | places in the candidate's tree: `path:line`, `path:start-end`, and paths |
//! | [`packet`] | the promotion packet: what its fields must be, and what of the tree is frozen with it |

pub mod citation;
pub mod packet;

pub use packet::{Cited, FrozenPacket, Packet};
