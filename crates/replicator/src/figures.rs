//! The figures of a member's epochs: those under way, and what to say of all.

use std::collections::VecDeque;
use std::time::Duration;

use hdrhistogram::Histogram;
use stealtime_succession::Epoch;

use crate::clock::nanoseconds;
use crate::epoch_log::EpochRow;

/// Longer pauses and holds count as this long: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Epochs that rates are taken over.
const RECENT: usize = 10;

/// Rows of epochs that are not released yet, and the distribution of the others.
pub struct Figures {
    pending: VecDeque<(EpochRow, Duration)>,
    recent: VecDeque<EpochRow>,
    pause: Histogram<u64>,
    hold: Histogram<u64>,
}

impl Default for Figures {
    fn default() -> Self {
        let histogram = || {
            Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("the bounds and 3 digits are what it takes")
        };
        Self { pending: VecDeque::new(), recent: VecDeque::new(), pause: histogram(), hold: histogram() }
    }
}

impl Figures {
    /// An epoch went to the link at `at`.
    pub fn shipped(&mut self, row: EpochRow, at: Duration) {
        self.pause.saturating_record(row.pause_ns);
        self.pending.push_back((row, at));
    }

    /// All epochs up to `epoch` are acknowledged at `at`.
    pub fn acknowledged(&mut self, epoch: Epoch, at: Duration) {
        for (row, shipped_at) in &mut self.pending {
            if row.epoch <= epoch.0 && row.acknowledge_ns == 0 {
                row.acknowledge_ns = nanoseconds(at.saturating_sub(*shipped_at));
            }
        }
    }

    /// The output of all epochs up to `epoch` has left; their rows are complete.
    pub fn released(&mut self, epoch: Epoch, held: Duration) -> Vec<EpochRow> {
        let mut complete = Vec::new();
        while let Some((row, _)) = self.pending.front() {
            if row.epoch > epoch.0 {
                break;
            }
            let mut row = *row;
            row.hold_ns = nanoseconds(held);
            self.pending.pop_front();
            self.hold.saturating_record(row.hold_ns);
            self.recent.push_back(row);
            if self.recent.len() > RECENT {
                self.recent.pop_front();
            }
            complete.push(row);
        }
        complete
    }

    /// What is under way will never be acknowledged.
    pub fn forget_pending(&mut self) {
        self.pending.clear();
    }

    /// The last row.
    pub fn last(&self) -> Option<&EpochRow> {
        self.recent.back()
    }

    /// Of the pauses, at this quantile.
    pub fn pause_ns(&self, quantile: f64) -> u64 {
        self.pause.value_at_quantile(quantile)
    }

    /// Of the times from cut to release.
    pub fn hold_ns(&self, quantile: f64) -> u64 {
        self.hold.value_at_quantile(quantile)
    }

    /// Shipped bytes and written pages per second, over the last epochs.
    pub fn rates(&self) -> (f64, f64) {
        let (Some(first), Some(last)) = (self.recent.front(), self.recent.back()) else { return (0.0, 0.0) };
        let span_s = last.begin_ns.saturating_sub(first.begin_ns) as f64 / 1e9;
        if span_s <= 0.0 {
            return (0.0, 0.0);
        }
        // The first one's pages were written before the span.
        let sum = |value: fn(&EpochRow) -> u64| self.recent.iter().skip(1).map(value).sum::<u64>() as f64;
        (sum(|row| row.shipped_bytes) / span_s, sum(|row| row.pages) / span_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(epoch: u64) -> EpochRow {
        EpochRow {
            epoch,
            begin_ns: epoch * 100_000_000,
            pages: 50,
            pause_ns: 3_000_000,
            shipped_bytes: 1000,
            ..EpochRow::default()
        }
    }

    #[test]
    fn an_acknowledgement_completes_all_epochs_up_to_it() {
        let mut figures = Figures::default();
        for epoch in 1..=4 {
            figures.shipped(row(epoch), Duration::from_secs(epoch));
        }
        assert_eq!(figures.pause_ns(0.5), figures.pause_ns(0.99));
        assert!((2_990_000..=3_010_000).contains(&figures.pause_ns(0.5)), "{}", figures.pause_ns(0.5));
        figures.acknowledged(Epoch(3), Duration::from_secs(10));
        let complete = figures.released(Epoch(3), Duration::from_millis(7));
        assert_eq!(complete.iter().map(|row| row.epoch).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(complete[0].acknowledge_ns, 9_000_000_000);
        assert_eq!(complete[2].hold_ns, 7_000_000);
        assert_eq!(figures.pending.len(), 1);
        let (bytes, pages) = figures.rates();
        assert!((bytes - 10_000.0).abs() < 1e-6 && (pages - 500.0).abs() < 1e-6, "{bytes} {pages}");
    }
}
