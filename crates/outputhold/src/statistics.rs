//! What was counted: frames by fate, and how long released frames had been held.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;
use stealtime_succession::Epoch;

/// Frames and their bytes.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Traffic {
    pub frames: u64,
    /// Their bytes, from the destination address to the end of the payload.
    pub bytes: u64,
}

impl Traffic {
    pub(crate) fn add(&mut self, bytes: usize) {
        self.frames += 1;
        self.bytes += bytes as u64;
    }
}

/// How long the released frames had been held: from the moment they were read to the moment they were
/// written.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct HeldTime {
    pub count: u64,
    /// Sum of all held times.
    pub sum_ns: u64,
    /// Half of the frames were held no longer. Quantiles are exact to 1 %.
    pub median_ns: u64,
    /// 90 % of the frames were held no longer.
    pub p90_ns: u64,
    /// 99 % of the frames were held no longer.
    pub p99_ns: u64,
    pub max_ns: u64,
}

/// The state of a [`crate::Hold`] in numbers.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct HoldStatistics {
    /// Everything that the guest sent.
    pub accepted: Traffic,
    /// What left after it was held.
    pub released: Traffic,
    /// What left at once: by a bypass rule, or as nothing is held.
    pub passed: Traffic,
    /// What was discarded, or came while the hold was closed.
    pub dropped: Traffic,
    /// What the device would never take.
    pub refused: Traffic,
    pub held_frames: usize,
    pub held_bytes: usize,
    /// The most bytes ever held.
    pub fullest_bytes: usize,
    /// Whether the limit is reached, so that the guest's output is not read.
    pub is_full: bool,
    /// The epoch of the last cut; 0 before the first.
    pub last_cut: Epoch,
    pub acknowledged: Epoch,
    /// The last epoch whose output has left.
    pub released_through: Epoch,
    /// How long released frames had been held.
    pub held_time: HeldTime,
}

/// The state of a [`crate::Relay`] in numbers.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct RelayStatistics {
    pub hold: HoldStatistics,
    /// What went into the guest's socket.
    pub input: Traffic,
    /// What came for the guest while the hold was closed or QEMU was gone, and was forgotten.
    pub input_dropped: Traffic,
    /// Bytes for the guest that QEMU has not taken yet.
    pub input_queued_bytes: usize,
    /// Announcements made: they are output, and wait like it.
    pub announced: Traffic,
    /// Times that a write was withheld, as the gate was shut.
    pub gate_refusals: u64,
    /// Times that the device could not take a frame at once.
    pub port_refusals: u64,
}

/// What [`crate::Hold`] counts as it goes.
#[derive(Debug, Default)]
pub(crate) struct HoldCounters {
    pub accepted: Traffic,
    pub released: Traffic,
    pub passed: Traffic,
    pub dropped: Traffic,
    pub refused: Traffic,
    pub fullest_bytes: usize,
    pub held_time: HeldTimes,
}

/// Quantiles above this are given as this: no peer of a guest waits so long.
const LONGEST_BINNED_NS: u64 = 600 * 1_000_000_000;

/// Held times, in a histogram of two significant digits (Gil Tene's `HdrHistogram`): 35 kB, allocated once.
#[derive(Debug)]
pub(crate) struct HeldTimes {
    histogram: Histogram<u64>,
    sum_ns: u64,
    max_ns: u64,
}

impl Default for HeldTimes {
    fn default() -> Self {
        let histogram = Histogram::new_with_max(LONGEST_BINNED_NS, 2)
            .expect("the bound is above 2 and the digits are between 0 and 5, which is all that is checked");
        Self { histogram, sum_ns: 0, max_ns: 0 }
    }
}

impl HeldTimes {
    pub fn record(&mut self, held: Duration) {
        let held_ns = u64::try_from(held.as_nanos()).unwrap_or(u64::MAX);
        self.histogram.saturating_record(held_ns);
        self.sum_ns = self.sum_ns.saturating_add(held_ns);
        self.max_ns = self.max_ns.max(held_ns);
    }

    pub fn snapshot(&self) -> HeldTime {
        HeldTime {
            count: self.histogram.len(),
            sum_ns: self.sum_ns,
            median_ns: self.histogram.value_at_quantile(0.5).min(self.max_ns),
            p90_ns: self.histogram.value_at_quantile(0.9).min(self.max_ns),
            p99_ns: self.histogram.value_at_quantile(0.99).min(self.max_ns),
            max_ns: self.max_ns,
        }
    }
}
