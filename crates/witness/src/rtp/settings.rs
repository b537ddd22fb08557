//! The command lines of `rtp`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use humantime::parse_duration;
use stealtime_media::{BPL_G711, BPL_G711_CONCEALED};

const EXIT_CODES: &str = "Exit codes: 0 fine, 1 failed, 2 wrong usage, 3 over a threshold, 4 measured but not valid";

const ABOUT: &str = "\
Each stream sends 160 bytes every 20 ms, as a call with G.711 does (RTP payload type 0), so that any media relay takes
it for one. Instead of voice each packet carries its number and when it was due and sent.

Delays are from one stamp of CLOCK_MONOTONIC to another: both ends must be on one machine, in namespaces of one, or
the packets must come back (--reflect). Between two machines only the variation of the delay is told.

Examples:
  A path on this machine: start the receiver, then the sender.
    stealtime-agent rtp receive 127.0.0.1:40000 -n 200
    stealtime-agent rtp send 127.0.0.1:40000 -n 200 -D 30s
  Another machine: it sends everything back.
    there$  stealtime-agent rtp receive 0.0.0.0:40000 -n 200 --reflect
    here$   stealtime-agent rtp send there:40000 -n 200 -D 30s --reflected
  Through a media relay that gave each call a port of its own:
    stealtime-agent rtp send --destinations ports.txt -D 5m
  Both ways at once, on one port for both: start both ends within a second.
    stealtime-agent rtp talk 127.0.0.1:40000 --from 127.0.0.1:42000 -n 200 -D 30s
    stealtime-agent rtp talk 127.0.0.1:42000 --from 127.0.0.1:40000 -n 200 -D 30s";

/// `rtp`
#[derive(Debug, Args)]
#[command(after_help = ABOUT)]
pub struct Rtp {
    #[command(subcommand)]
    pub command: RtpCommand,
}

/// What `rtp` does.
#[derive(Debug, Subcommand)]
pub enum RtpCommand {
    /// Send streams of voice packets on an exact schedule
    #[command(after_help = EXIT_CODES)]
    Send(Send),
    /// Receive such streams: loss, delay, jitter, gaps and the estimated opinion of a listener, of each and of all
    #[command(after_help = EXIT_CODES)]
    Receive(Receive),
    /// Send and receive on the same ports, as phones do: both ends of each call speak, and tell what they hear
    #[command(after_help = EXIT_CODES)]
    Talk(Talk),
}

/// How streams share ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Ports {
    /// Each stream its own port, at both ends, as calls through a media relay have them
    Each,
    /// All streams the same port; only their source numbers (SSRC) differ
    One,
}

/// Whether the listener's equipment hides lost packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Concealment {
    /// Lost packets are silence
    None,
    /// As G.711 appendix I does it
    #[value(name = "g711-appendix-1")]
    AppendixOne,
}

/// What is sent, from where and where to.
#[derive(Debug, Clone, Args)]
pub struct Speaking {
    /// Where to send to; with a port each, stream i goes to this port + i x --step
    #[arg(value_name = "ADDRESS:PORT", required_unless_present = "destinations")]
    pub to: Option<SocketAddr>,
    /// Take the destinations from this file, one ADDRESS:PORT a line, a stream for each
    #[arg(long, value_name = "FILE", conflicts_with_all = ["to", "streams"])]
    pub destinations: Option<PathBuf>,
    /// Number of streams
    #[arg(short = 'n', long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=30_000))]
    pub streams: u32,
    /// Which ports the streams use
    #[arg(long, value_enum, default_value_t = Ports::Each)]
    pub ports: Ports,
    /// From the port of one stream to that of the next; RTP has the even ones
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub step: u16,
    /// The local address; with a port each, stream i sends from this port + i x --step [default: any]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub from: Option<SocketAddr>,
    /// How long each stream speaks, e.g. 10s, 1m30s
    #[arg(short = 'D', long, default_value = "10s", value_parser = parse_duration)]
    pub duration: Duration,
    /// Wait at least so long between two wake-ups; what becomes due meanwhile is sent together
    #[arg(long, value_name = "DURATION", default_value = "100us", value_parser = parse_duration)]
    pub grain: Duration,
    /// Begin each stream with this sequence number instead of a random one
    #[arg(long, value_name = "NUMBER")]
    pub first_sequence: Option<u16>,
}

/// `rtp send`
#[derive(Debug, Args)]
pub struct Send {
    #[command(flatten)]
    pub speaking: Speaking,
    /// The other end sends everything back (`receive --reflect`): tell delay and loss of the round trip
    #[arg(long)]
    pub reflected: bool,
    #[command(flatten)]
    pub placement: Placement,
    #[command(flatten)]
    pub judging: Judging,
    #[command(flatten)]
    pub showing: Showing,
}

/// `rtp receive`
#[derive(Debug, Args)]
pub struct Receive {
    /// Where to listen; with a port each, at this port + i x --step
    #[arg(value_name = "ADDRESS:PORT")]
    pub at: SocketAddr,
    /// Number of ports to listen at, with a port each
    #[arg(short = 'n', long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=30_000))]
    pub streams: u32,
    /// Which ports the streams use
    #[arg(long, value_enum, default_value_t = Ports::Each)]
    pub ports: Ports,
    /// From the port of one stream to that of the next; RTP has the even ones
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub step: u16,
    /// Send every packet of a stream back to where it came from
    #[arg(long)]
    pub reflect: bool,
    /// Stop after this long [default: when every stream has ended]
    #[arg(short = 'D', long, value_parser = parse_duration)]
    pub duration: Option<Duration>,
    #[command(flatten)]
    pub patience: Patience,
    #[command(flatten)]
    pub placement: Placement,
    #[command(flatten)]
    pub judging: Judging,
    #[command(flatten)]
    pub showing: Showing,
}

/// `rtp talk`
#[derive(Debug, Args)]
pub struct Talk {
    #[command(flatten)]
    pub speaking: Speaking,
    /// Listen for so long before the first word: start the other end meanwhile
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_duration)]
    pub lead: Duration,
    #[command(flatten)]
    pub patience: Patience,
    #[command(flatten)]
    pub placement: Placement,
    #[command(flatten)]
    pub judging: Judging,
    #[command(flatten)]
    pub showing: Showing,
}

/// How long something may not come.
#[derive(Debug, Clone, Args)]
pub struct Patience {
    /// How long to wait for the first packet
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    pub wait: Duration,
    /// Stop when no packet has come for so long, even if no stream has told its end
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    pub idle: Duration,
}

/// Where and how the thread runs; of `rtp talk` the one that speaks.
#[derive(Debug, Clone, Args)]
pub struct Placement {
    /// The CPU to run on [default: any]
    #[arg(short = 'a', long, value_name = "CPU")]
    pub cpu: Option<u32>,
    /// SCHED_FIFO priority; 0 for ordinary scheduling
    #[arg(short, long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=99))]
    pub priority: u32,
}

/// How what came is judged.
#[derive(Debug, Clone, Args)]
pub struct Judging {
    /// Play-out buffer: a packet that comes later than this after the fastest, counted from when each was due, is late
    #[arg(long, value_name = "DURATION", default_value = "60ms", value_parser = parse_duration)]
    pub buffer: Duration,
    /// How lost packets sound, for the estimated opinion
    #[arg(long, value_enum, default_value_t = Concealment::None)]
    pub concealment: Concealment,
    /// Exit with 3 if more than this share of all packets is lost
    #[arg(long, value_name = "PERCENT")]
    pub max_loss: Option<f64>,
    /// Exit with 3 if any stream is silent for longer
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub max_silence: Option<Duration>,
    /// Exit with 3 if the estimated opinion score of any stream is lower
    #[arg(long, value_name = "SCORE")]
    pub min_mos: Option<f64>,
}

impl Judging {
    /// Whether something was asked that a value can exceed.
    pub fn has_threshold(&self) -> bool {
        self.max_loss.is_some() || self.max_silence.is_some() || self.min_mos.is_some()
    }
}

/// What is shown, and when it ends.
#[derive(Debug, Clone, Args)]
pub struct Showing {
    /// End when standard input is closed; Ctrl-C does the same
    #[arg(long)]
    pub until_closed: bool,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub json: bool,
    /// Print no progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
}

impl Concealment {
    /// Bpl of the E-model.
    pub fn loss_robustness(self) -> f64 {
        match self {
            Self::None => BPL_G711,
            Self::AppendixOne => BPL_G711_CONCEALED,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        rtp: Rtp,
    }

    #[test]
    fn a_destination_is_needed_and_only_one_way_to_name_it() {
        let parse = |line: &str| Line::try_parse_from(line.split(' '));
        assert!(parse("rtp send 127.0.0.1:4000 -n 2").is_ok());
        assert!(parse("rtp send --destinations ports.txt").is_ok());
        assert!(parse("rtp talk 127.0.0.1:4000 --from 127.0.0.1:4100 -n 2 --lead 2s --idle 1s").is_ok());
        for line in
            ["rtp talk", "rtp send", "rtp send 127.0.0.1:4000 --destinations x", "rtp send --destinations x -n 3"]
        {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
