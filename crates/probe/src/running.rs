//! A trial that runs, as those see it who do not measure: they watch it, stop it, and take its samples away.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use stealtime_wire::{ClockReading, ClockRecord, Finding, Layout, ThreadPlacement, TrialOutcome, TrialRequest};

use crate::clock::{SampleClock, TscRate, read_clocks};
use crate::keeping::Taker;
use crate::observer::{Observer, Threads};
use crate::recorder::Recorder;
use crate::rows::Rows;
use crate::samples::Samples;
use crate::time_line::TimeLine;
use crate::{facts, findings};

/// Copied at a time: 1 MiB of durations.
const BATCH_ROWS: usize = 1 << 18;

/// All that a trial leaves behind.
pub struct Recording {
    /// Empty where the outcome has no layout.
    pub samples: Samples,
    /// Of a probe that has rows of its own.
    pub rows: Rows,
    /// (start, duration) of each injected theft, as stamped by the thief, from the start of sample 0.
    pub injected: Vec<(u64, u64)>,
    /// (start, duration) of each stretch in which an ordinary thread ran, or nobody, though the probe could have;
    /// from the start of sample 0.
    pub ordinary: Vec<(u64, u64)>,
    /// What a reader must know about the samples.
    pub outcome: TrialOutcome,
}

/// The samples of a trial that were taken away so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Taken {
    /// How many.
    pub rows: usize,
    /// From the start of the first to the end of the last, with the pauses.
    pub elapsed_units: u64,
}

impl Taken {
    /// How long a trial watched that is over, whose other samples are at hand.
    pub(crate) fn watched_until_end(self, samples: &Samples, layout: Layout) -> u64 {
        let line = TimeLine::of(samples, layout);
        let mut elapsed = self.elapsed_units;
        let mut first = self.rows;
        while first < samples.count() {
            let rows = first..samples.count().min(first + BATCH_ROWS);
            elapsed = line.walk(first, elapsed, &samples.copy(rows.clone()), |_| ());
            first = rows.end;
        }
        elapsed.saturating_sub(line.paused())
    }
}

/// What is known of a trial when its first sample comes.
#[derive(Debug)]
pub(crate) struct Opening {
    pub layout: Option<Layout>,
    pub clock: SampleClock,
    pub floor_units: Option<u64>,
    pub placement: ThreadPlacement,
    pub start: ClockReading,
    pub start_realtime_ns: u64,
}

/// The handle of a running trial for threads that do not measure.
#[derive(Default)]
pub struct RunningTrial {
    recorder: OnceLock<Weak<Recorder>>,
    cancelled: AtomicBool,
    observer: Option<Arc<dyn Observer>>,
    taker: Option<Arc<Taker>>,
    taken: Mutex<Taken>,
    findings: Mutex<Vec<Finding>>,
    opening: OnceLock<Opening>,
    pub threads: Threads,
}

impl RunningTrial {
    /// A trial that has not started.
    pub fn new() -> Self {
        Self::default()
    }

    /// A trial whose progress goes to an observer.
    pub fn observed_by(observer: Arc<dyn Observer>) -> Self {
        Self { observer: Some(observer), ..Self::default() }
    }

    /// Has its samples taken away while it measures, if it is long.
    #[must_use]
    pub fn taken_by(self, taker: Taker) -> Self {
        Self { taker: Some(Arc::new(taker)), ..self }
    }

    /// What was taken away so far.
    pub fn taken(&self) -> Taken {
        *self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what was taken away; before the recorder is let go, so that the end of the trial knows it.
    pub fn set_taken(&self, taken: Taken) {
        *self.taken.lock().unwrap_or_else(PoisonError::into_inner) = taken;
    }

    pub(crate) fn taker(&self) -> Option<&Arc<Taker>> {
        self.taker.as_ref()
    }

    /// Notes what a reader must know, so that it is told also of a trial that does not come to its end.
    pub(crate) fn note(&self, findings: impl IntoIterator<Item = Finding>) {
        self.findings.lock().unwrap_or_else(PoisonError::into_inner).extend(findings);
    }

    /// Notes how a trial begins.
    pub(crate) fn open(&self, opening: Opening) {
        let _ = self.opening.set(opening);
    }

    /// How its samples lie in time, once it has begun; none where it has no samples.
    pub fn layout(&self) -> Option<Layout> {
        self.opening.get()?.layout
    }

    /// What came of the trial if it had ended with the last of `rows` samples; nothing before its first sample, and of
    /// one that has no samples. More may be measured meanwhile, and are not counted: nobody has them yet.
    ///
    /// `watched_units` is how long those samples took.
    pub fn outcome_so_far(
        &self,
        request: &TrialRequest,
        rate: &TscRate,
        rows: usize,
        watched_units: u64,
    ) -> Option<TrialOutcome> {
        let (opening, recorder) = (self.opening.get()?, self.recorder()?);
        let end = read_clocks();
        let check = rate.check(&opening.start, &end);
        let mut found = self.findings.lock().unwrap_or_else(PoisonError::into_inner).clone();
        found.extend(findings::clocks(&check));
        let (saturated, saturated_gaps, lost) = recorder.saturated();
        let units_per_s = opening.clock.units_per_s(rate);
        found.extend(findings::stepped_back(&saturated, &saturated_gaps, units_per_s));
        let of_them = |entries: &[(u64, u64)]| entries.iter().filter(|&&(index, _)| index < rows as u64).count() as u64;
        let mut counters = BTreeMap::from([
            ("recorded".to_owned(), rows as u64),
            ("saturated".to_owned(), of_them(&saturated)),
            ("saturated_gaps".to_owned(), of_them(&saturated_gaps)),
            ("lost".to_owned(), lost),
        ]);
        findings::watched(watched_units, &recorder.pauses(), units_per_s, &mut counters, &mut found);
        Some(TrialOutcome {
            trial: request.trial,
            request: request.clone(),
            findings: found,
            clock: ClockRecord {
                name: opening.clock.name().to_owned(),
                units_per_s,
                tsc_hz: rate.hz,
                tsc_hz_source: rate.source.clone(),
                check,
                facts: facts::clocks(),
                start: opening.start,
                end,
                start_realtime_ns: opening.start_realtime_ns,
                origin_units: recorder.origin(),
            },
            layout: opening.layout,
            placement: ThreadPlacement { thread_ids: self.threads.of_probe(), ..opening.placement.clone() },
            calibrated_floor_units: opening.floor_units,
            rtload: None,
            // What it explains is found at the end; until then each sample counts.
            limit: None,
            counters,
            threads: self.threads.list(),
            tracing: None,
            threshold: recorder.hit(),
        })
    }

    /// By which the recording of a trial is stopped at a sample that is too long.
    pub(crate) fn observer(&self) -> Option<Arc<dyn Observer>> {
        self.observer.clone()
    }

    /// The first sample is about to be measured.
    pub(crate) fn begin(&self) {
        if let Some(observer) = &self.observer {
            observer.begin();
        }
    }

    /// The last sample was measured.
    pub(crate) fn end(&self) {
        if let Some(observer) = &self.observer {
            observer.end();
        }
    }

    /// Stops the trial at its next sample; what was measured is kept.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
        if let Some(recorder) = self.recorder() {
            recorder.stop();
        }
    }

    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }

    /// The sample memory, while there is one.
    pub fn recorder(&self) -> Option<Arc<Recorder>> {
        self.recorder.get()?.upgrade()
    }

    pub(crate) fn attach(&self, recorder: &Arc<Recorder>) {
        let _ = self.recorder.set(Arc::downgrade(recorder));
        if self.is_cancelled() {
            recorder.stop();
        }
    }
}

/// Ends the sharing of a recorder; whoever looks at its progress does so for microseconds only.
pub(crate) fn reclaim(mut recorder: Arc<Recorder>) -> Recorder {
    loop {
        match Arc::try_unwrap(recorder) {
            Ok(alone) => return alone,
            Err(shared) => recorder = shared,
        }
        std::thread::sleep(std::time::Duration::from_micros(50));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SampleClock;

    #[test]
    fn a_trial_cancelled_before_its_memory_exists_stops_at_once() {
        let running = RunningTrial::new();
        running.cancel();
        let recorder = Arc::new(Recorder::new(1, false, 0, SampleClock::Tsc).unwrap());
        running.attach(&recorder);
        recorder.start(1, 1000);
        assert_eq!(recorder.deadline(), 0);
    }
}
