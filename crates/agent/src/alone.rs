//! `tick`, `switch`, `wakeup`: a measurement without a control plane.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;
use stealtime_analysis::{HeldBack, Pause, Period, Series, SeriesInput, Spacing, Summary};
use stealtime_console::document::{
    Head, NOT_VALID, OVER_THRESHOLD, RowFile, SCHEMA_VERSION, conclude, tell, write_findings,
};
use stealtime_console::quantities::nanoseconds;
use stealtime_console::remarks;
use stealtime_probe::clock::{Settling, TscRate};
use stealtime_probe::running::Taken;
use stealtime_probe::{Recording, RunningTrial, Trial, facts};
use stealtime_trace::TraceError;
use stealtime_wire::{Facts, Finding, Layout, Probe, StreamName, TrialOutcome, TrialRequest};

use crate::claims::Claims;
use crate::cpu_choice::one_cpu;
use crate::moment::{self, Moment, Told};
use crate::probes::{Common, ProbeCommand};
use crate::restore::{Watchdog, put_back_leftovers};
use crate::tables;
use crate::tracing::{self, AroundSamples, SharedAroundSamples, Traced, TrialEnd};

/// Findings with which a trial may be used, but passes no threshold (`campaigns/validity.py` has the same).
const NO_PASS: [&str; 3] = ["cancelled", "memory_full", "no_sched_fifo"];

/// Measures as the command says and shows the result.
pub fn measure(command: &ProbeCommand) -> Result<ExitCode> {
    let bench = Bench::set_up(command.common())?;
    // Held until the end of the measurement, calibration included.
    let (_claims, claimed) = Claims::take(&bench.cpus, command.name());
    let probe = command.probe(&bench.cpus, &bench.rate)?;
    bench.measure(command.common(), probe, claimed)
}

/// `stealtime-agent clock`
pub fn clock() -> Result<ExitCode> {
    let rate = TscRate::since(&Settling::begin().wait());
    let document =
        serde_json::json!({ "schema_version": SCHEMA_VERSION, "tsc_hz": rate.hz, "tsc_hz_source": rate.source });
    writeln!(io::stdout(), "{document}")?;
    Ok(ExitCode::SUCCESS)
}

/// What is known before a measurement.
struct Bench {
    cpus: Vec<u32>,
    rate: TscRate,
    facts: Facts,
}

impl Bench {
    fn set_up(common: &Common) -> Result<Self> {
        put_back_leftovers().context("RT throttling cannot be put back")?;
        let cpus = one_cpu(common.cpu.as_ref())?;
        let facts = facts::read();
        Ok(Self { cpus, rate: TscRate::since(&Settling::begin().wait()), facts })
    }

    fn measure(self, common: &Common, probe: Probe, claimed: Vec<Finding>) -> Result<ExitCode> {
        let on_threshold = common.moment.asked()?;
        let request = TrialRequest {
            tracing: on_threshold.map(|_| moment::trace_request(&probe)),
            on_threshold,
            max_samples: common.max_samples,
            lift_rt_throttling: common.lift_rt_throttling,
            injection: common.thefts.injection()?,
            ..TrialRequest::plain(probe, self.cpus.clone(), common.priority, nanoseconds(common.duration)?)
        };
        let samples = RowFile::create(common.samples.as_deref())?;
        let changes_machine = request.lift_rt_throttling || request.tracing.is_some();
        let watchdog = changes_machine.then(Watchdog::start).transpose()?;
        let around = Arc::new(AroundSamples::default());
        let running = Arc::new(RunningTrial::observed_by(Arc::new(SharedAroundSamples(Arc::clone(&around)))));
        let TrialEnd { mut recording, traced } = with_progress(common, &running, &self.rate, || {
            tracing::run(&Trial { request: &request, rate: &self.rate, running: &running }, &around)
        })?;
        drop(watchdog);
        recording.outcome.findings.extend(claimed);
        let mut document = Document::of(&recording, self.facts)?;
        document.explain(&common.moment, traced);
        let told = tell(common.json, &document, |output| document.write_text(output));
        let fill = |rows: &mut _| tables::write(&recording, Taken::default(), StreamName::Samples, rows);
        let written = samples.map_or(Ok(()), |file| file.fill(fill));
        Ok(conclude(document.exit_code(common.max_overhead), [told, written]))
    }
}

/// Runs `measure` while a thread on another CPU shows on a terminal how it goes. Ctrl-C ends the trial and
/// keeps what there is.
fn with_progress<T>(common: &Common, running: &Arc<RunningTrial>, rate: &TscRate, measure: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    let on_signal = Arc::clone(running);
    // Refused only if another handler exists already; then a Ctrl-C ends the process, and the watchdog
    // restores.
    let _ = ctrlc::set_handler(move || on_signal.cancel());
    let show = !common.quiet && io::stderr().is_terminal();
    thread::scope(|scope| {
        if show {
            scope.spawn(|| show_progress(running, rate, common.duration, &over));
        }
        let result = measure();
        over.store(true, Ordering::Relaxed);
        result
    })
}

fn show_progress(running: &RunningTrial, rate: &TscRate, duration: Duration, over: &AtomicBool) {
    let (mut looked_at, mut longest) = (0, 0);
    while !over.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(200));
        let Some(recorder) = running.recorder() else { continue };
        if recorder.origin() == 0 {
            continue;
        }
        longest = longest.max(recorder.longest_since(looked_at));
        looked_at = recorder.len();
        let progress = recorder.progress(1, rate, longest);
        let elapsed_s = progress.elapsed_ns as f64 * 1e-9;
        remarks::write(&format!(
            "\r{elapsed_s:6.1} of {:.1} s, {} samples, longest {:.3} us ",
            duration.as_secs_f64(),
            progress.samples,
            progress.max_ns * 1e-3
        ));
    }
    remarks::say("");
}

/// What this kernel's limit on real-time threads explains; none where it could not have acted.
fn held_back(series: &Series<'_>, recording: &Recording) -> Option<HeldBack> {
    let limit = recording.outcome.limit.as_ref()?;
    let pause = Pause { pause_ns: limit.pause_ns as f64, period_ns: limit.period_ns as f64 };
    Some(series.held_back(pause, &recording.ordinary))
}

/// What `--json` prints.
#[derive(Serialize)]
struct Document {
    #[serde(flatten)]
    head: Head,
    stats: Option<Summary>,
    periods: Vec<Period>,
    /// Where this kernel may have stopped the probe: the samples that it explains count for no `--max-overhead`.
    held_back: Option<HeldBack>,
    /// The first sample over `--on-threshold`, and what took its time.
    threshold: Option<Told>,
    outcome: TrialOutcome,
    machine: Facts,
}

impl Document {
    fn of(recording: &Recording, machine: Facts) -> Result<Self> {
        let outcome = recording.outcome.clone();
        let samples = &recording.samples;
        let spacing = match outcome.layout {
            Some(Layout::Gapped) => {
                Spacing::Gapped { gaps: samples.gaps().unwrap_or_default(), saturated: samples.saturated_gaps.clone() }
            }
            Some(Layout::Periodic { interval }) => Spacing::Periodic { interval },
            _ => Spacing::Tiled,
        };
        let series = if samples.durations().is_empty() {
            None
        } else {
            Some(Series::new(SeriesInput {
                durations: samples.durations(),
                saturated: samples.saturated.clone(),
                spacing,
                units_per_s: outcome.clock.units_per_s,
                calibrated_floor: outcome.calibrated_floor_units,
            })?)
        };
        // What comes periodically shows only in a series without blind gaps.
        let is_whole = matches!(outcome.layout, Some(Layout::Tiled));
        Ok(Self {
            head: Head::of(&outcome.findings),
            stats: series.as_ref().map(Series::summary),
            held_back: series.as_ref().and_then(|series| held_back(series, recording)),
            periods: series.as_ref().filter(|_| is_whole).map(Series::periods).unwrap_or_default(),
            threshold: None,
            outcome,
            machine,
        })
    }

    /// Tells what took the time of the sample over the threshold, if there is one, and runs the command for it.
    fn explain(&mut self, moment: &Moment, traced: Option<Result<Traced, TraceError>>) {
        let found = self.outcome.request.on_threshold.zip(self.outcome.threshold).zip(traced);
        let Some((((asked, hit), traced), stats)) = found.zip(self.stats.as_ref()) else { return };
        let told = moment::tell(asked, &hit, &self.outcome, stats.floor_ns, traced);
        moment.run_command(&told);
        self.threshold = Some(told);
    }

    fn exit_code(&self, max_overhead: Option<Duration>) -> ExitCode {
        let longest_ns = self.held_back.as_ref().map(|held_back| held_back.rest_max_overhead_ns);
        let longest_ns = longest_ns.or(self.stats.as_ref().map(|stats| stats.max_overhead_ns));
        let over = |longest_ns: f64| max_overhead.is_some_and(|most| longest_ns > most.as_nanos() as f64);
        if !self.head.valid {
            ExitCode::from(NOT_VALID)
        } else if self.threshold.is_some() || longest_ns.is_some_and(over) {
            ExitCode::from(OVER_THRESHOLD)
        } else if max_overhead.is_some() && self.is_no_pass() {
            ExitCode::from(NOT_VALID)
        } else {
            ExitCode::SUCCESS
        }
    }

    /// Whether a longer sample may just not have been seen, or the measurement is not the one that was asked for.
    fn is_no_pass(&self) -> bool {
        self.stats.is_none() || self.outcome.findings.iter().any(|one| NO_PASS.contains(&one.code.as_str()))
    }

    fn write_text(&self, output: &mut impl Write) -> io::Result<()> {
        let placement = &self.outcome.placement;
        let cpus: Vec<String> = placement.cpus.iter().map(u32::to_string).collect();
        writeln!(output, "CPU {}, {} {}", cpus.join(","), placement.policy, placement.priority)?;
        if let Some(stats) = &self.stats {
            writeln!(output, "samples   {:>14}", stats.count)?;
            let lines = [
                ("floor", stats.floor_ns),
                ("p50", stats.p50_ns),
                ("p99", stats.p99_ns),
                ("p99.9", stats.p999_ns),
                ("p99.99", stats.p9999_ns),
                ("max", stats.max_ns),
                ("overhead", stats.max_overhead_ns),
            ];
            for (name, value_ns) in lines {
                writeln!(output, "{name:<9} {:>14.3} us", value_ns * 1e-3)?;
            }
            writeln!(output, "max at    {:>14.6} s", stats.max_at_s)?;
        }
        if let Some(held_back) = &self.held_back
            && held_back.count + held_back.unproven > 0
        {
            let longest_us = held_back.longest_ns.unwrap_or(0.0) * 1e-3;
            writeln!(output, "stopped   {:>14} samples by this kernel, up to {longest_us:.3} us", held_back.count)?;
            writeln!(output, "not so    {:>14} samples as long as that, without evidence", held_back.unproven)?;
            writeln!(output, "others    {:>14.3} us over the floor", held_back.rest_max_overhead_ns * 1e-3)?;
        }
        for period in &self.periods {
            let (every_ms, cost_us) = (period.period_s * 1e3, period.cost_p50_ns * 1e-3);
            writeln!(output, "every     {every_ms:>14.3} ms: {cost_us:.3} us ({} times)", period.events)?;
        }
        if let Some(threshold) = &self.threshold {
            threshold.write_text(output)?;
        }
        write_findings(&self.outcome.findings, output)
    }
}
