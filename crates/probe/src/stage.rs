//! What stands ready before the first sample: the sample memory, locked and touched, and the clocks read.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use stealtime_wire::{ClockReading, Finding, Layout};

use crate::clock::{self, SampleClock};
use crate::error::TrialError;
use crate::further::FurtherColumns;
use crate::keeping::{Keeping, MOST_BYTES};
use crate::recorder::Recorder;
use crate::running::Opening;
use crate::side_list::SideList;
use crate::threshold::Threshold;
use crate::trial::Trial;
use crate::{findings, scheduling, steal, sys};

/// Sample memory may take half of what may still be used.
const MEMORY_SHARE_DIVISOR: u64 = 2;

/// The most samples are estimated from the shortest of a few, which a ring of many threads is far from, and with
/// [`FASTER_THAN_SEEN`].
const CERTAINLY_TOO_MANY: u64 = 6;

/// A processor may run so much faster in a trial than in the search just before: where others share its core or its
/// power, the shortest turn of 30 ms was seen to be 1.25 times the mean of the trial.
const FASTER_THAN_SEEN: u64 = 2;

/// Room for so many samples at least, where they are taken away in parts: handing over costs more than they do.
const LEAST_OF_A_PART: u64 = 1024;

/// What the measuring thread gives to its probe.
pub struct Stage<'a> {
    /// What is carried out.
    pub trial: &'a Trial<'a>,
    /// The CPUs on which this thread is placed.
    pub cpus: &'a [u32],
    pub(crate) layout: Option<Layout>,
    pub(crate) clock: SampleClock,
    /// Hears when only the measuring is left to do.
    pub(crate) ready: &'a Sender<()>,
}

/// A trial whose first sample comes next.
pub struct Begun {
    /// Where the samples go.
    pub recorder: Arc<Recorder>,
    pub(crate) finding: Option<Finding>,
    /// As the kernel had counted then.
    pub(crate) stolen_ns: Option<u64>,
    pub(crate) start_realtime_ns: u64,
    pub(crate) start: ClockReading,
}

impl Stage<'_> {
    /// The last before the first sample. `most_samples` is how many the trial can hold at most, `floor_units`
    /// the cheapest sample of a calibration just before.
    pub fn begin(&self, most_samples: u64, floor_units: Option<u64>) -> Result<Begun, TrialError> {
        let running = self.trial.running;
        let recorder = Arc::new(self.allocate(most_samples)?.held_against(self.threshold(floor_units)));
        let placement =
            scheduling::placement(running.threads.of_probe()).map_err(|source| TrialError::Placement { source })?;
        running.attach(&recorder);
        // Code and stacks. Refused, it is a finding that the locking of the samples has made already.
        let _ = sys::lock_present_memory();
        let finding = recorder.lock_error().map(findings::memory_not_locked);
        let stolen_ns = steal::stolen_ns(self.cpus);
        // Nobody waits for it where nothing is stolen.
        let _ = self.ready.send(());
        running.begin();
        running.note(finding.clone());
        let start_realtime_ns = clock::realtime_ns();
        let start = clock::read_clocks();
        let (layout, clock) = (self.layout, self.clock);
        if layout.is_some() {
            running.open(Opening { layout, clock, floor_units, placement, start, start_realtime_ns });
        }
        Ok(Begun { recorder, finding, stolen_ns, start_realtime_ns, start })
    }

    /// What is too long for a sample, in its units: by so much over the floor that a calibration found just before.
    fn threshold(&self, floor_units: Option<u64>) -> Threshold {
        let Some(asked) = self.trial.request.on_threshold.filter(|_| self.layout.is_some()) else {
            return Threshold::none();
        };
        let longest_units = floor_units.unwrap_or(0).saturating_add(self.units(asked.overhead_ns));
        Threshold::new(longest_units, asked.stop, self.trial.running.observer())
    }

    /// More samples than the duration can hold, by the shortest turn that was seen before.
    pub fn most_turns(&self, shortest_cycles: u64) -> u64 {
        FASTER_THAN_SEEN * (self.trial.duration_cycles() / shortest_cycles.max(1)) + 1024
    }

    fn allocate(&self, most_samples: u64) -> Result<Recorder, TrialError> {
        let (request, running) = (self.trial.request, self.trial.running);
        let with_gaps = self.layout.is_some_and(Layout::has_gaps);
        let further = self.layout.map_or(0, |layout| layout.further_columns().len());
        let bytes_each = size_of::<u32>() as u64 * (1 + u64::from(with_gaps) + further as u64);
        let room = stealtime_memory::room(Path::new("/"));
        let memory_samples = room.as_ref().map_or(u64::MAX, |room| room.bytes) / MEMORY_SHARE_DIVISOR / bytes_each;
        let limit = || room.as_ref().map_or_else(|| "nothing".to_owned(), |room| room.limit.clone());
        let wanted = request.max_samples.unwrap_or(u64::MAX).min(most_samples);
        let taker = running
            .taker()
            .filter(|taker| self.layout.is_some() && (request.duration_ns > taker.every_ns || wanted > memory_samples));
        let make = |wanted: u64| {
            let samples = usize::try_from(wanted.max(1)).unwrap_or(usize::MAX);
            let bytes = wanted.saturating_mul(bytes_each);
            self.recorder(samples).map_err(|source| TrialError::Memory { samples, bytes, source })
        };
        let Some(taker) = taker else {
            return match whole(request.max_samples, most_samples, memory_samples) {
                Whole::Fits(samples) => make(samples),
                Whole::AskedForMore(samples) => Err(TrialError::Memory {
                    samples: usize::try_from(samples).unwrap_or(usize::MAX),
                    bytes: samples.saturating_mul(bytes_each),
                    source: io::Error::new(
                        io::ErrorKind::OutOfMemory,
                        format!("memory may hold {memory_samples}, in half of what may still be used by {}", limit()),
                    ),
                }),
                Whole::TooLong => Err(TrialError::NotKept {
                    duration_s: request.duration_ns as f64 * 1e-9,
                    samples: most_samples,
                    memory_samples,
                    limit: limit(),
                }),
            };
        };
        let share = taker.every_ns as f64 / request.duration_ns as f64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of samples")]
        let of_a_part = (most_samples as f64 * share.min(1.0)) as u64 + LEAST_OF_A_PART;
        let most = memory_samples.min(MOST_BYTES / bytes_each).max(LEAST_OF_A_PART);
        let (keeping, capacity) = if taker.is_beside {
            (Keeping::Beside, (2 * of_a_part).min(most).next_multiple_of(2))
        } else {
            (Keeping::Pausing { every: self.units(taker.every_ns) }, of_a_part.min(most))
        };
        let is_periodic = matches!(self.layout, Some(Layout::Periodic { .. }));
        let limit = request.max_samples.unwrap_or(u64::MAX).min(if is_periodic { most_samples } else { u64::MAX });
        Ok(make(capacity)?.kept(keeping, usize::try_from(limit).unwrap_or(usize::MAX), Arc::clone(taker)))
    }

    fn recorder(&self, samples: usize) -> io::Result<Recorder> {
        let duration_ns = self.trial.request.duration_ns;
        let layout = self.layout.unwrap_or(Layout::Tiled);
        let recorder = Recorder::new(samples, layout.has_gaps(), duration_ns, self.clock)?;
        if !layout.overlaps() {
            return Ok(recorder);
        }
        let further = FurtherColumns::new(layout.further_columns().len(), samples, duration_ns)?;
        Ok(recorder.with(further, SideList::for_requests(samples, duration_ns)))
    }

    fn units(&self, ns: u64) -> u64 {
        match self.clock {
            SampleClock::Tsc => self.trial.rate.to_cycles(ns),
            SampleClock::Monotonic => ns,
        }
    }
}

/// What becomes of samples of which none are taken away while a trial measures.
#[derive(Debug, PartialEq, Eq)]
enum Whole {
    /// There is room for so many: all that may come, or as many as memory may hold.
    Fits(u64),
    /// So many were asked for, and memory may hold fewer.
    AskedForMore(u64),
    /// The duration may give far more than memory may hold.
    TooLong,
}

/// Finds how many samples to make room for.
///
/// # Arguments
/// * `asked`: after how many the trial is to end.
/// * `most`: how many the duration can give, which may be an estimate that is far too high.
/// * `memory`: how many memory may hold.
fn whole(asked: Option<u64>, most: u64, memory: u64) -> Whole {
    match asked.filter(|&asked| asked < most) {
        Some(asked) if asked > memory => Whole::AskedForMore(asked),
        Some(asked) => Whole::Fits(asked),
        None if most / CERTAINLY_TOO_MANY > memory => Whole::TooLong,
        None => Whole::Fits(most.min(memory)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use stealtime_wire::{Probe, Tick, TrialRequest};

    use super::*;
    use crate::clock::TscRate;
    use crate::running::RunningTrial;

    #[test]
    fn room_is_made_for_what_may_come_and_no_more_than_memory_may_hold_is_promised() {
        assert_eq!(whole(None, 100, 1_000), Whole::Fits(100));
        assert_eq!(whole(Some(60), 100, 1_000), Whole::Fits(60));
        assert_eq!(whole(Some(1_000_000_000), 100, 1_000), Whole::Fits(100), "the duration gives no more");
        assert_eq!(whole(Some(60), 100, 50), Whole::AskedForMore(60));
        assert_eq!(whole(None, 100, 50), Whole::Fits(50), "the estimate may be too high");
        assert_eq!(whole(Some(1_000_000_000), 100, 50), Whole::Fits(50), "as without it");
        assert_eq!(whole(None, 300, 50), Whole::Fits(50), "as high as it may be");
        assert_eq!(whole(None, 1_000, 50), Whole::TooLong);
        assert_eq!(whole(Some(40), 1_000, 50), Whole::Fits(40));
    }

    #[test]
    fn a_processor_that_is_faster_than_in_the_search_before_finds_room() {
        let request = TrialRequest::plain(Probe::Tick(Tick { iterations: 1 }), vec![0], 0, 300_000_000);
        let rate = TscRate { hz: 1e9, source: "made up".to_owned() };
        let (running, (ready, _is_ready)) = (RunningTrial::new(), channel());
        let trial = Trial { request: &request, rate: &rate, running: &running };
        let stage = Stage { trial: &trial, cpus: &[0], layout: None, clock: SampleClock::Tsc, ready: &ready };
        // As seen natively: the search had found 1,268 cycles, and 295,859 turns came before 0.3 s were over.
        assert!(stage.most_turns(1_268) > 300_000_000 / 800);
    }

    #[test]
    fn samples_that_were_asked_for_and_cannot_come_take_no_memory() {
        let request = TrialRequest {
            max_samples: Some(1_000_000),
            ..TrialRequest::plain(Probe::Tick(Tick { iterations: 1 }), vec![0], 0, 1_000_000)
        };
        let rate = TscRate { hz: 1e9, source: "made up".to_owned() };
        let (running, (ready, _is_ready)) = (RunningTrial::new(), channel());
        let trial = Trial { request: &request, rate: &rate, running: &running };
        let of = |layout| Stage { trial: &trial, cpus: &[0], layout, clock: SampleClock::Tsc, ready: &ready };
        assert_eq!(of(Some(Layout::Tiled)).allocate(2_000).unwrap().capacity(), 2_000);
        assert_eq!(of(None).allocate(1).unwrap().capacity(), 1, "of a probe that has rows instead");
    }
}
