//! The terms of a loop. So far: the two value types with a text form of their own.

pub mod duration;
pub mod money;

pub use duration::Seconds;
pub use money::Dollars;
