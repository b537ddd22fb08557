//! The tests of this crate as one program: what each would link and build again is built once.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may panic")]

mod authority;
mod certificates;
mod epochs;
mod frames;
mod hello;
mod links;
mod previous_version;
mod streams;
