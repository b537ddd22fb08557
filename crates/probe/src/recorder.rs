//! The memory that samples are written to.
//!
//! One CPU writes (one thread, or several that hand over to each other on that CPU); a thread on another CPU
//! may look at the count and the samples so far. All stores are relaxed atomics, which are plain `mov`
//! instructions on x86-64, so that being watched costs the writer nothing.
//!
//! Where samples are taken away while they are measured ([`Keeping`]), the writer has a stretch of the memory
//! at a time, and asks for the next one with [`Recorder::next`], off its hot path.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stealtime_wire::{Progress, ThresholdHit};

use crate::clock::{SampleClock, TscRate};
use crate::further::FurtherColumns;
use crate::keeping::{Keeping, Next, Taker};
use crate::samples::{Cells, Entries, Rows32, Samples};
pub use crate::side_list::SATURATED;
use crate::side_list::SideList;
use crate::sys::LockedArray;
use crate::threshold::Threshold;

/// A deadline of this value: stop now.
const STOPPED: u64 = 0;

/// A deadline of this value: nothing is measured until samples have been taken away.
const PAUSED: u64 = 1;

/// A writer that waits looks this often whether it has been forgotten.
const WAIT: Duration = Duration::from_secs(1);

/// Sample memory of one trial.
pub struct Recorder {
    durations: LockedArray,
    gaps: Option<LockedArray>,
    further: FurtherColumns,
    keeping: Keeping,
    /// The trial is over with so many samples.
    limit: usize,
    length: AtomicUsize,
    /// The samples below this index were taken away.
    taken: AtomicUsize,
    /// The index of the sample that belongs in the first cell.
    offset: AtomicUsize,
    long_durations: SideList,
    long_gaps: SideList,
    /// When the writer looks up next, in the trial's clock; [`STOPPED`] and [`PAUSED`] are none.
    deadline: AtomicU64,
    /// When the trial is over, in its clock.
    end: AtomicU64,
    origin: AtomicU64,
    clock: SampleClock,
    /// (index, units) of each pause.
    pauses: Mutex<Vec<(u64, u64)>>,
    is_waiting: AtomicBool,
    wake: Option<Arc<Taker>>,
    freed: Condvar,
    threshold: Threshold,
}

impl Recorder {
    /// Allocates, locks and touches memory for `capacity` samples. Call it on the measuring thread, after
    /// pinning.
    pub fn new(capacity: usize, with_gaps: bool, duration_ns: u64, clock: SampleClock) -> io::Result<Self> {
        Ok(Self {
            durations: LockedArray::new(capacity)?,
            gaps: if with_gaps { Some(LockedArray::new(capacity)?) } else { None },
            further: FurtherColumns::none(),
            keeping: Keeping::Whole,
            limit: capacity,
            length: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
            offset: AtomicUsize::new(0),
            long_durations: SideList::for_duration(duration_ns),
            long_gaps: if with_gaps { SideList::for_duration(duration_ns) } else { SideList::none() },
            deadline: AtomicU64::new(u64::MAX),
            end: AtomicU64::new(u64::MAX),
            origin: AtomicU64::new(0),
            clock,
            pauses: Mutex::new(Vec::new()),
            is_waiting: AtomicBool::new(false),
            wake: None,
            freed: Condvar::new(),
            threshold: Threshold::none(),
        })
    }

    /// With columns besides, which [`Self::write_request`] writes.
    #[must_use]
    pub fn with(self, further: FurtherColumns, long_durations: SideList) -> Self {
        Self { further, long_durations, ..self }
    }

    /// Looks at each sample whether it is too long.
    #[must_use]
    pub fn held_against(self, threshold: Threshold) -> Self {
        Self { threshold, ..self }
    }

    /// The first sample over the threshold so far.
    pub fn hit(&self) -> Option<ThresholdHit> {
        self.threshold.hit()
    }

    /// Has its samples taken away while it is written, until there were `limit`.
    #[must_use]
    pub fn kept(mut self, keeping: Keeping, limit: usize, taker: Arc<Taker>) -> Self {
        (self.keeping, self.limit, self.wake) = (keeping, limit, Some(taker));
        self
    }

    /// Why the memory is not locked, if so.
    pub fn lock_error(&self) -> Option<&io::Error> {
        let of_gaps = || self.gaps.as_ref().and_then(LockedArray::lock_error);
        self.durations.lock_error().or_else(of_gaps).or_else(|| self.further.lock_error())
    }

    /// How many samples fit.
    pub fn capacity(&self) -> usize {
        self.durations.cells().len()
    }

    /// How its memory is used.
    pub fn keeping(&self) -> Keeping {
        self.keeping
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

    /// Up to which index the writer may write at first.
    pub fn room(&self) -> usize {
        match self.keeping {
            Keeping::Beside => self.limit.min(self.capacity() / 2),
            Keeping::Whole | Keeping::Pausing { .. } => self.limit.min(self.capacity()),
        }
    }

    /// Marks the start of sample 0 and when to stop, both in the trial's clock.
    pub fn start(&self, origin: u64, end: u64) {
        self.origin.store(origin, Ordering::Relaxed);
        self.end.store(end, Ordering::Relaxed);
        // A cancellation that came before the start must not be overwritten.
        let first = self.next_look(origin, end);
        let _ = self.deadline.compare_exchange(u64::MAX, first, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn next_look(&self, now: u64, end: u64) -> u64 {
        match self.keeping {
            Keeping::Pausing { every } => end.min(now.saturating_add(every)),
            Keeping::Whole | Keeping::Beside => end,
        }
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
        self.deadline.store(STOPPED, Ordering::Relaxed);
        self.freed.notify_all();
    }

    /// Writes the duration of sample `index`. The caller counts, so that its loop keeps the index in a
    /// register.
    #[inline(always)]
    pub fn write(&self, index: usize, duration: u64) {
        let value = self.narrow(index, duration, &self.long_durations);
        self.durations.cells()[index - self.offset.load(Ordering::Relaxed)].store(value, Ordering::Relaxed);
        self.length.store(index + 1, Ordering::Release);
        if duration > self.threshold.longest_units && self.threshold.exceeded(index, duration) {
            self.stop();
        }
    }

    /// Writes the gap before a sample, and the sample.
    #[inline(always)]
    pub fn write_with_gap(&self, index: usize, gap: u64, duration: u64) {
        if let Some(gaps) = &self.gaps {
            let value = self.narrow(index, gap, &self.long_gaps);
            gaps.cells()[index - self.offset.load(Ordering::Relaxed)].store(value, Ordering::Relaxed);
        }
        self.write(index, duration);
    }

    /// Writes a request that ended `gap` after the one before, and what there is of it besides.
    #[inline(always)]
    pub fn write_request(&self, index: usize, gap: u64, duration: u64, further: &[u64]) {
        self.further.write(index, index - self.offset.load(Ordering::Relaxed), further);
        self.write_with_gap(index, gap, duration);
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

    /// Says what the writer does when its stretch is full, or its deadline has passed at `now`.
    #[cold]
    pub fn next(&self, index: usize, now: u64) -> Next {
        if self.is_stopped() || index >= self.limit || now >= self.end.load(Ordering::Relaxed) {
            return Next::Stop;
        }
        let capacity = self.capacity();
        match self.keeping {
            Keeping::Whole if index < capacity => Next::Go(capacity.min(self.limit)),
            Keeping::Whole => Next::Stop,
            Keeping::Beside => {
                let half = capacity / 2;
                let end = (index / half + 1) * half;
                let Some(has_waited) = self.wait_for(end.saturating_sub(2 * half)) else { return Next::Stop };
                self.offset.store(index - index % capacity, Ordering::Relaxed);
                let end = end.min(self.limit);
                if has_waited { Next::Resume(end) } else { Next::Go(end) }
            }
            Keeping::Pausing { .. } => {
                if self.wait_for(index).is_none() {
                    return Next::Stop;
                }
                self.offset.store(index, Ordering::Relaxed);
                Next::Resume(self.limit.min(index.saturating_add(capacity)))
            }
        }
    }

    /// Waits until the samples below `index` were taken away; tells whether that took any time, or nothing if
    /// the trial was stopped meanwhile.
    fn wait_for(&self, index: usize) -> Option<bool> {
        let has_come = || self.taken.load(Ordering::Acquire) >= index;
        if has_come() {
            return Some(false);
        }
        if !self.set_deadline(PAUSED) {
            return None;
        }
        self.is_waiting.store(true, Ordering::Release);
        if let Some(taker) = &self.wake {
            (taker.wake)();
        }
        let mut pauses = self.lock();
        while !has_come() && !self.is_stopped() {
            pauses = self.freed.wait_timeout(pauses, WAIT).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(pauses);
        self.is_waiting.store(false, Ordering::Release);
        (!self.is_stopped()).then_some(true)
    }

    /// Whether nothing is measured until samples have been taken away.
    #[inline(always)]
    pub fn is_paused(&self) -> bool {
        self.deadline() == PAUSED
    }

    /// Holds one of several writers until the one that waits has all of them go on.
    pub fn wait_while_paused(&self) {
        let mut pauses = self.lock();
        while self.is_paused() {
            pauses = self.freed.wait_timeout(pauses, WAIT).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(pauses);
    }

    /// Lets the other writers go on after a pause, who may have to warm up before they measure.
    pub fn release(&self) {
        let pauses = self.lock();
        self.set_deadline(u64::MAX);
        drop(pauses);
        self.freed.notify_all();
    }

    /// Says that nobody watched for so long before sample `index`, which begins at `now`.
    pub fn resumed(&self, index: usize, units: u64, now: u64) {
        self.lock().push((index as u64, units));
        let end = self.end.load(Ordering::Relaxed).saturating_add(units);
        self.end.store(end, Ordering::Relaxed);
        self.set_deadline(self.next_look(now, end));
    }

    /// Sets when the writer looks up next, unless it was stopped.
    fn set_deadline(&self, to: u64) -> bool {
        let change = |old| (old != STOPPED).then_some(to);
        self.deadline.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change).is_ok()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(u64, u64)>> {
        self.pauses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the writer waits for samples to be taken away.
    pub fn is_waiting(&self) -> bool {
        self.is_waiting.load(Ordering::Acquire)
    }

    /// Copies samples that were written and not taken away.
    pub fn copy(&self, rows: Range<usize>) -> Rows32 {
        let read = |array: &LockedArray| {
            let cells = array.cells();
            let stretches = self.cells().stretches(rows.clone());
            stretches.flat_map(|stretch| cells[stretch].iter().map(|cell| cell.load(Ordering::Relaxed))).collect()
        };
        let further = self.further.copy(self.cells(), &rows);
        Rows32 { gaps: self.gaps.as_ref().map(read), durations: read(&self.durations), further }
    }

    fn cells(&self) -> Cells {
        Cells { keeping: self.keeping, capacity: self.capacity(), offset: self.offset.load(Ordering::Acquire) }
    }

    /// (index, true duration) and (index, true gap) of what was saturated so far, and how many were lost.
    pub fn saturated(&self) -> (Entries, Entries, u64) {
        let lost = self.long_durations.lost() + self.long_gaps.lost() + self.further.saturated().1;
        (self.long_durations.entries(), self.long_gaps.entries(), lost)
    }

    /// (index, true value) of what was saturated so far in each further column.
    pub fn saturated_further(&self) -> Vec<Entries> {
        self.further.saturated().0
    }

    /// (index, units) of the pauses so far.
    pub fn pauses(&self) -> Vec<(u64, u64)> {
        self.lock().clone()
    }

    /// The cells of the samples below `index` may be written anew.
    pub fn take(&self, index: usize) {
        let pauses = self.lock();
        self.taken.store(index, Ordering::Release);
        drop(pauses);
        self.freed.notify_all();
    }

    /// The longest of the samples from `from` up to now; saturated ones count as [`SATURATED`].
    pub fn longest_since(&self, from: usize) -> u32 {
        let length = self.len();
        let from = from.min(length).max(self.taken.load(Ordering::Acquire));
        let cells = self.durations.cells();
        let stretches = self.cells().stretches(from..length);
        let values = stretches.flat_map(|stretch| cells[stretch].iter().map(|cell| cell.load(Ordering::Relaxed)));
        values.max().unwrap_or(0)
    }

    /// Whether [`Self::stop`] was called.
    #[inline(always)]
    pub fn is_stopped(&self) -> bool {
        self.deadline() == STOPPED
    }

    /// How a trial goes, in the words of the wire.
    pub fn progress(&self, trial: u64, rate: &TscRate, longest_units: u32) -> Progress {
        let paused: u64 = self.lock().iter().map(|&(_, units)| units).sum();
        let watched = self.clock.now().saturating_sub(self.origin()).saturating_sub(paused);
        let (elapsed_ns, max_ns) = match self.clock {
            SampleClock::Tsc => (rate.to_ns(watched), rate.to_ns(longest_units.into())),
            SampleClock::Monotonic => (watched as f64, longest_units.into()),
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, below 2^53")]
        let elapsed_ns = elapsed_ns as u64;
        Progress { trial, elapsed_ns, samples: self.len() as u64, max_ns }
    }

    pub fn into_samples(self) -> Samples {
        let (saturated, saturated_gaps, lost) = self.saturated();
        let saturated_further = self.saturated_further();
        Samples {
            cells: self.cells(),
            count: self.length.into_inner(),
            durations: self.durations.freeze(),
            gaps: self.gaps.map(LockedArray::freeze),
            further: self.further.freeze(),
            lost,
            saturated,
            saturated_gaps,
            saturated_further,
            pauses: self.pauses.into_inner().unwrap_or_else(PoisonError::into_inner),
        }
    }
}

#[cfg(test)]
mod tests;
