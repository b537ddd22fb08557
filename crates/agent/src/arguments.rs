//! The command line. Short flags follow rt-tests where they do not clash; `-h` is help.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::counter::Counter;
use crate::counting::{Ask, Count};
use crate::cpu_list::CpuList;
use crate::probes::{EXIT_CODES, ProbeCommand};
use crate::quantities::parse_bytes;

/// Measures what a machine takes from a thread that wants to run: ticks, switches, wake-ups.
#[derive(Debug, Parser)]
#[command(name = "stealtime-agent", version, after_help = EXIT_CODES)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    #[command(flatten)]
    Probe(ProbeCommand),
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
    /// Keep the clock of this guest with its real-time clock, which goes on while the guest is stopped (needs
    /// root)
    Discipline,
    /// Put back what a killed agent had changed on this machine
    Restore(Restore),
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
