//! The tests of this crate as one program: what each would link and build again is built once.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod announcing;
mod bypass_rules;
mod framing;
mod hold_model;
