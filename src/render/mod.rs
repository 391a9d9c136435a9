//! What people read: the same facts as the JSON, told in words.

pub mod commands;
pub mod diff;
pub mod explain;
pub mod line;
#[cfg(feature = "measure")]
pub mod measure;
pub mod review;
pub mod status;
pub mod why;
