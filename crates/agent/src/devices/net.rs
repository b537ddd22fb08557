//! `net`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use stealtime_console::quantities::{nanoseconds, parse_bytes};
use stealtime_wire::{Net, NetTransport, Probe};

use super::measuring::{Measure, measure};

/// How messages travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Transport {
    Udp,
    /// One connection
    Tcp,
}

/// `net`
#[derive(Debug, Args)]
pub struct NetArguments {
    /// Where `stealtime-agent echo` listens
    #[arg(value_name = "ADDRESS:PORT")]
    peer: String,
    /// How messages travel
    #[arg(short, long, value_enum, default_value = "udp")]
    transport: Transport,
    /// The size of each message, from 48 B to 65 kB
    #[arg(long, value_name = "SIZE", default_value = "64B", value_parser = parse_message)]
    size: u32,
    /// How many messages may be under way at a time [default: 1, of an open loop 1024]
    #[arg(short, long, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    depth: Option<u32>,
    /// Open loop: a message is due each interval, whatever became of those before. Default: a closed loop, in which
    /// each answer is followed by another message
    #[arg(short, long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    interval: Option<Duration>,
    /// A message that is not answered for so long is lost
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = humantime::parse_duration)]
    patience: Duration,
    #[command(flatten)]
    measure: Measure,
}

fn parse_message(text: &str) -> Result<u32, String> {
    let bytes = parse_bytes(text)?;
    match u32::try_from(bytes) {
        Ok(bytes) if (48..=65_000).contains(&bytes) => Ok(bytes),
        _ => Err(format!("{text:?} is no size of a message: from 48 B to 65 kB")),
    }
}

/// `stealtime-agent net`
pub fn run(arguments: &NetArguments) -> Result<ExitCode> {
    let net = Net {
        peer: arguments.peer.clone(),
        transport: match arguments.transport {
            Transport::Udp => NetTransport::Udp,
            Transport::Tcp => NetTransport::Tcp,
        },
        message_bytes: arguments.size,
        depth: arguments.depth.unwrap_or(if arguments.interval.is_some() { 1024 } else { 1 }),
        interval_ns: arguments.interval.map(nanoseconds).transpose()?,
        patience_ns: nanoseconds(arguments.patience)?,
    };
    measure(Probe::Net(net), &arguments.measure, "stealtime-agent net")
}
