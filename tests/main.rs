//! The one integration test binary: it drives the real executable against real git repositories.

mod support;

mod bad_input;
mod docs;

mod demo;
mod gate;
mod interrupt;
mod isolation;
mod loops;
mod places;
mod review;
mod verify;
