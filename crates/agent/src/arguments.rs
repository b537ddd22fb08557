//! The command line. Short flags follow rt-tests where they do not clash; `-h` is help.

use clap::{Parser, Subcommand};
use stealtime_witness::WitnessCommand;

use crate::check::{self, Check};
use crate::contend::Contend;
use crate::devices::DeviceCommand;
use crate::guard::Guard;
use crate::load_alone::Load;
use crate::probes::{EXIT_CODES, ProbeCommand};
use crate::restore::Restore;
use crate::rtload::{self, RtloadArguments};

/// Measures the latency of a machine, and loads it: the part of stealtime that runs on the machine under test.
#[derive(Debug, Parser)]
#[command(name = "stealtime-agent", version, after_help = EXIT_CODES)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check in 10 s whether this machine is quiet enough, and say who disturbs it: for node checks
    #[command(after_help = check::EXIT_CODES)]
    Check(Check),
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
    #[command(flatten)]
    Device(DeviceCommand),
    #[command(flatten)]
    Witness(WitnessCommand),
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
