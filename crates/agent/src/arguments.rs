//! The command line. Short flags follow rt-tests where they do not clash; `-h` is help.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::blackout::Blackout;
use crate::contend::Contend;
use crate::counter::Counter;
use crate::counting::{Ask, Count};
use crate::cpu_list::CpuList;
use crate::probes::{EXIT_CODES, ProbeCommand};
use crate::quantities::parse_bytes;
use crate::rtload::{self, RtloadArguments};
use crate::rtp::Rtp;

/// Measures the latency of a machine, and loads it: the part of stealtime that runs on the machine under test.
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
    /// Do a fixed amount of work with many tasks, which compete for CPUs, memory and a lock, and show how long it takes
    #[command(after_help = EXIT_CODES)]
    Contend(Contend),
    /// Run periodic real-time tasks whose jobs do a fixed amount of work, and show which missed their deadlines
    #[command(after_help = rtload::EXIT_CODES)]
    Rtload(RtloadArguments),
    /// Load CPUs with arithmetic or memory copies, steadily or in phases, and show how much work was done
    #[command(after_help = EXIT_CODES)]
    Load(Load),
    /// Serve a counter over TCP and UDP that keeps all its state in memory, which it rewrites and verifies
    Counter(Counter),
    /// Be a client of `counter`: report every outage and every acknowledged value that was lost
    Count(Count),
    /// Tell how long clients of a machine saw nothing, with probes every millisecond to its `counter` or to anything
    /// that answers
    Blackout(Blackout),
    /// Ask a `counter` for its state, or to verify its memory, reboot its machine or power it off
    Ask(Ask),
    /// Send or receive streams of voice packets: loss, delay, jitter, gaps and estimated opinion of any media path
    Rtp(Rtp),
    /// Serve a control plane: exchange frames with it on standard input and output
    Serve,
    /// Run a command that is killed when the parent of this process ends, even by SIGKILL
    Guard(Guard),
    /// Print the rate of the time-stamp counter as JSON
    Clock,
    /// Keep this guest's clock on time: steer it by the real-time clock, which runs on while the guest is stopped
    /// (needs root)
    Discipline,
    /// Restore what a killed agent had changed on this machine
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
    /// What the load does
    #[arg(short, long, value_enum, default_value_t = LoadKind::Cpu)]
    pub kind: LoadKind,
    /// Size of each of the two blocks that `memory` copies between, larger than all caches, e.g. 9MB
    #[arg(long, value_name = "SIZE", default_value = "9MB", value_parser = parse_bytes)]
    pub block: u64,
    /// Number of threads, all with the same load
    #[arg(short, long, default_value_t = 1)]
    pub threads: u32,
    /// SCHED_FIFO priority of the threads; 0 for ordinary scheduling
    #[arg(short, long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=99))]
    pub priority: u32,
    /// Load in phases: how long each phase is on
    #[arg(long, value_name = "DURATION", requires = "off", value_parser = humantime::parse_duration)]
    pub on: Option<Duration>,
    /// How long the pause after each phase is
    #[arg(long, value_name = "DURATION", requires = "on", value_parser = humantime::parse_duration)]
    pub off: Option<Duration>,
    /// How long to load, e.g. 10s, 1m30s
    #[arg(short = 'D', long, default_value = "10s", value_parser = humantime::parse_duration)]
    pub duration: Duration,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub json: bool,
    /// Write when the load was on, and its work, to this Arrow IPC stream file
    #[arg(long, value_name = "FILE")]
    pub rows: Option<PathBuf>,
}

/// `guard`
#[derive(Debug, Args)]
pub struct Guard {
    /// Put the command into this cgroup (a folder with a file cgroup.procs); repeatable, once per hierarchy
    #[arg(long = "cgroup", value_name = "PATH")]
    pub cgroups: Vec<PathBuf>,
    /// Run the command in its own PID namespace, so that all its descendants are killed too
    #[arg(long)]
    pub pid_namespace: bool,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// `restore`
#[derive(Debug, Args)]
pub struct Restore {
    /// First wait until standard input is closed, that is, until the process at its other end has ended
    #[arg(long)]
    pub when_closed: bool,
}
