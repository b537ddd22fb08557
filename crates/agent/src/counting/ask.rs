//! One question to a counter: its state, a check of its memory, a reboot, the end.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde::Serialize;
use thiserror::Error;

use crate::counter::protocol::{Answer, Operation, Outcome, Request};
use crate::counting::VIOLATED;
use crate::counting::judge::hexadecimal;
use crate::counting::report::print_json;
use crate::counting::settings::{Ask, Question};
use crate::counting::silence::Moment;
use crate::counting::wire::{Effort, TcpWire, Wire, WireError};

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum AskError {
    /// Nobody answered in time.
    #[error("no answer over TCP from {address} within {}", humantime::format_duration(*wait))]
    NoAnswer {
        /// Who was asked.
        address: SocketAddr,
        /// For how long.
        wait: Duration,
    },
    /// The connection ended.
    #[error("the counter at {address} did not answer")]
    Wire {
        /// Who was asked.
        address: SocketAddr,
        /// Why.
        source: WireError,
    },
    /// It does not do that.
    #[error("the counter at {0} refused: it reboots a machine, or powers it off, only as its first process")]
    Refused(SocketAddr),
}

/// A counter's state, as a document.
#[derive(Debug, Clone, Serialize)]
pub struct Told {
    outcome: Outcome,
    total: u64,
    digest: String,
    guest_monotonic_ns: u64,
    guest_monotonic_raw_ns: u64,
    guest_realtime_ns: u64,
    /// How many pages it rewrites.
    pub pages: u64,
    /// How often one was verified.
    pub verified: u64,
    /// How often one was wrong.
    pub mismatches: u64,
    boot_id: String,
    life_id: String,
}

impl Told {
    fn of(answer: &Answer) -> Self {
        Self {
            outcome: answer.outcome,
            total: answer.total,
            digest: format!("{:016x}", answer.digest),
            guest_monotonic_ns: answer.guest_ns,
            guest_monotonic_raw_ns: answer.raw_ns,
            guest_realtime_ns: answer.real_ns,
            pages: answer.pages,
            verified: answer.verified,
            mismatches: answer.mismatches,
            boot_id: hexadecimal(&answer.boot),
            life_id: hexadecimal(&answer.life),
        }
    }
}

/// `stealtime-agent ask`
pub fn run(ask: &Ask) -> anyhow::Result<ExitCode> {
    let operation = match ask.question {
        Question::Status => Operation::Status,
        Question::Check => Operation::Check,
        Question::Reboot => Operation::Reboot,
        Question::PowerOff => Operation::PowerOff,
    };
    let told = question(ask.address, operation, ask.wait)?;
    print_json(&told)?;
    Ok(if told.mismatches > 0 { ExitCode::from(VIOLATED) } else { ExitCode::SUCCESS })
}

/// Asks over a connection of its own.
pub fn question(address: SocketAddr, operation: Operation, wait: Duration) -> Result<Told, AskError> {
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
    Ok(Told::of(&answer))
}
