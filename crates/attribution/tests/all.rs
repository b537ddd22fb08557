//! The tests of this crate as one program: what each would link and build again is built once.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod against_naive;
mod causes;
mod crossing;
mod lost_wake_ups;
mod missing_switches;
mod naive;
mod recording;
mod refused_columns;
mod user_mode;
