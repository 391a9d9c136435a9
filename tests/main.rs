//! The one integration test binary: it drives the real executable against real git repositories.

mod support;

mod attacks;
mod bad_input;
mod decisions;
mod docs;
mod explain;

mod demo;
mod findings;
mod formats;
mod gate;
mod golden;
mod hostile;
mod init;
mod interrupt;
mod isolation;
mod keys;
mod loops;
mod orchestrate;
mod places;
mod preflight;
mod review;
mod second;
mod streams;
mod verify;
mod waypoints;
