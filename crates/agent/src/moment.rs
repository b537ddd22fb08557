//! The moment of a sample over the threshold (`--on-threshold`): what took its time, in percent, as rtla's automatic
//! analysis tells it, and the command that is run then. All of it after the last sample.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde::Serialize;
use stealtime_attribution::{Followed, Kind, Labelled, Spikes, Trace, World, attribute};
use stealtime_console::quantities::nanoseconds;
use stealtime_console::remarks;
use stealtime_probe::observer::RING_THREAD_NAME;
use stealtime_trace::TraceError;
use stealtime_wire::{OnThreshold, Probe, ThreadRole, ThresholdHit, TraceRequest, TrialOutcome};

use crate::columns::Columns;
use crate::tracing::{Events, Traced};

/// The kernel's buffer for each CPU: seconds of a busy one.
const BUFFER_BYTES: u64 = 8 << 20;

/// A cause with a smaller share is not worth a line.
const LEAST_PERCENT: f64 = 0.1;

/// What happens at a sample that is too long.
#[derive(Debug, Args)]
pub struct Moment {
    /// At the first sample that exceeds the floor by more than this, freeze the kernel's trace and stop; then tell in
    /// percent what took its time (needs root), and exit with 3
    #[arg(long = "on-threshold", value_name = "DURATION", value_parser = humantime::parse_duration)]
    threshold: Option<std::time::Duration>,
    /// Whether measuring ends at that sample, or goes on and counts the others
    #[arg(
        long = "on-threshold-action",
        value_enum,
        value_name = "ACTION",
        default_value = "stop",
        requires = "threshold"
    )]
    action: Action,
    /// Then run this command by the shell; its environment tells what was found: `STEALTIME_SAMPLE_NS`,
    /// `STEALTIME_CAUSE` and others
    #[arg(long = "on-threshold-run", value_name = "COMMAND", requires = "threshold")]
    command: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Action {
    Stop,
    GoOn,
}

impl Moment {
    /// What to ask of a trial.
    ///
    /// # Errors
    /// The duration is none that can be measured.
    pub fn asked(&self) -> Result<Option<OnThreshold>> {
        let Some(threshold) = self.threshold else { return Ok(None) };
        let overhead_ns = nanoseconds(threshold)?;
        anyhow::ensure!(overhead_ns > 0, "--on-threshold 0s: every sample exceeds that");
        Ok(Some(OnThreshold { overhead_ns, stop: self.action == Action::Stop }))
    }

    /// Runs the command that was named, if any; what it prints goes to standard error, as ours is for data.
    pub fn run_command(&self, told: &Told) {
        let Some(command) = &self.command else { return };
        let ended = io::stderr().as_fd().try_clone_to_owned().and_then(|output| {
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(command).envs(told.environment()).stdin(Stdio::null()).stdout(output).status()
        });
        match ended {
            Ok(status) if status.success() => {}
            Ok(status) => {
                remarks::say(format_args!("the command of --on-threshold-run ended with {status}: {command}"));
            }
            Err(error) => remarks::say(format_args!("the command of --on-threshold-run cannot be run: {error}")),
        }
    }
}

/// The recording that shows what led to a sample.
pub fn trace_request(probe: &Probe) -> TraceRequest {
    TraceRequest {
        cpus: Vec::new(),
        buffer_bytes_per_cpu: BUFFER_BYTES,
        hidden_threads: matches!(probe, Probe::Switch(_)).then(|| RING_THREAD_NAME.to_owned()),
        user_mode_linux: Vec::new(),
        extra_groups: Vec::new(),
        // What the kernel's buffer holds is the last; it is read once.
        processes: Vec::new(),
        keep_bytes_per_cpu: Some(BUFFER_BYTES),
    }
}

/// What is told of the sample.
#[derive(Debug, Serialize)]
pub struct Told {
    index: u64,
    duration_ns: f64,
    threshold_ns: u64,
    samples_over: u64,
    /// What is split into causes: its length less the floor.
    excess_ns: f64,
    /// The largest first; they add up to the excess. None where nothing could be told.
    causes: Vec<Share>,
    /// Why nothing could be told.
    not_explained: Option<String>,
}

/// What one cause took of the sample.
#[derive(Debug, Serialize)]
struct Share {
    layer: &'static str,
    kind: &'static str,
    name: Option<String>,
    lost_ns: f64,
    percent: f64,
}

impl Share {
    fn words(&self) -> String {
        let kind = self.kind.replace('_', " ");
        self.name.as_ref().map_or_else(|| kind.clone(), |name| format!("{kind} {name}"))
    }
}

/// Tells what took the time of a sample over the threshold.
pub fn tell(
    asked: OnThreshold,
    hit: &ThresholdHit,
    outcome: &TrialOutcome,
    floor_ns: f64,
    traced: Result<Traced, TraceError>,
) -> Told {
    let duration_ns = hit.duration_units as f64 * 1e9 / outcome.clock.units_per_s;
    let excess_ns = (duration_ns - floor_ns).max(0.0);
    let causes = traced.map_err(|error| format!("the kernel's trace cannot be had: {error}"));
    let causes = causes.and_then(|traced| {
        explain(traced, hit, outcome, duration_ns, floor_ns).map_err(|error| remarks::in_full(&error))
    });
    let (causes, not_explained) = match causes {
        Ok(causes) => (causes, None),
        Err(reason) => (Vec::new(), Some(reason)),
    };
    Told {
        index: hit.index,
        duration_ns,
        threshold_ns: asked.overhead_ns,
        samples_over: hit.samples_over,
        excess_ns,
        causes,
        not_explained,
    }
}

/// Splits the one sample, as the control plane splits all (`studies/latency/attribution`).
fn explain(
    traced: Traced,
    hit: &ThresholdHit,
    outcome: &TrialOutcome,
    duration_ns: f64,
    floor_ns: f64,
) -> Result<Vec<Share>> {
    let covered = traced.covered();
    let Events { rows, names, findings } = traced.into_events()?;
    if let Some(unknown) = findings.iter().find(|finding| finding.code == "thread_ids_unknown") {
        anyhow::bail!("{}", unknown.text);
    }
    let (columns, cycles_per_ns) = (Columns::from_iter(&rows), outcome.clock.tsc_hz * 1e-9);
    let trace = Trace::new(columns.borrowed(), &names, covered, cycles_per_ns).context("the trace is damaged")?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, below 2^53")]
    let cycles = |ns: f64| (ns * cycles_per_ns).round() as u64;
    let (duration, floor) = (cycles(duration_ns), cycles(floor_ns));
    let id = |thread: u32| i32::try_from(thread).unwrap_or(i32::MAX);
    let of_role = |role| outcome.threads.iter().filter(move |thread| thread.role == role);
    let labels = ["agent".to_owned(), "injection".to_owned()];
    let mut threads: Vec<(i32, u16)> = of_role(ThreadRole::Agent).map(|thread| (id(thread.id), 0)).collect();
    threads.extend(of_role(ThreadRole::Injection).map(|thread| (id(thread.id), 1)));
    threads.sort_unstable();
    let probe: Vec<i32> = outcome.placement.thread_ids.iter().map(|&thread| id(thread)).collect();
    let cpus: Vec<u16> = outcome.placement.cpus.iter().filter_map(|&cpu| u16::try_from(cpu).ok()).collect();
    let world = World::Native(
        Labelled { trace: &trace, threads: &threads, labels: &labels, cpus: Some(&cpus) },
        Followed {
            threads: &probe,
            real_time: outcome.placement.policy == "SCHED_FIFO",
            limit_lifted: outcome.request.lift_rt_throttling,
        },
    );
    let (start, duration) = ([hit.end_tsc.saturating_sub(duration)], [duration]);
    let found = attribute(&world, Spikes { start: &start, duration: &duration, floor }, &[])?;
    anyhow::ensure!(
        found.parts.judged.first().copied().unwrap_or(false),
        "events were lost around the sample: what took it is not known"
    );
    let excess = duration[0].saturating_sub(floor).max(1) as f64;
    let mut shares: Vec<Share> = found
        .parts
        .cause
        .iter()
        .zip(&found.parts.cycles)
        .filter_map(|(&cause, &cycles)| {
            let cause = found.causes.get(cause)?;
            Some(Share {
                layer: cause.layer.name(),
                kind: cause.kind.name(),
                name: cause.name.clone(),
                lost_ns: cycles as f64 / cycles_per_ns,
                percent: cycles as f64 / excess * 100.0,
            })
        })
        .collect();
    shares.sort_by(|a, b| b.lost_ns.total_cmp(&a.lost_ns));
    Ok(shares)
}

impl Told {
    /// The cause that took most, what is unexplained aside.
    fn largest(&self) -> Option<&Share> {
        self.causes.iter().find(|share| share.kind != Kind::Unexplained.name())
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        let largest = self.largest();
        vec![
            ("STEALTIME_SAMPLE", self.index.to_string()),
            ("STEALTIME_SAMPLE_NS", format!("{:.0}", self.duration_ns)),
            ("STEALTIME_EXCESS_NS", format!("{:.0}", self.excess_ns)),
            ("STEALTIME_THRESHOLD_NS", self.threshold_ns.to_string()),
            ("STEALTIME_CAUSE", largest.map(Share::words).unwrap_or_default()),
            ("STEALTIME_CAUSE_PERCENT", largest.map(|share| format!("{:.1}", share.percent)).unwrap_or_default()),
        ]
    }

    pub fn write_text(&self, output: &mut impl Write) -> io::Result<()> {
        let (took, excess) = (self.duration_ns * 1e-3, self.excess_ns * 1e-3);
        writeln!(output, "threshold {took:>14.3} us took sample {}, {excess:.3} us over the floor:", self.index)?;
        if let Some(reason) = &self.not_explained {
            return writeln!(output, "          not explained: {reason}");
        }
        let (told, small): (Vec<&Share>, Vec<&Share>) =
            self.causes.iter().partition(|share| share.percent >= LEAST_PERCENT);
        for share in &told {
            let (percent, lost) = (share.percent, share.lost_ns * 1e-3);
            writeln!(output, "  {percent:>6.1} % {lost:>14.3} us {}", share.words())?;
        }
        if !small.is_empty() {
            let percent: f64 = small.iter().map(|share| share.percent).sum();
            let lost: f64 = small.iter().map(|share| share.lost_ns * 1e-3).sum();
            writeln!(output, "  {percent:>6.1} % {lost:>14.3} us {} smaller causes", small.len())?;
        }
        Ok(())
    }
}
