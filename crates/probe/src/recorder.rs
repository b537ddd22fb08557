//! The memory that samples are written to, and the handle by which others watch and stop a trial.
//!
//! One CPU writes (one thread, or several that hand over to each other on that CPU); a thread on another CPU
//! may look at the count and the samples so far. All stores are relaxed atomics, which are plain `mov`
//! instructions on x86-64, so that being watched costs the writer nothing.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use stealtime_wire::{Progress, TrialOutcome};

use crate::clock::{SampleClock, TscRate};
use crate::observer::{Observer, Threads};
use crate::probe::Rows;
use crate::sys::{FrozenArray, LockedArray};

/// Stands in a sample's place when its value does not fit 32 bits; the true value is in the side list.
pub const SATURATED: u32 = u32::MAX;

/// True values of saturated samples. A stall over 2^32 cycles lasts longer than a second, so the list is
/// sized by the trial's duration and cannot overflow unless time itself is broken; if it does, `lost` tells.
struct SideList {
    entries: Box<[(AtomicU64, AtomicU64)]>,
    length: AtomicUsize,
    lost: AtomicU64,
}

impl SideList {
    fn new(capacity: usize) -> Self {
        let entries = (0..capacity).map(|_| (AtomicU64::new(0), AtomicU64::new(0))).collect();
        Self { entries, length: AtomicUsize::new(0), lost: AtomicU64::new(0) }
    }

    #[cold]
    fn push(&self, index: usize, value: u64) {
        let position = self.length.load(Ordering::Relaxed);
        if let Some((at, what)) = self.entries.get(position) {
            at.store(index as u64, Ordering::Relaxed);
            what.store(value, Ordering::Relaxed);
            self.length.store(position + 1, Ordering::Relaxed);
        } else {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn into_entries(self) -> Vec<(u64, u64)> {
        let length = self.length.into_inner();
        self.entries.into_iter().take(length).map(|(at, what)| (at.into_inner(), what.into_inner())).collect()
    }
}

/// Sample memory of one trial.
pub struct Recorder {
    durations: LockedArray,
    gaps: Option<LockedArray>,
    length: AtomicUsize,
    long_durations: SideList,
    long_gaps: SideList,
    /// In the trial's clock; 0 means stop now.
    deadline: AtomicU64,
    origin: AtomicU64,
    clock: SampleClock,
}

impl Recorder {
    /// Allocates, locks and touches memory for `capacity` samples. Call it on the measuring thread, after
    /// pinning.
    pub fn new(capacity: usize, with_gaps: bool, duration_ns: u64, clock: SampleClock) -> io::Result<Self> {
        let long = usize::try_from(duration_ns / 1_000_000_000).unwrap_or(usize::MAX).saturating_add(64);
        Ok(Self {
            durations: LockedArray::new(capacity)?,
            gaps: if with_gaps { Some(LockedArray::new(capacity)?) } else { None },
            length: AtomicUsize::new(0),
            long_durations: SideList::new(long),
            long_gaps: SideList::new(if with_gaps { long } else { 0 }),
            deadline: AtomicU64::new(u64::MAX),
            origin: AtomicU64::new(0),
            clock,
        })
    }

    /// Why the memory is not locked, if so.
    pub fn lock_error(&self) -> Option<&io::Error> {
        self.durations.lock_error().or_else(|| self.gaps.as_ref().and_then(LockedArray::lock_error))
    }

    /// How many samples fit.
    pub fn capacity(&self) -> usize {
        self.durations.cells().len()
    }

    /// Samples written so far.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.length.load(Ordering::Acquire)
    }

    /// Whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Marks the start of sample 0 and when to stop, both in the trial's clock.
    pub fn start(&self, origin: u64, deadline: u64) {
        self.origin.store(origin, Ordering::Relaxed);
        // A cancellation that came before the start must not be overwritten.
        let _ = self.deadline.compare_exchange(u64::MAX, deadline, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The start of sample 0, 0 while there is none.
    pub fn origin(&self) -> u64 {
        self.origin.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub fn deadline(&self) -> u64 {
        self.deadline.load(Ordering::Relaxed)
    }

    /// Makes the measuring stop at its next look at the deadline.
    pub fn stop(&self) {
        self.deadline.store(0, Ordering::Relaxed);
    }

    /// Writes the duration of sample `index`. The caller counts, so that its loop keeps the index in a
    /// register.
    #[inline(always)]
    pub fn write(&self, index: usize, duration: u64) {
        let value = self.narrow(index, duration, &self.long_durations);
        self.durations.cells()[index].store(value, Ordering::Relaxed);
        self.length.store(index + 1, Ordering::Release);
    }

    /// Writes the gap before a sample, and the sample.
    #[inline(always)]
    pub fn write_with_gap(&self, index: usize, gap: u64, duration: u64) {
        if let Some(gaps) = &self.gaps {
            let value = self.narrow(index, gap, &self.long_gaps);
            gaps.cells()[index].store(value, Ordering::Relaxed);
        }
        self.write(index, duration);
    }

    #[inline(always)]
    #[expect(clippy::unused_self, reason = "reads as a method beside the two that use it")]
    fn narrow(&self, index: usize, value: u64, list: &SideList) -> u32 {
        match u32::try_from(value) {
            Ok(narrow) if narrow != SATURATED => narrow,
            _ => {
                list.push(index, value);
                SATURATED
            }
        }
    }

    /// The longest of the samples from `from` up to now; saturated ones count as [`SATURATED`].
    pub fn longest_since(&self, from: usize) -> u32 {
        let length = self.len();
        let cells = &self.durations.cells()[from.min(length)..length];
        cells.iter().map(|cell| cell.load(Ordering::Relaxed)).max().unwrap_or(0)
    }

    /// Whether [`Self::stop`] was called.
    #[inline(always)]
    pub fn is_stopped(&self) -> bool {
        self.deadline() == 0
    }

    /// How a trial goes, in the words of the wire.
    pub fn progress(&self, trial: u64, rate: &TscRate, longest_units: u32) -> Progress {
        let origin = self.origin();
        let (elapsed_ns, max_ns) = match self.clock {
            SampleClock::Tsc => {
                let elapsed = rate.to_ns(self.clock.now().saturating_sub(origin));
                (elapsed, rate.to_ns(longest_units.into()))
            }
            SampleClock::Monotonic => (self.clock.now().saturating_sub(origin) as f64, longest_units.into()),
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, below 2^53")]
        let elapsed_ns = elapsed_ns as u64;
        Progress { trial, elapsed_ns, samples: self.len() as u64, max_ns }
    }

    pub fn into_samples(self) -> Samples {
        Samples {
            count: self.length.into_inner(),
            durations: self.durations.freeze(),
            gaps: self.gaps.map(LockedArray::freeze),
            lost: self.long_durations.lost.load(Ordering::Relaxed) + self.long_gaps.lost.load(Ordering::Relaxed),
            saturated: self.long_durations.into_entries(),
            saturated_gaps: self.long_gaps.into_entries(),
        }
    }
}

/// The samples of a trial that is over.
pub struct Samples {
    durations: FrozenArray,
    gaps: Option<FrozenArray>,
    count: usize,
    /// (index, true duration) of the samples that hold [`SATURATED`].
    pub saturated: Vec<(u64, u64)>,
    /// (index, true gap) of the gaps that hold [`SATURATED`].
    pub saturated_gaps: Vec<(u64, u64)>,
    /// Saturated values whose true value could not be kept.
    pub lost: u64,
}

impl Samples {
    /// How long each sample took, in the trial's units.
    pub fn durations(&self) -> &[u32] {
        &self.durations.as_slice()[..self.count]
    }

    /// The time before each sample, where the layout has gaps.
    pub fn gaps(&self) -> Option<&[u32]> {
        self.gaps.as_ref().map(|gaps| &gaps.as_slice()[..self.count])
    }
}

/// All that a trial leaves behind.
pub struct Recording {
    /// Empty where the outcome has no layout.
    pub samples: Samples,
    /// Of a probe that has rows of its own.
    pub rows: Rows,
    /// (start, duration) of each injected theft, as stamped by the thief, from the start of sample 0.
    pub injected: Vec<(u64, u64)>,
    /// What a reader must know about the samples.
    pub outcome: TrialOutcome,
}

/// The handle of a running trial for threads that do not measure.
#[derive(Default)]
pub struct RunningTrial {
    recorder: OnceLock<Weak<Recorder>>,
    cancelled: AtomicBool,
    observer: Option<Box<dyn Observer>>,
    /// The threads that it measures with.
    pub threads: Threads,
}

impl RunningTrial {
    /// A trial that has not started.
    pub fn new() -> Self {
        Self::default()
    }

    /// A trial whose progress goes to an observer.
    pub fn observed_by(observer: Box<dyn Observer>) -> Self {
        Self { observer: Some(observer), ..Self::default() }
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

    #[test]
    fn values_over_32_bits_keep_their_true_value_in_the_side_list() {
        let recorder = Recorder::new(4, true, 1_000_000_000, SampleClock::Tsc).unwrap();
        recorder.write_with_gap(0, 7, 11);
        recorder.write_with_gap(1, 1 << 40, u64::from(SATURATED));
        recorder.write_with_gap(2, 5, u64::from(SATURATED) - 1);
        let samples = recorder.into_samples();
        assert_eq!(samples.durations(), [11, SATURATED, SATURATED - 1]);
        assert_eq!(samples.gaps(), Some(&[7, SATURATED, 5][..]));
        assert_eq!(samples.saturated, [(1, u64::from(SATURATED))]);
        assert_eq!(samples.saturated_gaps, [(1, 1 << 40)]);
        assert_eq!(samples.lost, 0);
    }

    #[test]
    fn a_full_side_list_is_counted_not_hidden() {
        let recorder = Recorder::new(100, false, 0, SampleClock::Tsc).unwrap();
        for index in 0..70 {
            recorder.write(index, 1 << 33);
        }
        let samples = recorder.into_samples();
        assert_eq!((samples.saturated.len(), samples.lost), (64, 6));
    }

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
