//! The true values of samples that do not fit 32 bits, written by the thread that measures.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Stands in a sample's place when its value does not fit 32 bits; the true value is in the side list.
pub const SATURATED: u32 = u32::MAX;

/// Three days of nothing but stalls of a second, in 4 MiB: a trial that sends its samples away may last for years.
const MOST_ENTRIES: usize = 1 << 18;

/// Six seconds of stalls at ten thousand requests a second, in 1 MiB.
const REQUEST_ENTRIES: usize = 1 << 16;

/// For a counter that jumps.
const A_FEW: usize = 64;

/// True values of saturated samples. A stall over 2^32 cycles lasts longer than a second, so the list is
/// sized by the trial's duration, up to [`MOST_ENTRIES`]. If it overflows, since time itself is broken or a trial of
/// many days is nothing but stalls, `lost` tells.
pub struct SideList {
    entries: Box<[(AtomicU64, AtomicU64)]>,
    length: AtomicUsize,
    lost: AtomicU64,
}

impl SideList {
    /// Of a trial that lasts so long; it is touched here.
    pub fn for_duration(duration_ns: u64) -> Self {
        let seconds = usize::try_from(duration_ns / 1_000_000_000).unwrap_or(usize::MAX);
        Self::new(seconds.saturating_add(A_FEW).min(MOST_ENTRIES))
    }

    /// Of requests that overlap, many of which one stall holds; of so many that memory is made for at a time.
    pub fn for_requests(samples: usize, duration_ns: u64) -> Self {
        let of_duration = Self::for_duration(duration_ns).entries.len();
        Self::new(of_duration.max(samples.min(REQUEST_ENTRIES)))
    }

    /// Of what is never long.
    pub fn none() -> Self {
        Self::new(0)
    }

    fn new(capacity: usize) -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_a_trial_of_a_year_is_bounded() {
        let room = |duration_s: u64| SideList::for_duration(duration_s * 1_000_000_000).entries.len();
        assert_eq!((room(0), room(86_400)), (A_FEW, 86_400 + A_FEW));
        assert_eq!(room(365 * 86_400), MOST_ENTRIES);
    }
}
