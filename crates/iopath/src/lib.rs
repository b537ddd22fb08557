//! The way of each disk request: from the guest's system call through its kernel, its emulator and the host to the
//! disk, and back to the task that waited for it.
//!
//! Pure: columns of traces in, parts of each request out. Nine moments ([`Moment`]) are looked for in the guest's
//! trace, the host's and the emulator's; between two that follow each other lies one [`Part`]. What lies between
//! moments of which one in the middle was not seen is *unexplained*, never zero. The parts of each request add up
//! to its duration, to the cycle.

mod error;
mod find;
mod moment;
mod occupation;
mod requests;
mod split;

pub use error::PathError;
pub use find::{Emulator, Guest, Traces};
pub use moment::{MOMENTS, Moment, Part};
pub use requests::Requests;
pub use split::{Found, split};
