//! The figures of a member's epochs: those under way, and what to say of all.

use std::collections::VecDeque;
use std::time::Duration;

use hdrhistogram::Histogram;
use prometheus_client::metrics::histogram::Histogram as Distribution;
use stealtime_succession::Epoch;

use crate::clock::nanoseconds;
use crate::epoch_log::EpochRow;

/// Longer pauses and holds count as this long: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Epochs that rates are taken over.
const RECENT: usize = 10;

/// Buckets of the distributions that Prometheus is given: each longer by a factor of the square root of 2,
/// from a quarter of a millisecond to 8 s.
const FIRST_BUCKET_S: f64 = 0.000_25;
const BUCKETS: u32 = 31;

/// Pauses and holds in buckets that are the same on every host, so that those of several can be summed.
/// Clones share them.
#[derive(Debug, Clone)]
pub struct Distributions {
    /// How long the guest stood in an epoch.
    pub pause: Distribution,
    /// From the cut of an epoch to the release of its output.
    pub hold: Distribution,
}

impl Default for Distributions {
    fn default() -> Self {
        let bounds_s = || (0..BUCKETS).map(|number| FIRST_BUCKET_S * (f64::from(number) / 2.0).exp2());
        let buckets = || Distribution::new(bounds_s());
        Self { pause: buckets(), hold: buckets() }
    }
}

/// Rows of epochs that are not released yet, and the distribution of the others.
pub struct Figures {
    pending: VecDeque<(EpochRow, Duration)>,
    recent: VecDeque<EpochRow>,
    pause: Histogram<u64>,
    hold: Histogram<u64>,
    distributions: Distributions,
    total_stood: Duration,
}

impl Default for Figures {
    fn default() -> Self {
        let histogram =
            || Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("the bounds and 3 digits are what it takes");
        Self {
            pending: VecDeque::new(),
            recent: VecDeque::new(),
            pause: histogram(),
            hold: histogram(),
            distributions: Distributions::default(),
            total_stood: Duration::ZERO,
        }
    }
}

impl Figures {
    /// An epoch went to the link at `at`.
    pub fn shipped(&mut self, row: EpochRow, at: Duration) {
        let pause = Duration::from_nanos(row.pause_ns);
        self.pause.saturating_record(row.pause_ns);
        self.distributions.pause.observe(pause.as_secs_f64());
        self.stood(pause + Duration::from_nanos(row.held_back_ns));
        self.pending.push_back((row, at));
    }

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
            self.distributions.hold.observe(held.as_secs_f64());
            self.recent.push_back(row);
            if self.recent.len() > RECENT {
                self.recent.pop_front();
            }
            complete.push(row);
        }
        complete
    }

    /// The guest stood for so long, and its clock with it.
    pub fn stood(&mut self, time: Duration) {
        self.total_stood += time;
    }

    /// How long the guest stood in all.
    pub fn total_stood(&self) -> Duration {
        self.total_stood
    }

    /// Pauses and holds since the member runs the guest.
    pub fn distributions(&self) -> Distributions {
        self.distributions.clone()
    }

    /// What is under way will never be acknowledged.
    pub fn forget_pending(&mut self) {
        self.pending.clear();
    }

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
        (self.per_second(|row| row.shipped_bytes), self.per_second(|row| row.pages))
    }

    /// How much of each second the guest stood, over the last epochs, in millionths.
    pub fn loss_ppm(&self) -> f64 {
        self.per_second(|row| row.pause_ns + row.held_back_ns) / 1e3
    }

    /// Of it, because its standby could not follow.
    pub fn held_back_ppm(&self) -> f64 {
        self.per_second(|row| row.held_back_ns) / 1e3
    }

    fn per_second(&self, value: fn(&EpochRow) -> u64) -> f64 {
        let (Some(first), Some(last)) = (self.recent.front(), self.recent.back()) else { return 0.0 };
        let span_s = last.begin_ns.saturating_sub(first.begin_ns) as f64 / 1e9;
        if span_s <= 0.0 {
            return 0.0;
        }
        // The first one's pages were written before the span.
        self.recent.iter().skip(1).map(value).sum::<u64>() as f64 / span_s
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
            held_back_ns: if epoch == 3 { 2_000_000 } else { 0 },
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
        assert!((figures.loss_ppm() - 40_000.0).abs() < 1e-6, "3 and 5 ms of 100: {}", figures.loss_ppm());
        assert!((figures.held_back_ppm() - 10_000.0).abs() < 1e-6, "2 ms of 200: {}", figures.held_back_ppm());
        figures.stood(Duration::from_millis(8));
        assert_eq!(figures.total_stood(), Duration::from_millis(4 * 3 + 2 + 8));
    }
}
