//! The command line of `blackout`, and what cannot be asked for.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use clap::Args;
use humantime::{format_duration, parse_duration};
use thiserror::Error;

use crate::blackout::sight::Way;

const HELP: &str = "\
The other side of --tcp and --udp is `stealtime-agent counter --tcp 7000 --udp 7000`, this same static binary. Where \
nothing can be installed, --ping and --connect find blackouts too, but no forgotten value.

Exit codes: 0 fine, 1 failed, 2 wrong usage, 3 a blackout longer than --max-gap, or a value forgotten, 4 this machine \
stood still itself for longer than --max-gap, or could not keep the pace";

/// A shorter interval is beyond what a thread that sleeps in between can keep.
const SHORTEST: Duration = Duration::from_micros(100);

/// A connection is more work for both sides than a packet.
pub const CONNECT_INTERVALS: u32 = 20;

/// `blackout`
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of a command line")]
#[derive(Debug, Clone, Args)]
#[command(after_help = HELP, group = clap::ArgGroup::new("way").required(true).multiple(true).args(["tcp", "udp", "ping", "connect"]))]
pub struct Blackout {
    /// Ask a counter over a TCP connection
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub tcp: Option<SocketAddr>,
    /// Ask a counter over UDP
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub udp: Option<SocketAddr>,
    /// Send ICMP echo requests
    #[arg(long, value_name = "ADDRESS")]
    pub ping: Option<IpAddr>,
    /// Open a TCP connection, and reset it, every 20 intervals
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub connect: Option<SocketAddr>,
    /// From one probe to the next, on an absolute time line
    #[arg(short, long, value_name = "DURATION", default_value = "500us", value_parser = parse_duration)]
    pub interval: Duration,
    /// How long to watch, e.g. 10s, 5m [default: until interrupted]
    #[arg(short = 'D', long, value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// Watch until standard input is closed
    #[arg(long)]
    pub until_closed: bool,
    /// List longer silences [default: 3 intervals, at least 3 ms, and twice what 95 % of the answers vary by]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub threshold: Option<Duration>,
    /// Exit with code 3 if a blackout was longer
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub max_gap: Option<Duration>,
    /// How long to wait for the first answers
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = parse_duration)]
    pub wait: Duration,
    /// Open another TCP connection when one was silent for so long
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    pub reconnect: Duration,
    /// `SCHED_FIFO` priority; 0 for ordinary scheduling
    #[arg(short, long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=99))]
    pub priority: u32,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub json: bool,
    /// Print progress on standard error as JSON, a line each 200 ms
    #[arg(long, conflicts_with = "quiet")]
    pub json_progress: bool,
    /// Print no progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
}

/// Why nothing was watched.
#[derive(Debug, Error)]
pub enum BlackoutError {
    #[error("no answer over {way} from {to} within {}{}", format_duration(*wait), because(reason.as_ref()))]
    NoAnswer { way: Way, to: String, wait: Duration, reason: Option<String> },
    #[error("what answers over {way} at {to} is no counter")]
    NoCounter { way: Way, to: String },
    #[error("{to} cannot be asked over {way}: {reason}")]
    Kernel { way: Way, to: String, reason: String },
    #[error("ICMP echo is not permitted to this process")]
    Permission,
    #[error("an interval of {} is shorter than {}, which no sleeping thread keeps", format_duration(*.0), format_duration(SHORTEST))]
    Interval(Duration),
    #[error("a threshold of {} is shorter than 3 intervals of {}", format_duration(*threshold), format_duration(*interval))]
    Threshold { threshold: Duration, interval: Duration },
}

fn because(reason: Option<&String>) -> String {
    reason.map(|reason| format!(" ({reason})")).unwrap_or_default()
}

impl BlackoutError {
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoAnswer { way: Way::Ping, .. } => {
                "is it up, and does a firewall drop ICMP? --tcp, --udp or --connect"
            }
            Self::NoAnswer { way: Way::Connect, .. } => "is a service listening at that port?",
            Self::NoAnswer { .. } | Self::NoCounter { .. } => {
                "run `stealtime-agent counter --tcp 7000 --udp 7000` there, or take --ping or --connect"
            }
            Self::Kernel { .. } => "is the address right, and is there a route to it?",
            Self::Permission => {
                "run it as root, or permit it: sysctl net.ipv4.ping_group_range=\"0 2147483647\"; or take --connect"
            }
            Self::Interval(_) => "take --interval 1ms",
            Self::Threshold { .. } => {
                "answers come an interval apart: take a longer --threshold or a shorter --interval"
            }
        }
    }

    /// Whether it is the command that is wrong.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Interval(_) | Self::Threshold { .. })
    }
}

impl Blackout {
    /// Refuses what cannot be.
    pub fn check(&self) -> Result<(), BlackoutError> {
        if self.interval < SHORTEST {
            return Err(BlackoutError::Interval(self.interval));
        }
        match self.threshold {
            Some(threshold) if threshold < self.interval * 3 => {
                Err(BlackoutError::Threshold { threshold, interval: self.interval })
            }
            _ => Ok(()),
        }
    }
}
