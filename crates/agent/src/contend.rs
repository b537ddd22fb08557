//! `contend`: the load generator without a control plane, and the search for a load of a wished length.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;
use stealtime_console::document::{Head, NOT_VALID, RowFile, SCHEMA_VERSION, conclude, tell, write_findings};
use stealtime_console::quantities::{nanoseconds, parse_bytes};
use stealtime_probe::clock::{Settling, TscRate};
use stealtime_probe::running::Taken;
use stealtime_probe::{Recording, RunningTrial, Trial, facts, run_trial};
use stealtime_wire::{Facts, Probe, StreamName, TrialOutcome, TrialRequest};

use crate::claims::Claims;
use crate::cpu_choice::all_cpus;
use crate::cpu_list::CpuList;
use crate::tables;

/// A calibration is long enough to be scaled once it has taken this share of the wished time, or [`LONG_NS`].
const ENOUGH_SHARE: f64 = 0.25;
const LONG_NS: u64 = 2_000_000_000;

/// `contend`
#[derive(Debug, Args)]
pub struct Contend {
    /// How many tasks, each a thread
    #[arg(short, long, default_value_t = 32)]
    tasks: u32,
    /// How many iterations each task does
    #[arg(short = 'n', short_alias = 'i', long, default_value_t = 90)]
    iterations: u32,
    /// The size of the collection that each iteration allocates, fills, searches and frees
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = parse_bytes)]
    collection: u64,
    /// How often an iteration searches its whole collection
    #[arg(long, default_value_t = 60)]
    searches: u32,
    /// The mean of the simulated I/O, which each iteration sleeps for; 0s for none
    #[arg(long, default_value = "2ms", value_name = "DURATION", value_parser = humantime::parse_duration)]
    io: Duration,
    /// How much of that mean is spread exponentially: 0 to sleep equally long each time
    #[arg(long, default_value_t = 100, value_name = "PERCENT")]
    io_spread: u32,
    /// The share of the searches that are done in a collection which all tasks share, under a lock
    #[arg(long, default_value_t = 0, value_name = "PERCENT")]
    lock: u32,
    /// How many searches in a row are under the lock each time it is taken
    #[arg(long, default_value_t = 1)]
    lock_searches: u32,
    /// The seed of all random numbers; the same seed is the same work
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The CPUs to run on, e.g. 1 or 0,2-3 [default: all that this process was started on]
    #[arg(short = 'a', long, value_name = "CPUS", value_parser = CpuList::parse)]
    cpu: Option<CpuList>,
    /// SCHED_FIFO priority of the tasks; 0 for ordinary scheduling
    #[arg(short, long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=99))]
    priority: u32,
    /// End the work after this time, done or not
    #[arg(short = 'D', long, default_value = "24h", value_parser = humantime::parse_duration)]
    duration: Duration,
    /// Find how many iterations take this long here, and show the command that does them
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration, conflicts_with_all = ["iterations", "bare"])]
    calibrate: Option<Duration>,
    /// Do not measure each iteration: shows what the measuring costs
    #[arg(long)]
    bare: bool,
    /// Write a row for each iteration to this Arrow IPC stream file
    #[arg(long, value_name = "FILE", conflicts_with = "bare")]
    rows: Option<PathBuf>,
    /// Print one JSON document on standard output
    #[arg(long)]
    json: bool,
}

/// `stealtime-agent contend`
pub fn run(contend: &Contend) -> Result<ExitCode> {
    let bench = Bench::set_up(contend)?;
    let (_claims, claimed) = Claims::take(&bench.cpus, "stealtime-agent contend");
    if let Some(wished) = contend.calibrate {
        return calibrate(contend, &bench, nanoseconds(wished)?);
    }
    let rows = RowFile::create(contend.rows.as_deref())?;
    let mut recording = bench.measure(contend.iterations)?;
    recording.outcome.findings.extend(claimed);
    let document = Document::of(recording.outcome.clone(), facts::read());
    let told = tell(contend.json, &document, |output| document.write_text(output));
    let fill = |rows: &mut _| tables::write(&recording, Taken::default(), StreamName::Iterations, rows);
    let written = rows.map_or(Ok(()), |file| file.fill(fill));
    let verdict = if document.head.valid { ExitCode::SUCCESS } else { ExitCode::from(NOT_VALID) };
    Ok(conclude(verdict, [told, written]))
}

/// What all executions have in common.
struct Bench {
    work: stealtime_wire::Contend,
    cpus: Vec<u32>,
    priority: u32,
    duration_ns: u64,
    rate: TscRate,
    running: Arc<RunningTrial>,
}

impl Bench {
    fn set_up(contend: &Contend) -> Result<Self> {
        let cpus = all_cpus(contend.cpu.as_ref())?;
        let running = Arc::new(RunningTrial::new());
        let on_signal = Arc::clone(&running);
        // Refused only if another handler exists already; then a Ctrl-C ends the process.
        let _ = ctrlc::set_handler(move || on_signal.cancel());
        Ok(Self {
            work: stealtime_wire::Contend {
                tasks: contend.tasks,
                iterations: contend.iterations,
                collection_bytes: contend.collection,
                searches: contend.searches,
                io_mean_ns: nanoseconds(contend.io)?,
                io_spread_percent: contend.io_spread,
                lock_percent: contend.lock,
                lock_searches: contend.lock_searches,
                seed: contend.seed,
                each_iteration: !contend.bare,
            },
            cpus,
            priority: contend.priority,
            duration_ns: nanoseconds(contend.duration)?,
            rate: TscRate::since(&Settling::begin().wait()),
            running,
        })
    }

    fn measure(&self, iterations: u32) -> Result<Recording> {
        let request = TrialRequest::plain(
            Probe::Contend(stealtime_wire::Contend { iterations, ..self.work.clone() }),
            self.cpus.clone(),
            self.priority,
            self.duration_ns,
        );
        Ok(run_trial(&Trial { request: &request, rate: &self.rate, running: &self.running })?)
    }
}

/// Doubles the work until it takes long enough to be scaled to the wished time.
fn calibrate(contend: &Contend, bench: &Bench, wished_ns: u64) -> Result<ExitCode> {
    let mut iterations = 1;
    let (elapsed_ns, cpu_ns) = loop {
        let recording = bench.measure(iterations)?;
        if recording.outcome.is_valid() {
            let count = |name: &str| recording.outcome.counters.get(name).copied().unwrap_or(0) as f64;
            let elapsed_ns = count("elapsed_ns");
            if elapsed_ns >= (wished_ns as f64 * ENOUGH_SHARE).min(LONG_NS as f64) {
                break (elapsed_ns, count("cpu_ns"));
            }
        } else {
            bail!("the calibration was ended before it was done");
        }
        iterations = iterations.saturating_mul(2);
    };
    let factor = wished_ns as f64 / elapsed_ns;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, which is meant")]
    let wanted = (f64::from(iterations) * factor).round() as u32;
    if wanted == 0 {
        bail!(
            "one iteration of {} tasks takes {:.3} s here, longer than the wished time: use fewer --searches",
            contend.tasks,
            elapsed_ns * 1e-9 / f64::from(iterations)
        );
    }
    let found = Calibration {
        schema_version: SCHEMA_VERSION,
        iterations: wanted,
        expected_s: elapsed_ns * 1e-9 * f64::from(wanted) / f64::from(iterations),
        busy_cpus: cpu_ns / elapsed_ns,
        calibrated_with_iterations: iterations,
        work: stealtime_wire::Contend { iterations: wanted, ..bench.work.clone() },
    };
    tell(contend.json, &found, |output| {
        writeln!(output, "--tasks {} --iterations {wanted}", contend.tasks)?;
        writeln!(
            output,
            "expected  {:>14.3} s on {} CPUs, {:.2} of them busy",
            found.expected_s,
            bench.cpus.len(),
            found.busy_cpus
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

/// What `--calibrate --json` prints.
#[derive(Serialize)]
struct Calibration {
    schema_version: u32,
    iterations: u32,
    expected_s: f64,
    busy_cpus: f64,
    calibrated_with_iterations: u32,
    work: stealtime_wire::Contend,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Document {
    #[serde(flatten)]
    head: Head,
    elapsed_s: f64,
    iterations_per_s: f64,
    cpu_s: f64,
    outcome: TrialOutcome,
    machine: Facts,
}

impl Document {
    fn of(outcome: TrialOutcome, machine: Facts) -> Self {
        let count = |name: &str| outcome.counters.get(name).copied().unwrap_or(0) as f64;
        let elapsed_s = count("elapsed_ns") * 1e-9;
        Self {
            head: Head::of(&outcome.findings),
            elapsed_s,
            iterations_per_s: count("iterations") / elapsed_s,
            cpu_s: count("cpu_ns") * 1e-9,
            outcome,
            machine,
        }
    }

    fn write_text(&self, output: &mut impl Write) -> io::Result<()> {
        let count = |name: &str| self.outcome.counters.get(name).copied().unwrap_or(0);
        writeln!(output, "elapsed     {:>14.3} s", self.elapsed_s)?;
        writeln!(output, "throughput  {:>14.1} iterations/s", self.iterations_per_s)?;
        writeln!(output, "CPU time    {:>14.3} s", self.cpu_s)?;
        writeln!(output, "lock wait   {:>14.3} s, all tasks together", count("lock_wait_ns") as f64 * 1e-9)?;
        writeln!(output, "I/O         {:>14.3} s, all tasks together", count("io_ns") as f64 * 1e-9)?;
        writeln!(output, "page faults {:>14} and {} from disk", count("minor_faults"), count("major_faults"))?;
        writeln!(output, "switches    {:>14} involuntary", count("involuntary_switches"))?;
        writeln!(output, "checksum    {:>14x}", count("checksum"))?;
        write_findings(&self.outcome.findings, output)
    }
}
