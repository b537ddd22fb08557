//! What watches a machine from outside, and what runs in it to be watched: witnesses of what clients see while somebody
//! does something to it.
//!
//! `counter` is a workload whose losses can be proved, `count` and `ask` are its clients, `blackout` tells how long any
//! client saw nothing, `rtp` sends and receives streams of voice packets,
//! `echo` sends the messages of the probe `net` back. They are commands of `stealtime-agent`.

// Where nobody reads any more `eprintln!` panics; see `stealtime_console::remarks`.
#![deny(clippy::print_stderr)]

mod blackout;
mod counter;
mod counting;
mod echo;
mod ending;
mod judge;
mod kept;
mod placing;
mod round_trips;
mod rtp;
mod silence;
mod sockets;
mod stamps;
mod sys;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

pub use counter::{OnReboot, Server};

use crate::blackout::{Blackout, BlackoutError};
use crate::counter::Counter;
use crate::counting::{Ask, Count, CountError};
use crate::echo::Echo;
use crate::rtp::{Rtp, SocketError};

// No comment of the documentation: it would become the help of the command that this is flattened into.
#[derive(Debug, Subcommand)]
pub enum WitnessCommand {
    /// Serve a counter over TCP and UDP that keeps all its state in memory, which it rewrites and verifies
    Counter(Counter),
    /// Be a client of `counter`: report every outage and every acknowledged value that was lost
    Count(Count),
    /// Tell how long clients of a machine saw nothing, with probes every millisecond to its `counter` or to anything
    /// that answers
    Blackout(Blackout),
    /// Ask a `counter` for its state, or to verify its memory, reboot its machine or power it off
    Ask(Ask),
    /// Send back each message of `net`, over UDP and TCP, with when it came and when it went
    Echo(Echo),
    /// Send or receive streams of voice packets: loss, delay, jitter, gaps and estimated opinion of any media path
    Rtp(Rtp),
}

impl WitnessCommand {
    /// Does what was asked for; gives the exit code.
    pub fn run(&self) -> Result<ExitCode> {
        match self {
            Self::Counter(counter) => counter::run(counter),
            Self::Count(count) => counting::run(count),
            Self::Blackout(blackout) => blackout::run(blackout),
            Self::Ask(ask) => counting::run_ask(ask),
            Self::Echo(echo) => echo::run(echo),
            Self::Rtp(rtp) => rtp::run(rtp),
        }
    }
}

/// What to do about an error of a command.
pub fn hint(error: &anyhow::Error) -> Option<String> {
    let of_count = || Some(error.downcast_ref::<CountError>()?.hint());
    let of_socket = || Some(error.downcast_ref::<SocketError>()?.hint());
    let of_blackout = || Some(error.downcast_ref::<BlackoutError>()?.hint());
    of_count().or_else(of_socket).or_else(of_blackout).map(str::to_owned)
}

/// The exit code of a command that ended with an error.
pub fn exit_code(error: &anyhow::Error) -> ExitCode {
    error.downcast_ref::<BlackoutError>().map_or(ExitCode::FAILURE, blackout::exit_code)
}
