//! Recordings of the kernel: of a machine for as long as the control plane wants, or of a trial from within.
//!
//! On a host a thread on the housekeeping CPUs reads all the time. In a machine under test nothing may run
//! beside the probe: the kernel's buffer has to hold the whole trial, and is read after the last sample.

use std::cell::RefCell;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Result;
use arrow_schema::ArrowError;
use stealtime_probe::clock::read_clocks;
use stealtime_probe::observer::Observer;
use stealtime_probe::{Recording, Trial, TrialError, run_trial, scheduling};
use stealtime_trace::{Recorded, Recorder, Row, Switch, TraceError, Tracefs, groups};
use stealtime_wire::{ClockReading, Facts, Finding, FindingLevel, Reading, TraceRequest, TracingOutcome};

use crate::restore::Watchdog;
use crate::trace_table;

/// Between two readings: short against the time in which 300,000 events/s fill 1 MiB, and long against what
/// one costs.
const READ_EVERY: Duration = Duration::from_millis(10);

/// Above ordinary load, below everything that is measured or steals: a reader that has to wait loses events.
const READER_PRIORITY: u32 = 1;

/// A recording that has ended, and when it was on.
pub struct Traced {
    recorded: RefCell<Recorded>,
    start: ClockReading,
    end: ClockReading,
}

impl Traced {
    pub fn write_table(&self, tsc_hz: f64, output: &mut dyn Write) -> Result<(), ArrowError> {
        trace_table::write(&mut self.recorded.borrow_mut(), tsc_hz, output)
    }

    /// When it was on, in the counter of its events.
    pub fn covered(&self) -> (u64, u64) {
        (self.start.tsc, self.end.tsc)
    }

    /// All of its events; instead of writing the table.
    pub fn into_events(self) -> Result<Events, TraceError> {
        let mut recorded = self.recorded.into_inner();
        let mut rows = Vec::new();
        while recorded.take(usize::MAX, &mut rows)? {}
        let (names, findings) = recorded.conclude();
        Ok(Events { rows, names, findings })
    }

    /// What came of it, once the table was written.
    pub fn outcome(self, tsc_hz: f64) -> TracingOutcome {
        let Self { recorded, start, end } = self;
        let recorded = recorded.into_inner();
        let (clock, groups) = (recorded.clock.to_owned(), recorded.groups.clone());
        let (events, lost) = (recorded.events(), recorded.lost);
        let (names, findings) = recorded.conclude();
        TracingOutcome { clock, tsc_hz, start, end, events, lost, groups, names, findings }
    }
}

/// What was recorded, in memory.
pub struct Events {
    /// In the order of time.
    pub rows: Vec<Row>,
    /// What their column `name` counts.
    pub names: Vec<String>,
    /// What a reader must know.
    pub findings: Vec<Finding>,
}

/// A recording under way, with a thread that reads it; dropped, it ends and leaves nothing.
pub struct Tracing {
    pub trial: u64,
    reader: Option<JoinHandle<Result<Recorder, TraceError>>>,
    is_over: Arc<AtomicBool>,
    switch: Switch,
    start: ClockReading,
    groups: Facts,
    /// Removes the instance if this process is killed.
    _watchdog: Watchdog,
}

impl Tracing {
    /// Starts to record.
    ///
    /// # Errors
    /// [`TraceError`], or that no thread or process can be started; nothing is left then.
    pub fn start(trial: u64, request: &TraceRequest) -> Result<Self> {
        let watchdog = Watchdog::start()?;
        let recorder = Recorder::prepare(Arc::new(Tracefs::open()?), request)?;
        let (switch, groups) = (recorder.switch(), recorder.groups().clone());
        let is_over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_over);
        let reader = thread::Builder::new().name("trace-reader".to_owned()).spawn(move || read(recorder, &told))?;
        let mut tracing =
            Self { trial, reader: Some(reader), is_over, switch, start: read_clocks(), groups, _watchdog: watchdog };
        tracing.switch.on()?;
        tracing.start = read_clocks();
        Ok(tracing)
    }

    /// Which groups of events are recorded; an absent one says why it is not.
    pub fn groups(&self) -> &Facts {
        &self.groups
    }

    /// Ends it and takes the rest.
    pub fn stop(mut self) -> Result<Traced> {
        let end = read_clocks();
        self.switch.off()?;
        let recorder = self.end_reader().transpose()?;
        let recorded = recorder.map(Recorder::finish).transpose()?;
        let recorded = recorded.ok_or_else(|| anyhow::anyhow!("the thread that reads the trace panicked"))?;
        Ok(Traced { recorded: RefCell::new(recorded), start: self.start, end })
    }

    fn end_reader(&mut self) -> Option<Result<Recorder, TraceError>> {
        self.is_over.store(true, Ordering::SeqCst);
        self.reader.take()?.join().ok()
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        // What it gives removes the instance when it goes out of scope here.
        let _ = self.end_reader();
    }
}

fn read(mut recorder: Recorder, is_over: &AtomicBool) -> Result<Recorder, TraceError> {
    // Refused, it reads when it can; what is lost is counted.
    let _ = scheduling::request_fifo(READER_PRIORITY);
    while !is_over.load(Ordering::SeqCst) {
        if !recorder.drain()? {
            thread::sleep(READ_EVERY);
        }
    }
    Ok(recorder)
}

/// Turns the recording of a trial on and off around its samples; without a recording it does nothing.
#[derive(Default)]
pub struct AroundSamples {
    switch: OnceLock<Switch>,
    start: OnceLock<ClockReading>,
    end: OnceLock<ClockReading>,
}

/// Shared between the trial, which calls it, and the thread that holds the recording.
pub struct SharedAroundSamples(pub Arc<AroundSamples>);

impl Observer for SharedAroundSamples {
    fn begin(&self) {
        if let Some(switch) = self.0.switch.get() {
            // Refused, the table is empty, and with it no spike is explained.
            let _ = switch.on();
            let _ = self.0.start.set(read_clocks());
        }
    }

    fn end(&self) {
        if let Some(switch) = self.0.switch.get() {
            let _ = self.0.end.set(read_clocks());
            let _ = switch.off();
        }
    }

    fn exceeded(&self) {
        if let Some(switch) = self.0.switch.get() {
            // The other way round: what the reading takes must not push the oldest events out.
            let _ = switch.off();
            let _ = self.0.end.set(read_clocks());
        }
    }
}

pub struct TrialEnd {
    pub recording: Recording,
    /// Its trace, where one was asked for.
    pub traced: Option<Result<Traced, TraceError>>,
}

/// Carries out a trial, with a recording of this machine's kernel if one is asked for.
///
/// # Errors
/// [`TrialError`]. A kernel that cannot be recorded is no error: the trial is measured without.
pub fn run(trial: &Trial, around: &AroundSamples) -> Result<TrialEnd, TrialError> {
    let prepared = trial.request.tracing.as_ref().map(|request| {
        let recorder = Recorder::prepare(Arc::new(Tracefs::open()?), request)?;
        // Once in a trial.
        let _ = around.switch.set(recorder.switch());
        Ok(recorder)
    });
    let recording = run_trial(trial)?;
    let traced = prepared.map(|prepared: Result<Recorder, TraceError>| {
        let recorded = RefCell::new(prepared?.finish()?);
        let reading = |of: &OnceLock<ClockReading>| of.get().copied().unwrap_or_else(read_clocks);
        Ok(Traced { recorded, start: reading(&around.start), end: reading(&around.end) })
    });
    Ok(TrialEnd { recording, traced })
}

/// The outcome of a recording that could not be made.
pub fn refused(error: &TraceError, tsc_hz: f64, start: ClockReading, end: ClockReading) -> TracingOutcome {
    let groups = groups::NAMES.into_iter().map(|name| (name.to_owned(), Reading::Absent(error.to_string())));
    let finding = Finding {
        code: "not_traced".to_owned(),
        level: FindingLevel::Limits,
        text: format!("the machine's kernel was not recorded: {error}"),
        hint: error.hint(),
    };
    TracingOutcome {
        clock: "x86-tsc".to_owned(),
        tsc_hz,
        start,
        end,
        events: 0,
        lost: 0,
        groups: groups.collect(),
        names: Vec::new(),
        findings: vec![finding],
    }
}
