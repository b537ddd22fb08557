//! The relay, between two sockets and on a real TAP.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod failing;
mod rig;
mod socket_port;
mod sockets;
mod tap;
