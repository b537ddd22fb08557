//! The tests of this crate as one program: what each would link and build again is built once.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod curve;
mod design;
mod edf_details;
mod generators;
mod independent;
mod margins;
mod peer;
mod rigs;
mod simulation;
mod supply;
mod worked_examples;
