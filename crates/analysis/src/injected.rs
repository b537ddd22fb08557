//! The instrument against the truth: known thefts of the CPU, looked up in the samples.
//!
//! A thread of higher priority took the CPU from `start` for `duration`, as it stamped itself. In a tiled or
//! gapped series the *found excess* of a theft is the time from the start of the first sample that overlaps
//! it (with the gap before it) to the end of the last, less what that many samples (and gaps) take at the
//! median. In a periodic series it is the lateness of the first release inside the theft, and the expected
//! value is the part of the theft that came after that release. Nothing is taken off: the timer's interrupt,
//! which makes up most of an ordinary lateness, comes on the thief's time. A theft between two releases
//! cannot be seen and is not counted.
//!
//! The thread's own stamps exclude the switches to and from it, so that the error is biased upwards by their
//! cost. A theft is *found* when its excess is at least half of what was expected.

use rayon::prelude::*;
use serde::Serialize;

use crate::selection::values_at_ranks;
use crate::series::Series;

/// An error of at most this many nanoseconds or [`TOLERANCE_SHARE`] is within tolerance, whichever is larger.
const TOLERANCE_NS: f64 = 2_000.0;
/// See [`TOLERANCE_NS`].
const TOLERANCE_SHARE: f64 = 0.01;
/// Enough gaps for a median that is exact to well under its own noise.
const GAP_SAMPLE: usize = 1 << 20;

/// One theft and what the samples say about it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct InjectedStall {
    /// When it began, from the start of sample 0.
    pub start_s: f64,
    /// What the samples should show.
    pub expected_ns: f64,
    pub excess_ns: f64,
}

/// All thefts of a trial against its samples.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InjectedMatch {
    /// Thefts that lie inside the series and could be seen.
    pub total: u64,
    /// Of these, thefts whose excess is at least half of the expected.
    pub found: u64,
    /// Of these, thefts whose error is at most 2 us or 1 %.
    pub within_tolerance: u64,
    /// Thefts that began before or ended after the series, or fell between two releases.
    pub not_observable: u64,
    /// The median error (excess less expected) of those found, signed; absent if none was found.
    pub error_p50_ns: Option<f64>,
    /// The 99th percentile of the absolute error.
    pub error_p99_ns: Option<f64>,
    /// The largest absolute error.
    pub error_max_ns: Option<f64>,
    /// The median of absolute error / expected.
    pub error_p50_percent: Option<f64>,
    /// The 99th percentile of absolute error / expected.
    pub error_p99_percent: Option<f64>,
    /// The largest absolute error / expected.
    pub error_max_percent: Option<f64>,
    /// Each theft that could be seen, in order of time.
    pub stalls: Vec<InjectedStall>,
}

impl Series<'_> {
    /// Look up thefts given as start and duration, in clock units from the start of sample 0.
    pub fn match_injected(&self, thefts: &[(u64, u64)]) -> InjectedMatch {
        let ordinary = Ordinary {
            duration: values_at_ranks(&[self], &[(self.count() as u64).div_ceil(2)])[0],
            gap: self.median_gap(),
        };
        let mut thefts = thefts.to_vec();
        thefts.sort_unstable();
        let stalls: Vec<InjectedStall> = thefts.par_iter().filter_map(|&theft| self.look_up(theft, ordinary)).collect();
        InjectedMatch::new(stalls, thefts.len())
    }

    fn look_up(&self, (start, duration): (u64, u64), ordinary: Ordinary) -> Option<InjectedStall> {
        let end = start.checked_add(duration)?;
        if duration == 0 || end > self.span {
            return None;
        }
        let (expected, excess) = match self.interval() {
            Some(interval) => self.late_release(start, end, interval)?,
            None => (duration as f64, self.stretch_excess(start, end, ordinary)),
        };
        Some(InjectedStall {
            start_s: self.seconds(start),
            expected_ns: self.nanoseconds(expected),
            excess_ns: self.nanoseconds(excess),
        })
    }

    fn late_release(&self, start: u64, end: u64, interval: u64) -> Option<(f64, f64)> {
        // Of two releases in a row one is the first at or after the start; a pause may lie between them.
        let block = self.block_at(start);
        let mut found = None;
        for block in block..self.block_count().min(block + 2) {
            self.visit_block(block, |index, release, _| {
                if release >= start && found.is_none() {
                    found = Some((index, release));
                }
            });
        }
        let (index, release) = found.filter(|&(_, release)| release < start + interval)?;
        let expected = end.checked_sub(release).filter(|&expected| expected > 0)?;
        Some((expected as f64, self.duration(index) as f64))
    }

    fn stretch_excess(&self, start: u64, end: u64, ordinary: Ordinary) -> f64 {
        let first = self.block_at(start);
        let mut excess = 0.0;
        for block in first..self.block_count() {
            if self.blocks[block].start >= end {
                break;
            }
            self.visit_block(block, |index, began, duration| {
                let gap = self.gap(index);
                if began - gap < end && began + duration > start {
                    excess += (gap + duration) as f64 - ordinary.slot();
                }
            });
        }
        excess
    }

    fn median_gap(&self) -> u64 {
        if self.interval().is_some() {
            return 0;
        }
        let step = self.count().div_ceil(GAP_SAMPLE);
        let mut gaps: Vec<u64> = (0..self.count()).step_by(step).map(|index| self.gap(index)).collect();
        let middle = gaps.len() / 2;
        *gaps.select_nth_unstable(middle).1
    }
}

/// What a sample and the gap before it take when nothing disturbs.
#[derive(Debug, Clone, Copy)]
struct Ordinary {
    duration: u64,
    gap: u64,
}

impl Ordinary {
    fn slot(self) -> f64 {
        (self.duration + self.gap) as f64
    }
}

impl InjectedMatch {
    fn new(stalls: Vec<InjectedStall>, given: usize) -> Self {
        let found: Vec<&InjectedStall> =
            stalls.iter().filter(|stall| stall.excess_ns >= 0.5 * stall.expected_ns).collect();
        let within = found.iter().filter(|stall| {
            (stall.excess_ns - stall.expected_ns).abs() <= TOLERANCE_NS.max(TOLERANCE_SHARE * stall.expected_ns)
        });
        let signed = sorted(found.iter().map(|stall| stall.excess_ns - stall.expected_ns));
        let absolute = sorted(found.iter().map(|stall| (stall.excess_ns - stall.expected_ns).abs()));
        let percent =
            sorted(found.iter().map(|stall| 100.0 * (stall.excess_ns - stall.expected_ns).abs() / stall.expected_ns));
        Self {
            total: stalls.len() as u64,
            found: found.len() as u64,
            within_tolerance: within.count() as u64,
            not_observable: (given - stalls.len()) as u64,
            error_p50_ns: nearest_rank(&signed, 2),
            error_p99_ns: nearest_rank(&absolute, 100),
            error_max_ns: absolute.last().copied(),
            error_p50_percent: nearest_rank(&percent, 2),
            error_p99_percent: nearest_rank(&percent, 100),
            error_max_percent: percent.last().copied(),
            stalls,
        }
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// The value of rank `n - floor(n / tail)`.
fn nearest_rank(sorted: &[f64], tail: usize) -> Option<f64> {
    (sorted.len() - sorted.len() / tail).checked_sub(1).map(|index| sorted[index])
}
