//! The command lines of the counter's clients, and what cannot be counted.

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use humantime::{format_duration, parse_duration};
use serde::{Serialize, Serializer};
use stealtime_console::quantities::saturating_nanoseconds;
use thiserror::Error;

use crate::counting::record::Protocol;

const EXIT_CODES: &str = "Exit codes: 0 no violation, 1 failed, 2 wrong usage, 3 violations found";

/// `count`; as a document only what bears on the result.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of a command line")]
#[derive(Debug, Clone, Args, Serialize)]
#[command(after_help = EXIT_CODES, group = clap::ArgGroup::new("transport").required(true).multiple(true).args(["tcp", "udp"]))]
pub struct Count {
    /// Count over a TCP connection to this address
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub tcp: Option<SocketAddr>,
    /// Count over UDP to this address
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub udp: Option<SocketAddr>,
    /// Number of concurrent flows per protocol, each with its own client id and connection
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub flows: u32,
    /// Time between the requests of a flow; a request waits for the answer to the one before
    #[arg(short, long, value_name = "DURATION", default_value = "10ms", value_parser = parse_duration)]
    #[serde(rename = "interval_ns", serialize_with = "as_nanoseconds")]
    pub interval: Duration,
    /// How long to count, e.g. 10s, 1m30s [default: until interrupted]
    #[arg(short = 'D', long, value_parser = parse_duration)]
    #[serde(skip)]
    pub duration: Option<Duration>,
    /// Count until standard input is closed
    #[arg(long)]
    #[serde(skip)]
    pub until_closed: bool,
    /// Report every outage longer than this
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = parse_duration)]
    #[serde(rename = "silence_ns", serialize_with = "as_nanoseconds")]
    pub silence: Duration,
    /// Send a datagram again after this long without an answer
    #[arg(long, value_name = "DURATION", default_value = "50ms", value_parser = parse_duration)]
    #[serde(rename = "resend_ns", serialize_with = "as_nanoseconds")]
    pub resend: Duration,
    /// How long to wait for the first answers
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    #[serde(skip)]
    pub wait: Duration,
    /// Let TCP retransmit at a steady pace instead of exponential backoff (`TCP_THIN_LINEAR_TIMEOUTS`)
    #[arg(long, requires = "tcp")]
    pub linear_timeouts: bool,
    /// At the end, have the counter verify all its memory (over a separate TCP connection)
    #[arg(long, requires = "tcp")]
    #[serde(skip)]
    pub check: bool,
    /// Print one JSON document on standard output
    #[arg(long)]
    #[serde(skip)]
    pub json: bool,
    /// Print no progress on standard error
    #[arg(short, long)]
    #[serde(skip)]
    pub quiet: bool,
}

fn as_nanoseconds<To: Serializer>(duration: &Duration, to: To) -> Result<To::Ok, To::Error> {
    to.serialize_u64(saturating_nanoseconds(*duration))
}

/// What to ask a counter once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Question {
    /// Its state
    Status,
    /// To verify all its memory, then its state
    Check,
    /// To reboot its machine
    Reboot,
    /// To power its machine off
    PowerOff,
}

/// `ask`
#[derive(Debug, Clone, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Ask {
    /// Where the counter answers over TCP
    #[arg(value_name = "ADDRESS:PORT")]
    pub address: SocketAddr,
    /// What to ask
    #[arg(value_enum, default_value_t = Question::Status)]
    pub question: Question,
    /// How long to wait for the answer
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    pub wait: Duration,
}

/// Why nothing was counted.
#[derive(Debug, Error)]
pub enum CountError {
    #[error("no answer over {protocol} from {address} within {}", format_duration(*wait))]
    NoAnswer { protocol: Protocol, address: SocketAddr, wait: Duration },
    #[error("counting over {protocol} to {address} cannot begin: {reason}")]
    Kernel { protocol: Protocol, address: SocketAddr, reason: String },
    /// Every pause between two requests would be one.
    #[error("--silence {} is not longer than --interval {}", format_duration(*silence), format_duration(*interval))]
    Silence { silence: Duration, interval: Duration },
}

impl CountError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoAnswer { .. } => "is the counter up, and is its network? --wait makes this wait longer",
            Self::Kernel { .. } => "is the address right for this network namespace?",
            Self::Silence { .. } => "give a longer --silence",
        }
    }
}
