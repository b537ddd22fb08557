//! The figures of a series: count, floor, moments, exact percentiles, exact maximum and when it was.
//!
//! A percentile is the nearest rank: with `n` samples, the value of rank `ceil(q n)` in ascending order,
//! computed as `n - floor(n / d)` with `q = 1 - 1/d`, so that no rounding of `q` enters. With fewer than `d`
//! samples the tail `1/d` holds less than one sample: the value is then the maximum and the percentile is
//! listed as unresolved.

use serde::Serialize;

use crate::selection::{Selection, summed_counts, values_at_ranks};
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
        let parts = [self.digest()];
        summarize(&parts, &parts[0], values_at_ranks(&[self], &ranks(parts[0].count)))
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

/// The rank of each percentile, from 1.
fn ranks(count: u64) -> [u64; PERCENTILES.len()] {
    PERCENTILES.map(|(_, tail)| count - count / tail)
}

/// What is left of a series when its samples are gone, to be pooled with others.
#[derive(Debug, Clone)]
pub struct Digest {
    count: u64,
    /// In each bin, the unsaturated samples.
    counts: Vec<u64>,
    saturated: Vec<u64>,
    floor: u64,
    min: u64,
    moments: Moments,
    /// Index, start and duration.
    longest: (usize, u64, u64),
    span: u64,
    units_per_s: f64,
}

impl Series<'_> {
    /// Keep what a pool needs of this series.
    pub fn digest(&self) -> Digest {
        Digest {
            count: self.count() as u64,
            counts: self.counts.clone(),
            saturated: self.saturated_values().collect(),
            floor: self.floor,
            min: self.blocks.iter().map(|block| block.min).min().unwrap_or(0),
            moments: self.moments,
            longest: self.maximum(),
            span: self.span,
            units_per_s: self.units_per_s,
        }
    }
}

/// Why series cannot be pooled.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PoolError {
    #[error("there is no series to pool")]
    Empty,
    #[error("series {part} of the pool has {expected} samples, and one of {count} was added")]
    OtherSeries {
        /// From 0.
        part: usize,
        expected: u64,
        count: u64,
    },
    #[error("the pool is of {0} series, and one more was added")]
    TooMany(usize),
    #[error("{added} of the {parts} series of the pool were added")]
    Incomplete { added: usize, parts: usize },
}

/// The figures of several series as of one, where the samples of one are in memory at a time.
///
/// The series must be counted in the same units: percentiles are ranked in units and converted with the rate
/// of the first.
#[derive(Debug)]
pub struct Pool {
    parts: Vec<Digest>,
    selection: Selection,
    added: usize,
}

impl Pool {
    /// Begin with what is known of all of them.
    pub fn new(parts: Vec<Digest>) -> Result<Self, PoolError> {
        if parts.is_empty() {
            return Err(PoolError::Empty);
        }
        let count: u64 = parts.iter().map(|part| part.count).sum();
        let counts = summed_counts(parts.iter().map(|part| part.counts.as_slice()));
        let saturated = parts.iter().flat_map(|part| part.saturated.iter().copied()).collect();
        let selection = Selection::new(&counts, saturated, &ranks(count));
        Ok(Self { parts, selection, added: 0 })
    }

    /// Look at the samples of the next series, in the order of the digests.
    pub fn add(&mut self, series: &Series<'_>) -> Result<(), PoolError> {
        let part = self.added;
        let expected = self.parts.get(part).ok_or(PoolError::TooMany(self.parts.len()))?.count;
        let count = series.count() as u64;
        if count != expected {
            return Err(PoolError::OtherSeries { part, expected, count });
        }
        self.selection.add(series);
        self.added += 1;
        Ok(())
    }

    /// The figures, once all series were looked at.
    pub fn summary(self) -> Result<Summary, PoolError> {
        let Self { parts, selection, added } = self;
        let Some(first) = parts.first().filter(|_| added == parts.len()) else {
            return Err(PoolError::Incomplete { added, parts: parts.len() });
        };
        Ok(summarize(&parts, first, selection.values()))
    }
}

/// Compute the figures of all samples of several series together; `None` for no series.
///
/// The series must be counted in the same units: see [`Pool`].
pub fn pooled_summary(parts: &[&Series<'_>]) -> Option<Summary> {
    let mut pool = Pool::new(parts.iter().map(|part| part.digest()).collect()).ok()?;
    for part in parts {
        pool.add(part).ok()?;
    }
    pool.summary().ok()
}

fn summarize(parts: &[Digest], first: &Digest, percentiles: Vec<u64>) -> Summary {
    let nanoseconds = |units: f64| units * (1e9 / first.units_per_s);
    let count: u64 = parts.iter().map(|part| part.count).sum();
    let percentiles: Vec<f64> = percentiles.into_iter().map(|units| nanoseconds(units as f64)).collect();
    let floor = parts.iter().map(|part| part.floor).min().unwrap_or(0);
    let min = parts.iter().map(|part| part.min).min().unwrap_or(0);
    let moments = parts.iter().fold(Moments::default(), |all, part| all.merge(part.moments));
    let mut longest = (0, (0, 0, 0));
    for (part, digest) in parts.iter().enumerate() {
        if part == 0 || digest.longest.2 > longest.1.2 {
            longest = (part, digest.longest);
        }
    }
    let (max_part, (max_index, max_start, max)) = longest;
    let seconds = |part: &Digest, units: u64| units as f64 / part.units_per_s;
    Summary {
        count,
        floor_ns: nanoseconds(floor as f64),
        min_ns: nanoseconds(min as f64),
        mean_ns: nanoseconds(moments.mean),
        sd_ns: nanoseconds((moments.squares / (moments.count - 1.0).max(1.0)).sqrt()),
        p50_ns: percentiles[0],
        p90_ns: percentiles[1],
        p99_ns: percentiles[2],
        p999_ns: percentiles[3],
        p9999_ns: percentiles[4],
        p99999_ns: percentiles[5],
        max_ns: nanoseconds(max as f64),
        max_index: max_index as u64,
        max_at_s: seconds(&parts[max_part], max_start),
        max_part,
        max_overhead_ns: nanoseconds((max - floor.min(max)) as f64),
        span_s: parts.iter().map(|part| seconds(part, part.span)).sum(),
        unresolved: PERCENTILES.iter().filter(|(_, tail)| count < *tail).map(|(name, _)| (*name).to_owned()).collect(),
    }
}
