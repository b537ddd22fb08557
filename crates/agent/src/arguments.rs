//! The command line. Short flags follow rt-tests where they do not clash; `-h` is help.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::counter::Counter;
use crate::counting::{Ask, Count};
use crate::cpu_list::CpuList;

/// Measures what a machine takes from a thread that wants to run: ticks, switches, wake-ups.
#[derive(Debug, Parser)]
#[command(name = "stealtime-agent", version, after_help = EXIT_CODES)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str =
    "Exit codes: 0 fine, 1 failed, 2 wrong usage, 3 over --max-overhead, 4 measured but not valid";

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a fixed busy loop back to back and show what interrupts it
    #[command(after_help = EXIT_CODES)]
    Tick(Tick),
    /// Let threads of one priority yield to each other and time the switches
    #[command(after_help = EXIT_CODES)]
    Switch(Switch),
    /// Sleep until absolute times and show how late the thread runs again (as cyclictest)
    #[command(after_help = EXIT_CODES)]
    Wakeup(Wakeup),
    /// Load CPUs with arithmetic or with copying, always or in phases, and show how much was done
    #[command(after_help = EXIT_CODES)]
    Load(Load),
    /// Count for clients over TCP and UDP, keep all in memory, and rewrite and verify memory meanwhile
    Counter(Counter),
    /// Count with a counter, and show every silence and every acknowledged value that it forgot
    Count(Count),
    /// Ask a counter for its state, to verify its memory, to reboot its machine or to power it off
    Ask(Ask),
    /// Talk frames with a control plane on standard input and output
    Serve,
    /// Run a command that dies with the parent of this process, however that dies
    Guard(Guard),
    /// Print the rate of the time-stamp counter as JSON
    Clock,
    /// Keep the clock of this guest with its real-time clock, which goes on while the guest is stopped (needs root)
    Discipline,
    /// Put back what a killed agent had changed on this machine
    Restore(Restore),
}

/// What all probes share.
#[derive(Debug, Args)]
pub struct Common {
    /// The CPU to measure, or several over which the probe may roam, e.g. 1 or 0,2-3 [default: the last one that this
    /// process may run on]
    #[arg(short = 'a', long, value_name = "CPUS", value_parser = CpuList::parse)]
    pub cpu: Option<CpuList>,
    /// How long to measure, e.g. 10s, 1m30s
    #[arg(short = 'D', long, default_value = "10s", value_parser = humantime::parse_duration)]
    pub duration: Duration,
    /// SCHED_FIFO priority of the measuring thread; 0 for ordinary scheduling
    #[arg(short, long, default_value_t = 80, value_parser = clap::value_parser!(u32).range(0..=99))]
    pub priority: u32,
    /// Stop after this many samples
    #[arg(short = 'l', long, value_name = "COUNT")]
    pub max_samples: Option<u64>,
    /// Lift RT throttling while measuring, and put it back (needs root)
    #[arg(long)]
    pub lift_rt_throttling: bool,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub json: bool,
    /// Keep every sample with its time in this Arrow IPC stream file
    #[arg(long, value_name = "FILE")]
    pub samples: Option<PathBuf>,
    /// End with code 3 if the longest sample exceeds the floor by more than this, e.g. 100us
    #[arg(short = 'b', long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub max_overhead: Option<Duration>,
    /// Test the instrument: a thread of higher priority takes the CPU away this often ...
    #[arg(long, value_name = "DURATION", requires = "inject_steal", value_parser = humantime::parse_duration)]
    pub inject_every: Option<Duration>,
    /// ... for this long
    #[arg(long, value_name = "DURATION", requires = "inject_every", value_parser = humantime::parse_duration)]
    pub inject_steal: Option<Duration>,
    /// No progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
}

/// `tick`
#[derive(Debug, Args)]
pub struct Tick {
    /// The wanted duration of one busy loop when nothing interrupts it
    #[arg(long = "loop", default_value = "68us", value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub loop_duration: Duration,
    /// Iterations of the busy loop instead of a calibration; 0 for an empty loop
    #[arg(long, conflicts_with = "loop_duration")]
    pub iterations: Option<u64>,
    /// What all probes share.
    #[command(flatten)]
    pub common: Common,
}

/// `switch`
#[derive(Debug, Args)]
pub struct Switch {
    /// How many threads
    #[arg(short, long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub threads: u32,
    /// What all probes share.
    #[command(flatten)]
    pub common: Common,
}

/// `wakeup`
#[derive(Debug, Args)]
pub struct Wakeup {
    /// The period
    #[arg(short, long, default_value = "1ms", value_parser = humantime::parse_duration)]
    pub interval: Duration,
    /// What all probes share.
    #[command(flatten)]
    pub common: Common,
}

/// What `load` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LoadKind {
    /// Arithmetic that fits the first-level cache
    Cpu,
    /// Copying from one block to another
    Memory,
}

/// `load`
#[derive(Debug, Args)]
pub struct Load {
    /// The CPUs to load, e.g. 1 or 0,2-3 [default: those that this process may run on]
    #[arg(short = 'a', long, value_name = "CPUS", value_parser = CpuList::parse)]
    pub cpu: Option<CpuList>,
    /// With what
    #[arg(short, long, value_enum, default_value_t = LoadKind::Cpu)]
    pub kind: LoadKind,
    /// The size of each of the two blocks, e.g. 9MB; larger than all caches
    #[arg(long, value_name = "SIZE", default_value = "9MB", value_parser = parse_bytes)]
    pub block: u64,
    /// How many threads, each doing the same
    #[arg(short, long, default_value_t = 1)]
    pub threads: u32,
    /// SCHED_FIFO priority of the threads; 0 for ordinary scheduling
    #[arg(short, long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=99))]
    pub priority: u32,
    /// How long the load is on ...
    #[arg(long, value_name = "DURATION", requires = "off", value_parser = humantime::parse_duration)]
    pub on: Option<Duration>,
    /// ... and then pauses, over and over
    #[arg(long, value_name = "DURATION", requires = "on", value_parser = humantime::parse_duration)]
    pub off: Option<Duration>,
    /// How long to load, e.g. 10s, 1m30s
    #[arg(short = 'D', long, default_value = "10s", value_parser = humantime::parse_duration)]
    pub duration: Duration,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub json: bool,
    /// Keep when the load was on and what it did then, in this Arrow IPC stream file
    #[arg(long, value_name = "FILE")]
    pub rows: Option<PathBuf>,
}

/// `guard`
#[derive(Debug, Args)]
pub struct Guard {
    /// Put the command into this cgroup (a folder with a file cgroup.procs); once for each hierarchy
    #[arg(long = "cgroup", value_name = "PATH")]
    pub cgroups: Vec<PathBuf>,
    /// Also end all descendants, by giving them a PID namespace of their own
    #[arg(long)]
    pub pid_namespace: bool,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// `restore`
#[derive(Debug, Args)]
pub struct Restore {
    /// First wait until standard input is closed, which is when the process that holds its other end is gone
    #[arg(long)]
    pub when_closed: bool,
}

/// Parses a size: a number and one of B, kB, MB, GB (of 1000) or KiB, MiB, GiB (of 1024).
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 8] = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("B", 1),
        ("", 1),
    ];
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| format!("{text:?} is no size, write for example 9MB"))?;
    let factor = UNITS.iter().find(|(name, _)| *name == unit.trim()).map(|&(_, factor)| factor);
    let factor =
        factor.ok_or_else(|| format!("{unit:?} is no unit of size, write for example 9MB or 8MiB"))?;
    number.checked_mul(factor).ok_or_else(|| format!("{text} is too much"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_unit() {
        let sizes = [("9MB", 9_000_000), ("8 MiB", 8 << 20), ("4096", 4096), ("1GB", 1_000_000_000)];
        for (text, bytes) in sizes {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "MB", "-1", "9XB", "99999999999999999999", "18446744073709551615kB"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }
}
