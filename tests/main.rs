//! The one integration test binary: it drives the real executable against real git repositories.

mod support;

mod ahead;
mod attacks;
mod bad_input;
mod cheats;
mod containers;
mod decisions;
mod docs;
mod explain;
mod field_reports;

mod demo;
mod faults;
mod findings;
mod formats;
mod gate;
mod golden;
mod holdout;
mod hostile;
mod init;
mod interrupt;
mod isolation;
mod keys;
mod kills;
mod land;
mod lasting;
mod loops;
#[cfg(feature = "measure")]
mod measure;
mod orchestrate;
#[cfg(unix)]
mod output;
mod places;
mod power;
mod preflight;
mod promotion;
mod readers;
mod review;
#[cfg(target_os = "linux")]
mod sandboxes;
mod second;
mod streams;
mod sync;
mod told;
mod trees;
mod verify;
mod waypoints;
