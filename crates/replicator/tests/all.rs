//! The tests of this crate as one program: what each would link and build again is built once.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod admission;
#[allow(dead_code, reason = "what it does with revoked certificates is used by the other crate")]
#[path = "../../shipping/tests/authority/mod.rs"]
mod authority;
mod ending;
mod hanging_register;
mod host_daemon;
mod hostile_hellos;
mod leaving;
mod offers;
mod recover;
mod standby_metrics;
mod strangers;
mod terminal_output;
