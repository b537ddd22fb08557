//! What the measuring thread does at the first sample that is too long: it stops the kernel's recording with one write
//! to a descriptor that stands ready, as `cyclictest --breaktrace` and rtla do, so that the events that led there are
//! not overwritten. All else is done after the last sample.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stealtime_wire::ThresholdHit;

use crate::observer::Observer;
use crate::sys::time_stamp_counter;

/// Watches for samples over a threshold; written by whoever writes samples.
pub struct Threshold {
    /// A sample of more units exceeds it.
    pub longest_units: u64,
    /// Whether the trial ends at the first one.
    pub stops: bool,
    observer: Option<Arc<dyn Observer>>,
    over: AtomicU64,
    index: AtomicU64,
    duration_units: AtomicU64,
    end_tsc: AtomicU64,
}

impl Threshold {
    pub fn new(longest_units: u64, stops: bool, observer: Option<Arc<dyn Observer>>) -> Self {
        Self {
            longest_units,
            stops,
            observer,
            over: AtomicU64::new(0),
            index: AtomicU64::new(0),
            duration_units: AtomicU64::new(0),
            end_tsc: AtomicU64::new(0),
        }
    }

    /// One that no sample exceeds.
    pub fn none() -> Self {
        Self::new(u64::MAX, false, None)
    }

    /// Notes a sample that exceeds it; tells whether the trial is to end.
    #[cold]
    #[inline(never)]
    pub fn exceeded(&self, index: usize, duration_units: u64) -> bool {
        if self.over.load(Ordering::Relaxed) > 0 {
            self.over.fetch_add(1, Ordering::Relaxed);
            // The writer may have more to write of what one stall took, such as the expiries that it swallowed.
            return self.stops;
        }
        // Before the recording stops: what it has to explain must end within it.
        let end_tsc = time_stamp_counter();
        if let Some(observer) = &self.observer {
            observer.exceeded();
        }
        self.end_tsc.store(end_tsc, Ordering::Relaxed);
        self.index.store(index as u64, Ordering::Relaxed);
        self.duration_units.store(duration_units, Ordering::Relaxed);
        self.over.store(1, Ordering::Release);
        self.stops
    }

    /// The first sample over it so far.
    pub fn hit(&self) -> Option<ThresholdHit> {
        let samples_over = self.over.load(Ordering::Acquire);
        (samples_over > 0).then(|| ThresholdHit {
            index: self.index.load(Ordering::Relaxed),
            duration_units: self.duration_units.load(Ordering::Relaxed),
            end_tsc: self.end_tsc.load(Ordering::Relaxed),
            samples_over,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Observer for Counted {
        fn begin(&self) {}
        fn end(&self) {}
        fn exceeded(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_first_sample_is_kept_and_the_others_are_counted() {
        let observer = Arc::new(Counted::default());
        let told: Arc<dyn Observer> = observer.clone();
        let threshold = Threshold::new(100, false, Some(told));
        assert_eq!(threshold.hit(), None);
        let before = time_stamp_counter();
        assert!(!threshold.exceeded(7, 150));
        assert!(!threshold.exceeded(9, 900));
        let hit = threshold.hit().unwrap();
        assert_eq!((hit.index, hit.duration_units, hit.samples_over), (7, 150, 2));
        assert!((before..=time_stamp_counter()).contains(&hit.end_tsc));
        assert_eq!(observer.0.load(Ordering::Relaxed), 1, "the recording is stopped once");
    }
}
