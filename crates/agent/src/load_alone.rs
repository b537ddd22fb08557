//! `load`: a load without a control plane.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde::Serialize;
use stealtime_console::document::{Head, NOT_VALID, RowFile, conclude, tell, write_findings};
use stealtime_console::quantities::{nanoseconds, parse_bytes};
use stealtime_probe::clock::{Settling, TscRate};
use stealtime_probe::facts;
use stealtime_probe::load::RunningLoad;
use stealtime_wire::{Facts, LoadOutcome, LoadRequest};

use crate::cpu_list::CpuList;
use crate::load::write_table;

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

/// `stealtime-agent load`
pub fn run(load: &Load) -> Result<ExitCode> {
    let request = LoadRequest {
        kind: match load.kind {
            LoadKind::Cpu => stealtime_wire::Load::Cpu {},
            LoadKind::Memory => stealtime_wire::Load::Memory { block_bytes: load.block },
        },
        cpus: load.cpu.as_ref().map(|list| list.0.clone()).unwrap_or_default(),
        priority: load.priority,
        threads: load.threads,
        on_ns: load.on.map(nanoseconds).transpose()?,
        off_ns: load.off.map(nanoseconds).transpose()?,
    };
    let rows = RowFile::create(load.rows.as_deref())?;
    let machine = facts::read();
    let rate = TscRate::since(&Settling::begin().wait());
    let (interrupt, interrupted) = channel();
    let running = RunningLoad::start(&request, &rate)?;
    // Now: the thread that waits for a signal starts where this one went, out of the load's way. It is refused only if
    // another handler exists already; then, as until now, a Ctrl-C ends the process, and with it the load.
    let _ = ctrlc::set_handler(move || {
        // Nobody listens when the load is over already.
        let _ = interrupt.send(());
    });
    // Over, interrupted, or nobody left who could interrupt: in each case it ends here.
    let _ = interrupted.recv_timeout(load.duration);
    let recording = running.stop()?;
    let document = Document::of(request, recording.outcome.clone(), machine);
    let told = tell(load.json, &document, |output| document.write_text(output));
    let written = rows.map_or(Ok(()), |file| file.fill(|rows| write_table(&recording, rows)));
    let verdict = if document.head.valid { ExitCode::SUCCESS } else { ExitCode::from(NOT_VALID) };
    Ok(conclude(verdict, [told, written]))
}

/// What `--json` prints.
#[derive(Serialize)]
struct Document {
    #[serde(flatten)]
    head: Head,
    request: LoadRequest,
    outcome: LoadOutcome,
    machine: Facts,
}

impl Document {
    fn of(request: LoadRequest, outcome: LoadOutcome, machine: Facts) -> Self {
        Self { head: Head::of(&outcome.findings), request, outcome, machine }
    }

    fn write_text(&self, output: &mut impl Write) -> io::Result<()> {
        let outcome = &self.outcome;
        writeln!(output, "threads   {:>14}", outcome.thread_ids.len())?;
        writeln!(output, "on        {:>14.6} s, all threads together", outcome.on_ns as f64 * 1e-9)?;
        writeln!(output, "work      {:>14} {}", outcome.work, outcome.unit)?;
        match self.request.kind {
            stealtime_wire::Load::Cpu {} => {
                writeln!(output, "rate      {:>14.0} loops/s a thread", outcome.rate_per_s)?;
            }
            stealtime_wire::Load::Memory { .. } => {
                writeln!(output, "rate      {:>14.3} GB/s a thread", outcome.rate_per_s * 1e-9)?;
            }
        }
        write_findings(&outcome.findings, output)
    }
}
