//! The figures of a series: count, floor, moments, exact percentiles, exact maximum and when it was.
//!
//! A percentile is the nearest rank: with `n` samples, the value of rank `ceil(q n)` in ascending order,
//! computed as `n - floor(n / d)` with `q = 1 - 1/d`, so that no rounding of `q` enters. With fewer than `d`
//! samples the tail `1/d` holds less than one sample: the value is then the maximum and the percentile is
//! listed as unresolved.

use serde::Serialize;

use crate::selection::values_at_ranks;
use crate::series::{Moments, Series};

/// The key of each percentile and the `d` of its tail `1/d`.
const PERCENTILES: [(&str, u64); 6] =
    [("p50_ns", 2), ("p90_ns", 10), ("p99_ns", 100), ("p999_ns", 1_000), ("p9999_ns", 10_000), ("p99999_ns", 100_000)];

/// The figures of one series or of several pooled.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Samples, saturated ones included.
    pub count: u64,
    /// The cheapest sample possible here: the smaller of the calibrated floor and the minimum.
    pub floor_ns: f64,
    pub min_ns: f64,
    pub mean_ns: f64,
    /// The standard deviation, with `n - 1`; 0 for one sample.
    pub sd_ns: f64,
    /// The median, by nearest rank like all percentiles.
    pub p50_ns: f64,
    pub p90_ns: f64,
    pub p99_ns: f64,
    pub p999_ns: f64,
    pub p9999_ns: f64,
    pub p99999_ns: f64,
    /// The longest sample, exactly.
    pub max_ns: f64,
    /// Its index in its own series; the first if there are several.
    pub max_index: u64,
    /// When it started, from the start of sample 0 of its own series.
    pub max_at_s: f64,
    /// Which of the pooled series it is in; 0 for a single one.
    pub max_part: usize,
    /// The longest sample less the floor.
    pub max_overhead_ns: f64,
    /// From the start of the first sample to the end of the last, summed over the pooled series.
    pub span_s: f64,
    /// The percentiles that so few samples cannot resolve, by their keys.
    pub unresolved: Vec<String>,
}

impl Series<'_> {
    /// Compute the figures of this series.
    pub fn summary(&self) -> Summary {
        summarize(&[self], self)
    }

    /// The index, start and duration of the longest sample, in units; the first of equals.
    pub(crate) fn maximum(&self) -> (usize, u64, u64) {
        let mut longest = (0, 0, 0);
        let max = self.blocks.iter().map(|block| block.max).max().unwrap_or(0);
        if let Some(block) = self.blocks.iter().position(|block| block.max == max) {
            let mut found = false;
            self.visit_block(block, |index, start, duration| {
                if duration == max && !found {
                    longest = (index, start, duration);
                    found = true;
                }
            });
        }
        longest
    }
}

/// Compute the figures of all samples of several series together; `None` for no series.
///
/// The series must be counted in the same units: percentiles are ranked in units and converted with the rate
/// of the first.
pub fn pooled_summary(parts: &[&Series<'_>]) -> Option<Summary> {
    parts.first().map(|first| summarize(parts, first))
}

fn summarize(parts: &[&Series<'_>], first: &Series<'_>) -> Summary {
    let count: u64 = parts.iter().map(|part| part.count() as u64).sum();
    let ranks = PERCENTILES.map(|(_, tail)| count - count / tail);
    let percentiles: Vec<f64> =
        values_at_ranks(parts, &ranks).into_iter().map(|units| first.nanoseconds(units as f64)).collect();
    let floor = parts.iter().map(|part| part.floor).min().unwrap_or(0);
    let min = parts.iter().flat_map(|part| &part.blocks).map(|block| block.min).min().unwrap_or(0);
    let moments = parts.iter().fold(Moments::default(), |all, part| all.merge(part.moments));
    let mut longest = (0, (0, 0, 0));
    for (part, series) in parts.iter().enumerate() {
        let candidate = series.maximum();
        if part == 0 || candidate.2 > longest.1.2 {
            longest = (part, candidate);
        }
    }
    let (max_part, (max_index, max_start, max)) = longest;
    Summary {
        count,
        floor_ns: first.nanoseconds(floor as f64),
        min_ns: first.nanoseconds(min as f64),
        mean_ns: first.nanoseconds(moments.mean),
        sd_ns: first.nanoseconds((moments.squares / (moments.count - 1.0).max(1.0)).sqrt()),
        p50_ns: percentiles[0],
        p90_ns: percentiles[1],
        p99_ns: percentiles[2],
        p999_ns: percentiles[3],
        p9999_ns: percentiles[4],
        p99999_ns: percentiles[5],
        max_ns: first.nanoseconds(max as f64),
        max_index: max_index as u64,
        max_at_s: parts[max_part].seconds(max_start),
        max_part,
        max_overhead_ns: first.nanoseconds((max - floor.min(max)) as f64),
        span_s: parts.iter().map(|part| part.seconds(part.span)).sum(),
        unresolved: PERCENTILES.iter().filter(|(_, tail)| count < *tail).map(|(name, _)| (*name).to_owned()).collect(),
    }
}
