//! The probes on the command line: each with its options, and what they make it measure.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use stealtime_console::quantities::nanoseconds;
use stealtime_probe::clock::TscRate;
use stealtime_probe::tick::calibrate_on;
use stealtime_wire::{Injection, Probe, Switch, Tick, Wakeup};

use crate::cpu_list::CpuList;
use crate::moment::Moment;

pub const EXIT_CODES: &str =
    "Exit codes: 0 fine, 1 failed, 2 wrong usage, 3 over --max-overhead or --on-threshold, 4 measured but not valid";

#[derive(Debug, Subcommand)]
pub enum ProbeCommand {
    /// Run a fixed busy loop back to back and show what interrupts it
    #[command(after_help = EXIT_CODES)]
    Tick(Measure<TickOptions>),
    /// Let threads of equal priority yield to each other and time the thread switches
    #[command(after_help = EXIT_CODES)]
    Switch(Measure<SwitchOptions>),
    /// Sleep until absolute times and show how late the thread wakes up (like cyclictest)
    #[command(after_help = EXIT_CODES)]
    Wakeup(Measure<WakeupOptions>),
}

/// The options that all probes share.
#[derive(Debug, Args)]
pub struct Common {
    /// The CPU to measure, or several between which the probe may migrate, e.g. 1 or 0,2-3 [default: the last
    /// isolated one, else the last that this process was started on]
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
    /// Lift RT throttling while measuring, then restore it (needs root)
    #[arg(long)]
    pub lift_rt_throttling: bool,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub json: bool,
    /// Write every sample with its time to this Arrow IPC stream file
    #[arg(long, value_name = "FILE")]
    pub samples: Option<PathBuf>,
    /// Exit with 3 if the longest sample exceeds the floor by more than this, e.g. 100us; 4 if that cannot be told
    #[arg(short = 'b', long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub max_overhead: Option<Duration>,
    #[command(flatten)]
    pub moment: Moment,
    #[command(flatten)]
    pub thefts: Thefts,
    /// Print no progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
}

/// Thefts of the CPU at known times, by which a probe is tested.
#[derive(Debug, Args)]
pub struct Thefts {
    /// Test the probe: a thread of higher priority steals the CPU once per this interval
    #[arg(long, value_name = "DURATION", requires = "inject_steal", value_parser = humantime::parse_duration)]
    inject_every: Option<Duration>,
    /// How long each injected theft of the CPU lasts
    #[arg(long, value_name = "DURATION", requires = "inject_every", value_parser = humantime::parse_duration)]
    inject_steal: Option<Duration>,
}

#[derive(Debug, Args)]
pub struct Measure<Options: Args> {
    #[command(flatten)]
    pub options: Options,
    #[command(flatten)]
    pub common: Common,
}

#[derive(Debug, Args)]
pub struct TickOptions {
    /// The wanted duration of one busy loop when nothing interrupts it
    #[arg(long = "loop", default_value = "68us", value_name = "DURATION", value_parser = humantime::parse_duration)]
    loop_duration: Duration,
    /// Iterations of the busy loop instead of a calibration; 0 for an empty loop
    #[arg(long, conflicts_with = "loop_duration")]
    iterations: Option<u64>,
}

#[derive(Debug, Args)]
pub struct SwitchOptions {
    /// How many threads
    #[arg(short, long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=1000))]
    threads: u32,
}

#[derive(Debug, Args)]
pub struct WakeupOptions {
    /// The period
    #[arg(short, long, default_value = "1ms", value_parser = humantime::parse_duration)]
    interval: Duration,
}

impl ProbeCommand {
    pub fn common(&self) -> &Common {
        match self {
            Self::Tick(Measure { common, .. })
            | Self::Switch(Measure { common, .. })
            | Self::Wakeup(Measure { common, .. }) => common,
        }
    }

    /// The command, as others are told of it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Tick(_) => "stealtime-agent tick",
            Self::Switch(_) => "stealtime-agent switch",
            Self::Wakeup(_) => "stealtime-agent wakeup",
        }
    }

    /// What is to be measured; may first have to calibrate on one of `cpus`.
    ///
    /// # Errors
    /// An option does not fit, or no CPU can be used for a calibration.
    pub fn probe(&self, cpus: &[u32], rate: &TscRate) -> Result<Probe> {
        Ok(match self {
            Self::Tick(Measure { options, common }) => {
                Probe::Tick(Tick { iterations: options.iterations(cpus, common.priority, rate)? })
            }
            Self::Switch(Measure { options, .. }) => Probe::Switch(Switch { threads: options.threads }),
            Self::Wakeup(Measure { options, .. }) => {
                Probe::Wakeup(Wakeup { interval_ns: nanoseconds(options.interval)? })
            }
        })
    }
}

impl Thefts {
    pub fn injection(&self) -> Result<Option<Injection>> {
        let (Some(every), Some(steal)) = (self.inject_every, self.inject_steal) else { return Ok(None) };
        Ok(Some(Injection { every_ns: nanoseconds(every)?, steal_ns: nanoseconds(steal)?, exit: None }))
    }
}

impl TickOptions {
    fn iterations(&self, cpus: &[u32], priority: u32, rate: &TscRate) -> Result<u64> {
        if let Some(iterations) = self.iterations {
            return Ok(iterations);
        }
        // A processor whose CPUs differ has no one length of a loop: any of them is as good.
        let cpu = cpus.last().copied().unwrap_or_default();
        let calibrated = calibrate_on(cpu, priority, nanoseconds(self.loop_duration)?, rate);
        let (iterations, _) = calibrated.with_context(|| format!("CPU {cpu} cannot be measured"))?;
        Ok(iterations)
    }
}
