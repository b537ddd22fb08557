//! The tests of this crate as one program: what each would link and build again is built once.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod crate_graph;
mod file_graph;
mod frames;
mod golden;
mod schema;
