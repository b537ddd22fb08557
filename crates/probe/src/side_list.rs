//! The true values of samples that do not fit 32 bits, written by the thread that measures.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// True values of saturated samples. A stall over 2^32 cycles lasts longer than a second, so the list is
/// sized by the trial's duration and cannot overflow unless time itself is broken; if it does, `lost` tells.
pub struct SideList {
    entries: Box<[(AtomicU64, AtomicU64)]>,
    length: AtomicUsize,
    lost: AtomicU64,
}

impl SideList {
    pub fn new(capacity: usize) -> Self {
        let entries = (0..capacity).map(|_| (AtomicU64::new(0), AtomicU64::new(0))).collect();
        Self { entries, length: AtomicUsize::new(0), lost: AtomicU64::new(0) }
    }

    #[cold]
    pub fn push(&self, index: usize, value: u64) {
        let position = self.length.load(Ordering::Relaxed);
        if let Some((at, what)) = self.entries.get(position) {
            at.store(index as u64, Ordering::Relaxed);
            what.store(value, Ordering::Relaxed);
            self.length.store(position + 1, Ordering::Release);
        } else {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What is in it now: (index, value).
    pub fn entries(&self) -> Vec<(u64, u64)> {
        let length = self.length.load(Ordering::Acquire);
        let read = |(at, what): &(AtomicU64, AtomicU64)| (at.load(Ordering::Relaxed), what.load(Ordering::Relaxed));
        self.entries.iter().take(length).map(read).collect()
    }

    /// Values that there was no room for.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}
