//! Rewrites pages at a set rate, and verifies them, beside the counting.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::counter::memory::{Mismatch, PatternMemory};

/// So many pages are verified before others may go on: some milliseconds in a translated guest.
const PAGES_AT_ONCE: u64 = 64;

/// So many mismatches are told one by one; after that only their number is of interest.
const MOST_TOLD: u64 = 20;

/// The memory and what was found in it.
pub struct Churn {
    memory: Mutex<PatternMemory>,
    pages: u64,
    verified: AtomicU64,
    mismatches: AtomicU64,
    report: fn(&str),
}

impl Churn {
    /// Over this memory; mismatches are told to `report`.
    pub fn new(memory: PatternMemory, report: fn(&str)) -> Self {
        let pages = memory.len() as u64;
        Self { memory: Mutex::new(memory), pages, verified: AtomicU64::new(0), mismatches: AtomicU64::new(0), report }
    }

    /// How many pages there are, how often one was verified, how often one was wrong.
    pub fn counts(&self) -> [u64; 3] {
        [self.pages, self.verified.load(Ordering::Relaxed), self.mismatches.load(Ordering::Relaxed)]
    }

    /// Verifies all pages, in parts, so that rewriting goes on.
    pub fn verify_all(&self) {
        for first in (0..self.pages).step_by(usize::try_from(PAGES_AT_ONCE).unwrap_or(1)) {
            let memory = self.lock();
            for page in first..(first + PAGES_AT_ONCE).min(self.pages) {
                self.record(memory.verify(page));
            }
        }
    }

    /// Counts what was verified elsewhere, too.
    pub fn found(&self, verified: u64, wrong: &[u64]) {
        self.verified.fetch_add(verified, Ordering::Relaxed);
        self.mismatches.fetch_add(wrong.len() as u64, Ordering::Relaxed);
        if !wrong.is_empty() {
            (self.report)(&format!("counter: the disk's blocks {wrong:?} are wrong"));
        }
    }

    /// Rewrites `pages_at_once` pages each `interval`, for ever, in a thread of its own.
    pub fn start(self: &Arc<Self>, pages_at_once: u64, interval: Duration) -> std::io::Result<()> {
        if self.pages == 0 || pages_at_once == 0 {
            return Ok(());
        }
        let churn = Arc::clone(self);
        let rewrite = move || {
            let mut next = Instant::now();
            loop {
                churn.rewrite(pages_at_once);
                // What a pause of the machine has cost is not made up for: that would be another rate.
                next = (next + interval).max(Instant::now());
                thread::sleep(next.saturating_duration_since(Instant::now()));
            }
        };
        thread::Builder::new().name("churn".to_owned()).spawn(rewrite).map(drop)
    }

    fn rewrite(&self, pages: u64) {
        let mut left = pages;
        while left > 0 {
            let part = left.min(PAGES_AT_ONCE);
            let mut memory = self.lock();
            for _ in 0..part {
                self.record(memory.step());
            }
            left -= part;
        }
    }

    fn record(&self, verified: Result<(), Mismatch>) {
        self.verified.fetch_add(1, Ordering::Relaxed);
        let Err(Mismatch { page, generation, word, wanted, found }) = verified else { return };
        if self.mismatches.fetch_add(1, Ordering::Relaxed) < MOST_TOLD {
            (self.report)(&format!(
                "counter: page {page} of generation {generation} is wrong: word {word} is {found:#018x}, not {wanted:#018x}"
            ));
        }
    }

    fn lock(&self) -> MutexGuard<'_, PatternMemory> {
        // A thread that panicked in between left at worst a page half written, which verifying will tell.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_rewritten_and_verified_while_time_goes_by() {
        let churn = Arc::new(Churn::new(PatternMemory::new(100, 64), |_| {}));
        churn.start(70, Duration::from_millis(1)).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while churn.counts()[1] < 500 {
            assert!(Instant::now() < deadline, "{:?}", churn.counts());
            thread::yield_now();
        }
        churn.verify_all();
        let [pages, verified, mismatches] = churn.counts();
        assert_eq!((pages, mismatches), (100, 0));
        assert!(verified >= 600);
    }

    #[test]
    fn a_rate_of_zero_starts_nothing() {
        let churn = Arc::new(Churn::new(PatternMemory::new(4, 64), |_| {}));
        churn.start(0, Duration::from_millis(1)).unwrap();
        churn.verify_all();
        assert_eq!(churn.counts(), [4, 4, 0]);
        assert_eq!(Arc::strong_count(&churn), 1);
    }
}
