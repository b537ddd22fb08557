//! What `disk` and `net` have in common: the machine, the trial, and what is told of it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use stealtime_console::document::{RowFile, conclude, tell};
use stealtime_console::quantities::nanoseconds;
use stealtime_probe::clock::{Settling, TscRate};
use stealtime_probe::running::Taken;
use stealtime_probe::{RunningTrial, Trial, facts, run_trial};
use stealtime_wire::{Probe, StreamName, TrialRequest};

use super::document::Document;
use crate::claims::Claims;
use crate::cpu_choice::one_cpu;
use crate::cpu_list::CpuList;
use crate::restore::put_back_leftovers;
use crate::tables;

/// The options that `disk` and `net` share.
#[derive(Debug, Args)]
pub struct Measure {
    /// The CPU to measure on, e.g. 1 [default: the last isolated one, else the last that this process was started on]
    #[arg(short = 'a', long, value_name = "CPUS", value_parser = CpuList::parse)]
    cpu: Option<CpuList>,
    /// How long to measure, e.g. 10s, 1m30s
    #[arg(short = 'D', long, default_value = "10s", value_parser = humantime::parse_duration)]
    duration: Duration,
    /// SCHED_FIFO priority of the measuring thread; 0 for ordinary scheduling
    #[arg(short, long, default_value_t = 80, value_parser = clap::value_parser!(u32).range(0..=99))]
    priority: u32,
    /// Stop after this many samples
    #[arg(short = 'l', long, value_name = "COUNT")]
    max_samples: Option<u64>,
    /// Write every sample with its time to this Arrow IPC stream file
    #[arg(long, value_name = "FILE")]
    samples: Option<PathBuf>,
    /// Print one JSON document on standard output
    #[arg(long)]
    json: bool,
}

/// Measures and shows the result.
pub fn measure(probe: Probe, options: &Measure, command: &str) -> Result<ExitCode> {
    put_back_leftovers().context("RT throttling cannot be put back")?;
    let cpus = one_cpu(options.cpu.as_ref())?;
    let (_claims, claimed) = Claims::take(&cpus, command);
    let machine = facts::read();
    let rate = TscRate::since(&Settling::begin().wait());
    let request = TrialRequest {
        max_samples: options.max_samples,
        ..TrialRequest::plain(probe, cpus, options.priority, nanoseconds(options.duration)?)
    };
    let samples = RowFile::create(options.samples.as_deref())?;
    let running = Arc::new(RunningTrial::new());
    let on_signal = Arc::clone(&running);
    // Refused only if another handler exists already; then a Ctrl-C ends the process.
    let _ = ctrlc::set_handler(move || on_signal.cancel());
    let mut recording = run_trial(&Trial { request: &request, rate: &rate, running: &running })?;
    recording.outcome.findings.extend(claimed);
    let document = Document::of(&recording, machine)?;
    let told = tell(options.json, &document, |output| document.write_text(output));
    let fill = |rows: &mut _| tables::write(&recording, Taken::default(), StreamName::Samples, rows);
    let written = samples.map_or(Ok(()), |file| file.fill(fill));
    Ok(conclude(document.exit_code(), [told, written]))
}
