//! A series of samples as it was measured: borrowed columns, and what one pass over them learns.

use std::ops::Range;

use rayon::prelude::*;

use crate::buckets::{BUCKETS, bucket_of};

/// A duration or gap of this value is *saturated*: its true value is in a side list.
const SATURATED: u32 = u32::MAX;

/// Samples a block: small enough that a block can be searched at once, large enough that the index of 50
/// million samples stays under 1 MiB.
const BLOCK: usize = 4096;

/// How the samples of a series lie in time (`docs/run-format.md`).
#[derive(Debug, Clone)]
pub enum Spacing<'a> {
    /// Each sample starts where the one before ended.
    Tiled,
    /// Each sample starts `gaps[i]` after the one before ended.
    Gapped {
        /// As long as the durations, in the same units.
        gaps: &'a [u32],
        /// Index and true value of each saturated gap.
        saturated: Vec<(u64, u64)>,
    },
    /// Sample `i` starts at `i * interval`.
    Periodic {
        /// In the units of the durations.
        interval: u64,
    },
}

#[derive(Debug, Clone)]
pub struct SeriesInput<'a> {
    /// One value a sample, in clock units.
    pub durations: &'a [u32],
    /// Index and true value of each saturated duration, in any order.
    pub saturated: Vec<(u64, u64)>,
    /// Where the samples start.
    pub spacing: Spacing<'a>,
    /// Clock units in a second.
    pub units_per_s: f64,
    /// The cheapest sample of a calibration, in clock units.
    pub calibrated_floor: Option<u64>,
}

/// Why columns cannot be a series.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum SeriesError {
    #[error("there are no samples")]
    Empty,
    #[error("there are {durations} durations but {gaps} gaps")]
    GapCount {
        /// Rows of the column `duration`.
        durations: usize,
        /// Rows of the column `gap`.
        gaps: usize,
    },
    #[error("there is a pause before sample {index}, but there are {durations} samples")]
    PauseBeyondEnd {
        index: u64,
        /// Rows of the column `duration`.
        durations: usize,
    },
    #[error("the clock rate is {0} units a second, not a positive number")]
    ClockRate(f64),
    #[error("{side_list} saturated values of `{column}` are listed, but {rows} rows are marked as saturated")]
    SaturatedCount {
        /// `duration` or `gap`.
        column: &'static str,
        /// Entries of the side list.
        side_list: usize,
        /// Rows of the column that hold the mark.
        rows: usize,
    },
    #[error("row {index} of `{column}` is listed as saturated but is not marked so")]
    NotSaturated {
        /// `duration` or `gap`.
        column: &'static str,
        index: u64,
    },
}

/// A stretch of samples, summed up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    /// When its first sample's predecessor ended: its time origin, in units.
    pub start: u64,
    pub min: u64,
    /// The largest duration, with the true value of saturated ones.
    pub max: u64,
}

/// Count, mean and sum of squared deviations, mergeable (Chan, Golub & `LeVeque` 1979).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Moments {
    pub count: f64,
    pub mean: f64,
    pub squares: f64,
}

impl Moments {
    pub fn merge(self, other: Self) -> Self {
        if self.count == 0.0 {
            return other;
        }
        let count = self.count + other.count;
        let apart = other.mean - self.mean;
        Self {
            count,
            mean: self.mean + apart * (other.count / count),
            squares: self.squares + other.squares + apart * apart * (self.count * other.count / count),
        }
    }
}

/// The side list of a column, sorted by row.
#[derive(Debug, Clone, Default)]
struct TrueValues(Vec<(u64, u64)>);

impl TrueValues {
    fn new(mut list: Vec<(u64, u64)>, rows: &[u32], column: &'static str) -> Result<Self, SeriesError> {
        let listed = list.len();
        list.sort_unstable();
        for &(index, _) in &list {
            let row = usize::try_from(index).ok().and_then(|index| rows.get(index));
            if row != Some(&SATURATED) {
                return Err(SeriesError::NotSaturated { column, index });
            }
        }
        let marked = rows.par_chunks(BLOCK * 16).map(|rows| rows.iter().filter(|&&row| row == SATURATED).count());
        let rows = marked.sum();
        list.dedup_by_key(|entry| entry.0);
        if rows != list.len() || list.len() != listed {
            return Err(SeriesError::SaturatedCount { column, side_list: listed, rows });
        }
        Ok(Self(list))
    }

    #[inline]
    fn resolve(&self, index: usize, row: u32) -> u64 {
        if row == SATURATED { self.lookup(index) } else { u64::from(row) }
    }

    #[cold]
    fn lookup(&self, index: usize) -> u64 {
        match self.0.binary_search_by_key(&(index as u64), |entry| entry.0) {
            Ok(position) => self.0[position].1,
            // `new` proved that every marked row is listed.
            Err(_) => u64::from(SATURATED),
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Gaps<'a> {
    None,
    Column(&'a [u32]),
    Interval(u64),
}

/// A complete series of samples.
#[derive(Debug)]
pub struct Series<'a> {
    durations: &'a [u32],
    saturated: TrueValues,
    gaps: Gaps<'a>,
    saturated_gaps: TrueValues,
    /// (index, units), sorted: before this sample, and before its gap, nobody watched for so long.
    pauses: Vec<(u64, u64)>,
    pub(crate) units_per_s: f64,
    pub(crate) blocks: Vec<Block>,
    pub(crate) moments: Moments,
    /// How many unsaturated durations fall into each bin of [`crate::buckets`].
    pub(crate) counts: Vec<u64>,
    /// The end of the last sample, in units from the start of sample 0.
    pub(crate) span: u64,
    /// The cheapest sample possible here: the smaller of the calibrated and the smallest seen that took any
    /// time.
    pub(crate) floor: u64,
}

/// What the first pass learns from one block.
struct BlockScan {
    block: Block,
    elapsed: u64,
    moments: Moments,
}

impl<'a> Series<'a> {
    /// Take columns and learn their sums, maxima and distribution in one parallel pass.
    pub fn new(input: SeriesInput<'a>) -> Result<Self, SeriesError> {
        Self::with_pauses(input, Vec::new())
    }

    /// As [`Self::new`], of a measurement that paused: before the sample of this index, and before its gap,
    /// nobody watched for so many units.
    pub fn with_pauses(input: SeriesInput<'a>, mut pauses: Vec<(u64, u64)>) -> Result<Self, SeriesError> {
        pauses.sort_unstable();
        if let Some(&(index, _)) = pauses.last().filter(|(index, _)| *index > input.durations.len() as u64) {
            return Err(SeriesError::PauseBeyondEnd { index, durations: input.durations.len() });
        }
        let SeriesInput { durations, saturated, spacing, units_per_s, calibrated_floor } = input;
        if durations.is_empty() {
            return Err(SeriesError::Empty);
        }
        if !(units_per_s.is_finite() && units_per_s > 0.0) {
            return Err(SeriesError::ClockRate(units_per_s));
        }
        let (gaps, saturated_gaps) = match spacing {
            Spacing::Tiled => (Gaps::None, TrueValues::default()),
            Spacing::Periodic { interval } => (Gaps::Interval(interval), TrueValues::default()),
            Spacing::Gapped { gaps, .. } if gaps.len() != durations.len() => {
                return Err(SeriesError::GapCount { durations: durations.len(), gaps: gaps.len() });
            }
            Spacing::Gapped { gaps, saturated } => (Gaps::Column(gaps), TrueValues::new(saturated, gaps, "gap")?),
        };
        let mut series = Self {
            durations,
            saturated: TrueValues::new(saturated, durations, "duration")?,
            gaps,
            saturated_gaps,
            pauses,
            units_per_s,
            blocks: Vec::new(),
            moments: Moments::default(),
            counts: vec![0; BUCKETS],
            span: 0,
            floor: 0,
        };
        series.learn();
        series.floor =
            calibrated_floor.into_iter().chain(series.cheapest()).filter(|&floor| floor > 0).min().unwrap_or(0);
        Ok(series)
    }

    /// The smallest sample that took any time; 0 stands for a wake-up before its time, which is none.
    fn cheapest(&self) -> Option<u64> {
        let in_block = |(number, block): (usize, &Block)| match block.min {
            0 => self.durations[self.block_range(number)].iter().copied().filter(|&row| row > 0).min().map(u64::from),
            min => Some(min),
        };
        self.blocks.iter().enumerate().filter_map(in_block).min()
    }

    fn learn(&mut self) {
        let pieces: Vec<(Vec<BlockScan>, Vec<u32>)> = self
            .pieces()
            .into_par_iter()
            .map(|blocks| {
                // u32 counters: a piece is far below 2^32 samples for any series that fits memory in 16
                // pieces.
                let mut counts = vec![0_u32; BUCKETS];
                let scans = blocks.map(|block| self.scan_block(block, &mut counts)).collect();
                (scans, counts)
            })
            .collect();
        let mut start = 0;
        for (scans, counts) in pieces {
            for BlockScan { block, elapsed, moments } in scans {
                self.blocks.push(Block { start, ..block });
                self.moments = self.moments.merge(moments);
                start += elapsed;
            }
            for (total, count) in self.counts.iter_mut().zip(counts) {
                *total += u64::from(count);
            }
        }
        self.span = match self.gaps {
            Gaps::Interval(interval) => {
                let last = self.durations.len() - 1;
                let paused: u64 = self.pauses_in(0..self.durations.len()).iter().map(|pause| pause.1).sum();
                last as u64 * interval + self.duration(last) + paused
            }
            _ => start,
        };
    }

    fn scan_block(&self, block: usize, counts: &mut [u32]) -> BlockScan {
        let range = self.block_range(block);
        let durations = &self.durations[range.clone()];
        let mut sum = durations.iter().map(|&row| u64::from(row)).sum::<u64>();
        let min = u64::from(durations.iter().copied().min().unwrap_or(0));
        let mut max = u64::from(durations.iter().copied().max().unwrap_or(0));
        if max == u64::from(SATURATED) {
            let resolved = || range.clone().map(|index| self.duration(index));
            sum = resolved().sum();
            max = resolved().max().unwrap_or(0);
        }
        for &row in durations {
            counts[bucket_of(row)] += 1;
        }
        // A saturated row is in the last bin; it is counted with its true value instead.
        if max >= u64::from(SATURATED) {
            let marked = durations.iter().filter(|&&row| row == SATURATED).count();
            counts[BUCKETS - 1] -= u32::try_from(marked).unwrap_or(u32::MAX);
        }
        let mean = sum as f64 / durations.len() as f64;
        let squares = if max >= u64::from(SATURATED) {
            range.clone().map(|index| (self.duration(index) as f64 - mean).powi(2)).sum()
        } else {
            durations.iter().map(|&row| (f64::from(row) - mean).powi(2)).sum()
        };
        let elapsed = match self.gaps {
            Gaps::None => sum,
            Gaps::Column(_) => sum + range.clone().map(|index| self.gap(index)).sum::<u64>(),
            Gaps::Interval(interval) => durations.len() as u64 * interval,
        };
        let paused: u64 = self.pauses_in(range.clone()).iter().map(|pause| pause.1).sum();
        BlockScan {
            block: Block { start: 0, min, max },
            elapsed: elapsed + paused,
            moments: Moments { count: durations.len() as f64, mean, squares },
        }
    }

    /// How many samples there are.
    pub fn count(&self) -> usize {
        self.durations.len()
    }

    /// The columns' rows, for passes that treat saturated rows on their own.
    pub(crate) fn rows(&self) -> &'a [u32] {
        self.durations
    }

    /// The true values of the saturated durations.
    pub(crate) fn saturated_values(&self) -> impl Iterator<Item = u64> + '_ {
        self.saturated.0.iter().map(|entry| entry.1)
    }

    /// The true duration of a sample, in units.
    #[inline]
    pub(crate) fn duration(&self, index: usize) -> u64 {
        self.saturated.resolve(index, self.durations[index])
    }

    /// What lies between the end of the sample before and the start of this one, in units; 0 where there is
    /// no gap.
    #[inline]
    pub(crate) fn gap(&self, index: usize) -> u64 {
        match self.gaps {
            Gaps::Column(gaps) => self.saturated_gaps.resolve(index, gaps[index]),
            Gaps::None | Gaps::Interval(_) => 0,
        }
    }

    /// The pauses before these samples.
    fn pauses_in(&self, range: Range<usize>) -> &[(u64, u64)] {
        let before = |end: usize| self.pauses.partition_point(|pause| pause.0 < end as u64);
        &self.pauses[before(range.start)..before(range.end)]
    }

    /// The interval of a periodic series.
    pub(crate) fn interval(&self) -> Option<u64> {
        match self.gaps {
            Gaps::Interval(interval) => Some(interval),
            Gaps::None | Gaps::Column(_) => None,
        }
    }

    pub(crate) fn block_range(&self, block: usize) -> Range<usize> {
        block * BLOCK..((block + 1) * BLOCK).min(self.durations.len())
    }

    pub(crate) fn block_count(&self) -> usize {
        self.durations.len().div_ceil(BLOCK)
    }

    /// The blocks in a few contiguous pieces, so that each piece may have a large accumulator of its own.
    pub(crate) fn pieces(&self) -> Vec<Range<usize>> {
        let blocks = self.block_count();
        let piece = blocks.div_ceil(4 * rayon::current_num_threads()).max(1);
        (0..blocks).step_by(piece).map(|first| first..(first + piece).min(blocks)).collect()
    }

    /// Visit the samples of a block in order, as index, start and duration.
    #[inline]
    pub(crate) fn visit_block(&self, block: usize, mut visit: impl FnMut(usize, u64, u64)) {
        let range = self.block_range(block);
        let mut time = self.blocks[block].start;
        let mut pauses = self.pauses_in(range.clone()).iter().peekable();
        let mut pause_before =
            |index: usize| pauses.next_if(|pause| pause.0 == index as u64).map_or(0, |pause| pause.1);
        match self.gaps {
            Gaps::None if self.blocks[block].max < u64::from(SATURATED) && self.pauses_in(range.clone()).is_empty() => {
                for (index, &row) in range.clone().zip(&self.durations[range]) {
                    visit(index, time, u64::from(row));
                    time += u64::from(row);
                }
            }
            Gaps::None | Gaps::Column(_) => {
                for index in range {
                    let duration = self.duration(index);
                    time += pause_before(index) + self.gap(index);
                    visit(index, time, duration);
                    time += duration;
                }
            }
            Gaps::Interval(interval) => {
                for index in range {
                    time += pause_before(index);
                    visit(index, time, self.duration(index));
                    time += interval;
                }
            }
        }
    }

    /// When a sample starts, in units from the start of sample 0.
    pub(crate) fn start(&self, wanted: usize) -> u64 {
        let mut start = 0;
        self.visit_block(wanted / BLOCK, |index, time, _| {
            if index == wanted {
                start = time;
            }
        });
        start
    }

    /// The last block whose first sample begins at or before a time.
    pub(crate) fn block_at(&self, time: u64) -> usize {
        self.blocks.partition_point(|block| block.start <= time).saturating_sub(1)
    }

    pub(crate) fn nanoseconds(&self, units: f64) -> f64 {
        units * (1e9 / self.units_per_s)
    }

    pub(crate) fn seconds(&self, units: u64) -> f64 {
        units as f64 / self.units_per_s
    }
}
