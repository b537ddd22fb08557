//! One question to a counter: its state, a check of its memory, a reboot, the end.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use stealtime_console::document::{OVER_THRESHOLD, print_json};
use thiserror::Error;

use crate::counter::protocol::{Answer, Operation, Outcome, Request};
use crate::counting::settings::{Ask, Question};
use crate::counting::wire::{Effort, TcpWire, Wire, WireError};
use crate::silence::Moment;

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum AskError {
    #[error("no answer over TCP from {address} within {}", humantime::format_duration(*wait))]
    NoAnswer { address: SocketAddr, wait: Duration },
    #[error("the counter at {address} did not answer")]
    Wire { address: SocketAddr, source: WireError },
    #[error("the counter at {0} refused: it reboots a machine, or powers it off, only as its first process")]
    Refused(SocketAddr),
}

/// `stealtime-agent ask`
pub fn run(ask: &Ask) -> anyhow::Result<ExitCode> {
    let operation = match ask.question {
        Question::Status => Operation::Status,
        Question::Check => Operation::Check,
        Question::Reboot => Operation::Reboot,
        Question::PowerOff => Operation::PowerOff,
    };
    let state = question(ask.address, operation, ask.wait)?;
    print_json(&state)?;
    Ok(if state.mismatches > 0 { ExitCode::from(OVER_THRESHOLD) } else { ExitCode::SUCCESS })
}

/// Asks over a connection of its own.
pub fn question(address: SocketAddr, operation: Operation, wait: Duration) -> Result<Answer, AskError> {
    let deadline = Instant::now() + wait;
    let stop = || Instant::now() >= deadline;
    let lost = |source| AskError::Wire { address, source };
    let none = || AskError::NoAnswer { address, wait };
    let connected = TcpWire::connect(address, false, &stop).map_err(|error| lost(error.into()))?;
    let mut wire = connected.ok_or_else(none)?;
    let request = Request { operation, client: 0, sequence: 0, sent_ns: Moment::now().monotonic_ns };
    let answer = wire.exchange(&request, &stop, &mut Effort::default()).map_err(lost)?.ok_or_else(none)?;
    if answer.outcome == Outcome::Refused {
        return Err(AskError::Refused(address));
    }
    Ok(answer)
}
