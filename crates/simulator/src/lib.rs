//! A simulator of one CPU: jobs, interrupts, scheduling decisions, caches, and a share of the CPU.
//!
//! It judges `stealtime-schedulability` in its tests and benchmark and shares no code with it: not the tasks, not the
//! supplies, not the random numbers. Whatever it shows can happen; that something does not happen proves nothing.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what is drawn is a share of a number that fits"
)]

mod draw;
mod machine;
mod random;
mod scenario;
mod service;

pub use draw::{Drawn, Scale, draw, interferers};
pub use machine::{Interrupt, Job, Machine, Order, Outcome};
pub use random::Random;
pub use scenario::{Interferer, Kernel, Pattern, Spec, play, play_beside};
pub use service::{Reservation, Service};
