//! `wakeup`: timer wake-up latency, the measurement of cyclictest (rt-tests).
//!
//! A `SCHED_FIFO` thread sleeps until absolute times of `CLOCK_MONOTONIC` that lie one period apart. A sample
//! belongs to one expiry: it is the time from the programmed expiry to the first reading of the clock after
//! the thread runs again (`clock_gettime` right after `clock_nanosleep` returns).
//!
//! * Clock: `CLOCK_MONOTONIC`, nanoseconds: the clock that the timer itself runs on.
//! * Floor: the shortest sample of the trial that is not 0.
//! * No coordinated omission: a wake-up that comes k periods late records a sample for each of the k expiries
//!   that it swallowed, each from its own programmed time. cyclictest skips them, so that a stall of 40 ms at
//!   a period of 1 ms counts once; here it counts forty times, as it would for forty requests that came on
//!   time. Sample `i` is therefore always expiry `i`, which is all that is needed to know its time.
//! * Limits: the resolution is that of the clock (`clock_getres`, 1 ns with high resolution timers, a tick
//!   without). The reading of the clock is part of the sample. A sleep that returns before its time is
//!   counted (`early`) and recorded as 0.

use stealtime_wire::{Layout, Wakeup};

use crate::clock::SampleClock;
use crate::error::TrialError;
use crate::keeping::Next;
use crate::probe::{Measured, Probe};
use crate::recorder::Recorder;
use crate::stage::Stage;
use crate::sys::{KernelClock, kernel_clock_ns, sleep_until_monotonic};

/// A shorter period is none that a timer could keep.
const SHORTEST_INTERVAL_NS: u64 = 1_000;

impl Probe for Wakeup {
    fn layout(&self) -> Option<Layout> {
        Some(Layout::Periodic { interval: self.interval_ns })
    }

    fn clock(&self) -> SampleClock {
        SampleClock::Monotonic
    }

    fn validate(&self, duration_ns: u64) -> Result<(), TrialError> {
        if (SHORTEST_INTERVAL_NS..=duration_ns).contains(&self.interval_ns) {
            return Ok(());
        }
        let expected = format!("{SHORTEST_INTERVAL_NS} to the duration of {duration_ns}");
        Err(TrialError::parameter("interval_ns", self.interval_ns, expected))
    }

    fn measure(&self, stage: &Stage) -> Result<Measured, TrialError> {
        let duration_ns = stage.trial.request.duration_ns;
        let begun = stage.begin(duration_ns / self.interval_ns, None)?;
        let counts = measure(&begun.recorder, self.interval_ns, duration_ns);
        Ok(Measured::new(begun).with_counters([
            ("wakeups", counts.wakeups),
            ("swallowed", counts.swallowed),
            ("early", counts.early),
        ]))
    }
}

/// What was counted besides the samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WakeupCounts {
    pub wakeups: u64,
    /// Expiries that passed while the thread was still late for an earlier one.
    pub swallowed: u64,
    /// Wake-ups before their time.
    pub early: u64,
}

/// A series of wake-ups under way.
struct Series<'a> {
    recorder: &'a Recorder,
    interval_ns: u64,
    counts: WakeupCounts,
    index: usize,
    /// Of the sample `index`.
    expiry: u64,
    /// Up to which index there is memory.
    room: usize,
    /// Whether time has passed that nobody watched.
    has_waited: bool,
}

/// Measures on the calling thread until the memory is full or the recorder's deadline (in ns of `CLOCK_MONOTONIC`) has
/// passed.
#[inline(never)]
pub fn measure(recorder: &Recorder, interval_ns: u64, duration_ns: u64) -> WakeupCounts {
    let now = kernel_clock_ns(KernelClock::Monotonic);
    let origin = now + interval_ns;
    recorder.start(origin, origin.saturating_add(duration_ns));
    let mut series = Series::new(recorder, interval_ns, origin);
    loop {
        sleep_until_monotonic(series.expiry);
        let woken = kernel_clock_ns(KernelClock::Monotonic);
        series.counts.wakeups += 1;
        if woken < series.expiry {
            series.counts.early += 1;
        }
        if !series.record_expired(woken) {
            break;
        }
        if (woken >= recorder.deadline() || series.index >= series.room) && !series.make_room(woken) {
            break;
        }
        if series.has_waited {
            series.skip_pause();
        }
    }
    series.counts
}

impl<'a> Series<'a> {
    fn new(recorder: &'a Recorder, interval_ns: u64, origin: u64) -> Self {
        let (counts, room) = (WakeupCounts::default(), recorder.room());
        Self { recorder, interval_ns, counts, index: 0, expiry: origin, room, has_waited: false }
    }

    /// Records the expiry that was waited for and all that have passed since; false if the trial is over.
    #[inline(always)]
    fn record_expired(&mut self, woken: u64) -> bool {
        let first = self.index;
        loop {
            if self.index >= self.room && !self.make_room(woken) {
                return false;
            }
            self.recorder.write(self.index, woken.saturating_sub(self.expiry));
            self.counts.swallowed += u64::from(self.index > first);
            self.index += 1;
            self.expiry += self.interval_ns;
            if self.expiry > woken {
                return true;
            }
        }
    }

    /// Gets memory for further samples; false if the trial is over.
    #[cold]
    fn make_room(&mut self, now: u64) -> bool {
        match self.recorder.next(self.index, now) {
            Next::Go(room) => self.room = room,
            Next::Resume(room) => (self.room, self.has_waited) = (room, true),
            Next::Stop => return false,
        }
        true
    }

    /// Leaves out the expiries that nobody could have waited for.
    #[cold]
    fn skip_pause(&mut self) {
        let now = kernel_clock_ns(KernelClock::Monotonic);
        let missed = now.saturating_sub(self.expiry) / self.interval_ns + 1;
        self.expiry += missed * self.interval_ns;
        self.recorder.resumed(self.index, missed * self.interval_ns, now);
        self.has_waited = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threshold::Threshold;

    #[test]
    fn a_late_wake_up_records_every_expiry_that_it_swallowed() {
        let recorder = Recorder::new(100, false, 1_000_000_000, SampleClock::Monotonic).unwrap();
        let mut series = Series::new(&recorder, 1_000, 1_000);
        assert!(series.record_expired(1_050));
        assert_eq!((series.index, series.expiry), (1, 2_000));
        assert!(series.record_expired(5_500));
        assert_eq!((series.index, series.expiry), (5, 6_000));
        assert_eq!(series.counts.swallowed, 3);
        assert_eq!(recorder.into_samples().durations(), [50, 3_500, 2_500, 1_500, 500]);
    }

    #[test]
    fn of_the_expiries_that_a_stall_swallowed_the_first_is_the_one_over_the_threshold() {
        let recorder = Recorder::new(100, false, 1_000_000_000, SampleClock::Monotonic).unwrap();
        let recorder = recorder.held_against(Threshold::new(1_000, true, None));
        let mut series = Series::new(&recorder, 1_000, 1_000);
        assert!(series.record_expired(1_050));
        assert_eq!(recorder.hit(), None);
        series.record_expired(5_500);
        let hit = recorder.hit().unwrap();
        assert_eq!((hit.index, hit.duration_units, hit.samples_over), (1, 3_500, 3));
    }

    #[test]
    fn expiries_after_the_memory_is_full_are_not_written() {
        let recorder = Recorder::new(2, false, 1_000_000_000, SampleClock::Monotonic).unwrap();
        assert!(!Series::new(&recorder, 1_000, 1_000).record_expired(50_000));
        assert_eq!(recorder.into_samples().durations(), [49_000, 48_000]);
    }

    #[test]
    fn every_sample_is_the_expiry_of_its_index() {
        let recorder = Recorder::new(20, false, 1_000_000_000, SampleClock::Monotonic).unwrap();
        let counts = measure(&recorder, 500_000, 1_000_000_000);
        let after = kernel_clock_ns(KernelClock::Monotonic);
        let origin = recorder.origin();
        let samples = recorder.into_samples();
        assert_eq!(samples.durations().len(), 20);
        assert_eq!(counts.wakeups + counts.swallowed, 20);
        assert!(origin + 19 * 500_000 + u64::from(samples.durations()[19]) <= after);
    }
}
