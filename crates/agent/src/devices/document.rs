//! What is told of requests to a device: how many, how fast, and the percentiles of how long they took.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;
use stealtime_analysis::{Series, SeriesInput, Spacing};
use stealtime_console::document::{Head, NOT_VALID, write_findings};
use stealtime_probe::Recording;
use stealtime_wire::{Facts, TrialOutcome};

/// What `--json` prints.
#[derive(Serialize)]
pub struct Document {
    #[serde(flatten)]
    pub head: Head,
    /// Requests that ended, in a second of the time from the start to the end of the last one.
    requests_per_s: f64,
    /// From when a request was due to its end.
    response: Option<Times>,
    /// Of that, until it was handed over: it was late, or there was no room.
    wait: Option<Times>,
    outcome: TrialOutcome,
    machine: Facts,
}

/// The name of a figure, and which it is.
type Line = (&'static str, fn(&Times) -> f64);

/// Percentiles by nearest rank.
#[derive(Serialize)]
struct Times {
    count: u64,
    min_ns: f64,
    mean_ns: f64,
    p50_ns: f64,
    p90_ns: f64,
    p99_ns: f64,
    p999_ns: f64,
    max_ns: f64,
}

impl Times {
    fn of(values: &[u32], saturated: &[(u64, u64)], units_per_s: f64) -> Result<Option<Self>> {
        if values.is_empty() {
            return Ok(None);
        }
        let stats = Series::new(SeriesInput {
            durations: values,
            saturated: saturated.to_vec(),
            // Where they lie in time does not enter what is taken of it.
            spacing: Spacing::Tiled,
            units_per_s,
            calibrated_floor: None,
        })?
        .summary();
        Ok(Some(Self {
            count: stats.count,
            min_ns: stats.min_ns,
            mean_ns: stats.mean_ns,
            p50_ns: stats.p50_ns,
            p90_ns: stats.p90_ns,
            p99_ns: stats.p99_ns,
            p999_ns: stats.p999_ns,
            max_ns: stats.max_ns,
        }))
    }
}

impl Document {
    pub fn of(recording: &Recording, machine: Facts) -> Result<Self> {
        let outcome = recording.outcome.clone();
        let (samples, units_per_s) = (&recording.samples, outcome.clock.units_per_s);
        let further = samples.copy(0..samples.count()).further;
        let waits = further.first().map_or(&[][..], Vec::as_slice);
        let saturated_waits = samples.saturated_further.first().map_or(&[][..], Vec::as_slice);
        let watched_s = outcome.counters.get("watched_ns").copied().unwrap_or(0) as f64 * 1e-9;
        let requests_per_s = if watched_s > 0.0 { samples.count() as f64 / watched_s } else { 0.0 };
        Ok(Self {
            head: Head::of(&outcome.findings),
            requests_per_s,
            response: Times::of(samples.durations(), &samples.saturated, units_per_s)?,
            wait: Times::of(waits, saturated_waits, units_per_s)?,
            outcome,
            machine,
        })
    }

    pub fn exit_code(&self) -> ExitCode {
        if self.head.valid { ExitCode::SUCCESS } else { ExitCode::from(NOT_VALID) }
    }

    pub fn write_text(&self, output: &mut impl Write) -> io::Result<()> {
        let placement = &self.outcome.placement;
        let cpus: Vec<String> = placement.cpus.iter().map(u32::to_string).collect();
        writeln!(output, "CPU {}, {} {}{}", cpus.join(","), placement.policy, placement.priority, self.engine())?;
        writeln!(output, "per second {:>14.1}", self.requests_per_s)?;
        if let (Some(response), Some(wait)) = (&self.response, &self.wait) {
            writeln!(output, "{:<10} {:>14} {:>14}", "", "response us", "of that, wait")?;
            writeln!(output, "{:<10} {:>14}", "count", response.count)?;
            let lines: [Line; 7] = [
                ("min", |times| times.min_ns),
                ("mean", |times| times.mean_ns),
                ("p50", |times| times.p50_ns),
                ("p90", |times| times.p90_ns),
                ("p99", |times| times.p99_ns),
                ("p99.9", |times| times.p999_ns),
                ("max", |times| times.max_ns),
            ];
            for (name, of) in lines {
                writeln!(output, "{name:<10} {:>14.3} {:>14.3}", of(response) * 1e-3, of(wait) * 1e-3)?;
            }
        }
        if let (Some(sent), Some(lost)) = (self.count("sent_messages"), self.count("lost_messages")) {
            writeln!(output, "{:<10} {lost:>14} of {sent}", "lost")?;
        }
        write_findings(&self.outcome.findings, output)
    }

    fn count(&self, name: &str) -> Option<u64> {
        self.outcome.counters.get(name).copied()
    }

    fn engine(&self) -> &'static str {
        if self.outcome.counters.contains_key("engine_io_uring") {
            ", io_uring"
        } else if self.outcome.counters.contains_key("engine_aio") {
            ", Linux AIO"
        } else {
            ""
        }
    }
}
